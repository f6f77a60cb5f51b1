"""The column bounds that can be forgotten: those of content files that no snapshot holds any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.common.ids import new_salt
from icecore.engine.errors import CorruptFileError, ValidationError, name_text
from icecore.engine.events.event import TABLE_FILES_DELETED, TABLE_PURGED
from icecore.engine.forget.redact_events import Replacement
from icecore.engine.formats import arrays
from icecore.engine.formats.binary_columns import list_positions, select
from icecore.engine.formats.entry_arrow import BINARIES, ENTRY_SCHEMA
from icecore.engine.formats.event_content import decode_content, encode_parts, files_part
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.past_schemas import PastSchemas
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.partition import PartitionField
from icecore.engine.spec.transform import BucketTransform, VoidTransform
from icecore.projections.entries.carried_entries import file_keys
from icecore.projections.entries.decode_entries import decode_unlisted

BOUNDS = ("lower_bounds", "upper_bounds")
Ids = frozenset[int] | None


@frozen
class ForgettableBounds:
    """The bounds of a table to forget, by event, and those that stay because snapshots hold them.

    `files` are the paths of the content files whose bounds go. `held` counts by snapshot the files that were deleted
    from the table while the snapshot still has their entries.
    """

    replacements: tuple[Replacement, ...] = ()
    files: frozenset[str] = frozenset()
    held: Mapping[int, int] = field(factory=dict)
    manifests: frozenset[str] = frozenset()


def forgettable_bounds(
    repository: Repository, states: Sequence[TableState], columns: Collection[str] | None, files: Collection[str] | None
) -> ForgettableBounds:
    """The bounds of a table that can be forgotten: of the given columns or all, of the given files or all gone ones.

    `states` are the latest state, first, and others whose snapshots are read too. Raises ValidationError for a column
    or file that the table never had, a column that it is partitioned by, and a file that a snapshot holds.
    """
    ids = None if columns is None else _column_ids(repository, states[0], columns)
    held = _Held.of(repository, [s for s in states if s.purged_at is None])
    wanted = None if files is None else frozenset(files)
    if wanted is not None:
        held.check(states[0], wanted)
    seen, deleted, gone, replacements = set[str](), set[str](), set[str](), []
    only_deleted = held.only_deleted

    def redacted(position: int, entries: pa.Table) -> tuple[pa.Table, bool]:
        # Snapshots have files where they lie now, the stored entries, which are redacted, where they lay then.
        now = repository.store.relocations.since(position).entries(entries)
        keys: list[str] = file_keys(now).to_pylist()
        paths: list[str] = now["file_path"].to_pylist()
        seen.update(paths)
        deleted.update(only_deleted.intersection(keys))
        chosen = np.array([k not in held.live and k not in held.deleted for k in keys], np.bool_)
        if wanted is not None:
            chosen &= np.array([p in wanted for p in paths], np.bool_)
        left, touched = without_bounds(entries, chosen, ids)
        gone.update(paths[i] for i in np.flatnonzero(touched))
        return left, bool(touched.any())

    for position, data in _contents(repository, states[0].stream):
        files = files_part(data, position)
        since = repository.store.relocations.since(position)
        free = [name for name in files if since.location(name) not in held.listed]
        # A kept manifest that no snapshot lists any more is dropped whole: another writer's bytes stay as they are or
        # go.
        lost = [name for name in free if redacted(position, _entries_of(files[name], name))[1]]
        entries, is_touched = redacted(position, decode_content(data, position))
        if is_touched or lost:
            left = {**files, **dict.fromkeys(lost)}
            replacements.append(Replacement(position, content=encode_parts(entries, left, new_salt())))
    if wanted is not None and (unknown := sorted(wanted - seen)):
        raise ValidationError(f"{name_text(states[0].identifier)}: its log has no file {unknown[0]}")
    return ForgettableBounds(tuple(replacements), frozenset(gone), held.by_snapshot(deleted), frozenset(held.listed))


def _column_ids(repository: Repository, state: TableState, columns: Collection[str]) -> frozenset[int]:
    """The ids of the columns that ever had one of the names, and of all nested in them. Raises ValidationError."""
    past = PastSchemas.of(state, repository.store.stream_events(state.stream))
    out = set[int]()
    for column in columns:
        found = past.column_ids(column)
        _check_not_partitioned_by(past.fields, column, found)
        out |= found
    return frozenset(out)


def _check_not_partitioned_by(fields: Iterable[PartitionField], column: str, ids: Collection[int]) -> None:
    for f in fields:
        if f.source_id in ids and not isinstance(f.transform, BucketTransform | VoidTransform):
            raise ValidationError(
                f"the partition field {f.name!r} is {f.transform} of {column!r}: its values are in partitions and "
                f"paths of files, which can't be forgotten"
            )


def without_bounds(entries: pa.Table, rows: npt.NDArray[np.bool_], ids: Ids) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """Entries without the bounds of the columns `ids`, None for all, in some rows; and a mask of rows that had any."""
    table = entries.combine_chunks()
    touched = np.zeros(len(rows), np.bool_)
    for name in BOUNDS if len(rows) else ():
        column = table[name].chunk(0)
        counts, positions = list_positions(column)
        row_of = np.repeat(np.arange(len(rows)), counts)
        keys = arrays.to_numbers(select(column.keys, positions))
        goes = rows[row_of] & (np.isin(keys, sorted(ids)) if ids is not None else True)
        if not goes.any():
            continue
        touched[row_of[goes]] = True
        kept = arrays.numbers(positions[~goes])
        offsets = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(np.bincount(row_of[~goes], minlength=len(rows)), out=offsets[1:])
        # A file that has no bounds has none, not an empty map.
        nothing = np.append((np.diff(offsets) == 0) & (touched | ~arrays.to_mask(column.is_valid())), False)
        left = pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32(), mask=nothing), column.keys.take(kept), column.items.take(kept)
        )
        table = table.set_column(ENTRY_SCHEMA.get_field_index(name), ENTRY_SCHEMA.field(name), left.cast(BINARIES))
    return table, touched


def _entries_of(data: bytes | None, location: str) -> pa.Table:
    """The entries of a manifest that the log keeps; none of a manifest list, or of one that was forgotten."""
    try:
        return ENTRY_SCHEMA.empty_table() if data is None else decode_unlisted(data, location)
    except CorruptFileError:
        return ENTRY_SCHEMA.empty_table()


def _contents(repository: Repository, stream: str) -> Iterator[tuple[int, bytes]]:
    """The content beside each event of a table. Raises MissingArchiveError, CorruptLogError."""
    for event in repository.store.stream_events(stream):
        if event.content_sha256 is not None and event.kind not in (TABLE_FILES_DELETED, TABLE_PURGED):
            data = repository.store.content(event.position)
            if data is not None:
                yield event.position, data


@define
class _Held:
    """The files in the manifests of all snapshots: by key, the manifests that have them as live and as deleted."""

    live: dict[str, str] = field(factory=dict)
    deleted: dict[str, list[str]] = field(factory=dict)
    listed: dict[str, list[int]] = field(factory=dict)

    @classmethod
    def of(cls, repository: Repository, states: Sequence[TableState]) -> _Held:
        """The files of all snapshots.

        Raises StorageError, CorruptFileError where another engine's manifest can't be read.
        """
        out = cls()
        for state in states:
            storage = repository.storage_of(state)
            for snapshot in state.metadata.snapshots:
                for listed in repository.list_manifests(state, snapshot):
                    path = listed.manifest.manifest_path
                    if path not in out.listed:
                        out._add(path, repository.entries.canonical(state.stream, listed, storage))
                    out.listed.setdefault(path, []).append(snapshot.snapshot_id)
        return out

    def _add(self, path: str, entries: pa.Table) -> None:
        is_deleted = pc.equal(entries["status"], int(ManifestEntryStatus.DELETED)).to_pylist()
        for key, deleted in zip(file_keys(entries).to_pylist(), is_deleted, strict=True):
            if deleted:
                self.deleted.setdefault(key, []).append(path)
            else:
                self.live.setdefault(key, path)

    def snapshots_of(self, key: str) -> set[int]:
        """The snapshots that have a file as deleted."""
        return {i for path in self.deleted[key] for i in self.listed[path]}

    @property
    def only_deleted(self) -> frozenset[str]:
        """The files that snapshots have as deleted, and none as live."""
        return frozenset(self.deleted.keys() - self.live.keys())

    def by_snapshot(self, keys: Iterable[str]) -> dict[int, int]:
        """The number of some files that each snapshot has as deleted."""
        return dict(Counter(i for key in keys for i in self.snapshots_of(key)))

    def check(self, state: TableState, files: Collection[str]) -> None:
        """Raises ValidationError naming the snapshots that hold one of the files."""
        for key in (*self.live, *self.deleted):
            path = key.partition("\x00")[0]
            if path in files:
                is_live = key in self.live
                snapshots = sorted(set(self.listed[self.live[key]]) if is_live else self.snapshots_of(key))
                what = "it is read by" if is_live else "its entry, as deleted, is in"
                remedy = "delete its rows and " if is_live else "rewrite_manifests() and "
                refs = {r.snapshot_id: name for name, r in state.metadata.refs.items()}
                named = ", ".join(f"{i} ({refs[i]})" if i in refs else str(i) for i in snapshots[:3])
                raise ValidationError(
                    f"{path} can't be forgotten: {what} snapshot {named}; {remedy}expire_snapshots() first"
                )
