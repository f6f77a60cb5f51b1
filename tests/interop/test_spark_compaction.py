"""Compaction by Spark: the tables that it leaves are those of the engine's own compaction."""

from __future__ import annotations

import contextlib
import decimal
import math
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_change_tables import LINEAGE, SCHEMA, files_of, lineage_of, make, row, rows_of  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.data.arrow.z_order import ZOrder, z_order_words  # noqa: E402
from icecore.engine.data.scan_task import FileScanTask  # noqa: E402
from icecore.engine.data.write.group_rewrite import GroupRewrite  # noqa: E402
from icecore.engine.errors import MissingFileError  # noqa: E402
from icecore.engine.maintenance import spark_compaction  # noqa: E402
from icecore.engine.maintenance.rewrite_data_files import RewriteResult  # noqa: E402
from icecore.engine.maintenance.spark_compaction import SparkGroupWriter  # noqa: E402

ALL = {"rewrite-all": "true"}
SMALL = {**ALL, "target-file-size-bytes": "3000", "max-file-size-bytes": "9000", "min-file-size-bytes": "1"}
MERGE_ON_READ = "merge-on-read"
DECIMAL = pa.decimal128(38, 9)


@pytest.fixture(scope="module", autouse=True)
def active(spark: Any) -> Iterator[None]:
    yield


def tasks_of(table: icecore.Table) -> list[FileScanTask]:
    return table.scan().plan_files()


def both(catalog: icecore.Catalog, version: int, **more: Any) -> tuple[icecore.Table, icecore.Table]:
    """Two tables of the same rows, some deleted: one for Spark, one for the engine."""
    made = make(catalog, version, MERGE_ON_READ, **more), make(catalog, version, MERGE_ON_READ, "ns.other", **more)
    for table in made:
        table.delete("id IN (3, 14, 25)")
    return made


def state_of(table: icecore.Table) -> tuple[Any, ...]:
    """What a compaction must keep, and the files by partition."""
    lineage = lineage_of(table) if table.metadata.format_version >= 3 else {}
    files = sorted((str(t.file.partition), t.file.record_count, t.file.sort_order_id) for t in tasks_of(table))
    return rows_of(table), lineage, files, [len(t.delete_files) for t in tasks_of(table)]


@pytest.mark.parametrize("version", [1, 3])
def test_many_files_become_what_the_engine_makes_of_them(catalog: icecore.Catalog, version: int) -> None:
    """Rows, their ids, the files of each partition and the answer are the same; deletes are gone."""
    mine, other = both(catalog, version, partition_spec=["k"])
    before = rows_of(mine), lineage_of(mine) if version == 3 else {}
    result = mine.spark.rewrite_data_files(options=ALL, message="fewer files", snapshot_properties={"by": "spark"})
    same = other.rewrite_data_files(options=ALL)
    assert (result.rewritten_data_files, result.added_data_files, result.removed_delete_files) == (
        same.rewritten_data_files, same.added_data_files, same.removed_delete_files
    )  # fmt: skip
    assert state_of(mine) == state_of(other)
    assert state_of(mine)[:2] == before and set(state_of(mine)[3]) == {0}
    snapshot = mine.current_snapshot()
    assert snapshot is not None and snapshot.operation == "replace" and dict(snapshot.summary or {})["by"] == "spark"
    assert mine.spark.rewrite_data_files() == RewriteResult()
    assert catalog.verify(deep=True).ok


