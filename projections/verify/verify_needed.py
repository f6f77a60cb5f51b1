"""The files that one table or view needs as of one moment, by the log and by lists of other engines.

Each manifest that some snapshot lists is opened once, whatever number of snapshots lists it; content files are columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen

from icecore.engine.errors import IcecoreError, MissingArchiveError, MissingFileError, StorageError
from icecore.engine.events.event import TABLE_REGISTERED, VIEW_REGISTERED, is_view_stream
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.manifest_list_avro import read_manifest_list
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.properties.table_properties import DELETE_AFTER_COMMIT
from icecore.engine.repository.manifest_lists import inline_manifest
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import DataFileContent, FileFormat
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.carried_entries import live_entries
from icecore.projections.files.event_files import FOREIGN_METADATA
from icecore.projections.files.metadata_cleanup import is_shared
from icecore.projections.inspect.reachable_files import LEFT_OUT, foreign_sources
from icecore.projections.verify.findings import Cause
from icecore.projections.verify.verify_distinct import DistinctFiles, distinct
from icecore.projections.verify.verify_tally import Fault

KINDS = ("data file", "position delete file", "equality delete file", "deletion vector file")
"""The kinds of content files, by their number in the column `kind`."""
VECTOR = 3
METADATA, PREVIOUS, LIST, MANIFEST = "metadata file", "previous metadata file", "manifest list", "manifest"
STATISTICS, PARTITION_STATISTICS = "statistics file", "partition statistics file"
_WRITTEN = {"manifest": MANIFEST, "manifest-list": LIST}
_COLUMNS = ["file_path", "file_size_in_bytes"]
_DEEP_COLUMNS = [
    *_COLUMNS,
    "file_format",
    "record_count",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
]
ENTRIES_AT_ONCE = 65_536


def _schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of content files with these columns of their entries."""
    own = [("kind", pa.int32()), ("is_encrypted", pa.bool_())]
    return pa.schema([*own, *((name, ENTRY_SCHEMA.field(name).type) for name in columns)])


_CONTENTS, _DEEP_CONTENTS = _schema(_COLUMNS), _schema(_DEEP_COLUMNS)


@frozen
class NeededFile:
    """A file of metadata. `length` in bytes and `sha256` are None where the log does not know them.

    `if_there` is set where it may be gone: nothing that a snapshot needs is lost with it. `footer_length` is that of a
    Puffin file, `listed` the record of a manifest. `is_kept` is false for a manifest or list whose content only its
    file has.
    """

    location: str
    kind: str
    length: int | None = None
    sha256: str | None = None
    if_there: bool = False
    is_encrypted: bool = False
    footer_length: int | None = None
    listed: ListedManifest | None = None
    is_kept: bool = True


@frozen(eq=False)
class Needed:
    """Files of metadata; content files, each once, with `kind` (see KINDS) and `is_encrypted`; and faults on the way.

    For each content file there are path and size and, where contents are to be checked, what `manifests` say of it.
    """

    files: tuple[NeededFile, ...]
    contents: pa.Table
    faults: tuple[Fault, ...] = ()
    manifests: tuple[ListedManifest, ...] = ()

    @cached_property
    def places(self) -> pa.Table:
        """Paths, kinds and sizes of the content files: several deletion vectors may lie in one."""
        columns = ["kind", "is_encrypted", *_COLUMNS]
        return self.contents if self.contents.column_names == columns else distinct(self.contents.select(columns))

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self.files) + len(self.places)

    def only(self, locations: pa.Array) -> Needed:
        """The part of this that is about files at those locations."""
        wanted = set(locations.to_pylist())
        return Needed(
            tuple(f for f in self.files if f.location in wanted),
            self.contents.filter(pc.is_in(self.contents["file_path"], locations)),
            tuple(f for f in self.faults if f.location in wanted),
            self.manifests,
        )


def needed_of_view(repository: Repository, state: ViewState) -> Needed:
    """The metadata files of all versions that the log wrote or adopted, and the one that was registered."""
    files = {
        row["location"]: NeededFile(row["location"], METADATA, row["length"], row["sha256"])
        for row in repository.store.rows(MODELS, "files_of", stream=state.stream)
    }
    location = state.metadata_location
    files.setdefault(location, _registered(repository, state, location))
    return Needed(tuple(files.values()), _CONTENTS.empty_table())


