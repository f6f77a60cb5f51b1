"""Plans of scans, made here or by Spark: see `projections/distributed_plan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import ref

import pyarrow as pa
from attrs import evolve

from icecore.engine.errors import StorageError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.simplify import and_
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.schema import Schema
from icecore.projections.plan.planner import PlannedFiles, Planner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from icecore.projections.distributed_plan.spark_planner import SparkPlanner


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

    The plan is the same one: for tables whose entries one machine should not hold. `explain` looks into the entries
    here nevertheless.
    """

    def again(**others: Any) -> Any:
        return planned_by(scan._again(**others), session)

    made: Scan = evolve(cast("Any", scan), session=session, again=again)
    return made


def plan_frame(scan: Plannable, session: SparkSession) -> DataFrame:
    """The plan as a Spark DataFrame, made by Spark: the columns of `plan().to_arrow()`, a row for each data file.

    Raises ValidationError where the table's files are not written out yet, or the filter can't be said in Spark SQL;
    what is found in manifests and delete files is found as Spark runs, and reported in its exceptions.
    """
    return _planner(scan, session).frame()


def planned(scan: Plannable) -> PlannedFiles:
    """The plan's files as columns, planned by Spark if asked for. Raises CorruptFileError, StorageError."""
    if scan._session is not None:
        return _planner(scan, scan._session).planned()
    listed, entries = scan._manifests()
    return scan._planner.plan_manifests(scan._state, listed, scan.row_filter, scan.schema, entries)


def planned_with_columns(scan: Plannable, names: Sequence[str]) -> tuple[PlannedFiles, pa.Table]:
    """The same, with the named columns of the wide entries that there are, in the order of the files."""
    if scan._session is not None:
        return _planner(scan, scan._session).planned_with_columns(names)
    listed, entries = scan._manifests()
    return scan._planner.plan_with_columns(scan._state, listed, scan.row_filter, scan.schema, names, entries)


def replanned(scan: Plannable) -> Callable[[Expression], list[str]] | None:
    """A function that gives the locations of the files which a further filter leaves, bound to the schema.

    It keeps no planner alive and opens none that was closed: then it raises StorageError. None where plans are not made
    here.
    """
    if scan._session is not None:
        return None
    known, state, row_filter, schema = ref(scan._planner), scan._state, scan.row_filter, scan.schema
    listed, entries = scan._manifests()

    def locations(further: Expression) -> list[str]:
        planner = known()
        if planner is None or not planner.is_open():
            raise StorageError("the catalog that planned the scan is closed")
        left = planner.plan_manifests(state, listed, and_(row_filter, further), schema, entries)
        return [str(location) for location in left.files["file_path"].to_pylist()]

    return locations


def _planner(scan: Plannable, session: SparkSession) -> SparkPlanner:
    from icecore.projections.distributed_plan.spark_planner import SparkPlanner

    listed, entries = scan._manifests()
    repository = scan._planner.repository
    return SparkPlanner(session, repository, scan._state, listed, scan.row_filter, scan.schema, entries)
