"""`verify(rows=True)` reads data files: what manifests note of them otherwise than it is, by which plans lose rows."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from broken_tables import edit_manifest, register

import icecore

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("blob", pa.binary()),
        ("flag", pa.bool_()),
        ("inner", pa.struct([("x", pa.int32())])),
        ("items", pa.list_(pa.int32())),
    ]
)
Entry = dict[str, Any]


def row(i: int) -> Entry:
    return {
        "id": i,
        "name": None if i % 5 == 0 else f"{'long' * 6}{i}",
        "price": float("nan") if i % 4 == 0 else i / 2 - 1,
        "amount": Decimal(i) / 100,
        "day": dt.date(1969, 12, 1) + dt.timedelta(days=i * 9),
        "at": dt.datetime(1969, 12, 31, 22) + dt.timedelta(hours=i),
        "blob": bytes([255 - i, i]) * 20,
        "flag": i % 2 == 0,
        "inner": None if i == 3 else {"x": i},
        "items": [i, i + 1],
    }


DATA = pa.Table.from_pylist([row(i) for i in range(8)], schema=SCHEMA)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[icecore.Catalog]:
    with icecore.open(tmp_path / "other") as catalog:
        catalog.create_namespace("ns")
        yield catalog


def problems(catalog: icecore.Catalog) -> list[str]:
    found = catalog.verify(rows=True)
    assert all((str(f.cause), f.kind) == ("count", "data file") for f in found.findings)
    return [d.split(".parquet ", 1)[-1] for f in found.findings for d in f.details]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_written_here_is_right(catalog: icecore.Catalog, file_format: str, version: int) -> None:
    table = catalog.create_table(
        "ns.t",
        SCHEMA,
        partition_spec=["bucket(4, id)", "truncate(3, name)", "day", "hour(at)", "flag"],
        properties={"write.format.default": file_format},
        format_version=version,
    )
    table.append(DATA)
    with table.update_schema() as update:
        update.add_column("more", "int")
        update.rename_column("name", "title")
        update.delete_column("price")
    with table.update_spec() as update:
        update.remove_field("day")
    table.append(DATA.drop(["price"]).rename_columns({"name": "title"}))
    table.delete("id = 2")
    found = catalog.verify(rows=True)
    assert found.ok and not found.notes


def bound(kind: str, field: int, value: bytes) -> Callable[[Entry], object]:
    def change(f: Entry) -> None:
        f[f"{kind}_bounds"] = [
            {"key": p["key"], "value": value if p["key"] == field else p["value"]} for p in f[f"{kind}_bounds"]
        ]

    return change


def count(name: str, field: int, value: int) -> Callable[[Entry], object]:
    def change(f: Entry) -> None:
        f[name] = [{"key": p["key"], "value": value if p["key"] == field else p["value"]} for p in f[name]]

    return change


WRONG = {
    "lower of a number": (
        bound("lower", 1, struct.pack("<q", 1)),
        "has values of id below the lower bound that is noted: 0 < 1",
    ),
    "upper of a number": (
        bound("upper", 1, struct.pack("<q", 6)),
        "has values of id above the upper bound that is noted: 7 > 6",
    ),
    "upper of a text": (bound("upper", 2, b"longlonglonglong"), "has values of name above the upper bound"),
    "lower of a double": (
        bound("lower", 3, struct.pack("<d", 0.0)),
        "has values of price below the lower bound that is noted: -0.5 < 0.0",
    ),
    "upper of a decimal": (bound("upper", 4, b"\x06"), "has values of amount above the upper bound"),
    "upper of a date": (bound("upper", 5, struct.pack("<i", 0)), "has values of day above the upper bound"),
    "upper of bytes": (bound("upper", 7, b"\xfe"), "has values of blob above the upper bound"),
    "upper of a flag": (
        bound("upper", 8, b"\x00"),
        "has values of flag above the upper bound that is noted: True > False",
    ),
    "lower in a struct": (
        bound("lower", 11, struct.pack("<i", 5)),
        "has values of inner.x below the lower bound that is noted: 0 < 5",
    ),
    "nulls": (count("null_value_counts", 2, 0), "has 2 nulls of name, expected 0"),
    "NaNs": (count("nan_value_counts", 3, 0), "has 2 NaNs of price, expected 0"),
    "values": (count("value_counts", 1, 9), "has 8 values of id, expected 9"),
    "an identity partition": (
        lambda f: f["partition"].update(country="no"),
        "has rows whose country is se, and is noted for no",
    ),
    "a bucket": (
        lambda f: f["partition"].update({k: 1 - v for k, v in f["partition"].items() if isinstance(v, int)}),
        "has rows whose id_bucket_2 is 0, and is noted for 1",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_M4_M5_what_is_noted_otherwise_is_found(catalog: icecore.Catalog, other: icecore.Catalog, wrong: str) -> None:
    partitioned = "partition" in wrong or "bucket" in wrong
    schema = SCHEMA.append(pa.field("country", pa.string())) if partitioned else SCHEMA
    table = other.create_table("ns.t", schema, partition_spec=["country", "bucket(2, id)"] if partitioned else None)
    data = DATA.append_column("country", pa.array(["se"] * 8)).slice(0, 1) if partitioned else DATA
    table.append(data)
    change, text = WRONG[wrong]
    edit_manifest(table, 0, lambda entries: [change(e["data_file"]) for e in entries])
    register(catalog, table, "t")
    assert catalog.verify(deep=True).ok, "footers tell nothing of it"
    (found,) = problems(catalog)
    assert found.startswith(text)


def test_each_note_of_a_file_is_looked_at(catalog: icecore.Catalog, other: icecore.Catalog) -> None:
    """One manifest has it right, and the one that it was rewritten to, which plans go by, has not."""
    table = other.create_table("ns.t", SCHEMA)
    table.append(DATA)
    table.append(DATA)
    table.rewrite_manifests()
    change, text = WRONG["upper of a number"]
    edit_manifest(table, 0, lambda entries: change(entries[0]["data_file"]))
    register(catalog, table, "t")
    (found,) = problems(catalog)
    assert found.startswith(text)


@pytest.mark.parametrize(
    ("transform", "kind", "is_right"),
    [
        ("year", pa.timestamp("us"), True),
        ("month", pa.timestamp("us"), True),
        ("day", pa.timestamp("us"), True),
        ("hour", pa.timestamp("us"), True),
        ("year", pa.date32(), True),
        ("month", pa.date32(), True),
        ("day", pa.date32(), False),
    ],
)
def test_times_before_1970_may_be_noted_rounded_up(
    catalog: icecore.Catalog, other: icecore.Catalog, transform: str, kind: pa.DataType, is_right: bool
) -> None:
    """As writers of Iceberg up to 0.10 had them, but for days of dates: where it is right, plans find the rows."""
    table = other.create_table("ns.t", pa.schema([("at", kind)]), partition_spec=[f"{transform}(at)"])
    table.append(pa.table({"at": pa.array([dt.datetime(1969, 3, 3, 3, 3)]).cast(kind, safe=False)}))

    def round_up(entries: list[Entry]) -> None:
        partition = entries[0]["data_file"]["partition"]
        one = dt.timedelta(days=1) if transform == "day" else 1
        partition.update({name: value + one for name, value in partition.items()})

    edit_manifest(table, 0, round_up)
    of_others = register(catalog, table, "t")
    assert len(of_others.scan(row_filter="at < '1969-03-04'").to_arrow()) == is_right
    assert (problems(catalog) == []) == is_right


@pytest.mark.parametrize("transform", ["u", "bucket(2, u)"])
def test_partitions_of_uuids_are_compared_as_well(catalog: icecore.Catalog, transform: str) -> None:
    table = catalog.create_table("ns.t", pa.schema([("u", pa.uuid())]), partition_spec=[transform])
    table.append([{"u": uuid.UUID(int=1)}, {"u": uuid.UUID(int=2)}, {"u": None}])
    assert problems(catalog) == []
