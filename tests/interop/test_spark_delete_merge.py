"""Merges of position delete files by Spark: the tables that it leaves are those of the engine's own merge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from core_tables import pyiceberg_catalog  # noqa: E402
from spark_change_tables import files_of, lineage_of, make, row, rows_of  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import MissingFileError, ValidationError  # noqa: E402
from icecore.engine.maintenance.rewrite_data_files import RewriteResult  # noqa: E402
from icecore.engine.maintenance.spark_delete_merge import SparkDeletesWriter  # noqa: E402

# Each twice of the files of two partitions, once of one file of the third.
ROUNDS = ["id IN (0, 12, 21, 1, 10, 22, 2)", "id IN (3, 15, 24, 4, 13, 25)"]
PARTIAL = {"partial-progress.enabled": "true", "partial-progress.max-commits": "2"}


@pytest.fixture(scope="module", autouse=True)
def active(spark: Any) -> Iterator[None]:
    yield


def deleted(catalog: icecore.Catalog, name: str, granularity: str = "file", *, upgrade: bool = False) -> icecore.Table:
    """Nine data files in three partitions, with two rounds of deletes; upgraded, these are no vectors yet."""
    properties = {"write.delete.granularity": granularity}
    table = make(catalog, 2, "merge-on-read", name, partition_spec=["k"], properties=properties)
    for where in ROUNDS:
        table.delete(where)
    if upgrade:
        table.upgrade(3)
    return table


def deletes_of(table: icecore.Table) -> list[list[tuple[bool, bool, int]]]:
    """Of each data file its delete files: whether vectors, whether of it alone, their counts."""
    found = sorted(table.scan().plan_files(), key=lambda t: (t.file.partition, t.data_sequence_number))
    return [
        [(d.is_deletion_vector, bool(d.referenced_data_file), d.record_count) for d in t.delete_files] for t in found
    ]


def told(result: RewriteResult) -> tuple[int, int]:
    return result.removed_delete_files, result.added_delete_files


@pytest.mark.parametrize(("granularity", "upgrade"), [("file", False), ("partition", False), ("file", True)])
def test_deletes_are_merged_as_the_engine_merges_them(
    catalog: icecore.Catalog, warehouse: Path, granularity: str, *, upgrade: bool
) -> None:
    mine = deleted(catalog, "ns.t", granularity, upgrade=upgrade)
    other = deleted(catalog, "ns.other", granularity, upgrade=upgrade)
    before = rows_of(mine)
    result = mine.spark.rewrite_position_delete_files(message="fewer", snapshot_properties={"by": "spark"})
    assert told(result) == told(other.rewrite_position_delete_files())
    assert deletes_of(mine) == deletes_of(other) and max(map(len, deletes_of(mine))) == 1
    assert rows_of(mine) == before
    assert not upgrade or lineage_of(mine) == lineage_of(other)
    snapshot = mine.current_snapshot()
    assert snapshot is not None and snapshot.operation == "replace" and dict(snapshot.summary or {})["by"] == "spark"
    assert mine.spark.rewrite_position_delete_files() == RewriteResult()
    assert catalog.verify(deep=True).ok
    if not upgrade:
        peer = pyiceberg_catalog(warehouse).load_table("ns.t").scan().to_arrow()
        assert {r["id"] for r in peer.to_pylist()} == set(before)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_both_zeros_are_of_two_partitions(catalog: icecore.Catalog, version: int) -> None:
    """As by the engine: 0.0 and -0.0 are equal to Python, and two partitions (SP5)."""
    table = make(catalog, version, "merge-on-read", partition_spec=["x"])
    for start in (50, 60, 70):
        table.append([{**row(start + i), "x": x} for i, x in enumerate((-0.0, -0.0, -0.0, 0.0, 0.0, 0.0))])
    for gone in ("50, 53, 60, 63, 70, 73", "51, 54, 61, 64, 71, 74"):
        table.spark.delete(f"id IN ({gone})")
    table.spark.rewrite_position_delete_files()
    assert set(rows_of(table)) == {*range(30), *(start + i for start in (50, 60, 70) for i in (2, 5))}
    assert catalog.verify(deep=True).ok


def test_in_parts_and_dry(catalog: icecore.Catalog) -> None:
    """A dry run leaves no file; each part is a commit, of data files that share no deletes with others."""
    table = deleted(catalog, "ns.t", "partition")
    rows, files, snapshots = rows_of(table), files_of(table), len(table.snapshots())
    dry = table.spark.rewrite_position_delete_files(options=PARTIAL, dry_run=True)
    assert len(dry.outcomes) == 2 and files_of(table) == files
    assert len(table.refresh().snapshots()) == snapshots
    result = table.spark.rewrite_position_delete_files(options=PARTIAL)
    assert told(result) == told(dry) and len(table.snapshots()) == snapshots + 2
    assert rows_of(table) == rows and max(map(len, deletes_of(table))) == 1
    assert table.spark.rewrite_position_delete_files(options=PARTIAL) == RewriteResult()
    with pytest.raises(ValidationError, match="unknown options"):
        table.spark.rewrite_position_delete_files(options={"rewrite-all": True})


def test_what_others_delete_meanwhile(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is merged too: only for their data files deletes are written again."""
    table, other = deleted(catalog, "ns.t"), catalog.load_table("ns.t")
    job, asked = SparkDeletesWriter.__call__, []

    def slow(writer: SparkDeletesWriter, tasks: Any, *more: Any) -> Any:
        asked.append(len(tasks))
        made = job(writer, tasks, *more)
        if len(asked) == 1:
            other.delete("id = 6")
        return made

    monkeypatch.setattr(SparkDeletesWriter, "__call__", slow)
    rows = rows_of(table)
    table.spark.rewrite_position_delete_files()
    assert asked[0] > asked[1] == 1
    assert rows_of(table) == {i: r for i, r in rows.items() if i != 6}
    assert max(map(len, deletes_of(table))) == 1 and catalog.verify(deep=True).ok


def test_dangling_deletes_and_lost_ones(catalog: icecore.Catalog) -> None:
    table = deleted(catalog, "ns.t")
    tasks = [t for t in table.scan().plan_files() if len(t.delete_files) > 1]
    lost = Path(tasks[0].delete_files[0].file_path.removeprefix("file://"))
    kept = lost.read_bytes()
    lost.unlink()
    with pytest.raises(MissingFileError, match=lost.name):
        table.spark.rewrite_position_delete_files()
    lost.write_bytes(kept)
    rows = rows_of(table)
    with table.transaction() as transaction:
        transaction.overwrite_files([tasks[1].file.file_path])
    gone = rows.keys() - rows_of(table).keys()
    assert gone
    table.spark.rewrite_position_delete_files(options={"remove-dangling-deletes": True})
    live = {d.file_path for t in table.scan().plan_files() for d in t.delete_files}
    assert {f["file_path"] for f in table.inspect.delete_files().to_pylist()} == live
    assert rows_of(table) == {i: r for i, r in rows.items() if i not in gone}
