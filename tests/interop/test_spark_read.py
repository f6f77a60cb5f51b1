"""Spark reads exactly the rows of a plan: by field id, under any name, with deletes, from any file."""

from __future__ import annotations

import datetime as dt
import shutil
import uuid
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_tables import (  # noqa: E402
    STORAGE,
    deletion_vector,
    equality_deletes,
    hidden_copy,
    metadata_of,
    plain_values,
    position_deletes,
    schema_of,
    spec_of,
    tasks_of,
    write,
)

from icecore.engine.data.read.column_resolution import FILE_ID, LAST_UPDATED_ID, POS_ID, ROW_ID_ID, SPEC_ID_ID  # noqa: E402
from icecore.engine.data.read.read_tasks import read_task  # noqa: E402
from icecore.engine.data.scan_task import FileScanTask  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.expression.bind import bind  # noqa: E402
from icecore.engine.expression.sql.parse import parse_filter  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spec.content_file import FileFormat  # noqa: E402
from icecore.engine.spec.metadata import TableMetadata  # noqa: E402
from icecore.engine.spec.name_mapping import NameMapping  # noqa: E402
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
)

LONG, STRING = LongType(), StringType()


@pytest.fixture
def spark(either_way: Any) -> Any:
    """Everything here is read in both ways."""
    return either_way


TWO = schema_of((1, "id", LONG), (2, "name", STRING))


def rows(
    spark: Any,
    tasks: Sequence[FileScanTask],
    schema: Schema,
    *,
    metadata: TableMetadata | None = None,
    where: str | None = None,
    columns: Sequence[str] = ("*",),
) -> list[tuple[Any, ...]]:
    """The rows that Spark reads, sorted as text."""
    bound = None if where is None else bind(parse_filter(where), schema)
    frame = read_tasks(
        spark,
        tasks,
        projection=schema.select(columns),
        metadata=metadata or metadata_of(schema),
        storage=STORAGE,
        filter=bound,
    )
    return sorted((_tuples(r) for r in frame.collect()), key=repr)


def _tuples(value: Any) -> Any:
    """Spark's rows as plain tuples, at any depth."""
    if isinstance(value, tuple):
        return tuple(_tuples(v) for v in value)
    return [_tuples(v) for v in value] if isinstance(value, list) else value


# Types and values

A_UUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
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


def test_only_counting_needs_no_column(spark: Any, tmp_path: Path) -> None:
    file = write(tmp_path, TWO, {"id": [1, 2, 3], "name": ["a", "b", "c"]})[0]
    for f in (file, hidden_copy(file)):
        frame = read_tasks(
            spark,
            tasks_of([f]),
            projection=Schema(()),
            metadata=metadata_of(TWO),
            storage=STORAGE,
            filter=bind(parse_filter("id > 1"), TWO),
        )
        assert frame.count() == 2


# Trap 1: filters are pushed down by name, and compared as Parquet does


def pushed(spark: Any, tasks: Sequence[FileScanTask], metadata: TableMetadata, *where: str) -> list[int]:
    """How many rows each of a user's own filters on the DataFrame leaves, which Spark pushes down; in one job."""
    schema = metadata.schema()
    frame = read_tasks(spark, tasks, projection=schema, metadata=metadata, storage=STORAGE)
    left = [frame.where(text).selectExpr(f"{i} AS i") for i, text in enumerate(where)]
    found = Counter(r.i for r in reduce(lambda a, b: a.union(b), left).collect())
    return [found[i] for i in range(len(where))]


def test_trap_1_swapped_names(spark: Any, tmp_path: Path) -> None:
    """Columns whose names were exchanged are filtered by their own values."""
    old = schema_of((1, "a", LONG), (2, "b", LONG))
    new = schema_of((2, "a", LONG), (1, "b", LONG), schema_id=1)
    file = write(tmp_path, old, {"a": list(range(100)), "b": list(range(1000, 1100))})[0]
    metadata = metadata_of(old, new)
    assert pushed(spark, tasks_of([file]), metadata, "a = 1005") == [1]
    assert rows(spark, tasks_of([file]), new, metadata=metadata, where="a = 1005") == [(1005, 5)]


