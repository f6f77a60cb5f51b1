"""The calls of a catalog that compare two moments, and that show one commit whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from icecore.engine.catalog.catalog_handle import CatalogHandle, table_of
from icecore.engine.catalog.past.blaming import stream_of_table
from icecore.engine.catalog.past.undoing import Moment, position_of
from icecore.engine.common.identifiers import IdentifierLike, checked_number, identifier_tuple
from icecore.engine.errors import NoSuchSnapshotError, ValidationError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, is_view_stream
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.log.names_at import CatalogNames
from icecore.engine.log.reader import extent_text
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.metadata.fold import TableState
    from icecore.engine.repository.repository import Repository
    from icecore.engine.scan.snapshot_diff import SnapshotDiff
    from icecore.engine.table.table import Table
    from icecore.projections.audit.diff import CatalogDiff

QUERIES = "projections/blame.sql"


def diff(catalog: CatalogHandle, from_position: Moment, to_position: Moment | None = None) -> CatalogDiff:
    """The difference between two positions of the log, or times, up to the last by default: see `CatalogDiff`.

    Reads the log only. Raises ValidationError where the positions are not in the log or in the wrong order.
    """
    from icecore.projections.audit import diff

    warehouse = catalog._warehouse
    warehouse.repository.foreign.adopt_all_if_changed()
    store = warehouse.store
    start = position_of(store, from_position, "from_position")
    to = store.head()[0] if to_position is None else position_of(store, to_position, "to_position")
    return diff.diff(store, warehouse.repository, warehouse.views, start, to)


def diff_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    from_position: Moment,
    to_position: Moment | None = None,
    *,
    branch: str = MAIN_BRANCH,
) -> SnapshotDiff:
    """The difference of a table's files and rows between two positions of the log, or times: see `SnapshotDiff`.

    The table is the one of that name at the later position, else at the earlier one, else now, else the last that had
    it. At a position where it did not exist, was dropped or had no such branch, it counts as without rows. For
    snapshots and refs see `Table.diff`. Raises NoSuchTableError, NoSuchSnapshotError where a snapshot of either is
    gone, ValidationError, also where it had the branch at neither position.
    """
    from icecore.engine.table.table_reads import diff as diff_snapshots

    store, repository = catalog._warehouse.store, catalog._warehouse.repository
    head = store.head()[0]
    start = position_of(store, from_position, "from_position")
    end = head if to_position is None else position_of(store, to_position, "to_position")
    if not 0 <= start <= end <= head:
        raise ValidationError(f"can't compare position {start} with {end}: the log goes from 0 to {head}")
    stream = _stream_then(catalog, identifier, end, start)
    table, found = table_of(catalog, stream), list[int | None]()
    states = [_state_there(repository, stream, position) for position in (start, end)]
    if branch != MAIN_BRANCH and not any(state and branch in state.metadata.refs for state in states):
        raise ValidationError(f"{name_text(table.name())} has no branch or tag {branch!r} at position {start} or {end}")
    for position, state in zip((start, end), states, strict=True):
        ref = None if state is None else state.metadata.refs.get(branch)
        if ref is not None and table.snapshot_by_id(ref.snapshot_id) is None:
            from icecore.engine.revert.restore_state import expiry_of

            expiry = expiry_of(store, stream, ref.snapshot_id, position)
            by = f", expired at position {expiry.position} by {expiry.provenance.told}" if expiry else ""
            raise NoSuchSnapshotError(f"snapshot {ref.snapshot_id}, of position {position}, is gone{by}")
        found.append(None if ref is None else ref.snapshot_id)
    return diff_snapshots(table, *found)


def _state_there(repository: Repository, stream: str, position: int) -> TableState | None:
    """The state of a table at a position where it was there: not before it was made, nor while it was dropped."""
    state = repository.state_at(stream, position)
    return None if state is None or state.dropped else state


def _stream_then(catalog: CatalogHandle, identifier: IdentifierLike, *positions: int) -> str:
    """The stream of the table that had a name at the first position where one had it, else now, else last."""
    for position in positions:
        stream = CatalogNames.at(catalog._warehouse.store, position).streams.get(identifier_tuple(identifier))
        if stream is not None and not is_view_stream(stream):
            return stream
    return stream_of_table(catalog, identifier)


@frozen(eq=False)
class ShownCommit:
    """One event: who, when, why, what it changed, and the files that it added, removed or deleted.

    `event` is its row of the log, `together` the positions of its transaction. `difference` has each fact before and
    after, `files` a row for each file: `change`, `content`, `file_path` and so on.
    """

    event: Mapping[str, Any] = field(repr=False)
    together: tuple[int, ...]
    difference: CatalogDiff = field(repr=False)
    files: pa.Table = field(repr=False)
    _table: Table | None = field(default=None, repr=False)
    _snapshot_ids: tuple[int, ...] = ()

    @property
    def position(self) -> int:
        """The event's position."""
        return int(self.event["position"])

    def rows(self) -> pa.Table | None:
        """The rows that it deleted and inserted, with `_change_type`; None of a commit that changed no rows.

        None too where it registered a table: the rows were there, and `Catalog.diff_table` has them.
        Raises what a changelog scan raises, StorageError where the files are deleted.
        """
        import pyarrow as pa

        if self._table is None or not self._snapshot_ids:
            return None
        scans = (
            self._table.incremental_changelog_scan(from_snapshot_id_inclusive=i, to_snapshot_id_inclusive=i)
            for i in self._snapshot_ids
        )
        return pa.concat_tables([scan.to_arrow() for scan in scans])