@pytest.mark.parametrize(("version", "many"), [(2, True), (3, False)], ids=["ranges", "one task"])
def test_rows_are_sorted_over_all_files(
    catalog: icecore.Catalog, version: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the table's order, then by one of the caller's. A large group is cut into ranges that do not overlap."""
    if many:
        monkeypatch.setattr(spark_compaction, "SORTED_BYTES", 1000)
    mine, other = both(catalog, version, sort_order=["name desc nulls last", "id"], partition_spec=[])
    expected = rows_of(mine), lineage_of(mine) if version == 3 else {}
    options = SMALL if many else ALL
    mine.spark.rewrite_data_files(strategy="sort", options=options)
    other.rewrite_data_files(strategy="sort", options=ALL)
    assert state_of(mine)[:2] == expected
    assert {t.file.sort_order_id for t in tasks_of(mine)} == {mine.sort_order().order_id}
    assert in_order(mine, lambda r: r["name"] or "") == [r["id"] for r in other.scan().to_arrow().to_pylist()]
    assert (len(tasks_of(mine)) > 1) == many
    mine.spark.rewrite_data_files(strategy="sort", sort_order=["x desc"], options=options)
    assert state_of(mine)[:2] == expected
    assert {t.file.sort_order_id for t in tasks_of(mine)} == {None}
    assert in_order(mine, lambda r: r["x"]) == sorted(expected[0], reverse=True)
    assert catalog.verify(deep=True).ok


def in_order(table: icecore.Table, key: Callable[[Any], Any]) -> list[int]:
    """The ids of the rows of one file after another, files by their greatest key."""
    found = [[r for b in rows_in(table, t) for r in b] for t in tasks_of(table)]
    return [r["id"] for rows in sorted(found, key=lambda rows: max(map(key, rows)), reverse=True) for r in rows]


def rows_in(table: icecore.Table, task: FileScanTask) -> list[list[Any]]:
    import pyarrow.parquet as pq

    return [pq.read_table(task.file.file_path.removeprefix("file://"), partitioning=None).to_pylist()]


@pytest.mark.parametrize("many", [False, True], ids=["one task", "ranges"])
def test_a_z_order_is_the_engine_s(catalog: icecore.Catalog, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nulls too; the key of each row of a file is at least that of the row before it, and ranges do not overlap."""
    if many:
        monkeypatch.setattr(spark_compaction, "SORTED_BYTES", 1000)
    mine, other = both(catalog, 3, partition_spec=[])
    expected = rows_of(mine), lineage_of(mine)
    terms = ["name", "x"]
    mine.spark.rewrite_data_files(strategy="zorder", sort_order=terms, options=SMALL if many else ALL)
    other.rewrite_data_files(strategy="zorder", sort_order=terms, options=ALL)
    assert state_of(mine)[:2] == state_of(other)[:2] == expected
    keys = sorted(keys_of(mine, ZOrder.of(terms, mine.schema())))
    assert all(k == sorted(k) for k in keys) and all(a[-1] <= b[0] for a, b in pairwise(keys))
    same = keys_of(other, ZOrder.of(terms, mine.schema()))
    assert [k for of_file in keys for k in of_file] == [k for of_file in same for k in of_file]
    assert (len(keys) > 1) == many


def keys_of(table: icecore.Table, order: ZOrder) -> list[list[tuple[int, ...]]]:
    out = []
    for task in tasks_of(table):
        rows = pa.Table.from_pylist(rows_in(table, task)[0], SCHEMA)
        out.append(list(zip(*(w.to_pylist() for w in z_order_words(rows, order, table.schema())), strict=True)))
    return out


@pytest.mark.parametrize("many", [False, True], ids=["one task", "ranges"])
def test_files_of_an_older_spec_go_to_the_partitions_of_the_new_one(
    catalog: icecore.Catalog, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr(spark_compaction, "SORTED_BYTES", 1000)
    mine, other = both(catalog, 3)
    for table in (mine, other):
        table.update_spec().remove_field("k_bucket_2").add_field("truncate(10, id)").commit()
        table.append([row(100), row(101)])
    before = rows_of(mine), lineage_of(mine)
    mine.spark.rewrite_data_files(options=SMALL if many else ALL)
    other.rewrite_data_files(options=ALL)
    assert state_of(mine)[:2] == before
    counts: dict[str, int] = {}
    for partition, records, _ in state_of(mine)[2]:
        counts[partition] = counts.get(partition, 0) + records
    assert counts == {partition: records for partition, records, _ in state_of(other)[2]}
    assert len(tasks_of(mine)) <= 2 * len(tasks_of(other))


def test_a_large_file_is_cut_into_several(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]), format_version=3)
    table.set_properties({"write.parquet.row-group-size-bytes": "4000"})
    table.append(pa.table({"id": range(20_000)}))
    table.append(pa.table({"id": range(20_000, 20_010)}))
    table.delete("id < 100")
    before = lineage_of(table)
    size = sum(t.file.file_size_in_bytes for t in tasks_of(table))
    sizes = {"target-file-size-bytes": size // 4, "max-file-size-bytes": size // 2, "min-file-size-bytes": 1}
    result = table.spark.rewrite_data_files(options={**ALL, **sizes})
    assert 3 <= result.added_data_files <= 6
    assert lineage_of(table) == before and len(before) == 19_910


def test_what_others_do_meanwhile_is_taken_in(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """While groups are written others append, delete rows of one group, and compact another: these are done again."""
    table = make(catalog, 3, MERGE_ON_READ, partition_spec=["k"])
    other, calls = catalog.load_table("ns.t"), list[int]()
    write = SparkGroupWriter.__call__

    def meanwhile(self: SparkGroupWriter, groups: Sequence[Any], *rest: Any) -> Any:
        calls.append(len(groups))
        written = write(self, groups, *rest)
        if len(calls) == 1:
            other.append([row(100)])
            other.delete("id = 4")
            other.rewrite_data_files("k = 2", options=ALL)
        return written

    monkeypatch.setattr(SparkGroupWriter, "__call__", meanwhile)
    ids = {i: n for i, (n, _) in lineage_of(table).items()}
    result = table.spark.rewrite_data_files(options=ALL)
    assert calls == [3, 1]
    assert set(rows_of(table)) == {*range(30), 100} - {4}
    assert {i: n for i, (n, _) in lineage_of(table).items() if i < 100} == {i: n for i, n in ids.items() if i != 4}
    assert (result.rewritten_data_files, result.added_data_files) == (6, 2)
    assert files_of(table) == len(every_file(table)) + 1, "one has the deleted position"
    assert catalog.verify(deep=True).ok


def every_file(table: icecore.Table) -> set[str]:
    """All data files that a snapshot has."""
    found = (table.scan(snapshot_id=s.snapshot_id).plan_files() for s in table.snapshots())
    return {t.file.file_path for tasks in found for t in tasks}


def test_a_dry_run_changes_nothing_and_progress_is_told(spark: Any, catalog: icecore.Catalog) -> None:
    table, told = make(catalog, 2), list[tuple[int, int]]()
    files, position = files_of(table), catalog.position
    result = table.spark.rewrite_data_files(options=ALL, dry_run=True, on_progress=lambda *n: told.append(n))
    assert (result.rewritten_data_files, result.added_data_files, len(result.outcomes)) == (3, 1, 1)
    assert told[-1][0] == told[-1][1] > 0 and spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert files_of(table) == files and catalog.position == position
    assert rows_of(table) == {i: row(i) for i in range(30)}


def test_of_several_commits_those_before_an_error_stay(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another commit that deletes of a group before its turn is taken in; a file that is lost ends it."""
    table, calls = make(catalog, 3, MERGE_ON_READ, partition_spec=["k"]), list[int]()
    other, options = catalog.load_table("ns.t"), {**ALL, "partial-progress.enabled": True}
    write, paths = SparkGroupWriter.__call__, sorted(t.file.file_path for t in tasks_of(table))

    def meanwhile(self: SparkGroupWriter, groups: Sequence[Any], *rest: Any) -> Any:
        calls.append(len(groups))
        if len(calls) == 1:
            other.delete("id = 1")
        if len(calls) == 3:
            Path(paths[-1].removeprefix("file://")).unlink()
        return write(self, groups, *rest)

    monkeypatch.setattr(SparkGroupWriter, "__call__", meanwhile)
    lineage, snapshots = lineage_of(table), len(table.snapshots())
    with pytest.raises(MissingFileError):
        table.spark.rewrite_data_files(options=options)
    assert calls == [1, 1, 1]
    table.refresh()
    assert len(table.snapshots()) == snapshots + 3
    assert {t.file.file_path for t in tasks_of(table)} >= set(paths[-3:])
    found = table.scan("k < 2", selected_fields=["id", *LINEAGE]).to_arrow().to_pylist()
    assert {r["id"]: tuple(r[n] for n in LINEAGE) for r in found} == {
        i: n for i, n in lineage.items() if i % 3 < 2 and i != 1
    }


@pytest.mark.parametrize("strategy", ["binpack", "sort"])
def test_no_value_is_changed_on_the_way(
    catalog: icecore.Catalog, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nanoseconds, which Spark has none of, NaN, -0.0, uuids, nested values, and a column that files lack."""
    monkeypatch.setattr(spark_compaction, "SORTED_BYTES", 1000)
    schema = pa.schema(
        [("id", pa.int64()), ("at", pa.timestamp("ns")), ("x", pa.float64()), ("u", pa.uuid()), ("d", DECIMAL),
         ("n", pa.struct([("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int32()))]))]
    )  # fmt: skip
    table = catalog.create_table("ns.t", schema, format_version=3)
    for start in range(0, 40, 10):
        table.append(pa.Table.from_pylist([wide(i) for i in range(start, start + 10)], schema))
    with table.update_schema() as update:
        update.add_column("later", "string")
    table.append([{"id": 40, "later": "x"}])
    before = [str(r) for r in table.scan(selected_fields=("*", "_row_id")).to_arrow().sort_by("id").to_pylist()]
    order = ["at desc nulls last", "x"] if strategy == "sort" else None
    table.spark.rewrite_data_files(strategy=strategy, sort_order=order, options=SMALL)
    found = table.scan(selected_fields=("*", "_row_id")).to_arrow().sort_by("id")
    assert [str(r) for r in found.to_pylist()] == before


def wide(i: int) -> dict[str, Any]:
    return {
        "id": i, "at": 1_700_000_000_000_000_001 + i * 7 if i % 5 else None, "x": [math.nan, -0.0, 0.0, 1e300][i % 4],
        "u": uuid.UUID(int=i << 100 | i).bytes, "d": decimal.Decimal(i).scaleb(-9),
        "n": {"l": ["a", None], "m": [("k", i)]} if i % 3 else None,
    }  # fmt: skip


def test_a_task_that_is_killed_leaves_the_table_as_it_was(
    catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote is of no snapshot, and the next call does all of it."""
    marker = str(tmp_path / "killed")

    class Mortal(GroupRewrite):
        def write_again(self, *tasks: Any, **how: Any) -> Any:
            made = super().write_again(*tasks, **how)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            return made

    monkeypatch.setattr(spark_compaction, "GroupRewrite", Mortal)
    table = make(catalog, 3, MERGE_ON_READ)
    before, files, position = lineage_of(table), files_of(table), catalog.position
    with pytest.raises(Exception, match="worker"):
        table.spark.rewrite_data_files(options=ALL)
    assert Path(marker).exists() and catalog.position == position
    assert lineage_of(table.refresh()) == before
    orphans = files_of(table) - files
    assert orphans >= 1
    assert table.spark.rewrite_data_files(options=ALL).added_data_files == 1
    assert lineage_of(table) == before and files_of(table) == files + orphans + 1
    assert catalog.verify(deep=True).ok
