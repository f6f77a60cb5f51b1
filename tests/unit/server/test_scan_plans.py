"""Scans planned by the server: whole, by parts, of a point in time or of what was added, and why files are left out."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from rest_client import RestClient, make_table, served

import icecore
from icecore.engine.server.planning import held_plans
from icecore.engine.server.server_settings import ServerSettings

PLAN = "/v1/namespaces/ns/tables/t/plan"
TASKS = "/v1/namespaces/ns/tables/t/tasks"
ID_IS_9 = {"type": "eq", "term": "id", "value": 9}
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("x", pa.float64())])


def rows(ids: list[int], days: list[int]) -> pa.Table:
    return pa.table({"id": ids, "day": days, "x": [i / 2 for i in ids]}, schema=SCHEMA)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A table of six files in one manifest, a day each, and one file more in which id 9 is deleted, in another."""
    with icecore.open(tmp_path_factory.mktemp("served") / "warehouse") as made:
        made.create_namespace("ns")
        properties = {"write.delete.mode": "merge-on-read", "commit.manifest-merge.enabled": "false"}
        table = made.create_table("ns.t", SCHEMA, partition_spec=["day"], properties=properties)
        table.append(rows([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]))
        table.append(rows([9, 10], [2, 2]))
        table.delete("id = 9")
        made.create_table("ns.empty", SCHEMA)
        yield made


@pytest.fixture(scope="module")
def rest(catalog: icecore.Catalog) -> Iterator[RestClient]:
    """A client of a server that answers two files at once."""
    with served(catalog, ServerSettings(plan_files=2, plans_scans=True)) as client:
        yield client


def planned(rest: RestClient, **asked: Any) -> list[dict[str, Any]]:
    """The tasks of all parts of a plan, delete files in place of references."""
    first = rest.post(PLAN, {key.replace("_", "-"): value for key, value in asked.items()})
    assert (first.status, first.json["status"]) == (200, "completed"), first.body
    pages = [first.json, *(rest.post(TASKS, {"plan-task": t}).json for t in first.json.get("plan-tasks", ()))]
    return [
        {**task, "deletes": [page["delete-files"][i] for i in task.get("delete-file-references", ())]}
        for page in pages
        for task in page["file-scan-tasks"]
    ]


def days(tasks: list[dict[str, Any]]) -> list[int]:
    return [task["data-file"]["partition"][0] for task in tasks]


def test_a_plan_has_each_file_once_over_parts_of_one_manifest_too(rest: RestClient) -> None:
    first = rest.post(PLAN, {"unknown": 1}).json
    assert len(first["file-scan-tasks"]) == 1 and len(first["plan-tasks"]) == 3
    found = planned(rest)
    assert sorted(days(found)) == [0, 1, 2, 2, 3, 4, 5]
    assert len({task["data-file"]["file-path"] for task in found}) == 7
    (deleted,) = [task for task in found if task["deletes"]]
    assert days([deleted]) == [2] and [d["content"] for d in deleted["deletes"]] == ["position-deletes"]
    assert all(task["residual-filter"] is True for task in found)


def test_a_filter_leaves_files_out_and_is_the_residual_of_the_others(rest: RestClient) -> None:
    (task,) = planned(rest, filter={"type": "and", "left": ID_IS_9, "right": {"type": "eq", "term": "day", "value": 2}})
    assert task["data-file"]["content"], task["data-file"]["file-format"] == ("data", "parquet")
    assert task["residual-filter"] == ID_IS_9
    newer = {"type": "eq", "left": {"type": "reference", "name": "id"}, "right": 9}
    assert planned(rest, filter=newer)[0]["residual-filter"] == newer
    assert planned(rest, filter={"type": "eq", "term": "ID", "value": 9}, case_sensitive=False)


def test_a_column_in_any_case_is_compared_as_by_its_own_name(rest: RestClient, catalog: icecore.Catalog) -> None:
    catalog.create_table("ns.dates", pa.schema([("d", pa.date32())])).append([{"d": dt.date(2024, 1, 2)}])
    asked = {"filter": {"type": "gt", "term": "D", "value": 19723}, "case-sensitive": False}
    answer = rest.post("/v1/namespaces/ns/tables/dates/plan", asked)
    assert (answer.status, len(answer.json["file-scan-tasks"])) == (200, 1), answer.body


def test_metrics_are_sent_of_the_columns_that_are_asked_for(rest: RestClient) -> None:
    assert not any(key.endswith(("counts", "bounds")) for t in planned(rest, filter=ID_IS_9) for key in t["data-file"])
    (task,) = planned(rest, filter=ID_IS_9, stats_fields=["id"])
    file = task["data-file"]
    assert file["value-counts"] == {"keys": [1], "values": [2]}
    assert file["null-value-counts"] == {"keys": [1], "values": [0]}
    assert file["lower-bounds"] == {"keys": [1], "values": ["0900000000000000"]}
    assert file["upper-bounds"] == {"keys": [1], "values": ["0A00000000000000"]}


