"""Users' Arrow data cast to a table's schema, matched by name and without loss.

Spec: Default Values (T9), Type Promotion (T7).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_schema import (
    is_binary_like,
    is_list_like,
    is_string_like,
    schema_to_arrow,
    type_to_arrow,
)
from icecore.engine.data.arrow.arrow_values import constant_array
from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.data.read.promote import to_floating
from icecore.engine.data.variant.variant_shredding import METADATA, TYPED_VALUE, VALUE, check_variant, read_variants
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
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
    PrimitiveType,
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
    walk,
)

Step = Callable[[pa.Array, pa.DataType], pa.Array]
_STORED_AS_EXTENSION = (GeometryType, GeographyType, VariantType)


def conform(data: pa.Table | pa.RecordBatch, schema: Schema) -> pa.Table:
    """The data with exactly the columns, order and types of `schema_to_arrow(schema)`, matched by name.

    Missing columns take their write default, or null. Values are cast where no value changes: between integers, to
    larger or equal decimals, between time units, zones to UTC, dictionaries and large or view types to plain ones,
    strings to uuid; shapes come as WKB, variants as structs of the binaries `metadata` and `value`, or shredded as in
    Parquet files. Raises ValidationError naming the column that is unknown, missing, null though required, or that
    can't be cast without loss.
    """
    target = schema_to_arrow(schema)
    if data.schema.equals(target, check_metadata=True) and not any(_needs_look(f) for f in walk(schema.fields)):
        return data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    _check_names(data.schema.names, schema.fields, "")
    caster = _Caster()
    columns = []
    for f, arrow_field in zip(schema.fields, target, strict=True):
        index = data.schema.get_field_index(f.name)
        if index < 0:
            columns.append(_missing(f, data.num_rows, f.name))
            continue
        column = data.column(index)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        columns.append(pa.chunked_array([caster.field(f, c, f.name) for c in chunks], arrow_field.type))
    return pa.table(columns, schema=target) if columns else pa.table({}, schema=target)


def _needs_look(f: NestedField) -> bool:
    """Whether a column of the right type may still hold what the field doesn't allow."""
    return f.required or isinstance(f.field_type, VariantType)


def _check_names(found: list[str], fields: tuple[NestedField, ...], prefix: str) -> None:
    """Raises ValidationError for a name that the schema doesn't have, or that comes twice."""
    known = {f.name for f in fields}
    seen: set[str] = set()
    for name in found:
        if name not in known:
            raise ValidationError(f"no column {prefix + name!r} in the schema; there are: {', '.join(sorted(known))}")
        if name in seen:
            raise ValidationError(f"column {prefix + name!r} comes twice in the data")
        seen.add(name)


def _missing(f: NestedField, length: int, path: str) -> pa.Array:
    if f.write_default is None and f.required:
        raise ValidationError(f"the required column {path!r} is missing in the data and has no default")
    return constant_array(f.field_type, f.write_default, length, writing=True)


