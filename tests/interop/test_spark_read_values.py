"""Spark reads values of every type without loss, and the filter of a plan selects the rows that SQL would."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_reading import A_UUID, LONG, STRING, rows, spark  # noqa: E402
from spark_tables import STORAGE, hidden_copy, metadata_of, plain_values, schema_of, spec_of, tasks_of, write  # noqa: E402

from icecore.engine.expression.bind import bind  # noqa: E402
from icecore.engine.expression.sql.parse import parse_filter  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

__all__ = ["spark"]

ALL_TYPES = schema_of(
    (1, "id", LONG),
    (2, "u", UUIDType()),
    (3, "t", TimeType()),
    (4, "ts", TimestampType()),
    (5, "tz", TimestamptzType()),
    (6, "ns", TimestampNanoType()),
    (7, "nsz", TimestamptzNanoType()),
    (8, "fx", FixedType(3)),
    (9, "st", StructType((NestedField(10, "u", UUIDType()), NestedField(11, "x", DoubleType())))),
    (12, "l", ListType(13, UUIDType())),
    (14, "m", MapType(15, STRING, 16, StructType((NestedField(24, "ns", TimestampNanoType()),)))),
    (17, "unk", UnknownType()),
    (18, "fl", FloatType()),
    (19, "d", DecimalType(12, 2)),
    (20, "dt", DateType()),
    (21, "b", BinaryType()),
    (22, "s", STRING),
    (23, "bo", BooleanType()),
)
VALUES: dict[str, list[Any]] = {
    "id": [0, 1, 2, 3, 4],
    "u": [A_UUID.bytes] * 3 + [bytes(16), None],
    "t": [1, 2, 3, 86_399_999_999, None],
    "ts": [0, -1, None, 10, 10**15],
    "tz": [0, -1, None, 10, 10**15],
    "ns": [0, -1, -1001, 1999, 10**18],
    "nsz": [0, -1, -1001, 1999, None],
    "fx": [b"abc"] * 4 + [None],
    "st": [{"u": A_UUID.bytes, "x": 1.5}, None, {"u": None, "x": 2.0}, {"u": bytes(16), "x": None}, None],
    "l": [[A_UUID.bytes, None], None, [], [bytes(16)], [None]],
    "m": [[("a", {"ns": 1})], None, [], [("b", {"ns": -1})], [("c", None)]],
    "unk": [None] * 5,
    "fl": [1.5, float("nan"), None, -0.0, float("inf")],
    "d": [Decimal("1.50"), Decimal("-9999999999.99"), None, Decimal("0.00"), Decimal("0.01")],
    "dt": [0, 1, None, -1, 100_000],
    "b": [b"", b"x", None, b"y", b"\xff\x00"],
    "s": ["", "é'\\\n%_~", None, "a", "\U0001f600"],
    "bo": [True, False, None, True, True],
}


def expected_rows() -> list[dict[str, Any]]:
    """The values as Spark shows them, in an order that does not depend on any reader."""
    epoch, utc = dt.datetime(1970, 1, 1), dt.UTC

    def us(v: int | None) -> Any:
        return None if v is None else epoch + dt.timedelta(microseconds=v)

    def zoned(v: int | None) -> Any:
        return None if v is None else us(v).replace(tzinfo=utc)

    def text(v: bytes | None) -> Any:
        return None if v is None else str(uuid.UUID(bytes=v))

    def floor(v: int | None) -> Any:
        return None if v is None else v // 1000

    out = []
    for i in range(5):
        r = {name: values[i] for name, values in VALUES.items()}
        r["u"], r["l"] = text(r["u"]), None if r["l"] is None else [text(x) for x in r["l"]]
        r["ts"], r["tz"], r["ns"], r["nsz"] = us(r["ts"]), zoned(r["tz"]), us(floor(r["ns"])), zoned(floor(r["nsz"]))
        r["st"] = None if r["st"] is None else {"u": text(r["st"]["u"]), "x": r["st"]["x"]}
        if r["m"] is not None:
            r["m"] = [(k, None if v is None else {"ns": us(floor(v["ns"]))}) for k, v in r["m"]]
        r["dt"] = None if r["dt"] is None else dt.date(1970, 1, 1) + dt.timedelta(days=r["dt"])
        out.append(r)
    return out


# What is read by Python is read by it in both ways.
READERS = pytest.mark.parametrize(
    ("either_way", "reader"), [("true", "native"), ("false", "native"), ("true", "python")], indirect=["either_way"]
)


@READERS
def test_all_types_are_read_without_loss(spark: Any, tmp_path: Path, reader: str) -> None:
    """Both ways of reading give the same values in a session's zone that is not UTC, as all else here is read in it."""
    file = write(tmp_path, ALL_TYPES, VALUES)[0]
    tasks = tasks_of([file if reader == "native" else hidden_copy(file)])
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        frame = read_tasks(spark, tasks, projection=ALL_TYPES, metadata=metadata_of(ALL_TYPES), storage=STORAGE)
        found = frame.toArrow().sort_by("id").to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert repr(plain_values(found)) == repr(plain_values(expected_rows()))