def needed_of_table(
    repository: Repository, state: TableState, unreachable: Callable[[str], str | None], *, deep: bool
) -> Needed:
    """All files of the table's snapshots, and those that the log wrote of it; none of a purged table.

    `unreachable` tells why the store of a location can't be reached. Raises StorageError, CorruptLogError.
    """
    if state.purged_at is not None:
        return Needed((), (_DEEP_CONTENTS if deep else _CONTENTS).empty_table())
    gathering = _Gathering(repository, state, repository.storage_of(state), unreachable)
    manifests = gathering.manifests()
    files = gathering.files(manifests)
    contents = gathering.contents(manifests, deep=deep)
    return Needed(tuple(files), contents, tuple(gathering.faults), tuple(manifests.values()))


def _foreign(listed: ListedManifest) -> NeededFile:
    m = listed.manifest
    encrypted = m.key_metadata is not None
    return NeededFile(
        m.manifest_path, MANIFEST, m.manifest_length, is_encrypted=encrypted, listed=listed, is_kept=False
    )


def _registered(repository: Repository, state: TableState | ViewState, location: str) -> NeededFile:
    """The metadata file that a table or view was registered by, or one that the log knows nothing of."""
    with contextlib.suppress(MissingArchiveError):
        event = next(repository.store.stream_events(state.stream), None)
        if event is not None and event.kind in (TABLE_REGISTERED, VIEW_REGISTERED):
            payload = event.payload
            if payload.get("metadata-location") == location:
                return NeededFile(location, METADATA, payload.get("metadata-length"), payload.get("metadata-sha256"))
    return NeededFile(location, METADATA)