@pytest.mark.parametrize("where", ["a = 42", "a IS NULL", "a < 0"])
def test_trap_1_a_name_used_again(spark: Any, tmp_path: Path, where: str) -> None:
    """A new column under a dropped column's name is null, or its default, in old files."""
    old = schema_of((1, "a", LONG), (2, "b", LONG))
    default = {"a = 42": 42, "a IS NULL": None, "a < 0": -5}[where]
    new = Schema((NestedField(2, "b", LONG), NestedField(3, "a", LONG, initial_default=default)), 1)
    file = write(tmp_path, old, {"a": list(range(100)), "b": list(range(100))})[0]
    metadata = metadata_of(old, new)
    assert pushed(spark, tasks_of([file]), metadata, where) == [100]
    assert len(rows(spark, tasks_of([file]), new, metadata=metadata, where=where)) == 100


def test_trap_1_a_nested_name_used_again(spark: Any, tmp_path: Path) -> None:
    old = schema_of((1, "st", StructType((NestedField(2, "x", LONG), NestedField(3, "y", LONG)))))
    new = schema_of((1, "st", StructType((NestedField(3, "y", LONG), NestedField(4, "x", LONG)))), schema_id=1)
    file = write(tmp_path, old, {"st": [{"x": i, "y": i} for i in range(10)] + [None]})[0]
    metadata = metadata_of(old, new)
    assert pushed(spark, tasks_of([file]), metadata, "st.x IS NULL", "st IS NULL") == [11, 1]
    assert rows(spark, tasks_of([file]), new, metadata=metadata, where="st.y = 3") == [((3, None),)]


def test_trap_1_names_that_differ_in_case(spark: Any, tmp_path: Path) -> None:
    schema = schema_of((1, "a", LONG), (2, "A", LONG))
    file = write(tmp_path, schema, {"a": [1, 2], "A": [10, 20]})[0]
    assert rows(spark, tasks_of([file]), schema, where="A = 20") == [(2, 20)]


def test_trap_1_removed_schemas_leave_no_name_safe(spark: Any, tmp_path: Path) -> None:
    """The schema in which id 1 was called `a` is gone from the metadata, the file is still there."""
    old = schema_of((1, "a", LONG), (2, "b", LONG))
    new = schema_of((1, "b2", LONG), (2, "a", LONG), schema_id=3)
    file = write(tmp_path, old, {"a": list(range(100)), "b": list(range(1000, 1100))})[0]
    assert pushed(spark, tasks_of([file]), metadata_of(new), "a = 1005") == [1]


def test_parquet_statistics_leave_out_nan(spark: Any, tmp_path: Path) -> None:
    """NaN is greater than all numbers, and -0.0 equals 0.0, in filters that Spark would push down too."""
    schema = schema_of((1, "x", DoubleType()), (2, "st", StructType((NestedField(3, "y", DoubleType()),))))
    file = write(tmp_path, schema, {"x": [1.0, float("nan"), -0.0], "st": [{"y": float("nan")}, None, None]})[0]
    metadata = metadata_of(schema)
    filters = "x > 5", "x = CAST('NaN' AS DOUBLE)", "x = 0.0D", "st.y > 5"
    assert pushed(spark, tasks_of([file]), metadata, *filters) == [1, 1, 1, 1]


def test_promoted_columns(spark: Any, tmp_path: Path) -> None:
    """Files from before a promotion are read and filtered as the wider type, beyond the range of the narrow one too."""
    old = schema_of((1, "i", IntegerType()), (2, "f", FloatType()), (3, "d", DecimalType(9, 2)), (4, "t", DateType()))
    new = schema_of(
        (1, "i", LONG), (2, "f", DoubleType()), (3, "d", DecimalType(18, 2)), (4, "t", TimestampType()), schema_id=1
    )
    before = write(tmp_path, old, {"i": [1], "f": [0.5], "d": [Decimal("1.25")], "t": [1]})[0]
    after = write(tmp_path, new, {"i": [2**40], "f": [0.1], "d": [Decimal("99999999999.99")], "t": [5]})[0]
    tasks, metadata = tasks_of([before, after]), metadata_of(old, new)
    assert rows(spark, tasks, new, metadata=metadata) == [
        (1, 0.5, Decimal("1.25"), dt.datetime(1970, 1, 2)),
        (2**40, 0.1, Decimal("99999999999.99"), dt.datetime(1970, 1, 1, 0, 0, 0, 5)),
    ]
    # Spark's pushdown cuts this literal to 32 bits, where it is negative.
    filters = "d < 30000000.00", "i < 3000000000", "t >= TIMESTAMP_NTZ '1970-01-02 00:00:00'"
    assert pushed(spark, tasks, metadata, *filters) == [1, 1, 1]