def test_so_many_rows_need_so_many_files(rest: RestClient, catalog: icecore.Catalog) -> None:
    first = catalog.load_table("ns.t").metadata.snapshots[0].snapshot_id
    assert len(planned(rest, snapshot_id=first, min_rows_requested=1)) == 1
    assert len(planned(rest, snapshot_id=first, min_rows_requested=3)) == 6
    assert len(planned(rest, snapshot_id=first, min_rows_requested=0)) == 6
    # Rows of the first file are deleted, so that it may have none.
    assert len(planned(rest, min_rows_requested=1)) == 7


def test_plans_are_of_a_snapshot_or_of_what_was_added_after_one(rest: RestClient, catalog: icecore.Catalog) -> None:
    first, second, third = (s.snapshot_id for s in catalog.load_table("ns.t").metadata.snapshots)
    assert sorted(days(planned(rest, snapshot_id=first))) == [0, 1, 2, 3, 4, 5]
    assert days(planned(rest, start_snapshot_id=first, end_snapshot_id=third)) == [2]
    assert planned(rest, start_snapshot_id=second, end_snapshot_id=third) == []
    assert planned(rest, start_snapshot_id=third, end_snapshot_id=third) == []
    empty = rest.post("/v1/namespaces/ns/tables/empty/plan", {}).json
    assert empty["file-scan-tasks"] == [] and "plan-tasks" not in empty and "delete-files" not in empty


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"snapshot-id": 5}, "no snapshot 5"),
        ({"snapshot-id": 5, "start-snapshot-id": 6, "end-snapshot-id": 7}, "either"),
        ({"start-snapshot-id": 6}, "go together"),
        ({"select": ["nope"]}, "'nope'"),
        ({"stats-fields": ["x.y"]}, "'x.y'"),
        ({"filter": None}, "null"),
        ({"filter": {"type": "eq", "term": "nope", "value": 1}}, "nope"),
        ({"filter": {"type": "like", "term": "id", "value": 1}}, "like"),
        ({"case-sensitive": "yes"}, "case-sensitive"),
        ({"min-rows-requested": -1}, "min-rows-requested"),
    ],
)
def test_a_scan_that_makes_no_sense_is_a_bad_request(rest: RestClient, asked: dict[str, Any], words: str) -> None:
    code, _, message = rest.post(PLAN, asked).error
    assert code == 400 and words in message


def test_plans_are_fetched_again_by_their_ids_until_they_are_let_go(rest: RestClient) -> None:
    made = rest.post(PLAN, {"filter": ID_IS_9}).json
    path = f"{PLAN}/{made['plan-id']}"
    elsewhere = path.replace("/tables/t/", "/tables/empty/")
    assert rest.ask("DELETE", elsewhere).status == 204 and rest.get(elsewhere).status == 404, (
        "who may read another table"
    )
    assert rest.get(path).json == made
    assert rest.ask("DELETE", path).status == rest.ask("DELETE", path).status == 204
    assert rest.get(path).error[:2] == (404, "NoSuchPlanIdException")
    assert rest.get("/v1/namespaces/ns/tables/nope/plan/1").error[:2] == (404, "NoSuchTableException")


@pytest.mark.parametrize(("limit", "most"), [("MOST_HELD", 3), ("MOST_OF_FILES", 50_000)])
def test_long_plans_are_kept_while_others_let_go_of_theirs(
    rest: RestClient, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """The last ones are; one that another thread or process deletes as it is looked at is no error."""
    monkeypatch.setattr(held_plans, limit, most)
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([folder / str(uuid.uuid4()), *listed(folder)]))
    ids = random.Random(1).sample(range(10**18), 1_000)
    asked = {"filter": {"type": "in", "term": "id", "values": ids}}
    made = [rest.post(PLAN, asked) for _ in range(6)]
    assert [reply.status for reply in made] == [200] * 6, made[0].body[:500]
    assert [rest.get(f"{PLAN}/{reply.json['plan-id']}").status for reply in made[-3:]] == [200] * 3
    assert rest.get(f"{PLAN}/{made[0].json['plan-id']}").status == 404


