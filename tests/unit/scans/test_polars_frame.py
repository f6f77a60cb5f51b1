"""A scan as a lazy frame of Polars gives the rows that Polars selects, of no more files than a plan of them has."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import icecore
from icecore.engine.expression.nodes import TRUE
from icecore.engine.scan import polars_frame
from icecore.engine.scan.polars_frame import Filtered, condition_of
from icecore.engine.spec.schema import Schema

UTC = dt.UTC
ROWS = [
    {
        "id": i,
        "n": i % 5 if i % 7 else None,
        "x": math.nan if i % 6 == 0 else i / 2 - 4,
        "s": f"s{i % 4}",
        "d": dt.date(2024, 1, 1) + dt.timedelta(i),
        "ts": dt.datetime(2024, 1, 1, i),
        "tz": dt.datetime(2024, 1, 1, i, tzinfo=UTC),
        "b": i % 2 == 0,
        "st": {"a": i, "c": str(i)},
    }
    for i in range(20)
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("b", pa.bool_()),
        ("st", pa.struct([("a", pa.int64()), ("c", pa.string())])),
    ]
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Table]:
    """Four files of five rows, one of which has a deleted row."""
    with icecore.open(tmp_path_factory.mktemp("lake")) as catalog:
        catalog.create_namespace("ns")
        made = catalog.create_table("ns.t", SCHEMA, properties={"write.delete.mode": "merge-on-read"})
        for start in range(0, 20, 5):
            made.append(pa.Table.from_pylist(ROWS[start : start + 5], SCHEMA))
        made.delete("id = 7")
        yield made


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    found = pl.from_arrow(pa.Table.from_pylist([r for r in ROWS if r["id"] != 7], SCHEMA))
    assert isinstance(found, pl.DataFrame)
    return found


C = pl.col


@pytest.mark.parametrize(
    ("predicate", "files"),
    [
        (C("id") > 16, 1),
        (C("id") < 3, 1),
        (C("n") == 3, 4),
        (C("n").is_null(), 3),
        (C("n").is_not_null() & (C("id") == 19), 1),
        (C("x") > 5, 4),
        (C("x") != 2.0, 4),
        (C("x").is_nan(), 4),
        ((C("s") == "s1") | (C("id") < 2), 4),
        ((C("id") == 1) | (C("id") == 18), 2),
        (C("d") >= dt.date(2024, 1, 18), 1),
        (C("ts") < dt.datetime(2024, 1, 1, 3), 1),
        (C("tz") >= dt.datetime(2024, 1, 1, 17, tzinfo=UTC), 1),
        (C("b") & (C("id") < 4), 1),
        (C("b") == True, 4),  # noqa: E712  # an expression
        (C("id") % 2 == 0, 4),
        (C("id").is_in([1, 2]), 4),
        (C("st").struct.field("a") == 3, 4),
        (~(C("id") > 3), 4),
    ],
)
def test_it_gives_what_polars_selects_of_no_more_files(
    table: icecore.Table, frame: pl.DataFrame, predicate: pl.Expr, files: int
) -> None:
    lazy = table.to_polars()
    wanted = frame.filter(predicate)
    assert_frame_equal(lazy.filter(predicate).collect(), wanted, check_row_order=False)
    some = lazy.filter(predicate).select("s", "id").collect()
    assert_frame_equal(some, wanted.select("s", "id"), check_row_order=False)
    grouped = lazy.filter(predicate).group_by("s").agg(C("id").sum()).collect()
    assert_frame_equal(grouped, wanted.group_by("s").agg(C("id").sum()), check_row_order=False)
    schema = table.schema()
    assert len(table.scan().filtered(condition_of(predicate, schema)).plan_files()) <= files


def test_what_it_asks_for_is_planned_and_read(table: icecore.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The predicate that Polars pushes down, the columns, the limit."""
    asked: list[tuple[int, list[str], Sequence[int]]] = []
    read = polars_frame._batches

    def batches(scan: Filtered, columns: Schema, limits: Sequence[int]) -> Iterator[pa.RecordBatch]:
        asked.append((len(scan.plan_files()), [f.name for f in columns.fields], limits))
        return read(scan, columns, limits)

    monkeypatch.setattr(polars_frame, "_batches", batches)
    lazy = table.scan("id < 15").to_polars()
    assert asked == []
    lazy.filter(C("id") > 11).select("s").collect()
    lazy.head(3).select("d").collect()
    assert lazy.select(pl.len()).collect().item() == 14
    assert [a[:2] for a in asked[:2]] == [(1, ["id", "s"]), (3, ["d"])]
    assert asked[1][2] == [3]


def test_limits_and_parts_of_structs(table: icecore.Table, frame: pl.DataFrame) -> None:
    scan = table.scan(limit=6)
    first = scan.to_arrow()["id"].to_pylist()
    limited = scan.to_polars()
    assert limited.filter(C("id") > first[2]).collect()["id"].to_list() == [i for i in first if i > first[2]]
    assert limited.head(2).collect()["id"].to_list() == first[:2]
    cut = table.to_polars().head(6).filter(C("id") > first[2])
    assert cut.collect()["id"].to_list() == [i for i in first if i > first[2]]
    part = table.scan(selected_fields=("st.a", "id")).to_polars()
    assert part.filter(C("id") == 3).collect().to_dicts() == [{"st": {"a": 3}, "id": 3}]
    assert table.scan("id > 100").to_polars().collect().schema == frame.schema


def test_what_is_not_understood_selects_all(table: icecore.Table) -> None:
    assert condition_of(C("id") == 1.5, table.schema()) == TRUE
    assert condition_of(C("nowhere") == 1, table.schema()) == TRUE
    assert condition_of(C("x") == math.nan, table.schema()) == TRUE
