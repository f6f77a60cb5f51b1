"""Rows come back from data files as they went in, and as an evolved schema sees them. Spec: P1, T7, M5, PT3."""

from __future__ import annotations

import itertools
import math
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from typed_rows import LONG, PRIMITIVE_TYPES, VALUES, arrow, tables

from icecore.engine.data.arrow.arrow_partitions import partition_batches
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.arrow_transforms import apply_transform
from icecore.engine.data.arrow.arrow_values import constant_array, from_array, to_array
from icecore.engine.data.arrow.equality import EqualityKeys
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from icecore.engine.spec.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    Type,
)
from icecore.engine.storage.file_io import Storage

QUICK = examples(30, new=420)


def written(
    folder: str, schema: Schema, table: pa.Table, spec: PartitionSpec = UNPARTITIONED, file_format: str = "parquet"
) -> list[ContentFile]:
    return write_data_files(
        table,
        schema=schema,
        spec=spec,
        location=f"file://{folder}",
        storage=Storage(durable=False),
        properties={"write.parquet.row-group-limit": "5", "write.format.default": file_format},
        file_prefix="p",
    )


def read(files: list[ContentFile], schema: Schema, projection: Schema, spec: PartitionSpec = UNPARTITIONED) -> pa.Table:
    batches = [
        b
        for f in files
        for b in read_task(
            FileScanTask(f, (), TRUE, 0, f.file_size_in_bytes, 1),
            projection=projection,
            table_schema=schema,
            specs={spec.spec_id: spec},
            storage=Storage(),
            batch_rows=3,
        )
    ]
    for b in batches:
        b.validate(full=True)
    return pa.Table.from_batches(batches, schema_to_arrow(projection, with_ids=False))


