"""Iceberg types, v1 to v3.

Spec: Schemas and Data Types (T1 to T6). Primitive types are values: two of the same parameters are equal.
Field ids are part of nested types, as in the spec, so types with different ids are different.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from attrs import field, frozen

from icecore.engine.errors import ValidationError

DEFAULT_CRS = "OGC:CRS84"
DEFAULT_EDGE_ALGORITHM = "spherical"
EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
MAX_DECIMAL_PRECISION = 38


@frozen
class IcebergType:
    """Base of all types."""

    min_format_version: ClassVar[int] = 1

    is_primitive: ClassVar[bool] = True
    """Whether the type is no struct, list or map."""


@frozen
class _Named(IcebergType):
    type_name: ClassVar[str]

    def __str__(self) -> str:
        return self.type_name


@frozen
class BooleanType(_Named):
    """`boolean`: true or false."""

    type_name = "boolean"


@frozen
class IntegerType(_Named):
    """`int`: a signed 32-bit integer."""

    type_name = "int"
    min: ClassVar[int] = -(2**31)
    max: ClassVar[int] = 2**31 - 1


@frozen
class LongType(_Named):
    """`long`: a signed 64-bit integer."""

    type_name = "long"
    min: ClassVar[int] = -(2**63)
    max: ClassVar[int] = 2**63 - 1


@frozen
class FloatType(_Named):
    """`float`: a 32-bit IEEE 754 number."""

    type_name = "float"


@frozen
class DoubleType(_Named):
    """`double`: a 64-bit IEEE 754 number."""

    type_name = "double"


@frozen
class DateType(_Named):
    """`date`: a calendar date without a zone."""

    type_name = "date"


@frozen
class TimeType(_Named):
    """`time`: a time of day in microseconds, without a zone."""

    type_name = "time"


@frozen
class TimestampType(_Named):
    """`timestamp`: date and time in microseconds, without a zone."""

    type_name = "timestamp"


@frozen
class TimestamptzType(_Named):
    """`timestamptz`: a point in time in microseconds, in UTC."""

    type_name = "timestamptz"


@frozen
class TimestampNanoType(_Named):
    """`timestamp_ns`: date and time in nanoseconds, without a zone; from v3 on."""

    type_name = "timestamp_ns"
    min_format_version = 3


@frozen
class TimestamptzNanoType(_Named):
    """`timestamptz_ns`: a point in time in nanoseconds, in UTC; from v3 on."""

    type_name = "timestamptz_ns"
    min_format_version = 3


@frozen
class StringType(_Named):
    """`string`: text, stored as UTF-8."""

    type_name = "string"


@frozen
class UUIDType(_Named):
    """`uuid`: 16 bytes."""

    type_name = "uuid"


@frozen
class BinaryType(_Named):
    """`binary`: bytes of any length."""

    type_name = "binary"


@frozen
class UnknownType(_Named):
    """`unknown`: a column that holds only nulls and is stored in no data file (Spec: T2)."""

    type_name = "unknown"
    min_format_version = 3


@frozen
class VariantType(_Named):
    """`variant`: a value of any shape, in Parquet's variant encoding; from v3 on."""

    type_name = "variant"
    min_format_version = 3


@frozen
class DecimalType(IcebergType):
    """`decimal(P, S)`: a number of P digits, S of them after the point. Raises ValidationError beyond 38 digits."""

    precision: int
    scale: int

    def __attrs_post_init__(self) -> None:
        if not 0 < self.precision <= MAX_DECIMAL_PRECISION:
            raise ValidationError(f"decimal precision must be 1 to {MAX_DECIMAL_PRECISION}, found {self.precision}")

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@frozen
class FixedType(IcebergType):
    """`fixed[L]`: L bytes."""

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@frozen
class GeometryType(IcebergType):
    """`geometry(C)`: shapes on a plane, in a coordinate reference system; from v3 on."""

    crs: str = DEFAULT_CRS
    min_format_version = 3

    def __str__(self) -> str:
        return "geometry" if self.crs == DEFAULT_CRS else f"geometry({self.crs})"


@frozen
class GeographyType(IcebergType):
    """`geography(C, A)`: shapes on the earth's surface; from v3 on. Raises ValidationError for unknown edges."""

    crs: str = DEFAULT_CRS
    algorithm: str = DEFAULT_EDGE_ALGORITHM
    min_format_version = 3

    def __attrs_post_init__(self) -> None:
        if self.algorithm not in EDGE_ALGORITHMS:
            raise ValidationError(f"geography algorithm must be one of {EDGE_ALGORITHMS}, found {self.algorithm!r}")

    def __str__(self) -> str:
        if self.algorithm != DEFAULT_EDGE_ALGORITHM:
            return f"geography({self.crs}, {self.algorithm})"
        return "geography" if self.crs == DEFAULT_CRS else f"geography({self.crs})"


