"""What Spark tasks write is what the engine itself would write: values, partitions, metrics, order."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections import Counter
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

from icecore.engine.data.arrow.arrow_partitions import partition_batches  # noqa: E402
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow  # noqa: E402
from icecore.engine.data.read.read_tasks import read_task  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spark.spark_types import schema_to_spark, spark_to_schema  # noqa: E402
from icecore.engine.spark.spark_write import write_frame_files  # noqa: E402
from icecore.engine.spec import single_value  # noqa: E402
from icecore.engine.spec.content_file import ContentFile  # noqa: E402
from icecore.engine.spec.partition import UNPARTITIONED, PartitionSpec  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.sort import NullOrder, SortDirection, SortField, SortOrder  # noqa: E402
from icecore.engine.spec.transform import TruncateTransform, parse_transform  # noqa: E402
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
    LongType,
    MapType,
    NestedField,
    StringType,
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

LONG, STRING = LongType(), StringType()


def spark_write(
    df: Any, schema: Schema, folder: Path, spec: PartitionSpec = UNPARTITIONED, **more: Any
) -> list[ContentFile]:
    prefix = uuid.uuid4().hex
    arguments = {"properties": {}, "file_prefix": prefix, **more}
    files = write_frame_files(df, schema=schema, spec=spec, location=str(folder), storage=STORAGE, **arguments)
    assert all(Path(f.file_path).name.startswith(prefix) for f in files)
    return files


def read_back(files: list[ContentFile], schema: Schema, spec: PartitionSpec = UNPARTITIONED) -> pa.Table:
    """The rows of all files, by the engine's own reader."""
    arrow = schema_to_arrow(schema, with_ids=False)
    batches = [
        b
        for t in tasks_of(files)
        for b in read_task(t, projection=schema, table_schema=schema, specs={spec.spec_id: spec}, storage=STORAGE)
    ]
    return pa.Table.from_batches(batches, arrow)


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


def partition_frame(spark: Any) -> tuple[Any, Schema]:
    df = spark.range(400).selectExpr(
        "id",
        "IF(id = 7, NULL, concat('name ', id % 23)) AS name",
        "timestamp_micros(id * 86400000000 * 3 - 30000000000000000) AS tz",
        "IF(id % 50 = 3, NULL, CAST(timestamp_micros(id * 3600000123 - 400000000000) AS TIMESTAMP_NTZ)) AS ts",
        "CAST(id % 40 AS DECIMAL(12, 2)) - 13.37BD AS price",
        "date_add(DATE '1969-06-01', CAST(id AS INT)) AS day",
        "CAST(id - 200 AS INT) AS i",
        "CAST(concat('k', id % 3) AS BINARY) AS b",
        "CASE WHEN id % 3 = 0 THEN 0.0D WHEN id % 3 = 1 THEN -0.0D ELSE CAST('NaN' AS DOUBLE) END AS f",
        "named_struct('region', IF(id % 5 = 0, 'é=/ü', concat('r', id % 4))) AS place",
        "lower(hex(CAST(substring(concat('0000000000000000', id % 6), -16) AS BINARY))) AS u",
    )
    schema = spark_to_schema(df.schema, format_version=3)
    fields = (NestedField(f.field_id, f.name, UUIDType() if f.name == "u" else f.field_type) for f in schema.fields)
    return df, Schema(tuple(fields))


SPECS = [
    [("tz", "month")],
    [("tz", "year"), ("name", "bucket[5]")],
    [("ts", "day")],
    [("ts", "hour"), ("i", "bucket[2]")],
    [("price", "truncate[1000]"), ("day", "year")],
    [("price", "bucket[7]"), ("b", "bucket[3]")],
    [("i", "truncate[100]"), ("name", "truncate[6]"), ("b", "truncate[1]")],
    [("place.region", "identity"), ("name", "void")],
    [("f", "identity")],
    [("u", "bucket[4]"), ("day", "month")],
    [("ts", "bucket[4]"), ("tz", "bucket[3]")],
]