# Traps 2 and 3


def test_trap_2_the_setting_stays_on(spark: Any, tmp_path: Path) -> None:
    """Reading by id is on when a query runs: in a relation of planned files whatever the session says."""
    old, new = schema_of((1, "a", LONG)), schema_of((1, "b", LONG), schema_id=1)
    file = write(tmp_path, old, {"a": [7]})[0]
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    frame = read_tasks(spark, tasks_of([file]), projection=new, metadata=metadata_of(old, new), storage=STORAGE)
    is_on = spark.conf.get("spark.sql.parquet.fieldId.read.enabled") == "true"
    assert frame.collect()[0].b == 7
    assert is_on == (spark.conf.get("spark.icecore.plannedFiles.enabled") == "false")
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")


def test_trap_3_a_wrong_size_in_the_manifest_costs_no_row(spark: Any, tmp_path: Path) -> None:
    file = write(tmp_path, TWO, {"id": list(range(50)), "name": ["x"] * 50})[0]
    small, large = (evolve(f, file_size_in_bytes=n) for f, n in ((file, 5), (hidden_copy(file), 10**9)))
    assert len(rows(spark, tasks_of([small]), TWO)) == 50
    assert len(rows(spark, tasks_of([large]), TWO)) == 50


# Column projection


def test_renamed_dropped_and_added_columns(spark: Any, tmp_path: Path) -> None:
    """P1, P2: nested columns too, with nulls for what a file lacks."""
    inner = StructType((NestedField(3, "x", LONG), NestedField(4, "y", STRING)))
    old = schema_of((1, "id", LONG), (2, "st", inner), (5, "l", ListType(6, inner_of(7))), (9, "gone", LONG))
    new = schema_of(
        (5, "list", ListType(6, StructType((NestedField(10, "new", LONG), NestedField(7, "renamed", LONG))))),
        (2, "st", StructType((NestedField(4, "z", STRING), NestedField(3, "x", LONG), NestedField(11, "w", LONG)))),
        (1, "key", LONG),
        (12, "gone", STRING),
        schema_id=1,
    )
    file = write(
        tmp_path,
        old,
        {"id": [1, 2], "st": [{"x": 5, "y": "a"}, None], "l": [[{"v": 8}, None], None], "gone": [0, 0]},
    )[0]
    for f in (file, hidden_copy(file)):
        assert rows(spark, tasks_of([f]), new, metadata=metadata_of(old, new)) == [
            (None, None, 2, None),
            ([(None, 8), None], ("a", 5, None), 1, None),
        ]


def inner_of(field_id: int) -> StructType:
    return StructType((NestedField(field_id, "v", LONG),))