def whole_seconds(t: Type, value: Any) -> Any:
    """The value with times before 1970 as ORC can hold them; keys 0.0 and -0.0, which pyorc merges, as one."""
    if value is None:
        return None
    match t:
        case StructType(fields=inner):
            return {f.field_id: whole_seconds(f.field_type, value[f.field_id]) for f in inner}
        case ListType(element=element):
            return [whole_seconds(element, v) for v in value]
        case MapType(key=key, value=item):
            pairs = [(whole_seconds(key, k), whole_seconds(item, v)) for k, v in value]
            return list({repr(0.0 if k == 0.0 and isinstance(k, float) else k): (k, v) for k, v in pairs}.values())
        case TimestampType() | TimestamptzType():
            return value if value >= 0 else -(-value // 10**6) * 10**6
        case TimestampNanoType() | TimestamptzNanoType():
            return value if value >= 0 else -(-value // 10**9) * 10**9
        case _:
            return value


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@QUICK
@given(tables(), st.integers(0, 3))
def test_what_is_written_is_read(file_format: str, case: tuple[Schema, list[dict[int, Any]]], cut: int) -> None:
    """Every type at every depth comes back value by value, with exactly the expected Arrow schema, slices too."""
    schema, rows = case
    if file_format == "orc":
        rows = [whole_seconds(schema.as_struct(), r) for r in rows]
    table = arrow(schema, rows)
    assert conform(arrow(schema, rows, with_ids=False), schema).equals(table)
    cut = min(cut, len(rows) - 1)
    with tempfile.TemporaryDirectory() as folder:
        (file,) = written(folder, schema, table.slice(cut), file_format=file_format)
        back = read([file], schema, schema)
    assert file.file_format.value.lower() == file_format
    assert file.record_count == len(rows) - cut
    assert back.equals(arrow(schema, rows[cut:], with_ids=False))


PROMOTIONS: dict[type, Type] = {
    IntegerType: LongType(),
    FloatType: DoubleType(),
    DecimalType: DecimalType(38, 2),
}


@st.composite
def evolved(draw: st.DrawFn, t: Type, ids: Iterator[int]) -> Type:
    """A type that a column of type `t` may have evolved to: fields dropped, renamed, moved, added, widened."""
    match t:
        case StructType(fields=inner):
            return StructType(draw(evolved_fields(inner, ids)))
        case ListType():
            return evolve(t, element=draw(evolved(t.element, ids)))
        case MapType():
            return evolve(t, key=draw(promoted(t.key)), value=draw(evolved(t.value, ids)))
        case _:
            return draw(promoted(t))


def promoted(t: Type) -> st.SearchStrategy[Type]:
    wider = PROMOTIONS.get(type(t), t)
    if isinstance(t, DecimalType) and t.scale != 2:
        wider = t
    return st.sampled_from([t, wider])


@st.composite
def evolved_fields(draw: st.DrawFn, inner: tuple[NestedField, ...], ids: Iterator[int]) -> tuple[NestedField, ...]:
    kept = [f for f in inner if draw(st.booleans()) or draw(st.booleans())]
    out = [evolve(f, name=f"r{f.field_id}", field_type=draw(evolved(f.field_type, ids))) for f in kept]
    for _ in range(draw(st.integers(0, 2))):
        t = draw(PRIMITIVE_TYPES)
        default = draw(st.one_of(st.none(), VALUES[t]))
        out.append(NestedField(new := next(ids), f"n{new}", t, default is not None, None, default, default))
    if not out:
        out = [NestedField(new := next(ids), f"n{new}", LongType())]
    return tuple(draw(st.permutations(out)))


def as_seen(t: Type, value: Any, known: frozenset[int]) -> Any:
    """A value as an evolved type sees it: fields that the file lacks take their default."""
    if value is None:
        return None
    match t:
        case StructType(fields=inner):
            return {
                f.field_id: as_seen(f.field_type, value[f.field_id], known)
                if f.field_id in known
                else f.initial_default
                for f in inner
            }
        case ListType(element=element):
            return [as_seen(element, v, known) for v in value]
        case MapType(key=key, value=item):
            return [(as_seen(key, k, known), as_seen(item, v, known)) for k, v in value]
        case DecimalType(scale=scale):
            return single_value.unscaled_to_decimal(single_value.decimal_to_unscaled(value, scale), scale)
        case _:
            return value


@QUICK
@given(st.data(), tables())
def test_p1_evolved_schemas_see_old_files_by_id(data: st.DataObject, case: tuple[Schema, list[dict[int, Any]]]) -> None:
    """Renames, reorders, drops, added defaults and promotions at any depth give what a plain model of them gives."""
    schema, rows = case
    new_ids = itertools.count(schema.highest_field_id + 1)
    now = Schema(data.draw(evolved_fields(schema.fields, new_ids)), 1)
    with tempfile.TemporaryDirectory() as folder:
        files = written(folder, schema, arrow(schema, rows))
        back = read(files, now, now)
    expected = [as_seen(now.as_struct(), r, schema.field_ids) for r in rows]
    assert back.equals(arrow(now, expected, with_ids=False))


@QUICK
@given(st.data(), PRIMITIVE_TYPES)
def test_m5_bounds_hold_all_values_and_are_tight(data: st.DataObject, t: PrimitiveType) -> None:
    """Bounds decode to the least and greatest value, or, for long text and bytes, to short values around them."""
    some = VALUES[t]
    if isinstance(t, (FloatType, DoubleType)):
        some = st.one_of(some, st.just(math.nan))
    found = data.draw(st.lists(st.one_of(st.none(), some), min_size=1, max_size=20))
    schema = Schema((NestedField(1, "c", t), NestedField(2, "place", IntegerType())))
    with tempfile.TemporaryDirectory() as folder:
        (file,) = written(folder, schema, arrow(schema, [{1: v, 2: i} for i, v in enumerate(found)]))
    numbers = [v for v in found if v is not None and v == v]
    assert file.null_value_counts is not None
    assert file.null_value_counts[1] == found.count(None)
    if isinstance(t, (FloatType, DoubleType)):
        assert file.nan_value_counts == {1: sum(v is not None and v != v for v in found)}
    assert file.lower_bounds is not None
    assert file.upper_bounds is not None
    if not numbers:
        assert 1 not in file.lower_bounds
        assert 1 not in file.upper_bounds
        return
    lower = single_value.from_bytes(t, file.lower_bounds[1])
    least, greatest = min(numbers), max(numbers)
    if isinstance(t, (StringType, BinaryType)):
        assert lower == least[:16]
        if 1 in file.upper_bounds:
            upper = single_value.from_bytes(t, file.upper_bounds[1])
            assert upper >= greatest
            assert len(upper) <= 16
        else:
            assert greatest[:16] in (b"\xff" * 16, "\U0010ffff" * 16)
        return
    assert lower == least
    assert single_value.from_bytes(t, file.upper_bounds[1]) == greatest


TRANSFORMS: list[Transform] = [
    IdentityTransform(),
    BucketTransform(16),
    BucketTransform(2**31 - 1),
    TruncateTransform(1),
    TruncateTransform(7),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    VoidTransform(),
]
FIT = st.integers(-(2**60), 2**60)


@QUICK
@given(st.data(), st.sampled_from(TRANSFORMS), PRIMITIVE_TYPES)
def test_pt3_transforms_of_columns_are_those_of_values(
    data: st.DataObject, transform: Transform, t: PrimitiveType
) -> None:
    """A transformed column is the transform of each value, slices included; the least values are always among them."""
    if not transform.can_transform(t):
        return
    some = VALUES[t]
    if not isinstance(t, LongType) and some is LONG:
        some = FIT
    found = data.draw(st.lists(st.one_of(st.none(), some), max_size=15)) + least_values(t)
    result = transform.result_type(t)
    whole = to_array(t, found)
    for array, expected in ((whole, found), (whole.slice(1), found[1:])):
        assert from_array(result, apply_transform(transform, t, array)) == [
            wrapped(result, transform.apply(t, v)) for v in expected
        ]


def least_values(t: PrimitiveType) -> list[Any]:
    """The values next to the least of a type whose truncation leaves the type's range."""
    match t:
        case IntegerType() | LongType():
            return [t.min, t.min + 1, t.max]
        case DecimalType(precision=precision, scale=scale):
            return [single_value.unscaled_to_decimal(1 - 10**precision + i, scale) for i in range(2)]
        case _:
            return []


def wrapped(t: PrimitiveType, value: Any) -> Any:
    """What is below the range of int or long as Java has it, at the other end."""
    if value is None or not isinstance(t, (IntegerType, LongType)):
        return value
    return (value - t.min) % (t.max - t.min + 1) + t.min


@QUICK
@given(st.lists(st.tuples(st.one_of(st.none(), st.floats()), st.one_of(st.none(), st.text(max_size=2))), min_size=1))
def test_sp5_splitting_by_partition_keeps_rows_and_order(found: list[tuple[float | None, str | None]]) -> None:
    """Every row is in exactly the partition of its values, bit by bit for floats, and keeps its place."""
    schema = Schema(
        (NestedField(1, "f", DoubleType()), NestedField(2, "s", StringType()), NestedField(3, "i", LongType()))
    )
    spec = PartitionSpec(
        (PartitionField((1,), 1000, IdentityTransform(), "f"), PartitionField((2,), 1001, TruncateTransform(1), "s"))
    )
    table = arrow(schema, [{1: f, 2: s, 3: i} for i, (f, s) in enumerate(found)])

    def key(f: float | None, s: str | None) -> tuple[bytes | None, str | None]:
        bits = None if f is None else struct.pack("<d", math.nan if math.isnan(f) else f)
        return bits, None if s is None else s[:1]

    expected: dict[tuple[bytes | None, str | None], list[int]] = {}
    for i, (f, s) in enumerate(found):
        expected.setdefault(key(f, s), []).append(i)
    split = partition_batches(table, spec, schema)
    assert [(key(*p), t.column("i").to_pylist()) for p, t in split] == list(expected.items())


PAIRS = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, "a", "b", "c", "d"])), max_size=12)


@QUICK
@given(PAIRS, PAIRS)
def test_d4_equality_keys_match_as_tuples_do(deleted: list[tuple[Any, Any]], rows: list[tuple[Any, Any]]) -> None:
    """A row matches where all its key columns equal those of a delete row, null equal to null."""

    def columns(pairs: list[tuple[Any, Any]]) -> list[pa.Array]:
        return [pa.array([p[0] for p in pairs], pa.int64()), pa.array([p[1] for p in pairs], pa.string())]

    matched = EqualityKeys.of(columns(deleted)).matches(columns(rows)).tolist()
    assert matched == [r in deleted for r in rows]


@QUICK
@given(st.data(), PRIMITIVE_TYPES, st.integers(0, 5))
def test_constants_repeat_their_value(data: st.DataObject, t: PrimitiveType, length: int) -> None:
    value = data.draw(st.one_of(st.none(), VALUES[t]))
    assert from_array(t, constant_array(t, value, length)) == [value] * length
