"""Deletes and updates by Spark: the rows, lineage and conflicts are those of the engine's own calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from core_tables import pyiceberg_catalog  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from spark_change_tables import KINDS, Row, files_of, lineage_of, make, row, rows_of  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import ConflictingCommitsError, ExpressionError, ValidationError  # noqa: E402
from icecore.engine.spark.change.row_change import RowChange  # noqa: E402
from icecore.engine.spark.change.written_rows import WrittenRows  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def active(spark: Any) -> Iterator[None]:
    yield


@pytest.mark.parametrize(("version", "mode"), [(2, "merge-on-read"), (3, "copy-on-write")])
def test_a_delete_of_what_spark_alone_understands(
    catalog: icecore.Catalog, warehouse: Path, version: int, mode: str
) -> None:
    """By a condition of SQL and by a Column, in the same files: it leaves what a filter of the engine leaves."""
    mine, other = make(catalog, version, mode), make(catalog, version, mode, "ns.other")
    before = lineage_of(mine) if version == 3 else {}
    conditions: list[tuple[Any, str]] = [
        ("target.id % 7 = 4 AND length(name) > 1", "id IN (11, 18, 25)"),
        (F.col("x") > 14, "x > 14"),
    ]
    for condition, same in conditions:
        mine.spark.delete(condition)
        other.delete(same)
        assert rows_of(mine) == rows_of(other)
        assert {f["content"] for f in mine.files().to_pylist()} == {f["content"] for f in other.files().to_pylist()}
    if version == 3:
        assert lineage_of(mine) == {i: before[i] for i in rows_of(mine)}
    assert catalog.verify().ok
    if version < 3:
        peer = pyiceberg_catalog(warehouse).load_table("ns.t").scan().to_arrow()
        assert {r["id"]: r for r in peer.to_pylist()} == rows_of(mine)


def test_a_delete_of_whole_files_reads_nothing(catalog: icecore.Catalog) -> None:
    table = make(catalog, partition_spec=["k"])
    before = files_of(table)
    table.spark.delete("k = 1")
    assert files_of(table) == before
    assert {r["k"] for r in rows_of(table).values()} == {0, 2}
    table.spark.delete("TRUE")
    assert rows_of(table) == {} and table.files().num_rows == 0


# The rows of a condition are found in one way for all modes, and the tasks that write are told positions: so each step
# is of two modes or more, but that which changes nothing, and each mode updates in the same files twice.
@pytest.mark.parametrize(
    ("version", "mode", "chosen"),
    [(*kind, chosen) for kind, chosen in zip(KINDS, ((0, 3), (0, 2), (0, 1), (0, 1)), strict=True)],
)
def test_an_update_changes_the_rows_that_match(
    catalog: icecore.Catalog, warehouse: Path, version: int, mode: str, chosen: tuple[int, ...]
) -> None:
    """Twice in the same files, into another partition too; in v3 each row keeps its id, and an updated one says so."""
    table, model = make(catalog, version, mode), {i: row(i) for i in range(30)}
    steps: list[tuple[dict[str, Any], Any, Callable[[Row], bool], Callable[[Row], Row]]] = [
        ({"x": "x + 100", "k": F.lit(7)}, "id IN (2, 12, 13)", lambda r: r["id"] in (2, 12, 13),
         lambda r: {"x": r["x"] + 100, "k": 7}),
        ({"name": "concat('k', k)", "k": "target.k + 1"}, F.col("k") == 7, lambda r: r["k"] == 7,
         lambda r: {"name": f"k{r['k']}", "k": 8}),
        ({"name": None}, None, lambda r: True, lambda r: {"name": None}),
        ({"id": -1}, "id > 1000", lambda r: False, lambda r: {}),
    ]  # fmt: skip
    for values, where, matches, change in (steps[i] for i in chosen):
        before = lineage_of(table) if version == 3 else {}
        table.spark.update(values, where)
        changed = {i for i, r in model.items() if matches(r)}
        model = {i: {**r, **change(r)} if i in changed else r for i, r in model.items()}
        assert rows_of(table) == model
        if version == 3:
            sequence = table.metadata.last_sequence_number
            assert lineage_of(table) == {i: (n, sequence if i in changed else s) for i, (n, s) in before.items()}
    assert catalog.verify().ok
    if version < 3:
        peer = pyiceberg_catalog(warehouse).load_table("ns.t").scan().to_arrow()
        assert {r["id"]: r for r in peer.to_pylist()} == model


def test_values_are_checked_before_anything_is_written(catalog: icecore.Catalog) -> None:
    table = make(catalog)
    before = files_of(table)
    for values, text in (
        ({"y": "1"}, "no column 'y'"),
        ({"x": "name"}, "column 'x': the table has double"),
        ({"x": "1", "X": "2"}, "gets a value twice"),
        ({}, "found none"),
    ):
        with pytest.raises(ValidationError, match=text):
            table.spark.update(values)
    assert files_of(table) == before


def test_a_row_of_nanoseconds_is_not_cut_to_microseconds(catalog: icecore.Catalog) -> None:
    """Rows that stay never go through Spark; where a changed row would, the change is refused."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns"))])
    table = catalog.create_table("ns.t", schema, format_version=3)
    table.append(pa.table({"id": [1, 2], "at": pa.array([1_000_000_001, 2_000_000_002], pa.timestamp("ns"))}))
    with pytest.raises(ValidationError, match="'at' has nanoseconds"):
        table.spark.update({"id": "id + 1"})
    table.spark.update({"at": F.lit(None)}, "id = 2")
    assert table.scan().to_arrow().sort_by("id")["at"].cast(pa.int64()).to_pylist() == [1_000_000_001, None]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_commits_that_came_meanwhile_are_conflicts_as_the_level_says(catalog: icecore.Catalog, mode: str) -> None:
    """What the change read was that of its base: rows that came are none of it, and files that changed stop it."""
    table = make(catalog, mode=mode)
    base = table.metadata.current_snapshot_id
    table.append([row(50, k=1)])
    files = files_of(table)
    with pytest.raises(ConflictingCommitsError, match="was added"):
        table.spark.delete("id % 10 = 5 AND k = 1", base_snapshot_id=base)
    with pytest.raises(ConflictingCommitsError, match="was added"):
        table.spark.update({"x": "0"}, "k = 1 AND id > 10", base_snapshot_id=base)
    assert files_of(table) == files
    table.spark.delete("id < 5", base_snapshot_id=base)
    table.spark.update({"x": "0"}, "k = 1 AND id > 20", base_snapshot_id=base, isolation_level="snapshot")
    found = rows_of(table)
    assert set(found) == {*range(5, 30), 50}
    assert {i for i, r in found.items() if r["x"] == 0} == {22, 25, 28} and found[50]["x"] == 25.0
    base = table.metadata.current_snapshot_id
    table.delete("id = 22")
    files = files_of(table)
    with pytest.raises(ConflictingCommitsError, match="touches"):
        table.spark.delete("id = 25", base_snapshot_id=base, isolation_level="snapshot")
    assert files_of(table) == files