def test_a_plan_that_is_fetched_again_is_as_it_was(rest: RestClient, catalog: icecore.Catalog) -> None:
    """It is of the columns that had the names then, and of a table without rows where that had none."""
    table = catalog.create_table("ns.p", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    path = "/v1/namespaces/ns/tables/p/plan"
    nothing = rest.post(path, {}).json
    table.append(pa.table({"a": [1], "b": [2]}))
    made = rest.post(path, {"filter": {"type": "eq", "term": "a", "value": 1}}).json
    assert len(made["file-scan-tasks"]) == 1 and nothing["file-scan-tasks"] == []
    table.append(pa.table({"a": [1], "b": [2]}))
    table.update_schema().rename_column("a", "b").rename_column("b", "a").commit()
    for plan in (nothing, made):
        assert rest.get(f"{path}/{plan['plan-id']}").json == plan
    table.maintenance.expire_snapshots().retain_last(1).older_than(2**53).commit()
    gone = rest.get(f"{path}/{made['plan-id']}")
    assert gone.error[:2] == (404, "NoSuchPlanIdException") and "no snapshot" in gone.error[2]


def test_a_plan_whose_schema_is_gone_is_gone(rest: RestClient, catalog: icecore.Catalog) -> None:
    """As one whose snapshot is: the request was right when it was made, so it is not told to be a bad one."""
    table = catalog.create_table("ns.s", pa.schema([("a", pa.int64())]), partition_spec=["a"])
    table.append(pa.table({"a": [0, 1, 2]}))
    path = "/v1/namespaces/ns/tables/s"
    made = rest.post(f"{path}/plan", {}).json
    (first, *_) = made["plan-tasks"]
    table.append(pa.table({"a": [3]}))
    table.update_schema().add_column("b", "long").commit()
    removed = {"requirements": [], "updates": [{"action": "remove-schemas", "schema-ids": [0]}]}
    assert rest.post(path, removed).status == 200
    gone = rest.get(f"{path}/plan/{made['plan-id']}")
    assert gone.error[:2] == (404, "NoSuchPlanIdException") and "no schema 0" in gone.error[2]
    assert rest.post(f"{path}/tasks", {"plan-task": first}).error[:2] == (404, "NoSuchPlanTaskException")


def test_a_plan_task_is_of_its_table(rest: RestClient) -> None:
    token = rest.post(PLAN, {}).json["plan-tasks"][0]
    missing = (404, "NoSuchPlanTaskException")
    assert rest.post("/v1/namespaces/ns/tables/empty/tasks", {"plan-task": token}).error[:2] == missing
    for other in ("", "nonsense", token[:-8], "é"):
        assert rest.post(TASKS, {"plan-task": other}).error[:2] == missing
    assert rest.post(TASKS, {}).status == 400


def test_the_past_is_planned_too(rest: RestClient, catalog: icecore.Catalog) -> None:
    first = next(e["position"] for e in catalog.log().to_pylist() if e["kind"] == "table.committed")
    found = rest.post(PLAN.replace("/v1", f"/v1/at/{first}"), {}).json
    assert len(found["plan-tasks"]) == 2 and "delete-files" not in found


def test_a_plan_is_explained(rest: RestClient) -> None:
    found = rest.post("/v1/namespaces/ns/tables/t/explain?limit=1", {"filter": ID_IS_9}).json
    assert found["counts"]["files_total"] == 7 and found["counts"]["files_planned"] == 1
    assert len(found["files"]) == 1 and "id = 9" in found["text"]
    assert sum(row["files"] for row in found["summary"]) == 7
    assert rest.post("/v1/namespaces/ns/tables/t/explain?limit=x", {}).status == 400


def test_pyiceberg_reads_what_the_server_planned(rest: RestClient) -> None:
    client = RestCatalog("served", uri=rest.uri, **{"scan-planning-mode": "server"})
    assert client.supports_server_side_planning()
    table = client.load_table("ns.t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5, 10]
    assert table.scan("id > 4 and day = 2").to_arrow()["id"].to_pylist() == [10]


def test_a_filter_of_many_levels_is_planned(rest: RestClient) -> None:
    make_table(rest, "levels")
    one = {"type": "eq", "term": "id", "value": 1}
    deep: dict[str, object] = one
    for _ in range(180):
        deep = {"type": "and", "left": deep, "right": one}
    assert rest.post("/v1/namespaces/ns/tables/levels/plan", {"filter": deep}).status == 200
    deeper = '{"type":"and","left":' * 400 + orjson.dumps(one).decode() + ',"right":{"type":"always-true"}}' * 400
    told = rest.ask("POST", "/v1/namespaces/ns/tables/levels/plan", raw=f'{{"filter":{deeper}}}'.encode())
    assert told.status in (200, 400)


@pytest.mark.parametrize("by_snapshot", [True, False])
def test_columns_that_came_after_the_snapshot_are_null_in_it(
    rest: RestClient, catalog: icecore.Catalog, by_snapshot: bool
) -> None:
    """As Spark asks: by the snapshot's schema, and for columns of the table's."""
    name = f"later_{by_snapshot}"
    make_table(rest, name)
    table = catalog.load_table(f"ns.{name}")
    table.append([{"id": 1, "city": "Oslo"}])
    table.update_schema().add_column("x", "int").commit()
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None

    def planned(**asked: Any) -> int:
        body = {"snapshot-id": snapshot.snapshot_id, "use-snapshot-schema": by_snapshot, "select": ["id", "x"], **asked}
        return len(rest.post(f"/v1/namespaces/ns/tables/{name}/plan", body).json["file-scan-tasks"])

    assert planned() == 1
    assert planned(filter={"type": "is-null", "term": "x"}) == 1
    nowhere = rest.post(f"/v1/namespaces/ns/tables/{name}/plan", {"select": ["nowhere"]})
    assert nowhere.status == 400
