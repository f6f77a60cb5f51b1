"""Incremental changelog scans: the rows that each commit between two snapshots deleted and inserted.

The columns `_change_type`, `_change_ordinal` and `_commit_snapshot_id` are Java's, and so are the words of the types.
The changes of a commit are the difference of the live rows before and after it, so position deletes, deletion vectors
and equality deletes give the rows that they delete, once. Snapshots of the operation `replace` change no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from attrs import define

from icecore.engine.common.ids import signed
from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.common.optional_packages import to_pandas
from icecore.engine.common.text import short_repr
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.read.changed_file_rows import ChangedRowsReader
from icecore.engine.data.read.rows_of_commits import CommitFiles, CommitRows
from icecore.engine.errors import ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.snapshot_range import SnapshotRange
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.repository.ancestors import parent_id
from icecore.engine.repository.repository import Repository
from icecore.engine.scan.incremental_append import added_by
from icecore.engine.scan.relation.missing_files import telling_expiry
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.reserved import (
    CHANGE_TYPE,
    CHANGELOG,
    DELETED,
    POS,
    ROW_ID,
    select,
    with_columns,
)
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.projections.plan.planner import PlannedFiles, Planner
from icecore.projections.stored_plans.plan_difference import plan_difference

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


@define(slots=False)
class IncrementalChangelogScan:
    """The changes of a range of snapshots, oldest first; within a commit deleted rows come before inserted ones.

    `snapshots` are those of the range that are no `replace`, in the order of `_change_ordinal`. Rows have the table's
    current schema. All changes, applied to the rows at the start of the range, give the rows at its end.
    """

    __repr__ = short_repr

    _planner: Planner
    _state: TableState
    snapshots: tuple[Snapshot, ...]
    schema: Schema
    row_filter: Expression
    selected_fields: tuple[str, ...]
    case_sensitive: bool
    compute_updates: bool
    identifier_columns: tuple[str, ...]

    @classmethod
    def between(
        cls,
        planner: Planner,
        state: TableState,
        snapshots: SnapshotRange,
        row_filter: FilterLike,
        *,
        selected_fields: tuple[str, ...],
        case_sensitive: bool,
        compute_updates: bool,
        identifier_columns: Sequence[str] | None,
        parameters: Mapping[str, Any] | Sequence[Any] | None,
    ) -> IncrementalChangelogScan:
        """The scan of a range of snapshots. Raises ExpressionError, ValidationError."""
        schema = state.metadata.schema()
        taken = {f.name for f in schema.fields} & {c.name for c in (*CHANGELOG, POS, ROW_ID)}
        if taken:
            raise ValidationError(f"a changelog needs the names of the table's columns {sorted(taken)} for its own")
        if DELETED.name in selected_fields and not schema.has_name(DELETED.name, case_sensitive):
            raise ValidationError(f"a changelog has no {DELETED.name!r}: {CHANGE_TYPE.name!r} tells deleted rows")
        scan = cls(
            planner,
            state,
            tuple(s for s in snapshots.snapshots if s.operation != Operation.REPLACE),
            schema,
            bind(parse_filter(row_filter, parameters), schema, case_sensitive),
            selected_fields,
            case_sensitive,
            compute_updates,
            _identifiers(state, schema, identifier_columns) if compute_updates else (),
        )
        scan.projection  # noqa: B018 - an unknown column is an error now, not when rows are read
        return scan

    @lazy_property
    def projection(self) -> Schema:
        """The selected columns, then those of the changelog."""
        return with_columns(self._selected, *CHANGELOG)

    @lazy_property
    def _selected(self) -> Schema:
        return select(self.schema, self.selected_fields, self.case_sensitive)

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The changes as a stream of batches, commit by commit."""
        return pa.RecordBatchReader.from_batches(self._arrow_schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """The changes as a table."""
        return pa.Table.from_batches(list(self._batches()), self._arrow_schema)

    def to_pandas(self) -> pd.DataFrame:
        """The changes as a pandas DataFrame. Raises MissingDependencyError where pandas is not installed."""
        return to_pandas(self.to_arrow())

    def to_duckdb(
        self, table_name: str = "changes", connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection, a new one unless given, in which the changes are a table of that name."""
        con = connection or duckdb.connect(":memory:")
        con.register(table_name, self.to_arrow())
        return con

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The changes as a Spark DataFrame, in no order. Spark's tasks read and compare; the driver sees no row.

        Without a session the active one does it; raises ValidationError where there is none.
        """
        from icecore.engine.spark.read.commit_changes import changes_to_spark
        from icecore.engine.spark.session import given_or_active

        return changes_to_spark(
            given_or_active(session),
            tuple(self.commits()),
            rows=self.rows,
            metadata=self._state.metadata,
            filter=self.row_filter,
        )

    def count(self) -> int:
        """The number of changes. Rows are read, since only they tell which were carried over."""
        return sum(b.num_rows for b in self._batches())

    @property
    def _arrow_schema(self) -> pa.Schema:
        return schema_to_arrow(self.projection, with_ids=False)

    def changes_between(self, before: Snapshot | None, after: Snapshot | None) -> pa.Table:
        """The rows that only one of two snapshots has, with `_change_type`: rows of `before`, then rows of `after`."""
        repository = self._planner.repository
        plans = (self._plan(repository.list_manifests(self._state, s) if s else ()) for s in (before, after))
        changes = schema_to_arrow(with_columns(self._selected, CHANGE_TYPE), with_ids=False)
        difference = plan_difference(*plans)
        with telling_expiry(repository, self._state, filter(None, (before, after))):
            found = [
                batch
                for change_type, rows in self.rows.changes(difference.gone, difference.come, difference.changed)
                for batch in rows.append_column(CHANGE_TYPE.name, pa.repeat(change_type, rows.num_rows)).to_batches()
            ]
        return pa.Table.from_batches([narrow(batch, changes) for batch in found], changes)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with telling_expiry(self._planner.repository, self._state, self.snapshots):
            yield from self.rows.batches(self.commits())

    def commits(self) -> Iterator[CommitFiles]:
        """The files of each commit. Raises ValidationError where the changes of one can't be told."""
        for ordinal, snapshot in enumerate(self.snapshots):
            found = plan_difference(*self.plans_around(snapshot))
            yield CommitFiles(ordinal, signed(snapshot.snapshot_id), found.gone, found.come, found.changed)

    def plans_around(self, snapshot: Snapshot) -> tuple[PlannedFiles, PlannedFiles]:
        """The plans before and after a commit, over the manifests that may make a difference.

        Raises ValidationError where its parent was expired, unless it is an append.
        """
        repository = self._planner.repository
        parent = parent_id(repository, self._state, snapshot)
        if parent is not None and self._state.metadata.snapshot_by_id(parent) is None:
            if snapshot.operation != Operation.APPEND:
                raise ValidationError(
                    f"what snapshot {snapshot.snapshot_id} changed can't be told: its parent {parent} was expired"
                )
            # A file that was brought back keeps its sequence number, so older delete files apply to it again.
            added, entries = added_by(repository, self._state, (snapshot,))
            after = repository.list_manifests(self._state, snapshot)
            deletes = (m for m in after if m.manifest.content is ManifestContent.DELETES)
            return self._plan(()), self._plan((*added, *deletes), entries)
        before, after = manifests_around(repository, self._state, snapshot)
        return self._plan(before), self._plan(after)

    def _plan(self, listed: Sequence[ListedManifest], entries: str = "TRUE") -> PlannedFiles:
        return self._planner.plan_manifests(self._state, listed, self.row_filter, self.schema, entries)

    @lazy_property
    def rows(self) -> CommitRows:
        """The reader of the changes, from the files of their commits."""
        metadata = self._state.metadata
        storage = self._planner.repository.storage_of(self._state)
        mapping = NAME_MAPPING.find(metadata.properties)
        reader = ChangedRowsReader(self.schema, metadata.specs, storage, mapping, metadata.schemas)
        return CommitRows(reader, self._selected, self.compute_updates, self.identifier_columns)


def manifests_around(
    repository: Repository, state: TableState, snapshot: Snapshot
) -> tuple[tuple[ListedManifest, ...], tuple[ListedManifest, ...]]:
    """The manifests before and after a commit that may make a difference; its parent, if any, must still be there."""
    parent = snapshot.parent_snapshot_id
    after = repository.list_manifests(state, snapshot)
    before = () if parent is None else repository.list_manifests(state, state.metadata.find_snapshot(parent))
    if _delete_paths(before) == _delete_paths(after):
        # All deletes are the same then, so data manifests that both sides have make no difference.
        shared = _data_paths(before) & _data_paths(after)
        before, after = (
            tuple(m for m in listed if m.manifest.manifest_path not in shared) for listed in (before, after)
        )
    return before, after


def _identifiers(state: TableState, schema: Schema, names: Sequence[str] | None) -> tuple[str, ...]:
    """The columns that identify a row. Raises ValidationError where there are none, and no row ids either."""
    found = tuple(names) if names is not None else schema.identifier_field_names()
    top = {f.name: f for f in schema.fields}
    for name in found:
        if name not in top or not top[name].field_type.is_primitive:
            raise ValidationError(f"an identifier column must be a top-level primitive column, found {name!r}")
    if not found and state.metadata.format_version < 3:
        raise ValidationError("updates need identifier_columns: the table has no identifier fields and no row ids")
    return found


def _delete_paths(listed: Iterable[ListedManifest]) -> set[str]:
    return {m.manifest.manifest_path for m in listed if m.manifest.content is ManifestContent.DELETES}


def _data_paths(listed: Iterable[ListedManifest]) -> set[str]:
    return {m.manifest.manifest_path for m in listed if m.manifest.content is ManifestContent.DATA}
