"""Spark reads columns by field id, and has a value for each that a file lacks. Spec: P1, P2, T9, RL5."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from pyspark.errors import PySparkException  # noqa: E402
from spark_reading import A_UUID, LONG, STRING, TWO, inner_of, pushed, rows, spark  # noqa: E402
from spark_tables import STORAGE, hidden_copy, metadata_of, schema_of, spec_of, tasks_of, write  # noqa: E402

from icecore.engine.data.read.column_resolution import LAST_UPDATED_ID, POS_ID, ROW_ID_ID, SPEC_ID_ID  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spec.name_mapping import NameMapping  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)

__all__ = ["spark"]


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


@pytest.mark.parametrize("reader", ["enableVectorizedReader", "enableNestedColumnVectorizedReader"])
@pytest.mark.parametrize("column", ["n", "x", "st", "l", "l2", "ms"])
def test_what_is_found_by_id_is_never_a_null_for_want_of_it(
    spark: Any, tmp_path: Path, column: str, reader: str
) -> None:
    """Where the setting is switched off between the frame and its query, that is pinned or fails, for any column."""
    of_old, of_new = (StructType((NestedField(4, name, LONG), NestedField(5, "y", STRING))) for name in ("v", "w"))
    in_list = StructType((NestedField(8, "z", LONG),))
    same = (2, "x", DoubleType()), (9, "l2", ListType(10, LONG)), (12, "ms", DecimalType(9, 2))
    old = schema_of((1, "m", LONG), (3, "st", of_old), (6, "l", ListType(7, inner_of(8))), *same)
    new = schema_of((1, "n", LONG), (3, "st", of_new), (6, "l", ListType(7, in_list)), *same, schema_id=1)
    row = {"m": 7, "x": 0.5, "st": {"v": 1, "y": "a"}, "l": [{"v": 2}], "l2": [3], "ms": Decimal("1.50")}
    file = write(tmp_path, old, {k: [v, None] for k, v in row.items()})[0]
    metadata = metadata_of(old, new)
    frame = read_tasks(spark, tasks_of([file]), projection=new.select((column,)), metadata=metadata, storage=STORAGE)
    expected = frame.collect()
    spark.conf.set(f"spark.sql.parquet.{reader}", "false")
    spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
    try:
        assert frame.select("*").collect() == expected and expected[0][0] is not None
    except PySparkException as e:
        assert "fieldId.read.enabled was switched off" in str(e)
        assert spark.conf.get("spark.icecore.plannedFiles.enabled") == "false"
    finally:
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        spark.conf.set(f"spark.sql.parquet.{reader}", "true")


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


def test_lineage_and_metadata_columns(spark: Any, tmp_path: Path) -> None:
    """RL5: row ids come from the file's first one and the position, unless a rewrite stored them; without one, none."""
    reserved = (
        NestedField(ROW_ID_ID, "_row_id", LONG),
        NestedField(LAST_UPDATED_ID, "_last_updated_sequence_number", LONG),
        NestedField(SPEC_ID_ID, "_spec_id", IntegerType()),
        NestedField(POS_ID, "_pos", LONG),
    )
    projection = Schema((NestedField(1, "id", LONG), *reserved))
    plain = evolve(write(tmp_path, TWO, {"id": [1, 2], "name": ["a", "b"]})[0], first_row_id=100)
    stored_schema = Schema((*TWO.fields, *reserved[:2]))
    stored = {"id": [3, 4], "name": ["c", "d"], "_row_id": [7, None], "_last_updated_sequence_number": [None, 2]}
    moved = evolve(write(tmp_path, stored_schema, stored)[0], first_row_id=200)
    unnumbered = write(tmp_path, stored_schema, stored)[0]
    unknown = write(tmp_path, TWO, {"id": [5], "name": ["e"]})[0]
    files = [plain, moved, unknown, unnumbered]
    for made in (files, [hidden_copy(f) for f in files]):
        assert rows(spark, tasks_of(made, sequence=9), projection, metadata=metadata_of(TWO)) == [
            (1, 100, 9, 0, 0),
            (2, 101, 9, 0, 1),
            (3, 7, 9, 0, 0),
            (3, None, None, 0, 0),
            (4, 201, 2, 0, 1),
            (4, None, None, 0, 1),
            (5, None, None, 0, 0),
        ]