@frozen
class NestedField:
    """A field of a struct. Defaults are internal values of the field's type (see `single_value`), or None.

    `extra` keeps keys of its JSON that we don't know.
    """

    field_id: int
    name: str
    field_type: Type
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None
    extra: Mapping[str, Any] = field(factory=dict, hash=False)

    @property
    def optional(self) -> bool:
        """Whether the field may hold nulls."""
        return not self.required

    @property
    def primitive_type(self) -> PrimitiveType:
        """The type of a primitive field. Raises ValidationError for a struct, a list or a map."""
        if isinstance(self.field_type, (StructType, ListType, MapType)):
            raise ValidationError(f"field {self.field_id} {self.name!r} must be of a primitive type: {self.field_type}")
        return self.field_type


@frozen
class StructType(IcebergType):
    """`struct`: a tuple of named fields."""

    fields: tuple[NestedField, ...] = ()
    is_primitive = False

    def __str__(self) -> str:
        inner = ", ".join(f"{f.field_id}: {f.name}: {f.field_type}" for f in self.fields)
        return f"struct<{inner}>"


@frozen
class ListType(IcebergType):
    """`list`: values of one element type."""

    element_id: int
    element: Type
    element_required: bool = False
    extra: Mapping[str, Any] = field(factory=dict, hash=False)
    is_primitive = False

    @property
    def element_field(self) -> NestedField:
        """The element as a field named `element`."""
        return NestedField(self.element_id, "element", self.element, self.element_required)

    def __str__(self) -> str:
        return f"list<{self.element}>"


@frozen
class MapType(IcebergType):
    """`map`: values by key."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool = False
    extra: Mapping[str, Any] = field(factory=dict, hash=False)
    is_primitive = False

    @property
    def key_field(self) -> NestedField:
        """The key as a required field named `key`."""
        return NestedField(self.key_id, "key", self.key, True)

    @property
    def value_field(self) -> NestedField:
        """The value as a field named `value`."""
        return NestedField(self.value_id, "value", self.value, self.value_required)

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


PrimitiveType: TypeAlias = (
    BooleanType
    | IntegerType
    | LongType
    | FloatType
    | DoubleType
    | DecimalType
    | DateType
    | TimeType
    | TimestampType
    | TimestamptzType
    | TimestampNanoType
    | TimestamptzNanoType
    | StringType
    | UUIDType
    | FixedType
    | BinaryType
    | UnknownType
    | VariantType
    | GeometryType
    | GeographyType
)
NestedType: TypeAlias = StructType | ListType | MapType
Type: TypeAlias = PrimitiveType | NestedType

TIMESTAMP_TYPES = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
FLOATING_TYPES = (FloatType, DoubleType)

_NAMED: dict[str, PrimitiveType] = {
    str(t): t
    for t in (
        BooleanType(),
        IntegerType(),
        LongType(),
        FloatType(),
        DoubleType(),
        DateType(),
        TimeType(),
        TimestampType(),
        TimestamptzType(),
        TimestampNanoType(),
        TimestamptzNanoType(),
        StringType(),
        UUIDType(),
        BinaryType(),
        UnknownType(),
        VariantType(),
        GeometryType(),
        GeographyType(),
    )
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_GEOMETRY = re.compile(r"geometry\s*\(\s*([^,)]*?)\s*\)", re.IGNORECASE)
_GEOGRAPHY = re.compile(r"geography\s*\(\s*([^,)]*?)\s*(?:,\s*(\w*)\s*)?\)", re.IGNORECASE)


def parse_primitive(text: str) -> PrimitiveType:
    """The primitive type that a type string names; optional white space is accepted (Spec: T6).

    Raises ValidationError for any other string.
    """
    name = text.strip().lower()
    if known := _NAMED.get(name):
        return known
    if m := _DECIMAL.fullmatch(name):
        return DecimalType(int(m[1]), int(m[2]))
    if m := _FIXED.fullmatch(name):
        return FixedType(int(m[1]))
    if m := _GEOMETRY.fullmatch(text.strip()):
        return GeometryType(m[1] or DEFAULT_CRS)
    if m := _GEOGRAPHY.fullmatch(text.strip()):
        return GeographyType(m[1] or DEFAULT_CRS, (m[2] or DEFAULT_EDGE_ALGORITHM).lower())
    raise ValidationError(f"unknown type {text!r}; there are: {', '.join(_NAMED)}, decimal(P, S) and fixed[N]")


def children(iceberg_type: Type) -> tuple[NestedField, ...]:
    """The fields directly inside a type; empty for primitives."""
    match iceberg_type:
        case StructType(fields=fields):
            return fields
        case ListType():
            return (iceberg_type.element_field,)
        case MapType():
            return (iceberg_type.key_field, iceberg_type.value_field)
        case _:
            return ()


def walk(fields: tuple[NestedField, ...]) -> Iterator[NestedField]:
    """All fields, depth first, parents before their children."""
    for f in fields:
        yield f
        yield from walk(children(f.field_type))
