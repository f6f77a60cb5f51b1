"""Scans planned for clients. Spec: the REST document's operations under `/plan` and `/tasks` of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson

from icecore.engine.common.json_reader import get
from icecore.engine.common.text import number_in
from icecore.engine.errors import NoSuchPlanError, NoSuchSnapshotError, ValidationError
from icecore.engine.server.planning.held_plans import HeldPlan
from icecore.engine.server.planning.scan_request import ScanRequest
from icecore.engine.server.wire.answer import NO_CONTENT, Answer, json_answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.error_answers import named_error

if TYPE_CHECKING:
    from icecore.engine.server.planning.served_scan import ServedScan
    from icecore.engine.table.table import Table

MOST_EXPLAINED = 10_000


def plan_scan(call: Call) -> Answer:
    """The plan of a scan: its files, or the first of them and `plan-tasks` for the others."""
    scan = _scan(call, ScanRequest.of(call.body))
    held = HeldPlan(scan.state.stream, scan.request, scan.schema.schema_id)
    return _completed(call, scan, call.serving.plans.hold(held))


def fetch_plan(call: Call) -> Answer:
    """The plan of an earlier request once more, of the same snapshot and schema. Raises NoSuchPlanError."""
    plan_id = call.names["plan_id"]
    held = call.serving.plans.find(plan_id)
    table = call.shown.load_table(call.table)
    if held is None or held.stream != table._state.stream:
        raise NoSuchPlanError(f"Plan does not exist: {plan_id[:60]}")
    try:
        scan = _planned_before(table, held.request, held.schema_id)
    except NoSuchSnapshotError as e:
        raise NoSuchPlanError(f"Plan does not exist: {plan_id[:60]}; {e}") from e
    return _completed(call, scan, plan_id)


def cancel_plan(call: Call) -> Answer:
    """Drops a plan of the table; its plan tasks need nothing that is held. A repeated call has the same answer."""
    table = call.shown.load_table(call.table)
    held = call.serving.plans.find(call.names["plan_id"])
    if held is not None and held.stream == table._state.stream:
        call.serving.plans.drop(call.names["plan_id"])
    return NO_CONTENT


def fetch_tasks(call: Call) -> Answer:
    """The files of one plan task."""
    from icecore.engine.server.planning.scan_parts import NoSuchPlanTaskError, PlanTask

    table = call.shown.load_table(call.table)
    try:
        task = PlanTask.of_token(get(call.body, "plan-task", str, "the request"))
        if task.stream != table._state.stream:
            raise NoSuchPlanTaskError("Plan task does not exist: it is of another table")
        scan = _planned_before(table, task.request, task.schema_id)
    except (NoSuchPlanTaskError, NoSuchSnapshotError) as e:
        return named_error(404, "NoSuchPlanTaskException", str(e))
    return Answer(200, _answered(scan.plan_part(call.serving.plans.writer, task.part)))


def explain_scan(call: Call) -> Answer:
    """The reason why each file is in the plan of a scan or not, of at most `limit` files, with sums by reason.

    Raises ValidationError.
    """
    from attrs import asdict

    from icecore.projections.explain.explain import explain

    asked = call.query.get("limit", "1000")
    limit = number_in(asked)
    if limit is None:
        raise ValidationError(f"limit must be a whole number, found {asked[:60]!r}")
    scan = _scan(call, ScanRequest.of(call.body))
    found = explain(scan.planner, scan.state, scan.listed, scan.bound, scan.schema, scan.entries)
    files = found.files.slice(0, min(limit, MOST_EXPLAINED)).to_pylist()
    summary = found.summary.to_pylist()
    return json_answer({"text": str(found), "counts": asdict(found.counts), "summary": summary, "files": files})


def _scan(call: Call, request: ScanRequest) -> ServedScan:
    """The scan of the table that the path names. Raises ValidationError where it has no such snapshot."""
    from icecore.engine.server.planning.served_scan import ServedScan

    table = call.shown.load_table(call.table)
    try:
        return ServedScan.of(table, request)
    except NoSuchSnapshotError as e:
        # The table is there: 404 would say that it is not.
        raise ValidationError(str(e)) from e


def _planned_before(table: Table, request: ScanRequest, schema_id: int) -> ServedScan:
    """The scan of a request that was right when it was planned.

    Raises NoSuchSnapshotError where the table no longer has what the request needs: its snapshots or its schema.
    """
    from icecore.engine.server.planning.served_scan import ServedScan

    try:
        return ServedScan.of(table, request, schema_id)
    except ValidationError as e:
        raise NoSuchSnapshotError(str(e)) from e


def _completed(call: Call, scan: ServedScan, plan_id: str) -> Answer:
    head = b'"status":"completed","plan-id":' + orjson.dumps(plan_id) + b","
    return Answer(200, _answered(scan.plan(call.serving.plans.writer, call.serving.settings.plan_files, head)))


def _answered(pieces: Iterator[bytes]) -> bytes | Iterator[bytes]:
    """The body: up to three pieces, head and tail included, are sent as one, more are sent as they are made."""
    begun = [piece for _, piece in zip(range(4), pieces, strict=False)]
    return b"".join(begun) if len(begun) < 4 else _all(begun, pieces)


def _all(begun: list[bytes], others: Iterator[bytes]) -> Iterator[bytes]:
    yield from begun
    yield from others


ONE = "/namespaces/{namespace}/tables/{table}"
ENDPOINTS = (
    Endpoint("POST", f"{ONE}/plan", plan_scan, has_keys=True),
    Endpoint("GET", f"{ONE}/plan/{{plan-id}}", fetch_plan),
    Endpoint("DELETE", f"{ONE}/plan/{{plan-id}}", cancel_plan, has_keys=True),
    Endpoint("POST", f"{ONE}/tasks", fetch_tasks, has_keys=True),
    Endpoint("POST", f"{ONE}/explain", explain_scan),
)
