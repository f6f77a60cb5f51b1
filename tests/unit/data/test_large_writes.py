"""Writes of more rows than memory should hold: sorted over all files, few files a partition. Spec: Sorting (SO1)."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import icecore
from icecore.engine.data.write import row_ranges, write_rows
from icecore.engine.data.write.data_file_writer import RollingWriter
from icecore.engine.operations import copy_on_write
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.types import LongType, NestedField, UnknownType

N = 3000
SMALL_FILES = {"write.target-file-size-bytes": "4000", "write.parquet.row-group-limit": "100"}


def rows(n: int = N) -> pa.Table:
    """Keys with few values, nulls, NaN and signed zeros; `id` is the place of a row."""
    chance = np.random.default_rng(3)
    odd = [None, math.nan, -0.0, 0.0, math.inf, 1.5, -2.5]
    return pa.table(
        {
            "id": np.arange(n),
            "p": pa.array(chance.integers(0, 3, n), pa.int32()),
            "few": pa.array([odd[i] for i in chance.integers(0, len(odd), n)], pa.float64()),
            "many": pa.array([None if v < 9 else f"{v:03} name" for v in chance.integers(0, 500, n)]),
        }
    )


def stream_of(table: pa.Table, size: int) -> pa.RecordBatchReader:
    """The rows in batches of that many."""
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A write holds few rows; the numbers of rows that were sorted at a time."""
    monkeypatch.setattr(write_rows, "_STREAM_PIECE_BYTES", 4000)
    monkeypatch.setattr(write_rows, "_TABLE_PIECE_BYTES", 4000)
    monkeypatch.setattr(write_rows, "_SORTED_BYTES", 10_000)
    monkeypatch.setattr(row_ranges, "RANGE_BYTES", 8000)
    monkeypatch.setattr(row_ranges, "PIECE_BYTES", 3000)
    seen: list[int] = []
    sort = row_ranges.RowRanges.sort

    def watched(self: row_ranges.RowRanges, some: pa.Table) -> pa.Table:
        seen.append(some.num_rows)
        return sort(self, some)

    monkeypatch.setattr(row_ranges.RowRanges, "sort", watched)
    return seen


def ids_by_partition(table: icecore.Table) -> dict[Any, list[list[int]]]:
    """The ids in each file, files as they were written."""
    found: dict[Any, list[list[int]]] = {}
    for task in sorted(table.scan().plan_files(), key=lambda t: t.file.file_path.rpartition("/")[2]):
        read = pq.ParquetFile(task.file.file_path.removeprefix("file://")).read()
        found.setdefault(str(task.file.partition), []).append(read["id"].to_pylist())
    return found


@pytest.mark.parametrize("order", ["few desc nulls last", "many", "bucket(4, many)"])
@pytest.mark.parametrize("partition_spec", [[], ["p"]], ids=["one partition", "three"])
def test_so1_many_rows_are_sorted_over_all_files_of_a_partition(
    catalog: icecore.Catalog, little_memory: list[int], order: str, partition_spec: list[str]
) -> None:
    """The files of a partition, one after another, have the rows that one sorted file has; equal ones as they came."""
    made = {
        "schema": rows().schema, "sort_order": [order, "p"], "partition_spec": partition_spec, "properties": SMALL_FILES
    }  # fmt: skip
    table = catalog.create_table("ns.large", **made)
    table.append(stream_of(rows(), 70))
    assert sum(little_memory) == N and max(little_memory) < N / 4, "no range is large, whatever the keys are"
    whole = catalog.create_table("ns.whole", **{**made, "properties": {}})
    with pytest.MonkeyPatch.context() as enough:
        enough.setattr(write_rows, "_SORTED_BYTES", 2**30)
        whole.append(rows())
    found = ids_by_partition(table)
    assert {p: [[i for f in files for i in f]] for p, files in found.items()} == ids_by_partition(whole)
    assert all(len(files) > 1 for files in found.values())
    assert {t.file.sort_order_id for t in table.scan().plan_files()} == {1}


def test_a_table_is_sorted_as_a_stream_is(catalog: icecore.Catalog, little_memory: list[int]) -> None:
    table = catalog.create_table("ns.t", schema=rows().schema, sort_order=["many"], properties=SMALL_FILES)
    table.append(rows())
    bounds = [pq.ParquetFile(t.file.file_path[7:]).read()["many"] for t in table.scan().plan_files()]
    ends = sorted((c[0].as_py() or "", c[-1].as_py() or "") for c in bounds)
    assert len(ends) > 3 and all(a[1] <= b[0] for a, b in pairwise(ends))


