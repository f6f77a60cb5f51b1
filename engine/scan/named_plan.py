"""Named plans: stored ahead, handed out to any process, brought up to date by the changes of commits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
from attrs import define

from icecore.engine.common.text import short_repr
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import NoSuchPlanError, StorageError, ValidationError
from icecore.engine.expression.json.stored_expression import from_kept, to_kept
from icecore.engine.expression.nodes import Expression
from icecore.engine.metadata.fold import TableState
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.spec.schema import Schema
from icecore.projections.plan.planner import Planner
from icecore.projections.plan.scan_plan import ScanPlan
from icecore.projections.stored_plans.plan_store import PlanStore, StoredPlan
from icecore.projections.stored_plans.refresh_plans import Kept, refresh
from icecore.projections.stored_plans.scan_task_json import scan_task_to_json, with_partition_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@define(slots=False)
class NamedPlan:
    """A stored plan, up to date with the table that it was asked of.

    `scan` reads its rows as any scan does. `manifests_evaluated` manifests of the snapshot were evaluated this time;
    the results of the other `manifests_reused` were stored.
    """

    __repr__ = short_repr

    name: str
    scan: DataScan
    manifests_evaluated: int
    manifests_reused: int
    _state: TableState

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that the plan is of; None for an empty table."""
        return None if self.scan.snapshot is None else self.scan.snapshot.snapshot_id

    def plan(self) -> ScanPlan:
        """The plan as Arrow, with splits, and with counts of skipped files by reason."""
        return self.scan.plan()

    def plan_files(self) -> list[FileScanTask]:
        """One task for each file, whole."""
        return self.scan.plan_files()

    def to_arrow(self) -> pa.Table:
        """The plan, one row for each data file (see PLAN_SCHEMA); `scan.to_arrow()` gives the rows of the table."""
        return self.plan().to_arrow()

    def to_json_lines(self) -> Iterator[str]:
        """The file scan tasks as lines of JSON, without line ends. Spec: Appendix C, File Scan Task Serialization."""
        metadata = self._state.metadata
        schema = with_partition_sources(self.scan.schema, metadata)
        for task in self.plan_files():
            yield orjson.dumps(scan_task_to_json(task, specs=metadata.specs, schema=schema)).decode()

    def export(self, folder: str | Path) -> None:
        """Writes the plan to a folder, as `scan.export` does."""
        self.scan.export(folder)

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark DataFrame, read by Spark from exactly the planned files.

        Without a session the active one reads; raises ValidationError where there is none.
        """
        return self.scan.to_spark(session)


def store_of(planner: Planner, state: TableState) -> PlanStore:
    """The store of a table's plans."""
    return PlanStore.of(planner.cache, state.stream)


def prefetch(
    planner: Planner, state: TableState, scan: DataScan, row_filter: Expression, name: str, ref: str | None
) -> NamedPlan:
    """Plans the scan and stores the plan, reusing a stored plan of that name that has the same filter.

    `row_filter` is the scan's unbound filter: it is stored with the ids of its columns, and bound again to the schema
    of each later scan, so renamed columns are found.

    Raises ValidationError for a name that can't be one, ExpressionError for a filter that can't be written down,
    StorageError where it can't be kept.
    """
    store = store_of(planner, state)
    store.path(name)
    head = {
        "name": name,
        "filter": to_kept(row_filter, scan.schema, scan.case_sensitive),
        "selected_fields": [[n, _id(n, scan.schema, scan.case_sensitive)] for n in scan.selected_fields],
        "case_sensitive": scan.case_sensitive,
        "ref": ref,
    }
    plan, stored = _refreshed(planner, state, scan, head, store.read(name))
    store.write(stored)
    return plan


def load(planner: Planner, state: TableState, name: str, make_scan: Callable[..., DataScan]) -> NamedPlan:
    """The plan of that name, brought up to date with the table's state.

    Raises NoSuchPlanError, ValidationError where a column is gone.
    """
    store = store_of(planner, state)
    known = store.read(name)
    if known is None:
        raise NoSuchPlanError(f"there is no plan {name!r} that can be read; there are: {store.names()}")
    head = {n: known.head[n] for n in ("name", "filter", "selected_fields", "case_sensitive", "ref")}
    schema = make_scan(ref=head["ref"]).schema
    scan = make_scan(
        row_filter=from_kept(head["filter"], schema),
        selected_fields=tuple(_name(n, i, schema) for n, i in head["selected_fields"]),
        ref=head["ref"],
        case_sensitive=head["case_sensitive"],
    )
    plan, stored = _refreshed(planner, state, scan, head, known)
    if plan.manifests_evaluated or stored.head["parts"] != known.head["parts"]:
        # A plan that can't be stored can be used all the same.
        with contextlib.suppress(StorageError):
            store.write(stored)
    return plan


def drop(planner: Planner, state: TableState, name: str) -> None:
    """Drops the plan of a name. Raises NoSuchPlanError."""
    store = store_of(planner, state)
    if not store.drop(name):
        raise NoSuchPlanError(f"there is no plan {name!r}; there are: {store.names()}")


def _refreshed(
    planner: Planner, state: TableState, scan: DataScan, head: dict[str, Any], known: StoredPlan | None
) -> tuple[NamedPlan, StoredPlan]:
    kept = None if known is None else Kept.from_stored(known.head, known.tables)
    found = refresh(planner, state, scan.snapshot, scan.row_filter, scan.schema, kept)
    # With this the scan does not plan again.
    scan.__dict__["planned"] = found.planned
    plan = NamedPlan(head["name"], scan, found.manifests_evaluated, found.manifests_reused, state)
    snapshot_id = plan.snapshot_id
    return plan, StoredPlan({**head, "snapshot_id": snapshot_id, **found.kept.head()}, found.kept.tables())


def _id(name: str, schema: Schema, case_sensitive: bool) -> int | None:
    """The id of a selected column; None of `*` and of a metadata column."""
    return schema.find_field(name, case_sensitive).field_id if schema.has_name(name, case_sensitive) else None


def _name(name: str, field_id: int | None, schema: Schema) -> str:
    if field_id is None:
        return name
    if schema.get_field(field_id) is None:
        raise ValidationError(f"the plan selects the column {name!r} (id {field_id}), which is gone")
    return schema.name_of(field_id)
