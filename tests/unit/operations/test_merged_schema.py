"""Appends whose data brings columns of its own: `append(data, merge_schema=True)`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import ValidationError

POINT = pa.struct([("x", pa.int32())])
OLD = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("f", pa.float32()),
        ("d", pa.decimal128(5, 2)),
        ("u", pa.uuid()),
        ("st", POINT),
        ("l", pa.list_(POINT)),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    made = catalog.create_table("ns.t", OLD, properties={"write.metadata.metrics.column.id": "full"})
    made.append([{"id": 1, "f": 0.5, "d": Decimal("1.50"), "st": {"x": 1}, "l": [{"x": 2}], "m": {"a": 1}}])
    return made


def test_columns_are_added_and_promoted_in_one_commit(catalog: icecore.Catalog, table: icecore.Table) -> None:
    wider = pa.struct([("y", pa.string()), ("x", pa.int64())])
    new = pa.schema(
        [
            ("n", pa.date32()),
            ("id", pa.int64()),
            ("f", pa.float64()),
            ("d", pa.decimal128(9, 2)),
            ("u", pa.string()),
            ("st", wider),
            ("l", pa.list_(wider)),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    row = {
        "n": dt.date(2024, 1, 1), "id": 2**40, "f": 0.1, "d": Decimal("12345.67"), "u": f"{'0' * 31}A",
        "st": {"x": 2**40, "y": "s"}, "l": [{"x": 2**40, "y": "l"}], "m": [("k", 2**40)],
    }  # fmt: skip
    before = len(catalog.log("ns.t"))
    table.append(pa.Table.from_pylist([row], new), merge_schema=True, message="wider")
    assert len(catalog.log("ns.t")) == before + 1 and len(table.snapshots()) == 2
    assert str(table.schema()) == SCHEMA_AFTER
    first, second = table.scan().to_arrow().sort_by("id").to_pylist()
    assert (first["id"], first["n"], first["st"], first["l"]) == (1, None, {"x": 1, "y": None}, [{"x": 2, "y": None}])
    assert {k: v for k, v in second.items() if k not in ("u", "st", "l")} == {
        k: v for k, v in row.items() if k not in ("u", "st", "l")
    }
    assert (second["st"], second["l"]) == ({"x": 2**40, "y": "s"}, [{"x": 2**40, "y": "l"}])
    assert catalog.verify().ok


SCHEMA_AFTER = """table {
  1: id: required long
  2: f: optional double
  3: d: optional decimal(9, 2)
  4: u: optional uuid
  5: st: optional struct<8: x: long, 13: y: string>
  6: l: optional list<struct<10: x: long, 14: y: string>>
  7: m: optional map<string, long>
  15: n: optional date
}"""


def test_what_needs_no_change_makes_none(table: icecore.Table) -> None:
    """Narrower types, columns that are left out, and rows as dicts."""
    schema = table.schema()
    table.append(pa.table({"id": pa.array([2], pa.int8()), "f": pa.array([1], pa.int16())}), merge_schema=True)
    assert table.schema() == schema
    table.append([{"id": 3, "city": "Oslo"}], merge_schema=True)
    assert [f.name for f in table.schema().fields][-1] == "city"
    assert table.scan("city = 'Oslo'").count() == 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (pa.table({"n": [1]}), "the required column 'id' is missing"),
        (pa.table({"id": pa.array([None], pa.int32()), "n": [1]}), "column 'id' is required, found 1 nulls"),
        (pa.table({"id": [1], "st": ["text"], "n": [1]}), "column 'st': the table has struct"),
        (pa.table({"id": [1], "d": pa.array([Decimal("1.001")]), "n": [1]}), "column 'd': .* without loss"),
        (pa.table({"id": [1], "n": pa.array([1], pa.timestamp("ns"))}), "timestamp_ns"),
        (pa.table([[1], [1], [1]], names=["id", "n", "n"]), "'n'"),
        (pa.table({"id": [1], "n": pa.array([1], pa.duration("s"))}), "'n'"),
    ],
)
def test_what_does_not_fit_changes_nothing(table: icecore.Table, data: pa.Table, text: str) -> None:
    """Neither rows nor columns, and no file is left."""
    schema, files = table.schema(), files_of(table)
    with pytest.raises(ValidationError, match=text):
        table.append(data, merge_schema=True)
    assert table.refresh().schema() == schema and table.scan().count() == 1
    assert files_of(table) == files


def test_a_promotion_that_partitions_do_not_survive(catalog: icecore.Catalog) -> None:
    schema = pa.schema([("day", pa.date32())])
    table = catalog.create_table("ns.p", schema, partition_spec=["day"], format_version=3)
    with pytest.raises(ValidationError, match="partition field 'day'"):
        table.append(pa.table({"day": pa.array([0], pa.timestamp("us"))}), merge_schema=True)


def test_a_dry_run_and_a_key(table: icecore.Table) -> None:
    outcome = table.append([{"id": 2, "n": 1}], merge_schema=True, dry_run=True)
    assert outcome is not None and not outcome.is_empty
    assert not table.refresh().schema().has_name("n")
    for _ in range(2):
        table.append([{"id": 2, "n": 1}], merge_schema=True, idempotency_key="once")
    assert table.scan("n = 1").count() == 1


def files_of(table: icecore.Table) -> int:
    """The number of data files in the table's folder, live or not."""
    return sum(p.is_file() for p in (Path(table.location().removeprefix("file://")) / "data").rglob("*"))
