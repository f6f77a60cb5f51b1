"""The entries of manifests for metadata tables: as they are in their files, with all that they inherit.

What can't be read raises StorageError or CorruptFileError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.errors import IcecoreError, StorageError, name_text
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.content_file import DataFileContent, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.entries.decoded_files import DecodedFiles
from icecore.projections.entries.wide_entries import inherit_all
from icecore.projections.plan.planner import Planner
from icecore.projections.segments.entry_faults import FAULTS
from icecore.projections.segments.entry_tables import segment_folder_name

ROWS_OF_A_BATCH = 16_384
"""The rows of a batch, at least: small manifests are taken together, a large one is alone, and then not copied."""
DATA = frozenset({int(DataFileContent.DATA)})
POSITION_DELETES = frozenset({int(DataFileContent.POSITION_DELETES)})
DELETES = frozenset({*POSITION_DELETES, int(DataFileContent.EQUALITY_DELETES)})
ALL_CONTENTS = DATA | DELETES
_KINDS = {ManifestContent.DATA: DATA, ManifestContent.DELETES: DELETES}


@contextlib.contextmanager
def faults_told(state: TableState) -> Iterator[None]:
    """A context in which entries that don't make sense, as those of a spec that is not there, raise StorageError."""
    try:
        yield
    except FAULTS as e:
        if isinstance(e, IcecoreError):
            raise
        raise StorageError(f"{name_text(state.identifier)}: its entries can't be read: {type(e).__name__}: {e}") from e


@frozen(eq=False)
class TableEntries:
    """The manifests of a table's snapshots, and the entries in them."""

    planner: Planner
    state: TableState

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot of an id, or the current one. Raises NoSuchSnapshotError."""
        metadata = self.state.metadata
        return metadata.current_snapshot() if snapshot_id is None else metadata.find_snapshot(snapshot_id)

    def listed(self, snapshot_id: int | None) -> Sequence[ListedManifest]:
        """The manifests of a snapshot, none where there is no snapshot. Raises NoSuchSnapshotError."""
        snapshot = self.snapshot(snapshot_id)
        return () if snapshot is None else self.planner.list_manifests(self.state, snapshot)

    def all_listed(self) -> Sequence[ListedManifest]:
        """The manifests of all snapshots; one that several list is there once, as the first of them lists it."""
        found: dict[str, ListedManifest] = {}
        for _, manifests in self.planner.repository.lists.all_lists(self.state):
            for listed in manifests:
                found.setdefault(listed.manifest.manifest_path, listed)
        return list(found.values())

    def table(
        self,
        kind: str,
        schema: pa.Schema,
        rows: Callable[[pa.Table], pa.Table],
        listed: Sequence[ListedManifest],
        contents: frozenset[int] | None,
    ) -> pa.Table:
        """The rows that `rows` makes of entries: of live ones of some contents, or of all, deleted ones too.

        The rows made last of the same metadata are kept, by `kind`, while they are small.
        """

        def read() -> pa.Table:
            found = self.every(listed) if contents is None else self.live(listed, contents)
            with faults_told(self.state):
                # `empty_table` makes no column of UUIDs inside of a struct.
                return pa.concat_tables([pa.Table.from_batches([], schema), *map(rows, found)], promote_options="none")

        return self.planner.kept_files(self.state, rows_key(kind, listed, contents), read)

    def every(self, listed: Sequence[ListedManifest]) -> Iterator[pa.Table]:
        """All entries of manifests, deleted ones too, in their order: canonical, some ten thousand in one piece."""
        return entry_batches(self.planner, self.state, listed, contents=None)

    def live(
        self, listed: Sequence[ListedManifest], contents: frozenset[int], left_out: frozenset[str] = frozenset()
    ) -> Iterator[pa.Table]:
        """The entries of some contents that are not deleted; columns of `left_out` may be null."""
        wanted = with_live(listed, contents)
        return entry_batches(self.planner, self.state, wanted, contents=contents, left_out=left_out)


def with_live(listed: Sequence[ListedManifest], contents: frozenset[int]) -> list[ListedManifest]:
    """The manifests that can have live files of some contents."""
    kinds = [kind for kind, of_kind in _KINDS.items() if contents & of_kind]
    return [m for m in listed if m.manifest.has_live_files and m.manifest.content in kinds]


def rows_key(kind: str, listed: Sequence[ListedManifest], contents: frozenset[int] | None) -> tuple[Hashable, ...]:
    """The key by which rows of some kind of the entries of manifests are kept."""
    return kind, contents, tuple(m.listing for m in listed)


def entry_batches(
    planner: Planner,
    state: TableState,
    manifests: Sequence[ListedManifest],
    *,
    contents: Collection[int] | None,
    left_out: frozenset[str] = frozenset(),
) -> Iterator[pa.Table]:
    """The canonical entries in the order of the manifests, some ten thousand at once.

    With `contents` only live ones of these contents; without, all, deleted ones too. Columns of `left_out` may be null.
    Raises CorruptFileError or StorageError where a manifest can't be read.
    """
    held: list[pa.Table] = []
    listed: list[ListedManifest] = []
    rows = 0
    for each, found in zip(manifests, _read(planner, state, manifests, left_out), strict=True):
        held.append(found if contents is None else _live(found, contents))
        listed.append(each)
        rows += held[-1].num_rows
        if rows >= ROWS_OF_A_BATCH:
            yield _joined(held, listed)
            held, listed, rows = [], [], 0
    if listed:
        yield _joined(held, listed)


def _read(
    planner: Planner, state: TableState, manifests: Sequence[ListedManifest], left_out: frozenset[str]
) -> Iterator[pa.Table]:
    """The canonical entries of each manifest; decoded ones are kept beside the segments, where these are on disk."""
    stream, storage = state.stream, planner.repository.storage_of(state)

    def decode(wanted: Sequence[ListedManifest]) -> Iterator[pa.Table]:
        return planner.repository.entries.canonical_all(stream, wanted, storage, left_out)

    if planner.cache is None:
        return decode(manifests)
    files = DecodedFiles(planner.cache / segment_folder_name(stream, planner.forgotten(stream)))
    return files.canonical_all(manifests, decode, are_whole=not left_out)


def _joined(held: Sequence[pa.Table], listed: Sequence[ListedManifest]) -> pa.Table:
    records = [m.manifest for m in listed]
    return inherit_all(pa.concat_tables(held), records, [t.num_rows for t in held]).combine_chunks()


def _live(entries: pa.Table, contents: Collection[int]) -> pa.Table:
    """The live entries of some contents. Entries that are left out don't count for others' first row ids (RL3)."""
    wanted = pc.and_(
        pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)),
        pc.is_in(entries["content"], pa.array(sorted(contents), pa.int32())),
    )
    return entries if pc.all(wanted).as_py() else entries.filter(wanted)
