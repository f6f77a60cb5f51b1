"""What an explanation says of a file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from broken_tables import edit, list_of, register
from core_tables import ids_of, make_table, rows

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("city", pa.string()), ("x", pa.float64())])


def batch(id_: int, day: str, city: str | None, x: float | None) -> pa.Table:
    row = {"id": id_, "day": dt.date.fromisoformat(day), "city": city, "x": x}
    return pa.Table.from_pylist([row, {**row, "id": id_ + 1}], schema=SCHEMA)


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """Three commits: files of January and February, of which one is in a manifest with both months."""
    made = catalog.create_table(("ns", "t"), SCHEMA, partition_spec=["month(day)"])
    made.append(batch(1, "2024-01-05", "Oslo", 1.5))
    with made.transaction() as change:
        change.append(pa.concat_tables([batch(3, "2024-01-09", "Rome", None), batch(5, "2024-02-09", "Bern", 2.5)]))
    made.append(batch(7, "2024-02-20", None, float("nan")))
    return made


def by_id(table: icecore.Table, row_filter: str) -> dict[str, dict[str, object]]:
    return {str(f["known"] or f["residual"]): f for f in table.scan(row_filter).explain().files.to_pylist()}


def test_each_stage_names_the_predicate_and_what_it_knew(table: icecore.Table) -> None:
    found = by_id(table, "day >= DATE '2024-02-01' AND city < 'C' AND id > 4")
    manifest = found["day_month from 2024-01 to 2024-01"]
    assert (manifest["reason"], manifest["predicate"]) == ("manifest", "day >= DATE '2024-02-01'")
    assert manifest["field"] == "day_month" and manifest["record_count"] == 2
    partition = found["day_month=2024-01"]
    assert (partition["reason"], partition["predicate"]) == ("partition", "day >= DATE '2024-02-01'")
    metrics = found["city, nulls 2 of 2"]
    assert (metrics["reason"], metrics["field"]) == ("metrics", "city")
    planned = found["TRUE"]
    assert planned["reason"] == "planned" and planned["delete_files"] == 0
    assert planned["predicate"] is None and planned["known"] is None


def test_of_an_or_every_side_is_blamed_and_of_an_and_the_shortest(table: icecore.Table) -> None:
    explanation = table.scan("(id = 100 OR city = 'Zug') AND id > 90").explain()
    assert {f["predicate"] for f in explanation.files.to_pylist()} == {"id > 90"}
    either = table.scan("id = 100 OR city = 'Zug'").explain()
    assert {f["predicate"] for f in either.files.to_pylist()} == {"id = 100 OR city = 'Zug'"}
    assert {f["field"] for f in either.files.to_pylist()} == {"id, city"}


def test_filters_that_hold_for_no_row_and_for_all_rows_of_files(table: icecore.Table) -> None:
    nowhere = table.scan("FALSE").explain()
    assert {(f["reason"], f["predicate"]) for f in nowhere.files.to_pylist()} == {("manifest", "FALSE")}
    assert "left out by manifest summaries: 4 files, 8 rows\n  FALSE: 4 files" in str(nowhere)
    known = table.scan("city IS NOT NULL").explain()
    assert {(f["reason"], f["predicate"], f["residual"]) for f in known.files.to_pylist()} == {
        ("metrics", "city IS NOT NULL", None),
        ("planned", None, "TRUE"),
    }
    assert str(known).startswith("filter: city IS NOT NULL\n")


def test_nothing_is_explained_of_manifests_without_live_files(table: icecore.Table) -> None:
    """Beside manifests of the same table that were planned from before."""
    assert table.scan("id = 1").explain().files.num_rows == 4
    table.delete("TRUE")
    assert table.scan("id = 1").explain().files.num_rows == 0
    assert table.scan("id = 1").plan().counts.files_total == 0


def test_the_residual_is_what_a_reader_has_to_apply(table: icecore.Table) -> None:
    explanation = table.scan("day >= DATE '2024-02-10' AND x IS NOT NULL").explain()
    residuals = {f["residual"] for f in explanation.files.to_pylist() if f["reason"] == "planned"}
    assert residuals == {"TRUE"}
    left = table.scan("id = 6").explain()
    assert [f["residual"] for f in left.files.to_pylist() if f["reason"] == "planned"] == ["id = 6"]


def test_text_summary_and_sql(table: icecore.Table) -> None:
    """The text is the summary; the SQL is what DuckDB ran, with its values."""
    explanation = table.scan("day >= DATE '2024-02-01' AND id > 6").explain()
    assert str(explanation).splitlines() == [
        "filter: day >= DATE '2024-02-01' AND id > 6",
        "4 files with 8 rows",
        "left out by manifest summaries: 1 file, 2 rows",
        "  day >= DATE '2024-02-01' by day_month: 1 file",
        "left out by partition: 1 file, 2 rows",
        "  day >= DATE '2024-02-01' by day_month: 1 file",
        "left out by column metrics: 1 file, 2 rows",
        "  id > 6 by id: 1 file",
        "planned: 1 file, 2 rows",
    ]
    assert "e.content = 0 AND e.status <> 2" in explanation.sql
    assert any(6 in s.parameters.values() for s in explanation.statements)
    assert explanation.summary["files"].to_pylist() == [1, 1, 1, 1]


def test_deletes_are_counted_and_nothing_is_explained_of_an_empty_table(
    table: icecore.Table, catalog: icecore.Catalog
) -> None:
    table.delete_keys(pa.table({"id": [5], "day": [dt.date(2024, 2, 9)]}), ["id", "day"])
    files = table.scan("day >= DATE '2024-02-01'").explain().files.to_pylist()
    assert sum(f["delete_files"] or 0 for f in files) == 1
    empty = catalog.create_table(("ns", "empty"), SCHEMA)
    assert empty.scan("id = 1").explain().files.num_rows == 0
    assert "0 files" in str(empty.scan().explain())
    assert {f["reason"] for f in table.scan("id = 1 AND id = 8").explain().files.to_pylist()} == {"metrics"}


def test_an_incremental_scan_is_explained_over_what_was_appended(table: icecore.Table) -> None:
    first = table.snapshots()[0].snapshot_id
    scan = table.incremental_append_scan("id > 6", from_snapshot_id_exclusive=first)
    explanation = scan.explain()
    assert explanation.files.num_rows == 3
    assert explanation.counts.files_planned == explanation.files["reason"].to_pylist().count("planned") == 1


def test_orjson_can_print_all_of_it(table: icecore.Table) -> None:
    orjson.dumps(table.scan("x > 1 AND city IN ('a', 'b')").explain().files.to_pylist())


@pytest.mark.parametrize(
    "bounds", [{"lower_bound": b"abc"}, {"lower_bound": (7).to_bytes(8, "little"), "upper_bound": bytes(8)}]
)
def test_summaries_that_say_nothing_leave_nothing_out(
    catalog: icecore.Catalog, tmp_path: Path, bounds: dict[str, bytes]
) -> None:
    """Bounds that can't be read or are the wrong way round: the plan is what it is once entries are loaded."""
    theirs = make_table(catalog, partition_spec=["id"], format_version=2)
    theirs.append(rows(1, 5))
    edit(list_of(theirs), lambda listed: listed[0]["partitions"][0].update(bounds))
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        table = register(ours, theirs, "t")
        assert ids_of(table, row_filter="id = 1") == [1]
        assert {f["reason"] for f in table.scan("id > 9").explain().to_arrow().to_pylist()} <= {"manifest", "partition"}