@pytest.mark.parametrize(
    ("strategy", "terms", "some"),
    [("sort", ["many desc"], "many = '400 name'"), ("zorder", ["many", "few"], "few = -2.5")],
)
def test_a_large_group_is_sorted_over_all_its_new_files(
    catalog: icecore.Catalog, little_memory: list[int], strategy: str, terms: list[str], some: str
) -> None:
    """Rows keep their ids, and a filter on a key leaves files out."""
    properties = {"write.parquet.row-group-limit": "100", "format-version": "3"}
    table = catalog.create_table("ns.t", schema=rows().schema, properties=properties)
    table.append(rows().slice(0, N // 2))
    table.append(rows().slice(N // 2))
    table.delete("id < 30")
    before = table.scan().select("id", "_row_id").to_arrow().sort_by("id")
    sizes = {"target-file-size-bytes": "4000", "max-file-size-bytes": "12000", "min-file-size-bytes": "1"}
    result = table.rewrite_data_files(strategy=strategy, sort_order=terms, options={"rewrite-all": "true", **sizes})
    assert result.added_data_files > 4 and len(little_memory) > 5
    assert table.scan().select("id", "_row_id").to_arrow().sort_by("id") == before
    assert len(table.scan(some).plan_files()) <= result.added_data_files / 2
    assert catalog.verify(deep=True).ok


def test_partitions_that_come_in_turns_get_a_file_each(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, where their rows are not too many for memory."""
    monkeypatch.setattr(write_rows, "_STREAM_PIECE_BYTES", 4000)
    monkeypatch.setattr(write_rows, "MAX_OPEN_FILES", 2)
    table = catalog.create_table("ns.t", schema=rows().schema, partition_spec=["bucket(20, id)"])
    table.append(stream_of(rows(), 100))
    assert len(table.scan().plan_files()) == 20
    assert table.scan().count() == N


def test_a_write_asks_each_partition_few_times_however_many_there_are(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that rows of one came, all others were asked what they hold."""
    asked: list[bool] = []
    has_file: property = vars(RollingWriter)["has_file"]

    def counted(self: RollingWriter) -> bool:
        asked.append(has_file.__get__(self))
        return asked[-1]

    monkeypatch.setattr(RollingWriter, "has_file", property(counted))
    table = catalog.create_table("ns.t", schema=rows().schema, partition_spec=["id"])
    table.append(rows(200))
    assert len(table.scan().plan_files()) == 200 and len(asked) < 5 * 200


def test_rows_of_a_seldom_partition_hold_no_others(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row in each piece of a stream is kept until the end; the rows beside it go once they are written."""
    monkeypatch.setattr(write_rows, "_STREAM_PIECE_BYTES", 100_000)
    monkeypatch.setattr(write_rows, "_PENDING_BYTES", 500_000)
    schema = pa.schema([("p", pa.int64()), ("x", pa.int64())])
    table = catalog.create_table(
        "ns.t", schema=schema, partition_spec=["p"], properties={"write.parquet.row-group-limit": "1000"}
    )
    held: list[int] = []

    def stream() -> Iterator[pa.RecordBatch]:
        gc.collect()
        start = pa.total_allocated_bytes()
        for _ in range(50):
            p = np.zeros(10_000, np.int64)
            p[5000] = 1
            yield pa.record_batch([pa.array(p), pa.array(np.arange(10_000))], schema)
            held.append(pa.total_allocated_bytes() - start)

    table.append(pa.RecordBatchReader.from_batches(schema, stream()))
    assert max(held) < 3_000_000, "of 8 MB that passed"
    assert table.scan().count() == 500_000


def test_of_a_file_that_is_written_again_few_rows_are_in_memory(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a delete and an upsert; rows keep their ids (RL6)."""
    monkeypatch.setattr(copy_on_write, "KEPT_BYTES", 1_000_000)
    monkeypatch.setattr(copy_on_write, "PIECE_BYTES", 1_000_000)
    monkeypatch.setattr(write_rows, "_STREAM_PIECE_BYTES", 1_000_000)
    properties = {"write.parquet.row-group-limit": "50000", "format-version": "3"}
    many = 1_200_000
    large = pa.table({"id": np.arange(many), "x": np.arange(many) % 7, "y": np.arange(many)})
    table = catalog.create_table("ns.t", schema=large.schema, properties=properties)
    table.append(large)
    held: list[int] = []
    read = copy_on_write.LiveRows._read

    def watched(self: copy_on_write.LiveRows) -> Iterator[pa.RecordBatch]:
        gc.collect()
        start = pa.total_allocated_bytes()
        for batch in read(self):
            held.append(pa.total_allocated_bytes() - start)
            yield batch

    monkeypatch.setattr(copy_on_write.LiveRows, "_read", watched)
    monkeypatch.setattr(write_rows, "_PENDING_BYTES", 2_000_000)
    table.delete("id IN (5, 1100005)")
    table.upsert(pa.table({"id": [7, many], "x": [1, 2], "y": [-1, -2]}), join_cols=["id"])
    assert max(held) < 15_000_000, "of rows of 48 MB, with their lineage, that come in batches of 5"
    found = table.scan().select("id", "y", "_row_id").to_arrow().sort_by("id")
    ids = found["id"].to_numpy()
    assert (ids == np.delete(np.arange(many + 1), [5, 1_100_005])).all()
    assert (found["_row_id"].to_numpy()[:-1] == ids[:-1]).all()
    assert found["y"][6].as_py() == -1 and found["y"][-1].as_py() == -2


def test_many_rows_of_an_order_without_a_key_stay_as_they_come(little_memory: list[int]) -> None:
    """A column of type unknown has no values to sort by."""
    schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "nothing", UnknownType())))
    order = SortOrder((SortField((2,), VoidTransform()),), 1)
    data = pa.table({"id": np.arange(N), "nothing": pa.nulls(N)})
    found = row_ranges.sorted_rows((data.slice(i, 100) for i in range(0, N, 100)), (order,), schema)
    assert pa.concat_tables(found)["id"].to_pylist() == list(range(N))
    assert len(little_memory) > 1