class _Caster:
    """The cast of one array to a field, with the path of names for errors."""

    def field(self, f: NestedField, array: pa.Array, path: str) -> pa.Array:
        """The array cast to a field. If the field is required no null is allowed, not under a null parent either."""
        array = _plain(array)
        if f.required and array.null_count:
            raise ValidationError(f"column {path!r} is required, found {array.null_count} nulls")
        return self.cast(f.field_type, array, path)

    def cast(self, t: Type, array: pa.Array, path: str) -> pa.Array:
        if isinstance(t, _STORED_AS_EXTENSION) and isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), type_to_arrow(t))
        match t:
            case StructType():
                return self.struct(t, array, path)
            case ListType():
                return self.list(t, array, path)
            case MapType():
                return self.map(t, array, path)
            case _:
                return self.primitive(t, array, path)

    def struct(self, t: StructType, array: pa.Array, path: str) -> pa.Array:
        target = type_to_arrow(t)
        if not pa.types.is_struct(array.type):
            raise _mismatch(t, array, path)
        names = [f.name for f in array.type]
        _check_names(names, t.fields, f"{path}.")
        if not t.fields:
            # Put together from no columns, Arrow's struct array would have no rows.
            return array
        children = dict(zip(names, struct_children(array), strict=True))
        valid = array.is_valid() if array.null_count else None
        columns = []
        for f in t.fields:
            inner = f"{path}.{f.name}"
            child = children.get(f.name)
            if child is None:
                columns.append(_missing(f, len(array), inner))
                continue
            child = _plain(child)
            if f.required and child.null_count:
                self.check_required(child, valid, inner)
            columns.append(self.cast(f.field_type, child, inner))
        return pa.StructArray.from_arrays(columns, fields=list(target), mask=null_mask(array))

    def check_required(self, child: pa.Array, parent_valid: pa.Array | None, path: str) -> None:
        nulls = child.null_count
        if parent_valid is not None:
            nulls = pc.sum(pc.and_(child.is_null(), parent_valid)).as_py() or 0
        if nulls:
            raise ValidationError(f"column {path!r} is required, found {nulls} nulls")

    def list(self, t: ListType, array: pa.Array, path: str) -> pa.Array:
        target = type_to_arrow(t)
        if not is_list_like(array.type):
            raise _mismatch(t, array, path)
        offsets, values = list_parts(array)
        values = self.field(t.element_field, values, f"{path}.element")
        return pa.ListArray.from_arrays(offsets, values, type=target, mask=null_mask(array))

    def map(self, t: MapType, array: pa.Array, path: str) -> pa.Array:
        target = type_to_arrow(t)
        if not pa.types.is_map(array.type):
            raise _mismatch(t, array, path)
        offsets, keys, values = map_parts(array)
        keys = self.field(t.key_field, keys, f"{path}.key")
        values = self.field(t.value_field, values, f"{path}.value")
        return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=null_mask(array))

    def primitive(self, t: PrimitiveType, array: pa.Array, path: str) -> pa.Array:
        target = type_to_arrow(t)
        if array.type.equals(target) and not isinstance(t, VariantType):
            return array
        if isinstance(t, UnknownType) and array.null_count == len(array):
            return pa.nulls(len(array), target)
        step = self.step(t, array.type)
        if step is None:
            raise _mismatch(t, array, path)
        try:
            return step(array, target)
        except (pa.ArrowException, ValueError) as e:
            raise ValidationError(f"column {path!r}: {array.type} can't become {t} without loss: {e}") from e

    def step(self, t: PrimitiveType, source: pa.DataType) -> Step | None:
        """The step from an Arrow type to an Iceberg type without loss, or None where there is no way."""
        match t:
            case IntegerType() | LongType() | FloatType() | DoubleType() | DecimalType():
                return _number_step(t, source)
            case (
                DateType()
                | TimeType()
                | TimestampType()
                | TimestampNanoType()
                | TimestamptzType()
                | TimestamptzNanoType()
            ):
                return self.time_step(t, source)
            case StringType() | UUIDType() | FixedType() | BinaryType() | GeometryType() | GeographyType():
                return _bytes_step(t, source)
            case VariantType():
                return _variant_step(source)
            case _:
                return None

    def time_step(self, t: PrimitiveType, source: pa.DataType) -> Step | None:
        is_plain = isinstance(t, (TimestampType, TimestampNanoType))
        if pa.types.is_date(source):
            return _safe if is_plain or isinstance(t, DateType) else None
        if pa.types.is_time(source):
            return _safe if isinstance(t, TimeType) else None
        if not pa.types.is_timestamp(source):
            return None
        fits = is_plain if source.tz is None else isinstance(t, (TimestamptzType, TimestamptzNanoType))
        return _safe if fits else None


def _plain(array: pa.Array) -> pa.Array:
    """The array with a dictionary or runs decoded: encoded, its null count leaves out nulls among the values."""
    if pa.types.is_dictionary(array.type):
        return _decoded(array)
    if pa.types.is_run_end_encoded(array.type):
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, _without_views(_plain(array.values)))
        return pc.run_end_decode(runs.slice(array.offset, len(array)))
    return array


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    """The values that a dictionary stands for."""
    return pa.DictionaryArray.from_arrays(array.indices, _without_views(array.dictionary)).dictionary_decode()


