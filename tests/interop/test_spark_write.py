"""What Spark tasks write is what the engine itself would write: values, partitions, metrics, order."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from pyspark.sql import functions as F  # noqa: E402
from pyspark.sql import types as T  # noqa: E402
from spark_tables import STORAGE, metadata_of, plain_values, schema_of, spec_of, tasks_of, write  # noqa: E402
from spark_written import LONG, STRING, read_back, spark_write  # noqa: E402

from icecore.engine.data.spark_schema import spark_to_schema  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spark.spark_types import schema_to_spark  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
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
    walk,
)

A_UUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
ALL = schema_of(
    (1, "id", LONG),
    (2, "bo", BooleanType()),
    (3, "i", IntegerType()),
    (4, "f", FloatType()),
    (5, "d", DoubleType()),
    (6, "dec", DecimalType(20, 3)),
    (7, "day", DateType()),
    (8, "t", TimeType()),
    (9, "ts", TimestampType()),
    (10, "tz", TimestamptzType()),
    (11, "ns", TimestampNanoType()),
    (12, "nsz", TimestamptzNanoType()),
    (13, "s", STRING),
    (14, "u", UUIDType()),
    (15, "fx", FixedType(2)),
    (16, "b", BinaryType()),
    (17, "unk", UnknownType()),
    (18, "st", StructType((NestedField(19, "u", UUIDType()), NestedField(20, "t", TimeType())))),
    (21, "l", ListType(22, StructType((NestedField(23, "tz", TimestamptzType()),)))),
    (24, "m", MapType(25, STRING, 26, ListType(27, TimeType()))),
)
ROWS: list[tuple[Any, ...]] = [
    (
        1,
        True,
        -5,
        0.5,
        float("nan"),
        Decimal("12345678901234567.891"),
        dt.date(1500, 1, 1),
        86_399_999_999,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2024, 7, 1, 12, 0, 0, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 7, 1, 12, 0, 0, 1),
        dt.datetime(1960, 1, 1, tzinfo=dt.UTC),
        "é\U0001f600",
        str(A_UUID).upper(),
        bytearray(b"\x00\xff"),
        bytearray(b""),
        None,
        (str(A_UUID), 5),
        [(dt.datetime(2024, 1, 1, tzinfo=dt.UTC),), None],
        {"a": [1, None], "b": None},
    ),
    (2, *[None] * 19),
]


def expected_values() -> list[dict[str, Any]]:
    first = dict(zip((f.name for f in ALL.fields), ROWS[0], strict=True))
    first |= {
        "t": 86_399_999_999,
        "dec": Decimal("12345678901234567.891"),
        "u": A_UUID.bytes,
        "fx": b"\x00\xff",
        "b": b"",
        "st": {"u": A_UUID.bytes, "t": 5},
        "l": [{"tz": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}, None],
        "m": [("a", [1, None]), ("b", None)],
    }
    return [first, {f.name: 2 if f.name == "id" else None for f in ALL.fields}]


def _comparable(table: pa.Table) -> list[dict[str, Any]]:
    """Python values of a table in which uuids are bytes, and times and nanoseconds are exact."""

    def plain(t: pa.DataType) -> pa.DataType:
        if isinstance(t, pa.UuidType):
            return pa.binary(16)
        if pa.types.is_time(t):
            return pa.int64()
        if pa.types.is_timestamp(t):
            return pa.timestamp("us", t.tz)
        if pa.types.is_struct(t):
            return pa.struct([f.with_type(plain(f.type)) for f in t])
        if pa.types.is_map(t):
            return pa.map_(t.key_type, plain(t.item_type))
        return pa.list_(plain(t.value_type)) if pa.types.is_list(t) else t

    schema = pa.schema([f.with_type(plain(f.type)) for f in table.schema])
    return sorted(table.cast(schema).to_pylist(), key=lambda r: r["id"])


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_all_types_round_trip(spark: Any, tmp_path: Path, zone: str) -> None:
    """Spark rows -> files -> the engine's reader, and Spark again; metrics are those of the engine's own writer."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        df = spark.createDataFrame(ROWS, schema_to_spark(ALL)).coalesce(1)
        files = spark_write(df, ALL, tmp_path / "spark")
        table = read_back(files, ALL)
        assert repr(plain_values(_comparable(table))) == repr(plain_values(expected_values()))
        again = read_tasks(spark, tasks_of(files), projection=ALL, metadata=metadata_of(ALL), storage=STORAGE)
        assert again.schema.simpleString() == df.schema.simpleString()
        assert not any(f.metadata for f in again.schema)
        wanted = df.withColumn("u", F.lower("u")).orderBy("id").collect()
        assert repr(again.orderBy("id").collect()) == repr(wanted)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    mine = write(tmp_path / "mine", ALL, table.select([f.name for f in ALL.fields]))
    assert len(files) == len(mine) == 1
    for name in (
        "record_count",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
    ):
        assert getattr(files[0], name) == getattr(mine[0], name), name
    stored = pq.ParquetFile(files[0].file_path).schema_arrow
    assert stored.field("l").type.value_field.metadata[b"PARQUET:field_id"] == b"22"
    assert stored.field("m").type.item_field.metadata[b"PARQUET:field_id"] == b"26"