def show_commit(catalog: CatalogHandle, position: int) -> ShownCommit:
    """Everything about the event at a position: see `ShownCommit`. Raises ValidationError where there is none."""
    from icecore.projections.inspect.log_table import log_table

    warehouse = catalog._warehouse
    store = warehouse.store
    head, position = store.head()[0], checked_number(position, "position")
    if not 1 <= position <= head:
        raise ValidationError(f"there is no commit at position {position}: {extent_text(head)}")
    event = store.event_at(position)
    [row] = log_table(store, [event]).to_pylist()
    together = tuple(e.position for e in store.transaction_events(event.transaction_id))
    table, ids = _snapshots(catalog, event)
    return ShownCommit(row, together, diff(catalog, position - 1, position), _files(catalog, event), table, ids)


def _snapshots(catalog: CatalogHandle, event: Event) -> tuple[Table | None, tuple[int, ...]]:
    """The table as it was after an event, and the snapshots that the event made, not those that it registered."""
    from icecore.engine.catalog.catalog_at import CatalogAt

    made = [] if event.kind == ev.TABLE_REGISTERED else snapshots_of(event)[0]
    ids = tuple(s.snapshot_id for s in made if s.operation != Operation.REPLACE)
    if not ids:
        return None, ()
    return CatalogAt(catalog._warehouse, event.position).table_of(event.stream), ids


def _files(catalog: CatalogHandle, event: Event) -> pa.Table:
    import pyarrow as pa

    from icecore.engine.catalog.log_tools import sql
    from icecore.engine.log.deletion_content import deleted_files

    if event.kind in ev.DELETIONS:
        gone = deleted_files(catalog._warehouse.store, event)
        return pa.table(
            {
                "change": pa.repeat("deleted", len(gone)),
                "file_path": pa.array([f.location for f in gone], pa.string()),
                "file_size_in_bytes": pa.array([f.size_in_bytes for f in gone], pa.int64()),
            }
        )
    return sql(catalog, query(QUERIES, "commit"), {"uuid": ev.uuid_of_stream(event.stream), "position": event.position})


def change_lines(difference: CatalogDiff) -> Iterator[tuple[str, str, str, str | None, str | None]]:
    """Each fact that differs: its object, what it is, its name, and its text before and after."""
    for each in difference.objects:
        name = name_text(each.name)
        if each.action != "changed":
            before, after = (None if n is None else name_text(n) for n in (each.before, each.after))
            yield name, each.kind, each.action, before, after
        for c in each.changes:
            yield name, c.what, c.key, c.before, c.after
