"""Scans that Spark plans: see `projections/distributed_plan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve

from icecore.engine.expression.nodes import Expression
from icecore.projections.plan.planner import PlannedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from icecore.engine.scan.data_scan import DataScan
    from icecore.projections.distributed_plan.spark_planner import SparkPlanner

Scan = TypeVar("Scan", bound="DataScan")


def planned_by(scan: Scan, session: SparkSession) -> Scan:
    """The same scan, planned by Spark: tasks expand its manifests, and only the plan's files are brought here.

    The plan is the same one: for tables whose entries one machine should not hold. `explain` and `aggregate` look into
    the entries here nevertheless.
    """

    def again(**others: Any) -> Any:
        return planned_by(scan._again(**others), session)

    return evolve(scan, session=session, again=again)


def plan_frame(scan: DataScan, session: SparkSession) -> DataFrame:
    """The plan as a Spark DataFrame, made by Spark: the columns of `plan().to_arrow()`, a row for each data file.

    Raises ValidationError where the table's files are not written out yet, or the filter can't be said in Spark SQL;
    what is found in manifests and delete files is found as Spark runs, and reported in its exceptions.
    """
    return _planner(scan, session).frame()


def planned(scan: DataScan, session: SparkSession) -> PlannedFiles:
    """The plan's files as columns. Raises ValidationError, CorruptFileError, StorageError."""
    return _planner(scan, session).planned()


def replanned(scan: DataScan) -> Callable[[Expression], list[str]] | None:
    """The way to plan a scan again with a further filter; None where plans are not made here."""
    from icecore.engine.scan.replanning import replanning

    if scan._session is not None:
        return None
    listed, entries = scan._manifests()
    return replanning(scan._planner, scan._state, listed, scan.row_filter, scan.schema, entries)


def _planner(scan: DataScan, session: SparkSession) -> SparkPlanner:
    from icecore.projections.distributed_plan.spark_planner import SparkPlanner

    listed, entries = scan._manifests()
    repository = scan._planner.repository
    return SparkPlanner(session, repository, scan._state, listed, scan.row_filter, scan.schema, entries)