FILTERS = [
    (f"u = '{A_UUID}'", [0, 1, 2]),
    ("fl > 2", [1, 4]),
    ("fl = 0", [3]),
    ("fl IN (0, 1.5)", [0, 3]),
    ("fl NOT IN (0, 1.5)", [1, 4]),
    ("fl IS NULL", [2]),
    ("s = 'é''\\\n%_~'", [1]),
    ("s LIKE '%\\%_~' ESCAPE '\\'", [1]),
    ("s NOT LIKE '%a%'", [0, 1, 4]),
    ("s LIKE '%\U0001f600'", [4]),
    ("NOT (s = 'a')", [0, 1, 4]),
    ("dt > DATE '1970-01-02'", [4]),
    ("year(dt) = 1969", [3]),
    ("ns < TIMESTAMP '1970-01-01 00:00:00'", [1, 2]),
    ("ts < TIMESTAMP '1970-01-01'", [1]),
    ("tz >= TIMESTAMPTZ '1970-01-01 00:00:00.00001+00:00'", [3, 4]),
    ("st.x >= 2", [2]),
    ("st IS NULL", [1, 4]),
    ("d < 0", [1]),
    ("d = 0.01", [4]),
    ("b >= X'78'", [1, 3, 4]),
    ("bo", [0, 3, 4]),
    ("NOT bo", [1]),
    ("t = TIME '23:59:59.999999'", [3]),
    ("id IN (1, 3) AND fx IS NOT NULL", [1, 3]),
    ("id < 1 OR unk IS NOT NULL", [0]),
]


@READERS
def test_filters_select_the_rows_that_sql_would(spark: Any, tmp_path: Path, reader: str) -> None:
    """The same conditions on what either reader gives; for Python's a few are enough."""
    file = write(tmp_path, ALL_TYPES, VALUES)[0]
    tasks = tasks_of([file if reader == "native" else hidden_copy(file)])
    filters = FILTERS if reader == "native" else FILTERS[::6]
    frames = []
    for n, (text, _) in enumerate(filters):
        frame = read_tasks(
            spark,
            tasks,
            projection=ALL_TYPES.select(["id"]),
            metadata=metadata_of(ALL_TYPES),
            storage=STORAGE,
            filter=bind(parse_filter(text), ALL_TYPES),
        )
        frames.append(frame.selectExpr(f"{n} AS n", "id"))
    all_ = frames[0]
    for frame in frames[1:]:
        all_ = all_.union(frame)
    found: dict[int, list[int]] = {n: [] for n in range(len(filters))}
    for r in all_.collect():
        found[r.n].append(r.id)
    wrong = [(text, sorted(found[n]), ids) for n, (text, ids) in enumerate(filters) if sorted(found[n]) != ids]
    assert not wrong


def test_filters_by_bucket_are_exact(spark: Any, tmp_path: Path) -> None:
    """bucket(4, x) = 2 selects the rows of that bucket, for types hashed as long and as bytes."""
    from icecore.engine.spec.transform import BucketTransform

    schema = schema_of((1, "id", LONG), (2, "s", STRING), (3, "d", DecimalType(9, 2)), (4, "ts", TimestampType()))
    n = 40
    data: dict[str, list[Any]] = {
        "id": list(range(n)),
        "s": [None if i == 7 else f"row {i}" for i in range(n)],
        "d": [Decimal(i).scaleb(-2) for i in range(n)],
        "ts": [i * 86_400_000_001 - 10**12 for i in range(n)],
    }
    file = write(tmp_path, schema, data)[0]
    for name in data:
        kind: Any = schema.find_field(name).field_type
        wanted = [(i,) for i in range(n) if BucketTransform(4).apply(kind, data[name][i]) == 2]
        found = rows(spark, tasks_of([file]), schema, where=f"bucket(4, {name}) = 2", columns=["id"])
        assert sorted(found) == wanted, name


def test_an_empty_plan_has_the_schema(spark: Any) -> None:
    frame = read_tasks(spark, [], projection=ALL_TYPES, metadata=metadata_of(ALL_TYPES), storage=STORAGE)
    assert frame.count() == 0
    assert frame.columns == [f.name for f in ALL_TYPES.fields]
    assert frame.schema["u"].dataType.simpleString() == "string"


def test_partition_values_of_every_type(spark: Any, tmp_path: Path) -> None:
    """P1, in a session that is not in UTC: whatever the type, the value comes from the partition unchanged."""
    kept = [f for f in ALL_TYPES.fields if f.field_type.is_primitive and f.name not in ("id", "unk")]
    schema = Schema((ALL_TYPES.fields[0], *kept))
    spec = spec_of(*((f.field_id, "identity", f.name) for f in kept))
    stored = write(tmp_path, schema, {f.name: VALUES[f.name] for f in schema.fields}, spec)
    bare = schema_of((1, "id", LONG))
    files = []
    for f in stored:
        ids = pq.read_table(f.file_path)["id"].to_pylist()
        files.append(evolve(write(tmp_path, bare, {"id": ids})[0], partition=f.partition))
    assert len(files) == 5
    metadata = metadata_of(schema, spec=spec)
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        from_files, from_partitions = (rows(spark, tasks_of(fs), schema, metadata=metadata) for fs in (stored, files))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert repr(from_partitions) == repr(from_files)
