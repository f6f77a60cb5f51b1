"""A client that follows the tasks of plans over HTTP reads the rows that the model has, and those of scans here."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from expression_cases import filter_texts
from hypothesis import given
from hypothesis import strategies as st
from rest_client import RestClient, served
from scan_task_reader import read_task

import icecore
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ExpressionError
from icecore.engine.expression.json.expression_json import to_json
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.server.server_settings import ServerSettings
from icecore.engine.spec.schema import Schema

FILTERS = 3
T = "/v1/namespaces/ns/tables/t"
BEGINNING: tuple[tuple[str, Any], ...] = (
    ("append", [0, 1, 2, 3, 4]),
    ("spec", [("bucket[2]", "id"), ("identity", "s")]),
    ("append", [1, 2, 3, 4, 5, 6, 7]),
    ("delete", [1, 2]),
)


@pytest.mark.parametrize("version", [1, 2, 3])
@examples(1, 20)
@given(data=st.data())
def test_rows_of_the_tasks_of_a_plan_are_those_of_the_table(version: int, data: st.DataObject) -> None:
    """Of any snapshot or range, for any filter in either spelling and case, by pages of any size."""
    with tempfile.TemporaryDirectory() as folder:
        evolving = Evolving.create(Path(folder), version, data)
        for step in (*BEGINNING, *data.draw(steps(deletes=True, keys=version > 1), label="steps")):
            evolving.apply(step)
        if version > 1:
            evolving.apply(("delete_keys", [3]))
        settings = ServerSettings(plan_files=data.draw(st.integers(1, 4), label="files of a page"))
        with served(icecore.open(folder), settings) as rest:
            for _ in range(FILTERS):
                text = data.draw(filter_texts(evolving.columns()), label="filter")
                selected = evolving.select(text)
                with contextlib.suppress(ExpressionError):
                    Client(rest, evolving.table, data).check(text, selected)


class Client:
    """A client of the table's server that reads what it is told to."""

    def __init__(self, rest: RestClient, table: icecore.Table, data: st.DataObject) -> None:
        self.rest, self.table, self.data = rest, table, data

    def check(self, text: str, selected: list[int] | None) -> None:
        """Rows by a filter: of the table as it is, as it was, and of what was appended since.

        Raises ExpressionError for one that the table refuses or that has no JSON.
        """
        scan = self.table.scan(text)
        found = self.ids({"filter": self.written(scan)}, scan)
        assert selected is None or sorted(found.elements()) == selected
        assert found == ids_of(scan)
        upper = text.replace(" id ", " ID ")
        loose = self.table.scan(upper, case_sensitive=False)
        assert self.ids({"filter": self.written(loose), "case-sensitive": False}, loose) == ids_of(loose)
        wanted = self.data.draw(st.integers(1, 9), label="rows")
        some = self.ids({"filter": self.written(scan), "min-rows-requested": wanted}, scan)
        assert some <= found and some.total() >= min(wanted, found.total())
        self.check_past(text)

    def check_past(self, text: str) -> None:
        snapshots = [s.snapshot_id for s in self.table.snapshots()]
        then = self.data.draw(st.sampled_from(snapshots), label="snapshot")
        with contextlib.suppress(ExpressionError):
            scan = self.table.scan(text, snapshot_id=then)
            asked = {"filter": self.written(scan), "snapshot-id": then, "use-snapshot-schema": True}
            assert self.ids(asked, scan) == ids_of(scan)
        added = self.table.incremental_append_scan(text, from_snapshot_id_exclusive=then)
        asked = {"start-snapshot-id": then, "end-snapshot-id": snapshots[-1]}
        whole = self.table.scan(text)
        assert self.ids({"filter": self.written(whole), **asked}, whole) == ids_of(added)

    def written(self, scan: DataScan) -> Any:
        return to_json(scan.row_filter, children=self.data.draw(st.booleans(), label="new spelling"))

    def ids(self, asked: dict[str, Any], scan: DataScan) -> Counter[int]:
        """The ids of the rows that a plan leads to."""
        schema = Schema(tuple(f for f in scan.schema.fields if f.name == "id"))
        tasks = [self.task(told, scan) for page in self.pages(asked) for told in tasks_of(page)]
        batches = scan.read_tasks(tasks, schema)
        return Counter(i for batch in batches for i in batch.column("id").to_pylist())

    def pages(self, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
        first = self.rest.post(f"{T}/plan", asked)
        assert first.status == 200, first.body
        again = self.rest.get(f"{T}/plan/{first.json['plan-id']}")
        assert again.body == first.body
        yield first.json
        for token in first.json.get("plan-tasks", ()):
            page = self.rest.post(f"{T}/tasks", {"plan-task": token})
            assert page.status == 200, page.body
            yield page.json

    def task(self, told: dict[str, Any], scan: DataScan) -> FileScanTask:
        specs = self.table.metadata.specs
        whole = {
            **told,
            "schema": self.table.metadata.all_fields.to_dict(),
            "spec": specs[told["data-file"]["spec-id"]].to_dict(),
            "start": 0,
            "length": told["data-file"]["file-size-in-bytes"],
        }
        return read_task(whole, specs, 0)


def tasks_of(page: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tasks of a page with their delete files in place of references."""
    deletes = page.get("delete-files", [])
    for task in page["file-scan-tasks"]:
        yield {**task, "delete-files": [deletes[i] for i in task.get("delete-file-references", ())]}


def ids_of(scan: Any) -> Counter[int]:
    return Counter(scan.to_arrow()["id"].to_pylist())
