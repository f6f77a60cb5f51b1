"""Iceberg schemas as Arrow schemas and the reverse.

Spec: Schemas and Data Types, Appendix A Parquet (T1, T4). A uuid is Arrow's `arrow.uuid` extension type, which Parquet
stores as FIXED_LEN_BYTE_ARRAY(16) with the UUID logical type; a fixed[L] is a fixed-size binary.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import assert_never

import pyarrow as pa
from attrs import evolve

from icecore.engine.data.arrow.arrow_extensions import extension_type
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema, check_format_version
from icecore.engine.spec.types import (
    MAX_DECIMAL_PRECISION,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
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
    Type,
    UnknownType,
    UUIDType,
    VariantType,
)

FIELD_ID_KEY = b"PARQUET:field_id"
VARIANT_ARROW = pa.struct(
    [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)
_DOC_KEY = b"doc"


def schema_to_arrow(schema: Schema, *, with_ids: bool = True) -> pa.Schema:
    """The Arrow schema that data of `schema` has in memory; required fields are not nullable.

    With ids every field, list elements and map keys and values too, carries its id as `PARQUET:field_id`.
    """
    return pa.schema([field_to_arrow(f, with_ids=with_ids) for f in schema.fields])


def field_to_arrow(field: NestedField, *, with_ids: bool = True) -> pa.Field:
    """One field with all below it; see `schema_to_arrow`."""
    metadata = {FIELD_ID_KEY: str(field.field_id).encode()} if with_ids else None
    return pa.field(field.name, type_to_arrow(field.field_type, with_ids=with_ids), field.optional, metadata=metadata)


def type_to_arrow(iceberg_type: Type, *, with_ids: bool = True) -> pa.DataType:  # noqa: C901  # one case a type
    """The Arrow type of an Iceberg type: of geometry and geography their WKB, of variant its two binaries."""
    match iceberg_type:
        case BooleanType():
            return pa.bool_()
        case IntegerType():
            return pa.int32()
        case LongType():
            return pa.int64()
        case FloatType():
            return pa.float32()
        case DoubleType():
            return pa.float64()
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case DateType():
            return pa.date32()
        case TimeType():
            return pa.time64("us")
        case TimestampType():
            return pa.timestamp("us")
        case TimestamptzType():
            return pa.timestamp("us", "UTC")
        case TimestampNanoType():
            return pa.timestamp("ns")
        case TimestamptzNanoType():
            return pa.timestamp("ns", "UTC")
        case StringType():
            return pa.string()
        case UUIDType():
            return pa.uuid()
        case FixedType(length=length):
            return pa.binary(length)
        case BinaryType() | GeometryType() | GeographyType():
            return pa.binary()
        case UnknownType():
            return pa.null()
        case VariantType():
            return VARIANT_ARROW
        case StructType(fields=fields):
            return pa.struct([field_to_arrow(f, with_ids=with_ids) for f in fields])
        case ListType():
            return pa.list_(field_to_arrow(iceberg_type.element_field, with_ids=with_ids))
        case MapType():
            return pa.map_(
                field_to_arrow(iceberg_type.key_field, with_ids=with_ids),
                field_to_arrow(iceberg_type.value_field, with_ids=with_ids),
            )
        case _:
            assert_never(iceberg_type)


def arrow_to_schema(pa_schema: pa.Schema, *, format_version: int = 2) -> Schema:
    """The Iceberg schema that holds data of an Arrow schema, with fresh ids; ids in the Arrow schema are ignored.

    Types widen to the next that Iceberg has: int8 and int16 to int, uint32 to long, float16 to float, timestamps in s
    and ms to us, dictionaries to their values. Nanosecond timestamps need format version 3. Raises
    ValidationError naming the column that has no Iceberg type.
    """
    reader = _ArrowReader(format_version)
    schema = assign_fresh_ids(Schema(tuple(reader.field(f, f.name) for f in pa_schema)))
    check_format_version(schema, format_version)
    return schema


def assign_fresh_ids(schema: Schema, first_id: int = 1) -> Schema:
    """The schema with ids counted from `first_id`: all fields of a struct, then those inside each (Java's order)."""
    ids = itertools.count(first_id)
    renamed: dict[int, int] = {}
    fields = _fresh_struct(schema.fields, ids, renamed)
    return Schema(fields, schema.schema_id, tuple(renamed[i] for i in schema.identifier_field_ids))


def _fresh_struct(
    fields: tuple[NestedField, ...], ids: Iterator[int], renamed: dict[int, int]
) -> tuple[NestedField, ...]:
    numbered = []
    for f in fields:
        renamed[f.field_id] = next(ids)
        numbered.append(evolve(f, field_id=renamed[f.field_id]))
    return tuple(evolve(f, field_type=_fresh_type(f.field_type, ids, renamed)) for f in numbered)


def _fresh_type(iceberg_type: Type, ids: Iterator[int], renamed: dict[int, int]) -> Type:
    match iceberg_type:
        case StructType(fields=fields):
            return StructType(_fresh_struct(fields, ids, renamed))
        case ListType() as t:
            element_id = renamed[t.element_id] = next(ids)
            return evolve(t, element_id=element_id, element=_fresh_type(t.element, ids, renamed))
        case MapType() as t:
            key_id = renamed[t.key_id] = next(ids)
            value_id = renamed[t.value_id] = next(ids)
            key = _fresh_type(t.key, ids, renamed)
            return evolve(t, key_id=key_id, value_id=value_id, key=key, value=_fresh_type(t.value, ids, renamed))
        case _:
            return iceberg_type


class _ArrowReader:
    """The reader of Arrow fields as Iceberg fields with throw-away ids."""

    def __init__(self, format_version: int) -> None:
        self.format_version = format_version
        self.ids = itertools.count(1)

    def field(self, f: pa.Field, path: str) -> NestedField:
        doc = (f.metadata or {}).get(_DOC_KEY)
        t = extension_type(f) or self.type(f.type, path)
        return NestedField(next(self.ids), f.name, t, not f.nullable, doc.decode() if doc is not None else None)

    def type(self, t: pa.DataType, path: str) -> Type:
        types = pa.types
        if types.is_dictionary(t) or types.is_run_end_encoded(t):
            return self.type(t.value_type, path)
        if types.is_struct(t):
            return StructType(tuple(self.field(f, f"{path}.{f.name}") for f in t))
        if types.is_map(t):
            key = self.field(t.key_field, f"{path}.key").field_type
            value = self.field(t.item_field, f"{path}.value").field_type
            return MapType(next(self.ids), key, next(self.ids), value, not t.item_field.nullable)
        if is_list_like(t):
            element = self.field(t.value_field, f"{path}.element").field_type
            return ListType(next(self.ids), element, not t.value_field.nullable)
        return self.primitive(t, path)

    def primitive(self, t: pa.DataType, path: str) -> Type:
        found = self.timestamp(t, path) if pa.types.is_timestamp(t) else _number_type(t) or _other_type(t)
        if found is None:
            hint = "; cast it to decimal128(20, 0)" if t == pa.uint64() else ""
            raise ValidationError(f"column {path!r}: Arrow type {t} has no Iceberg type{hint}")
        return found

    def timestamp(self, t: pa.TimestampType, path: str) -> Type:
        if t.unit == "ns":
            if self.format_version < 3:
                raise ValidationError(
                    f"column {path!r}: Arrow type {t} needs format version 3, found {self.format_version}; "
                    "ask for that version, or cast the column to microseconds"
                )
            return TimestamptzNanoType() if t.tz else TimestampNanoType()
        return TimestamptzType() if t.tz else TimestampType()


def _number_type(t: pa.DataType) -> Type | None:
    """The Iceberg type of a number type; None for other types, and for number types that Iceberg lacks."""
    types = pa.types
    if types.is_integer(t) and t != pa.uint64():
        fits_int = t.bit_width < 32 or t == pa.int32()
        return IntegerType() if fits_int else LongType()
    if types.is_floating(t):
        return DoubleType() if t.bit_width == 64 else FloatType()
    if types.is_decimal(t) and t.precision <= MAX_DECIMAL_PRECISION and t.scale >= 0:
        return DecimalType(t.precision, t.scale)
    return None


def _other_type(t: pa.DataType) -> Type | None:
    """The Iceberg type of a type that is no number and no timestamp; None where Iceberg has none."""
    types = pa.types
    if types.is_boolean(t):
        return BooleanType()
    if types.is_date(t):
        return DateType()
    if types.is_time(t):
        return TimeType()
    if is_string_like(t) or isinstance(t, pa.JsonType):
        return StringType()
    if isinstance(t, pa.UuidType):
        return UUIDType()
    if types.is_fixed_size_binary(t):
        return FixedType(t.byte_width)
    if is_binary_like(t):
        return BinaryType()
    return UnknownType() if types.is_null(t) else None


def storage_type(t: pa.DataType) -> pa.DataType:
    """The Arrow type with its extension types, at any depth, replaced by their storage types.

    Arrow builds no nested array of extension type from Python values; it casts one from the storage type.
    """
    if isinstance(t, pa.BaseExtensionType):
        return t.storage_type
    if pa.types.is_struct(t):
        return pa.struct([_storage_field(f) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_storage_field(t.key_field), _storage_field(t.item_field))
    if pa.types.is_list(t):
        return pa.list_(_storage_field(t.value_field))
    return t


def _storage_field(f: pa.Field) -> pa.Field:
    return f.with_type(storage_type(f.type))


def is_list_like(t: pa.DataType) -> bool:
    """Whether an Arrow type is one of the lists; a map is not."""
    types = pa.types
    return bool(
        types.is_list(t)
        or types.is_large_list(t)
        or types.is_fixed_size_list(t)
        or types.is_list_view(t)
        or types.is_large_list_view(t)
    )


def is_string_like(t: pa.DataType) -> bool:
    """Whether an Arrow type is one of the UTF-8 strings."""
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t))


def is_binary_like(t: pa.DataType) -> bool:
    """Whether an Arrow type is one of the binaries of any length."""
    return bool(pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t))