def test_a_commit_between_the_job_and_the_commit_is_looked_at(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not touch what was read goes before it, and nothing is read again."""
    table, other = make(catalog), catalog.load_table("ns.t")
    job, calls = RowChange.delete, []

    def slow(change: RowChange) -> WrittenRows:
        written = job(change)
        calls.append(written)
        other.append([row(90 + len(calls), k=len(calls))])
        return written

    monkeypatch.setattr(RowChange, "delete", slow)
    table.spark.delete("id = 2 AND k = 2")
    assert len(calls) == 1 and set(rows_of(table)) == {*range(30), 91} - {2}
    with pytest.raises(ConflictingCommitsError, match="was added"):
        table.spark.delete("id > 20 AND k = 2")
    assert set(rows_of(table.refresh())) == {*range(30), 91, 92} - {2}


def test_the_options_are_those_of_other_changes(catalog: icecore.Catalog) -> None:
    table = make(catalog)
    files, snapshot = files_of(table), table.metadata.current_snapshot_id
    outcome = table.spark.update({"x": "0"}, "id < 3", dry_run=True)
    assert outcome is not None and not outcome.conflicts
    assert files_of(table) == files and table.metadata.current_snapshot_id == snapshot
    for _ in range(2):
        table.spark.update(
            {"x": "x + 1"}, "id < 3", branch="dev", idempotency_key="once", snapshot_properties={"why": "test"}
        )
    assert [r["x"] for i, r in sorted(rows_of(table, ref="dev").items()) if i < 3] == [1.0, 1.5, 2.0]
    assert rows_of(table) == {i: row(i) for i in range(30)}
    dev = table.metadata.snapshot_by_ref("dev")
    assert dev is not None and dict(dev.summary or {})["why"] == "test"
    with pytest.raises(TypeError, match="unexpected keyword argument 'brunch'"):
        table.spark.delete("id = 1", brunch="dev")  # type: ignore[call-arg]
    with pytest.raises(ExpressionError, match="a delete takes a filter, found None"):
        table.spark.delete(None)  # as of a variable that was never set


def test_a_failed_job_leaves_nothing_that_can_be_seen(catalog: icecore.Catalog) -> None:
    """An error in a task comes out as the engine's own, and files of jobs that were done are deleted."""
    table = make(catalog)
    before, files = table.metadata.current_snapshot_id, files_of(table)
    with pytest.raises(ValidationError, match="99999999999"):
        table.spark.update({"k": "CAST(99999999999 AS BIGINT)"}, "id < 3")
    assert table.refresh().metadata.current_snapshot_id == before
    assert files_of(table) == files
    assert rows_of(table) == {i: row(i) for i in range(30)}


def test_a_column_that_is_called_as_row_ids_are(spark: Any, catalog: icecore.Catalog) -> None:
    """It is one like others where rows have no ids; where they have, it says what to do."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("_row_id", pa.int64())]))
    table.append([{"id": 1, "_row_id": 5}, {"id": 2, "_row_id": 6}])
    table.spark.update({"_row_id": "id + 10"}, "_row_id = 6")
    table.spark.merge(spark.sql("SELECT 1L AS id, 7L AS _row_id"), on=["id"]).when_matched_update_all().commit()
    assert {i: r["_row_id"] for i, r in rows_of(table).items()} == {1: 7, 2: 12}
    with table.transaction() as transaction:
        transaction.upgrade_table_version(3)
    with pytest.raises(ValidationError, match=r"'_row_id' has the name of a metadata column .* rename it first"):
        table.spark.update({"_row_id": "1"})