def _without_views(values: pa.Array) -> pa.Array:
    """The values without view types, which Arrow can't decode to; Polars' categories have such."""
    if pa.types.is_string_view(values.type):
        return values.cast(pa.string())
    return values.cast(pa.binary()) if pa.types.is_binary_view(values.type) else values


def _number_step(t: PrimitiveType, source: pa.DataType) -> Step | None:
    is_integer = pa.types.is_integer(source)
    if isinstance(t, (FloatType, DoubleType)):
        return to_floating if is_integer or pa.types.is_floating(source) else None
    if isinstance(t, DecimalType):
        return _integer_to_decimal if is_integer else _safe if pa.types.is_decimal(source) else None
    return _safe if is_integer else None


def _bytes_step(t: PrimitiveType, source: pa.DataType) -> Step | None:
    is_bytes = is_binary_like(source) or pa.types.is_fixed_size_binary(source)
    match t:
        case StringType() if isinstance(source, pa.JsonType):
            return lambda array, target: array.storage.cast(target)
        case StringType():
            return _safe if is_string_like(source) else None
        case UUIDType() if is_string_like(source):
            return _uuid_from_text
        case UUIDType():
            return _uuid_from_bytes if is_bytes else None
        case FixedType():
            return _to_fixed if is_bytes else None
        case _:
            return _safe if is_bytes else None


def _variant_step(source: pa.DataType) -> Step | None:
    parts = {f.name: f.type for f in source} if pa.types.is_struct(source) else {}
    if TYPED_VALUE in parts:
        return _from_shredded if set(parts) <= {METADATA, VALUE, TYPED_VALUE} else None
    is_variant = set(parts) == {METADATA, VALUE} and all(is_binary_like(p) for p in parts.values())
    return _to_variant if is_variant else None


def _mismatch(t: Type, array: pa.Array, path: str) -> ValidationError:
    return ValidationError(f"column {path!r}: the table has {t}, the data has Arrow type {array.type}")


def _safe(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def _integer_to_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(pa.decimal128(20, 0)).cast(target)


def _uuid_from_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    digits = pc.replace_substring(array.cast(pa.string()), "-", "")
    wrong = pc.filter(array, pc.fill_null(pc.invert(pc.match_substring_regex(digits, "^[0-9a-fA-F]{32}$")), False))
    if len(wrong):
        raise ValidationError(f"{wrong[0].as_py()!r} is not a uuid")
    data = [None if d is None else bytes.fromhex(d) for d in digits.to_pylist()]
    return _uuid_from_bytes(pa.array(data, pa.binary(16)), target)


def _uuid_from_bytes(array: pa.Array, target: pa.DataType) -> pa.Array:
    return _to_fixed(array, pa.binary(16)).cast(target)


def _to_variant(array: pa.Array, target: pa.DataType) -> pa.Array:
    valid = array.is_valid()
    parts = []
    for f in target:
        part = pc.struct_field(array, f.name).cast(f.type)
        if pc.any(pc.and_(valid, part.is_null())).as_py():
            raise ValidationError(f"a variant that is not null has no {f.name}")
        parts.append(part)
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=null_mask(array))


def _from_shredded(array: pa.Array, _: pa.DataType) -> pa.Array:
    try:
        check_variant(array.type, "it")
        return read_variants(array, "a row")
    except CorruptFileError as e:
        raise ValidationError(str(e)) from e


def _to_fixed(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_binary(array.type):
        if array.type.byte_width != target.byte_width:
            raise ValidationError(f"found {array.type.byte_width} bytes, expected {target.byte_width}")
        return array
    lengths = pc.binary_length(array.cast(pa.large_binary()))
    wrong = np.asarray(pc.filter(lengths, pc.fill_null(pc.not_equal(lengths, target.byte_width), False)))
    if len(wrong):
        raise ValidationError(f"found {wrong[0]} bytes, expected {target.byte_width}")
    return array.cast(pa.binary()).cast(target)