DEFAULTS: list[tuple[Any, Any, Any]] = [
    (LONG, 42, 42),
    (IntegerType(), -(2**31), -(2**31)),
    (STRING, "it's é\\", "it's é\\"),
    (DecimalType(9, 2), Decimal("-1.50"), Decimal("-1.50")),
    (DateType(), -1, dt.date(1969, 12, 31)),
    (TimestampType(), 1, dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
    (TimestamptzNanoType(), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    (TimestampNanoType(), 1_000_001, dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    (TimeType(), 5, 5),
    (BooleanType(), False, False),
    (DoubleType(), float("inf"), float("inf")),
    (BinaryType(), b"\xff\x00", bytearray(b"\xff\x00")),
    (FixedType(2), b"ab", bytearray(b"ab")),
    (UUIDType(), A_UUID, str(A_UUID)),
]


def test_initial_defaults(spark: Any, tmp_path: Path) -> None:
    """T9: a file without the column has its initial default, a file with it its own nulls."""
    old = schema_of((1, "id", LONG))
    added = tuple(NestedField(10 + n, f"c{n}", t, initial_default=value) for n, (t, value, _) in enumerate(DEFAULTS))
    new = Schema((*old.fields, *added), 1)
    without = write(tmp_path, old, {"id": [1]})[0]
    with_ = write(tmp_path, new, {"id": [2], **{f.name: [None] for f in added}})[0]
    shown = tuple(v for _, _, v in DEFAULTS)
    # All at once goes through Python, because of uuid and fixed; without what only Python reads, through Spark.
    metadata = metadata_of(old, new)
    found = rows(spark, tasks_of([without, with_]), new, metadata=metadata)
    assert found == [(1, *shown), (2, *[None] * len(shown))]
    names = [f.name for f in added[:12]]
    found = rows(spark, tasks_of([without, with_]), new, metadata=metadata, columns=["id", *names])
    assert found == [(1, *shown[:12]), (2, *[None] * 12)]


def test_defaults_inside_structs(spark: Any, tmp_path: Path) -> None:
    old = schema_of((1, "st", StructType((NestedField(2, "x", LONG),))))
    new = schema_of(
        (1, "st", StructType((NestedField(2, "x", LONG), NestedField(3, "y", LONG, initial_default=9)))), schema_id=1
    )
    file = write(tmp_path, old, {"st": [{"x": 1}, None]})[0]
    assert rows(spark, tasks_of([file]), new, metadata=metadata_of(old, new)) == [((1, 9),), (None,)]


def test_columns_that_only_the_partition_knows(spark: Any, tmp_path: Path) -> None:
    """P1: an identity partition value stands for a column that the file lacks, before its initial default."""
    spec = spec_of((2, "identity", "day"), (1, "bucket[4]", "id_bucket"))
    schema = Schema(
        (NestedField(1, "id", LONG), NestedField(2, "day", DateType(), initial_default=7), NestedField(3, "v", STRING))
    )
    bare = schema_of((1, "id", LONG), (3, "v", STRING))
    files = [
        evolve(write(tmp_path, bare, {"id": [i], "v": [f"v{i}"]})[0], partition=(day, 0))
        for i, day in enumerate((0, 1, None))
    ]
    metadata = metadata_of(schema, spec=spec)
    days = [dt.date(1970, 1, 1), dt.date(1970, 1, 2), None]
    for made in (files, [hidden_copy(f) for f in files]):
        assert rows(spark, tasks_of(made), schema, metadata=metadata) == [(i, d, f"v{i}") for i, d in enumerate(days)]
        assert rows(spark, tasks_of(made), schema, metadata=metadata, where="day = DATE '1970-01-02'") == [
            (1, days[1], "v1")
        ]


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


def test_files_without_ids_by_name_mapping(spark: Any, tmp_path: Path) -> None:
    """P2: columns are found by the names that the mapping knows, file by file, old names too."""
    schema = schema_of(
        (1, "id", LONG),
        (2, "full name", STRING),
        (3, "x", DoubleType()),
        (4, "st", StructType((NestedField(5, "a", LONG), NestedField(6, "b", LONG)))),
    )
    mapping = (
        '[{"field-id": 1, "names": ["id", "key"]}, {"field-id": 2, "names": ["name"]}, {"field-id": 3, "names": ["x"]},'
        '{"field-id": 4, "names": ["st"], "fields": [{"field-id": 5, "names": ["a_old"]}]}]'
    )
    tables = [
        pa.table({"id": [1], "name": ["one"], "st": [{"a_old": 5, "zzz": 1}]}),
        pa.table({"x": [float("nan"), 1.0], "key": pa.array([2, 3], pa.int32()), "other": ["x", "y"]}),
    ]
    files = []
    for n, table in enumerate(tables):
        path = tmp_path / f"plain{n}.parquet"
        pq.write_table(table, path)
        files.append(evolve(write(tmp_path, schema_of((1, "id", LONG)), {"id": [0]})[0], file_path=str(path)))
    with_ids = write(tmp_path, schema, {"id": [4], "full name": ["four"], "x": [4.0], "st": [None]})
    metadata = metadata_of(schema, properties={"schema.name-mapping.default": mapping})
    assert NameMapping.from_json(mapping)
    wanted = "[(1, 'one', None, (5, None)), (2, None, nan, None), (3, None, 1.0, None), (4, 'four', 4.0, None)]"
    assert repr(rows(spark, tasks_of([*files, *with_ids]), schema, metadata=metadata)) == wanted
    # NaN is greater than 3, and Parquet's statistics don't know of it.
    assert pushed(spark, tasks_of([*files, *with_ids]), metadata, "x > 3") == [2]


# Files


NAMES = [
    "plain",
    "a b",
    "100%",
    "%20",
    "%2F",
    "ü",
    "a=1",
    "x+y",
    "[a]{b}*?",
    "q\"'`",
    "#",
    "back\\slash",
    "a:b",
    "é\u00a0",
]


def test_any_file_name(spark: Any, tmp_path: Path) -> None:
    """Each file is read once and has its own deletes and its own `_file`, whatever its name is."""
    schema = Schema((*TWO.fields, NestedField(FILE_ID, "_file", STRING), NestedField(POS_ID, "_pos", LONG)))
    tasks = []
    for n, name in enumerate([*NAMES, "_hidden", ".hidden"]):
        made = write(tmp_path / "made", TWO, {"id": [n, n, n], "name": [name] * 3})[0]
        (tmp_path / name).mkdir()
        path = shutil.move(made.file_path, tmp_path / name / f"{name}.parquet")
        file = evolve(made, file_path=f"file://{path}" if n % 2 else str(path))
        delete = (
            deletion_vector(tmp_path / "d", file.file_path, [1])
            if n % 3
            else position_deletes(tmp_path / "d", [(file.file_path, 1)])
        )
        tasks += tasks_of([file], [delete])
    found = rows(spark, tasks, schema, metadata=metadata_of(TWO))
    wanted = [
        (n, t.file.file_path.rsplit("/", 1)[1].removesuffix(".parquet"), t.file.file_path, p)
        for n, t in enumerate(tasks)
        for p in (0, 2)
    ]
    assert found == sorted(wanted, key=repr)


def test_ranges_of_a_file_are_put_together(spark: Any, tmp_path: Path) -> None:
    """Splits that cover a file are read as one; a part alone gives the rows of its row groups alone."""
    n = 400
    file = write(
        tmp_path,
        TWO,
        {"id": list(range(n)), "name": ["x" * 50] * n},
        properties={"write.parquet.row-group-limit": "100", "write.parquet.row-group-size-bytes": "6000"},
    )[0]
    groups = pq.ParquetFile(file.file_path).metadata.num_row_groups
    assert groups > 2 and file.split_offsets is not None
    cut = file.split_offsets[1]
    whole = tasks_of([file])[0]
    first, second = evolve(whole, length=cut), evolve(whole, start=cut, length=file.file_size_in_bytes - cut)
    assert [r[0] for r in rows(spark, [first, second], TWO)] == [r[0] for r in rows(spark, [whole], TWO)]
    part = rows(spark, [first], TWO)
    assert len(part) == pq.ParquetFile(file.file_path).metadata.row_group(0).num_rows
    with pytest.raises(ValidationError, match="planned twice"):
        rows(spark, [whole, second], TWO)
    with pytest.raises(ValidationError, match="planned twice"):
        rows(spark, [whole, evolve(whole, file=evolve(file, file_path=f"file://{file.file_path}"))], TWO)


def test_avro_files_through_python(spark: Any, tmp_path: Path) -> None:
    import fastavro

    path = tmp_path / "data.avro"
    fields = [
        {"name": "id", "type": ["null", "long"], "field-id": 1},
        {"name": "other", "type": ["null", "string"], "field-id": 2},
    ]
    with path.open("wb") as f:
        fastavro.writer(f, {"type": "record", "name": "r", "fields": fields}, [{"id": 1, "other": "a"}, {"id": 2}])
    parquet = write(tmp_path, TWO, {"id": [3], "name": ["c"]})[0]
    avro = evolve(parquet, file_path=str(path), file_format=FileFormat.AVRO, file_size_in_bytes=path.stat().st_size)
    tasks = tasks_of([avro], [deletion_vector(tmp_path, str(path), [1])]) + tasks_of([parquet])
    assert rows(spark, tasks, TWO) == [(1, "a"), (3, "c")]


# Deletes


def test_position_deletes(spark: Any, tmp_path: Path) -> None:
    """D3, D5: position delete files that name many data files, and vectors; with filters that skip row groups."""
    files = [
        write(
            tmp_path,
            TWO,
            {"id": list(range(k * 1000, k * 1000 + 300)), "name": ["x" * 30] * 300},
            properties={"write.parquet.row-group-limit": "100", "write.parquet.row-group-size-bytes": "3000"},
        )[0]
        for k in range(3)
    ]
    assert pq.ParquetFile(files[0].file_path).metadata.num_row_groups > 2
    shared = position_deletes(tmp_path / "d", [(f.file_path, p) for f in files[:2] for p in (0, 150, 299)])
    vector = deletion_vector(tmp_path / "d", files[2].file_path, list(range(0, 300, 2)))
    other = position_deletes(tmp_path / "d", [(files[0].file_path, 1)])
    tasks = [
        *tasks_of(files[:1], [shared, other]),
        *tasks_of(files[1:2], [shared]),
        *tasks_of(files[2:], [vector]),
    ]
    gone = {0, 1, 150, 299, 1000, 1150, 1299, *range(2000, 2300, 2)}
    everything = {k * 1000 + i for k in range(3) for i in range(300)}
    assert {r[0] for r in rows(spark, tasks, TWO)} == everything - gone
    late = {i for i in everything - gone if i >= 1140}
    assert {r[0] for r in rows(spark, tasks, TWO, where="id >= 1140")} == late
    assert pushed(spark, tasks, metadata_of(TWO), "id >= 1140") == [len(late)]


def test_equality_deletes(spark: Any, tmp_path: Path) -> None:
    """D4: by the columns of each delete file, null matching null; files with different sets of deletes at once."""
    schema = schema_of((1, "id", LONG), (2, "name", STRING), (3, "u", UUIDType()), (4, "v", LONG))
    data = {
        "id": [1, 2, None, 4],
        "name": ["a", None, "c", "d"],
        "u": [A_UUID.bytes, None, None, A_UUID.bytes],
        "v": [10, 20, 30, 40],
    }
    old, new, free = (write(tmp_path, schema, data)[0] for _ in range(3))
    by_id = equality_deletes(tmp_path / "e", schema_of((1, "id", LONG)), {"id": [None, 4, 99]})
    by_both = equality_deletes(
        tmp_path / "e", schema_of((2, "name", STRING), (3, "u", UUIDType())), {"name": [None], "u": [None]}
    )
    by_v = equality_deletes(tmp_path / "e", schema_of((4, "v", LONG)), {"v": [10]})
    vector = deletion_vector(tmp_path / "e", new.file_path, [3])
    tasks = [
        *tasks_of([old], [by_id, by_both, by_v]),
        *tasks_of([new], [by_both, vector]),
        *tasks_of([free]),
    ]
    found = rows(spark, tasks, schema, columns=["v"])
    assert sorted(v for (v,) in found) == sorted([*[], *[10, 30], *[10, 20, 30, 40]])
    hidden = [evolve(t, file=hidden_copy(t.file)) for t in tasks[:1]]
    assert rows(spark, hidden, schema, columns=["v"]) == []


def test_equality_deletes_by_renamed_promoted_and_dropped_columns(spark: Any, tmp_path: Path) -> None:
    """D4: keys are found by id in data and delete files, also those that the table has no more."""
    old = schema_of((1, "id", IntegerType()), (2, "gone", STRING), (3, "v", LONG), (5, "st", inner_of(6)))
    new = schema_of((1, "key", LONG), (3, "v", LONG), (4, "gone", STRING), (5, "s", inner_of(6)), schema_id=1)
    file = write(
        tmp_path,
        old,
        {"id": [1, 2, 3, 4], "gone": ["a", "b", None, "d"], "v": [1, 2, 3, 4], "st": [None, None, None, {"v": 5}]},
    )[0]
    by_id = equality_deletes(tmp_path / "e", schema_of((1, "id", IntegerType())), {"id": [1]})
    by_gone = equality_deletes(tmp_path / "e", schema_of((2, "gone", STRING)), {"gone": [None]})
    nested = write(tmp_path / "e", schema_of((5, "st", inner_of(6))), {"st": [{"v": 5}]})[0]
    by_nested = evolve(nested, content=by_id.content, equality_ids=(6,))
    metadata = metadata_of(old, new)
    assert rows(spark, tasks_of([file], [by_id, by_gone]), new, metadata=metadata) == [
        (2, 2, None, None),
        (4, 4, None, (5,)),
    ]
    assert rows(spark, tasks_of([file], [by_nested]), new, metadata=metadata, columns=["v"]) == [(1,), (2,), (3,)]


def test_lineage_and_metadata_columns(spark: Any, tmp_path: Path) -> None:
    """RL5: row ids come from the file's first one and the position, unless a rewrite stored them."""
    reserved = (
        NestedField(ROW_ID_ID, "_row_id", LONG),
        NestedField(LAST_UPDATED_ID, "_last_updated_sequence_number", LONG),
        NestedField(SPEC_ID_ID, "_spec_id", IntegerType()),
        NestedField(POS_ID, "_pos", LONG),
    )
    projection = Schema((NestedField(1, "id", LONG), *reserved))
    plain = evolve(write(tmp_path, TWO, {"id": [1, 2], "name": ["a", "b"]})[0], first_row_id=100)
    stored_schema = Schema((*TWO.fields, *reserved[:2]))
    moved = write(
        tmp_path,
        stored_schema,
        {"id": [3, 4], "name": ["c", "d"], "_row_id": [7, None], "_last_updated_sequence_number": [None, 2]},
    )[0]
    moved = evolve(moved, first_row_id=200)
    unknown = write(tmp_path, TWO, {"id": [5], "name": ["e"]})[0]
    files = [plain, moved, unknown]
    for made in (files, [hidden_copy(f) for f in files]):
        assert rows(spark, tasks_of(made, sequence=9), projection, metadata=metadata_of(TWO)) == [
            (1, 100, 9, 0, 0),
            (2, 101, 9, 0, 1),
            (3, 7, 9, 0, 0),
            (4, 201, 2, 0, 1),
            (5, None, None, 0, 0),
        ]


def test_spark_and_python_agree_on_a_mixed_plan(spark: Any, tmp_path: Path) -> None:
    """One scan over native, deleted, hidden and renamed files gives what the engine's own reader gives."""
    old, new = TWO, schema_of((1, "key", LONG), (2, "name", STRING), schema_id=1)
    tasks = []
    for n in range(6):
        file = write(tmp_path, old, {"id": list(range(n * 10, n * 10 + 10)), "name": [f"n{n}"] * 10})[0]
        deletes = [deletion_vector(tmp_path, file.file_path, [n])] if n % 2 else []
        if n in (3, 4):
            deletes.append(equality_deletes(tmp_path / "e", schema_of((1, "id", LONG)), {"id": [n * 10 + 9]}))
        hide = n == 5
        tasks += tasks_of([hidden_copy(file)] if hide else [file], [] if hide else deletes)
    metadata = metadata_of(old, new)
    expected = [
        tuple(r.values())
        for t in tasks
        for b in read_task(t, projection=new, table_schema=new, specs=metadata.specs, storage=STORAGE)
        for r in b.to_pylist()
    ]
    assert rows(spark, tasks, new, metadata=metadata) == sorted(expected, key=repr)
    assert len(expected) == 60 - 2 - 2