def test_columns_are_matched_by_name(spark: Any, tmp_path: Path) -> None:
    """Order and case don't matter, missing columns take their write default or null, also inside structs."""
    inner = StructType((NestedField(5, "x", LONG), NestedField(6, "y", STRING, write_default="dy")))
    schema = Schema(
        (
            NestedField(1, "id", LONG, required=True),
            NestedField(2, "a", STRING, required=True, write_default="da"),
            NestedField(3, "b", DoubleType()),
            NestedField(4, "st", inner),
            NestedField(7, "l", ListType(8, inner_float())),
        )
    )
    df = spark.sql(
        "SELECT named_struct('X', 1) AS st, array(named_struct('f', 1.5), NULL) AS l, 7 AS ID "
        "UNION ALL SELECT NULL, NULL, 8"
    )
    table = read_back(spark_write(df, schema, tmp_path), schema)
    assert sorted(table.to_pylist(), key=lambda r: r["id"]) == [
        {"id": 7, "a": "da", "b": None, "st": {"x": 1, "y": "dy"}, "l": [{"f": 1.5}, None]},
        {"id": 8, "a": "da", "b": None, "st": None, "l": None},
    ]


def inner_float() -> StructType:
    return StructType((NestedField(9, "f", FloatType()),))


STORES: list[tuple[str, Any, Any]] = [
    ("CAST(1 AS TINYINT)", LONG, 1),
    ("7L", IntegerType(), 7),
    ("1.25BD", DoubleType(), 1.25),
    ("0.1D", FloatType(), pytest.approx(0.1, rel=1e-7)),
    ("3", FloatType(), 3.0),
    ("CAST(1.50 AS DECIMAL(10, 4))", DecimalType(5, 2), Decimal("1.50")),
    ("12", DecimalType(5, 2), Decimal("12.00")),
    ("DATE '2024-01-02'", TimestampType(), dt.datetime(2024, 1, 2)),
    ("TIMESTAMP '2024-01-02 03:04:05Z'", TimestampType(), dt.datetime(2024, 1, 2, 3, 4, 5)),
    ("TIMESTAMP_NTZ '2024-01-02 03:04:05'", TimestamptzType(), dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
    (f"X'{A_UUID.hex}'", UUIDType(), A_UUID),
    (f"'{A_UUID}'", UUIDType(), A_UUID),
    ("NULL", StructType((NestedField(50, "x", LONG),)), None),
]


def test_values_are_stored_as_spark_assigns_them(spark: Any, tmp_path: Path) -> None:
    schema = schema_of(*((i, f"c{i}", t) for i, (_, t, _) in enumerate(STORES, start=1)))
    df = spark.sql("SELECT " + ", ".join(f"{sql} AS c{i}" for i, (sql, _, _) in enumerate(STORES, start=1)))
    [row] = read_back(spark_write(df, schema, tmp_path), schema).to_pylist()
    assert list(row.values()) == [v for _, _, v in STORES]


REFUSED: list[tuple[str, Any, str]] = [
    ("'1'", LONG, "column 'c'.*long.*string"),
    ("1", STRING, "column 'c'.*string.*int"),
    ("TIMESTAMP '2024-01-01 00:00:00'", DateType(), "column 'c'.*date.*timestamp"),
    ("INTERVAL '1' DAY", LONG, "interval"),
    ("named_struct('y', 1)", StructType((NestedField(2, "x", LONG),)), r"'c\.y'"),
    ("array('a')", ListType(2, LONG), r"'c\.element'"),
    ("3000000000", IntegerType(), "column 'c'.*not in range"),
    ("1.234BD", DecimalType(5, 2), "column 'c'"),
    ("'no uuid'", UUIDType(), "column 'c'.*no uuid"),
    ("X'00'", FixedType(2), "column 'c'.*1 bytes, expected 2"),
    ("86400000000", TimeType(), "column 'c'.*time of day"),
]


@pytest.mark.parametrize(("sql", "iceberg_type", "message"), REFUSED, ids=lambda v: str(v)[:30])
def test_values_that_do_not_fit_are_refused(
    spark: Any, tmp_path: Path, sql: str, iceberg_type: Any, message: str
) -> None:
    """The error names the column and is ours, whether the driver or a task found it; nothing is left behind."""
    schema = schema_of((1, "c", iceberg_type))
    with pytest.raises(ValidationError, match=message):
        spark_write(spark.sql(f"SELECT {sql} AS c"), schema, tmp_path)
    assert not list(tmp_path.rglob("*.parquet"))


def test_unknown_and_missing_columns_are_refused(spark: Any, tmp_path: Path) -> None:
    schema = Schema((NestedField(1, "id", LONG, required=True), NestedField(2, "a", STRING)))
    with pytest.raises(ValidationError, match=r"no column 'z' in the schema; there are: a, id"):
        spark_write(spark.sql("SELECT 1 AS id, 2 AS z"), schema, tmp_path)
    with pytest.raises(ValidationError, match="required column 'id' is missing"):
        spark_write(spark.sql("SELECT 'x' AS a"), schema, tmp_path)
    with pytest.raises(ValidationError, match="'id' is required, found 1 nulls"):
        spark_write(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"), schema, tmp_path)
    with pytest.raises(ValidationError, match="twice"):
        spark_write(spark.sql("SELECT 1 AS id, 2 AS ID"), schema, tmp_path)


def test_no_rows_give_no_files(spark: Any, tmp_path: Path) -> None:
    assert spark_write(spark.range(0), schema_of((1, "id", LONG)), tmp_path) == []


def test_the_frame_is_computed_once(spark: Any, tmp_path: Path) -> None:
    """An accumulator in a UDF counts each row once."""
    seen = spark.sparkContext.accumulator(0)

    def count(x: int) -> int:
        seen.add(1)
        return x

    schema = schema_of((1, "id", LONG))
    df = spark.range(0, 100, 1, 3).select(F.udf(count, "long", useArrow=False)("id").alias("id"))
    spec = spec_of((1, "bucket[3]", "b"))
    files = spark_write(df, schema, tmp_path, spec)
    assert sum(f.record_count for f in files) == 100
    assert seen.value == 100


def test_spark_types_become_iceberg_types() -> None:
    struct = T.StructType(
        [
            T.StructField("a", T.ShortType(), False, {"comment": "a doc"}),
            T.StructField("b", T.ArrayType(T.StructType([T.StructField("x", T.TimestampNTZType())]), False)),
            T.StructField("c", T.MapType(T.StringType(), T.DecimalType(9, 2))),
            T.StructField("d", T.VarcharType(5)),
            T.StructField("e", T.TimestampType()),
        ]
    )
    assert all(f.optional for f in walk(spark_to_schema(struct).fields) if f.name != "key")
    assert str(spark_to_schema(struct)).splitlines()[1:-1] == [
        "  1: a: optional int",
        "  2: b: optional list<struct<7: x: timestamp>>",
        "  3: c: optional map<string, decimal(9, 2)>",
        "  4: d: optional string",
        "  5: e: optional timestamptz",
    ]
    assert spark_to_schema(struct).fields[0].doc == "a doc"
    interval = T.StructType([T.StructField("st", T.StructType([T.StructField("i", T.DayTimeIntervalType())]))])
    with pytest.raises(ValidationError, match=r"'st\.i'.*interval"):
        spark_to_schema(interval)
    with pytest.raises(ValidationError, match="not supported until v3"):
        spark_to_schema(T.StructType([T.StructField("v", T.VariantType())]))