class _Gathering:
    """The search for the files of a table. Errors on the way are among `faults`; missing files are found later."""

    def __init__(
        self, repository: Repository, state: TableState, storage: Storage, unreachable: Callable[[str], str | None]
    ) -> None:
        self._repository = repository
        self._state = state
        self._storage = storage
        self._unreachable = unreachable
        self._ours: set[str] = set()
        self.faults: list[Fault] = []

    def manifests(self) -> dict[str, ListedManifest]:
        """The manifests of all snapshots by their paths."""
        snapshots = {s.snapshot_id: s for s in self._state.metadata.snapshots}
        found, known = self._repository.models.manifests_of(self._state.stream, list(snapshots))
        out = {m.manifest.manifest_path: m for m in found}
        # Such a manifest came from another engine's list into one of ours.
        for path, spec_id in self._of_unknown_specs(found):
            text = f"{path} is listed as one of partition spec {spec_id}, which the table does not have"
            self.faults.append(Fault(Cause.UNREADABLE, MANIFEST, path, text))
        self._ours = {snapshots[i].manifest_list or "" for i in known}
        for i in snapshots.keys() - known:
            for listed in self._foreign(snapshots[i]):
                out.setdefault(listed.manifest.manifest_path, listed)
        return out

    def _foreign(self, snapshot: Snapshot) -> list[ListedManifest]:
        """The manifests of a snapshot from outside, as its list names them."""
        location, storage = snapshot.manifest_list, self._storage
        if location is not None:
            with self._noting(LIST, location):
                self._reach(location)
                data = self._repository.entries.file_bytes(self._state.stream, location, storage)
                listed = [ListedManifest(m) for m in read_manifest_list(data, location)]
                if unknown := self._of_unknown_specs(listed):
                    text = f"{location} has manifests of partition spec {unknown[0][1]}, which the table does not have"
                    self.faults.append(Fault(Cause.UNREADABLE, LIST, location, text))
                return listed
            return []
        out = []
        for path in snapshot.manifests or ():
            # What a list would say of it is in its own header.
            with self._noting(MANIFEST, path):
                self._reach(path)
                out.append(ListedManifest(inline_manifest(path, snapshot, storage)))
        return out

    def _of_unknown_specs(self, listed: Iterable[ListedManifest]) -> list[tuple[str, int]]:
        """The manifests whose spec the table lacks, by which nothing can be planned, with the ids of those specs."""
        specs = self._state.metadata.specs
        live = (m.manifest for m in listed if m.manifest.has_live_files)
        return [(m.manifest_path, m.partition_spec_id) for m in live if m.partition_spec_id not in specs]

    def _reach(self, location: str) -> None:
        """Raises StorageError where the store is known not to answer: each try may take seconds."""
        if (reason := self._unreachable(location)) is not None:
            raise StorageError(reason)

    @contextlib.contextmanager
    def _noting(self, kind: str, location: str) -> Iterator[None]:
        try:
            yield
        except MissingFileError:
            # It is missed when files are looked for.
            return
        except StorageError as e:
            remote = self._storage.local_path(location) is None
            self.faults.append(Fault(Cause.UNREACHABLE if remote else Cause.UNREADABLE, kind, location, str(e)))
        except IcecoreError as e:
            self.faults.append(Fault(Cause.UNREADABLE, kind, location, str(e)))

    def files(self, manifests: dict[str, ListedManifest]) -> list[NeededFile]:
        """The files of metadata, each once."""
        state, metadata = self._state, self._state.metadata
        out: dict[str, NeededFile] = {}
        failed = {f.location for f in self.faults}
        needed = manifests.keys() | {s.manifest_list or "" for s in metadata.snapshots} | failed
        named = {state.metadata_location, *(e.metadata_file for e in metadata.metadata_log)}
        store, properties = self._repository.store, metadata.properties
        # Another engine deletes earlier metadata files for the table that it registered anew in the same folder.
        is_left = DELETE_AFTER_COMMIT.of(properties) and is_shared(store, state.stream, metadata.location)
        for row in store.rows(MODELS, "files_of", stream=state.stream):
            location, kind = row["location"], row["kind"]
            may_go = location not in (named if kind == FOREIGN_METADATA else needed) and (
                kind in _WRITTEN or kind == FOREIGN_METADATA
            )
            may_go = may_go or (is_left and kind == "metadata" and (state.dropped or location not in named))
            listed = manifests.get(location)
            out[location] = NeededFile(
                location, _WRITTEN.get(kind, METADATA), row["length"], row["sha256"], may_go, listed=listed
            )
        for f in self._unwritten(manifests):
            out.setdefault(f.location, f)
        lost = [location for location, f in out.items() if not f.is_kept]
        for location in self._kept_elsewhere(lost) if lost else ():
            out[location] = evolve(out[location], is_kept=True)
        return list(out.values())

    def _kept_elsewhere(self, locations: Iterable[str]) -> set[str]:
        """The manifests and lists, of these, that a rebuild makes of other tables' events, or of the table's own.

        A table that was dropped and registered again has its files from there. The table's own have no note of being
        written where nothing was written yet, as in an imported log.
        """
        repository, wanted = self._repository, set(locations)
        found = {w for w in wanted if repository.models.kept_file(self._state.stream, w) is not None}
        for stream in set(repository.models.streams_of_files(wanted)) - {self._state.stream}:
            snapshots = () if is_view_stream(stream) else repository.state(stream).metadata.snapshots
            lists = {s.snapshot_id: s.manifest_list or "" for s in snapshots}
            manifests, known = repository.models.manifests_of(stream, lists)
            found |= {lists[i] for i in known} | {m.manifest.manifest_path for m in manifests if not m.is_foreign}
        return wanted & found

    def _unwritten(self, manifests: dict[str, ListedManifest]) -> Iterator[NeededFile]:
        """The files that the table names and that the log has no note of writing."""
        state, metadata = self._state, self._state.metadata
        head = self._repository.store.row(MODELS, "get_head", stream=state.stream)
        # Where not all commits are written out, the pointer leads to the last that is.
        published = head is not None and head["materialized_version"] >= state.stream_version and not state.pending
        location = state.metadata_location if published or head is None else head["metadata_location"]
        if location is not None:
            yield _registered(self._repository, state, location)
        for entry in metadata.metadata_log:
            yield NeededFile(entry.metadata_file, PREVIOUS, if_there=True)
        for s in metadata.statistics:
            encrypted, size = s.key_metadata is not None, s.file_size_in_bytes
            footer = s.file_footer_size_in_bytes
            yield NeededFile(s.statistics_path, STATISTICS, size, is_encrypted=encrypted, footer_length=footer)
        for p in metadata.partition_statistics:
            yield NeededFile(p.statistics_path, PARTITION_STATISTICS, p.file_size_in_bytes)
        for snapshot in metadata.snapshots:
            location = snapshot.manifest_list
            if location is not None and (published or location not in self._ours):
                yield NeededFile(location, LIST, is_kept=location in self._ours)
        for listed in manifests.values():
            if listed.is_foreign:
                yield _foreign(listed)
            elif published:
                yield NeededFile(listed.manifest.manifest_path, MANIFEST, listed=listed)
        # Another engine deletes its manifests when their snapshots expire: a manifest of ours that is written has the
        # entries.
        for source in self._sources(manifests.values()):
            yield evolve(_foreign(source), if_there=published)
        yield from (NeededFile(f.location, f.kind) for f in self.faults)

    def _sources(self, manifests: Iterable[ListedManifest]) -> Iterator[ListedManifest]:
        try:
            yield from foreign_sources(self._repository, self._state, manifests)
        except IcecoreError as e:
            self.faults.append(Fault(Cause.UNREADABLE, MANIFEST, str(self._state.metadata_location), str(e)))

    # Content files

    def contents(self, manifests: dict[str, ListedManifest], *, deep: bool) -> pa.Table:
        """The live content files of all manifests, each once."""
        columns = _DEEP_COLUMNS if deep else _COLUMNS
        found = DistinctFiles(_DEEP_CONTENTS if deep else _CONTENTS)
        failed = {f.location for f in self.faults}
        used = [*dict.fromkeys(["status", "content", "file_format", "key_metadata", *columns])]
        batch: list[pa.Table] = []
        rows = 0
        for entries in self._entries(
            [m for p, m in manifests.items() if m.manifest.has_live_files and p not in failed]
        ):
            batch.append(entries.select(used))
            rows += entries.num_rows
            if rows >= ENTRIES_AT_ONCE:
                found.add(_reduced(pa.concat_tables(batch), columns))
                batch, rows = [], 0
        if batch:
            found.add(_reduced(pa.concat_tables(batch), columns))
        return found.table()

    def _entries(self, manifests: Sequence[ListedManifest]) -> Iterator[pa.Table]:
        """The entries of manifests; those that can't be read are noted."""
        entries, stream = self._repository.entries, self._state.stream
        for part in _parts(manifests):
            try:
                # All or none: where one of them can't be read, they are read one by one.
                for listed in part:
                    if listed.is_foreign:
                        self._reach(listed.manifest.manifest_path)
                decoded = list(entries.canonical_all(stream, part, self._storage, LEFT_OUT))
            except IcecoreError:
                for listed in part:
                    with self._noting(MANIFEST, listed.manifest.manifest_path):
                        if listed.is_foreign:
                            self._reach(listed.manifest.manifest_path)
                        yield self._entries_of(listed)
            else:
                yield from decoded

    def _entries_of(self, listed: ListedManifest) -> pa.Table:
        entries, stream = self._repository.entries, self._state.stream
        try:
            return entries.canonical(stream, listed, self._storage, LEFT_OUT)
        except MissingArchiveError:
            # That the log's archive is lost is said elsewhere; the file has the same entries.
            return entries.canonical(stream, evolve(listed, position=0, sources=()), self._storage, LEFT_OUT)


def _parts(manifests: Sequence[ListedManifest]) -> Iterator[list[ListedManifest]]:
    """Manifests in parts that hold about so many entries as are looked at together."""
    part: list[ListedManifest] = []
    size = 0
    for listed in manifests:
        part.append(listed)
        m = listed.manifest
        counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count)
        size += sum(max(0, c) for c in counts if c is not None) + (1_000 if None in counts else 1)
        if size >= ENTRIES_AT_ONCE or len(part) >= 1_000:
            yield part
            part, size = [], 0
    if part:
        yield part


def _reduced(entries: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The live entries, with their kinds and the columns asked for."""
    live = live_entries(entries)
    is_vector = pc.and_(
        pc.equal(live["content"], int(DataFileContent.POSITION_DELETES)),
        pc.equal(pc.utf8_upper(live["file_format"]), str(FileFormat.PUFFIN)),
    )
    kinds = pc.if_else(is_vector, pa.scalar(VECTOR, pa.int32()), live["content"])
    encrypted = pc.is_valid(live["key_metadata"])
    return pa.table([kinds, encrypted, *(live[c] for c in columns)], names=["kind", "is_encrypted", *columns])