@pytest.mark.parametrize("terms", SPECS, ids=lambda ts: "+".join(f"{t}({n})" for n, t in ts))
def test_each_row_is_in_a_file_of_its_partition(spark: Any, tmp_path: Path, terms: list[tuple[str, str]]) -> None:
    """PT3 to PT5: partition tuples are those of the rows, in a session that is not in UTC; files are few."""
    df, schema = partition_frame(spark)
    spec = spec_of(*((schema.find_field(n).field_id, t, f"p{i}") for i, (n, t) in enumerate(terms)))
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        files = spark_write(df, schema, tmp_path, spec)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sum(f.record_count for f in files) == 400
    types = [f.result_type(schema) for f in spec.fields]

    def key(partition: tuple[Any, ...]) -> tuple[bytes | None, ...]:
        return tuple(None if v is None else single_value.to_bytes(t, v) for t, v in zip(types, partition, strict=True))

    ids: list[int] = []
    for f in files:
        table = read_back([f], schema, spec)
        ids += table["id"].to_pylist()
        found = [key(p) for p, _ in partition_batches(table, spec, schema)]
        assert found == [key(f.partition)]
        assert f.file_path.startswith(f"{tmp_path}/{spec.partition_to_path(f.partition, schema)}/")
    assert sorted(ids) == list(range(400))
    # Each partition went to one task, so that it is in one file.
    assert max(Counter(key(f.partition) for f in files).values()) == 1


def test_rows_are_sorted_inside_of_files(spark: Any, tmp_path: Path) -> None:
    """SO1: by the order's directions, null places and transforms, uuids by their bytes; the order's id is recorded."""
    df, schema = partition_frame(spark)
    ids = {f.name: f.field_id for f in schema.fields}
    order = SortOrder(
        (
            SortField((ids["name"],), TruncateTransform(6), SortDirection.DESC, NullOrder.NULLS_LAST),
            SortField((ids["u"],), parse_transform("identity")),
            SortField((ids["ts"],), parse_transform("identity"), SortDirection.DESC, NullOrder.NULLS_FIRST),
        ),
        3,
    )
    spec = spec_of((ids["i"], "bucket[2]", "i_bucket"))
    files = spark_write(df.repartition(3), schema, tmp_path, spec, sort_order=order)
    assert len(files) == 2
    for f in files:
        assert f.sort_order_id == 3
        found = read_back([f], schema, spec).to_pylist()

        def key(r: dict[str, Any]) -> Any:
            # Descending text as negated code points, nulls last; nulls of ts first.
            text = r["name"]
            first = (1, ()) if text is None else (0, tuple(-ord(c) for c in text[:6].ljust(6, "\0")))
            ts = (0, 0) if r["ts"] is None else (1, -r["ts"].timestamp())
            return (first, r["u"].bytes, ts)

        assert found == sorted(found, key=key)


@pytest.mark.parametrize("mode", ["none", "range"])
def test_distribution_modes(spark: Any, tmp_path: Path, mode: str) -> None:
    df, schema = partition_frame(spark)
    spec = spec_of((schema.find_field("tz").field_id, "year", "y"))
    files = spark_write(df.repartition(2), schema, tmp_path, spec, properties={"write.distribution-mode": mode})
    assert sum(f.record_count for f in files) == 400
    most = max(Counter(f.partition for f in files).values())
    assert most == (2 if mode == "none" else 1)
    with pytest.raises(ValidationError, match=r"write\.distribution-mode"):
        spark_write(df, schema, tmp_path, spec, properties={"write.distribution-mode": "some"})


def test_files_end_at_the_target_size(spark: Any, tmp_path: Path) -> None:
    schema = schema_of((1, "id", LONG), (2, "noise", STRING))
    rows = spark.range(20_000).selectExpr("id", "sha2(CAST(id AS STRING), 512) AS noise").coalesce(1)
    files = spark_write(rows, schema, tmp_path, properties={"write.target-file-size-bytes": "200000"})
    assert len(files) > 2
    assert max(f.file_size_in_bytes for f in files) < 2_000_000
    assert sorted(read_back(files, schema)["id"].to_pylist()) == list(range(20_000))


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
    """An accumulator in a UDF counts each row once, and progress ends with all tasks done."""
    seen = spark.sparkContext.accumulator(0)

    def count(x: int) -> int:
        seen.add(1)
        return x

    calls: list[tuple[int, int, str]] = []

    def progress(done: int, total: int) -> None:
        calls.append((done, total, threading.current_thread().name))

    schema = schema_of((1, "id", LONG))
    df = spark.range(0, 100, 1, 3).select(F.udf(count, "long", useArrow=False)("id").alias("id"))
    spec = spec_of((1, "bucket[3]", "b"))
    files = spark_write(df, schema, tmp_path, spec, on_progress=progress)
    assert sum(f.record_count for f in files) == 100
    assert seen.value == 100
    assert calls and calls[-1][0] == calls[-1][1] > 0
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


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
