"""Plans as the server writes them, in SQL and by parts, equal those that are written from objects."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from expression_cases import filter_texts
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ExpressionError
from icecore.engine.expression.json.expression_json import to_json
from icecore.engine.server.planning.scan_parts import PlanTask
from icecore.engine.server.planning.scan_request import ScanRequest
from icecore.engine.server.planning.served_scan import ServedScan
from icecore.engine.server.planning.task_texts import TaskWriter
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ContentFile, without_metrics
from icecore.engine.spec.types import TimestampType, TimestamptzType
from icecore.projections.stored_plans.scan_task_json import content_file_to_json

FILTERS = 2
BEGINNING: tuple[tuple[str, Any], ...] = (
    ("append", [0, 1, 2, 3, 4]),
    ("spec", [("identity", "x"), ("identity", "n"), ("bucket[4]", "u"), ("day", "tz"), ("identity", "y")]),
    ("append", [1, 2, 3, 4, 5, 6, 7]),
    ("delete", [1, 2]),
    ("promote", "i"),
)
MAPS = {
    "value-counts": "value_counts",
    "null-value-counts": "null_value_counts",
    "nan-value-counts": "nan_value_counts",
    "lower-bounds": "lower_bounds",
    "upper-bounds": "upper_bounds",
}
LAST_MILLISECOND = 253_402_300_799_999
"""That of the year 9999: timestamps up to it may be of another unit than they should."""
WRITER = TaskWriter()


@pytest.mark.parametrize("version", [1, 2, 3])
@examples(1, 10)
@given(data=st.data())
def test_tasks_by_sql_and_by_parts_are_those_of_objects(version: int, data: st.DataObject) -> None:
    """After any history of schemas, specs and deletes, for any filter in either spelling, and parts of any size."""
    with tempfile.TemporaryDirectory() as folder:
        evolving = Evolving.create(Path(folder), version, data)
        for step in (*BEGINNING, *data.draw(steps(deletes=True, keys=version > 1), label="steps")):
            evolving.apply(step)
        if version > 1:
            evolving.apply(("delete_keys", [3]))
        table = evolving.table
        names = [table.schema().name_of(i) for i in sorted(table.schema().field_ids)]
        check(table, {"filter": True, "stats-fields": names}, 2)
        written = to_json(table.scan(f"id >= 3 AND {names[1]} IS NULL").row_filter)
        check(table, {"filter": written, "stats-fields": ["id"]}, 1)
        for _ in range(FILTERS):
            text = data.draw(filter_texts(evolving.columns()), label="filter")
            try:
                scan = table.scan(text)
                written = to_json(scan.row_filter, children=data.draw(st.booleans()))
            except ExpressionError:
                continue
            asked = {"filter": written, "stats-fields": data.draw(st.lists(st.sampled_from(names), unique=True))}
            check(table, asked, data.draw(st.integers(1, 4), label="files of a part"))


def check(table: icecore.Table, asked: dict[str, Any], most: int) -> None:
    request = ScanRequest.of(asked)
    scan = ServedScan.of(table, request)
    tasks = scan.planner.plan_manifests(scan.state, scan.listed, scan.bound, scan.schema).tasks()
    found = [task for page in pages(table, request, most) for task in tasks_of(page)]
    wanted = [expected(table, task, asked) for task in tasks]
    assert Counter(map(orjson.dumps, map(plain, found))) == Counter(map(orjson.dumps, map(plain, wanted)))
    whole = orjson.loads(b"".join(scan.plan(WRITER, 10_000, b"")))
    assert [t["data-file"]["file-path"] for t in tasks_of(whole)] == [t.file.file_path for t in tasks]
    metrics_are_those_of_manifests(table, scan.request.stats_ids(scan.schema), found)


def pages(table: icecore.Table, request: ScanRequest, most: int) -> Iterator[dict[str, Any]]:
    """The pages of a plan, each planned as by a server that knows nothing but its token."""
    first = orjson.loads(b"".join(ServedScan.of(table, request).plan(WRITER, most, b'"status":"completed",')))
    assert first["status"] == "completed"
    yield first
    for token in first.get("plan-tasks", ()):
        told = PlanTask.of_token(token)
        assert told.stream == table._state.stream
        scan = ServedScan.of(table, told.request, told.schema_id)
        yield orjson.loads(b"".join(scan.plan_part(WRITER, told.part)))


def tasks_of(page: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tasks of a page with their delete files in place of references, each of which some task has."""
    deletes = page.get("delete-files", [])
    references = {i for task in page["file-scan-tasks"] for i in task.get("delete-file-references", ())}
    assert references == set(range(len(deletes)))
    for task in page["file-scan-tasks"]:
        yield {**task, "delete-file-references": [deletes[i] for i in task.get("delete-file-references", ())]}


def expected(table: icecore.Table, task: FileScanTask, asked: dict[str, Any]) -> dict[str, Any]:
    """The task by way of objects; a residual that is the whole filter is as the client wrote it."""

    def written(file: ContentFile) -> dict[str, Any]:
        bare = without_metrics(file)
        spec = table.metadata.specs[file.spec_id]
        return content_file_to_json(bare, spec=spec, schema=table.metadata.all_fields, rest=True)

    bound = ServedScan.of(table, ScanRequest.of(asked)).bound
    return {
        "data-file": written(task.file),
        "delete-file-references": [written(d) for d in task.delete_files],
        "residual-filter": asked["filter"] if task.residual == bound else to_json(task.residual),
    }


def plain(task: dict[str, Any]) -> dict[str, Any]:
    """The task without metrics, its keys in order."""
    data = {k: v for k, v in task["data-file"].items() if k not in MAPS}
    found: dict[str, Any] = orjson.loads(orjson.dumps({**task, "data-file": data}, option=orjson.OPT_SORT_KEYS))
    return found


def metrics_are_those_of_manifests(table: icecore.Table, ids: list[int], found: list[dict[str, Any]]) -> None:
    rows = {row["file_path"]: row for row in table.inspect.files().to_pylist()}
    for file in (task["data-file"] for task in found):
        for key, name in MAPS.items():
            told = dict(zip(*(file.get(key, {}).get(k, []) for k in ("keys", "values")), strict=True))
            known = {i: v for i, v in (rows[file["file-path"]][name] or ()) if i in ids}
            for i in told.keys() | known.keys():
                assert value(table, key, i, told.get(i)) == value(table, key, i, known.get(i)), (key, i)


def value(table: icecore.Table, key: str, field_id: int, told: Any) -> Any:
    """A metric as it is compared: bounds that are NaN or of no known unit are as good as none, promoted ones equal."""
    if told is None or not key.endswith("-bounds"):
        return told
    kind = table.metadata.all_fields.find_field(field_id).primitive_type
    found = single_value.from_bytes(kind, bytes.fromhex(told) if isinstance(told, str) else told)
    if isinstance(kind, TimestampType | TimestamptzType) and abs(found) <= LAST_MILLISECOND:
        return None
    return None if isinstance(found, float) and math.isnan(found) else found
