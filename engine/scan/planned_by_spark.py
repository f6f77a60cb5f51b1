"""Plans of scans, made here or by Spark: see `projections/distributed_plan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import ref

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.errors import StorageError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.simplify import and_
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from icecore.projections.plan.planner import PlannedFiles, Planner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from icecore.projections.distributed_plan.spark_planner import SparkPlanner

# The types that Spark orders alike. Spark truncates nanoseconds, and has uuids as text.
_ORDERED = (IntegerType, LongType, DateType, DecimalType, StringType, TimestampType, TimestamptzType)


class Plannable(Protocol):
    """A scan that can be planned."""

    _planner: Planner
    _state: TableState
    _session: SparkSession | None
    _again: Callable[..., Any]
    schema: Schema
    row_filter: Expression

    def _manifests(self) -> tuple[tuple[ListedManifest, ...], str]: ...


Scan = TypeVar("Scan", bound=Plannable)


def planned_by(scan: Scan, session: SparkSession) -> Scan:
    """The same scan, planned by Spark: tasks expand its manifests, and only the plan's files are brought here.

    The plan is the same. This is for tables whose entries are too many for one machine; `explain` still reads them
    here.
    """

    def again(**others: Any) -> Any:
        return planned_by(scan._again(**others), session)

    made: Scan = evolve(cast("Any", scan), session=session, again=again)
    return made


def plan_frame(scan: Plannable, session: SparkSession) -> DataFrame:
    """The plan as a Spark DataFrame, made by Spark: the columns of `plan().to_arrow()`, a row for each data file.

    Raises ValidationError where the table's files are not written out yet, or the filter can't be said in Spark SQL;
    faults in manifests and delete files are found as Spark runs, and reported in its exceptions.
    """
    return _planner(scan, session).frame()


def planned(scan: Plannable) -> PlannedFiles:
    """The plan's files as columns, planned by Spark if asked for. Raises CorruptFileError, StorageError."""
    if scan._session is not None:
        return _planner(scan, scan._session).planned()
    listed, entries = scan._manifests()
    return scan._planner.plan_manifests(scan._state, listed, scan.row_filter, scan.schema, entries)


def planned_with_columns(scan: Plannable, names: Sequence[str]) -> tuple[PlannedFiles, pa.Table]:
    """The plan's files, and those of the named wide columns that exist, in the order of the files."""
    if scan._session is not None:
        return _planner(scan, scan._session).planned_with_columns(names)
    listed, entries = scan._manifests()
    return scan._planner.plan_with_columns(scan._state, listed, scan.row_filter, scan.schema, names, entries)


@frozen
class Replanned:
    """A scan that is planned again with a further filter, bound to its schema.

    It keeps no planner alive: calls raise StorageError once the planner is gone or closed. `is_filtered` says whether
    its filter includes the query's own filters already.
    """

    _planner: ref[Planner]
    _state: TableState
    _listed: tuple[ListedManifest, ...]
    _entries: str
    _row_filter: Expression
    _schema: Schema
    is_filtered: bool = False

    def locations(self, further: Expression) -> pa.ChunkedArray:
        """The locations of the files that the filter leaves."""
        condition = and_(self._row_filter, further)
        left = self._open().plan_manifests(self._state, self._listed, condition, self._schema, self._entries)
        return left.files["file_path"]

    def known(self, further: Expression, asked: Sequence[tuple[str, NestedField | None]]) -> list[str | None] | None:
        """The answers to aggregates as text, None for one without a value; None if metadata does not tell all of them.

        The filter must select exactly the rows that the query keeps. Each aggregate is a function and its column; a
        `count` without a column counts rows. A minimum or maximum is told only for types that Spark orders alike.
        """
        from icecore.engine.scan.aggregates import Aggregate, RowsNeededError, aggregate
        from icecore.engine.scan.file_metrics import metric_columns

        if any(f != "count" and (c is None or not isinstance(c.field_type, _ORDERED)) for f, c in asked):
            return None
        wanted = [Aggregate(f, f, c) for f, c in asked]
        names = metric_columns([c for _, c in asked if c is not None], self._state.metadata.specs)
        condition = and_(self._row_filter, further)
        planned, columns = self._open().plan_with_columns(
            self._state, self._listed, condition, self._schema, names, self._entries
        )
        try:
            found = aggregate(wanted, planned, columns, self._schema, None)
        except RowsNeededError:
            return None
        return [None if v is None else f"{v}" for v in found.answers]

    def _open(self) -> Planner:
        planner = self._planner()
        if planner is None or not planner.is_open():
            raise StorageError("the catalog that planned the scan is closed")
        return planner


def replanned(scan: Plannable, of_query: Expression | None = None) -> Replanned | None:
    """The scan, to be planned again with filters besides its own and the query's, if any; None where Spark plans it."""
    if scan._session is not None:
        return None
    listed, entries = scan._manifests()
    is_filtered = of_query is not None
    condition = scan.row_filter if of_query is None else and_(scan.row_filter, of_query)
    return Replanned(ref(scan._planner), scan._state, listed, entries, condition, scan.schema, is_filtered)


def _planner(scan: Plannable, session: SparkSession) -> SparkPlanner:
    from icecore.projections.distributed_plan.spark_planner import SparkPlanner

    listed, entries = scan._manifests()
    repository = scan._planner.repository
    return SparkPlanner(session, repository, scan._state, listed, scan.row_filter, scan.schema, entries)
