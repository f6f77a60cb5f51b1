"""`table.inspect`: Iceberg's metadata tables of one table, and what only the log can tell of it, as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from attrs import frozen

from icecore.projections.history import commit_rows, shape_rows
from icecore.projections.history.event_rows import with_names
from icecore.projections.history.logged_tables import LoggedTable, LoggedTables
from icecore.projections.inspect.inspect_table import InspectTable
from icecore.projections.inspect.log_table import log_table

_Rows = Callable[[LoggedTables, LoggedTable], Sequence[pa.Table]]


@frozen(eq=False, repr=False)
class InspectedTable(InspectTable):
    """The metadata tables of a table as it was loaded, and its history up to then, with the columns that SQL has.

    Methods of the history raise MissingArchiveError or CorruptLogError where the log can't be read.
    """

    def events(self) -> pa.Table:
        """The table's events, with its name then and now: see `event_rows.EVENTS`."""
        log, state = self._log, self._state
        found = log.store.stream_events(state.stream, 0, state.position)
        return with_names(log, log_table(log.store, found))

    def commits(self) -> pa.Table:
        """The snapshots that events brought, with the files that each added and removed: see `commit_rows.COMMITS`."""
        return self._history(commit_rows.COMMITS, commit_rows.commits)

    def file_history(self) -> pa.Table:
        """The files that snapshots added or removed: see `commit_rows.FILE_HISTORY`."""
        return self._history(commit_rows.FILE_HISTORY, commit_rows.file_history)

    def schema_history(self) -> pa.Table:
        """The columns that events added, removed or changed: see `shape_rows.SCHEMA_HISTORY`."""
        return self._history(shape_rows.SCHEMA_HISTORY, shape_rows.schema_history)

    def spec_history(self) -> pa.Table:
        """The events that made another partition spec the default: see `shape_rows.SPEC_HISTORY`."""
        return self._history(shape_rows.SPEC_HISTORY, shape_rows.spec_history)

    def property_history(self) -> pa.Table:
        """The properties that events added, removed or changed: see `shape_rows.PROPERTY_HISTORY`."""
        return self._history(shape_rows.PROPERTY_HISTORY, shape_rows.property_history)

    def ref_history(self) -> pa.Table:
        """The branches and tags that events added, removed or changed: see `shape_rows.REF_HISTORY`."""
        return self._history(shape_rows.REF_HISTORY, shape_rows.ref_history)

    def _history(self, schema: pa.Schema, rows: _Rows) -> pa.Table:
        log = self._log
        return pa.concat_tables([schema.empty_table(), *rows(log, log.named[self._state.stream])])

    @property
    def _log(self) -> LoggedTables:
        repository = self._planner.repository
        return LoggedTables(repository.store, repository, lambda _: self._all, up_to=self._state.position)
