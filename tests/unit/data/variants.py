"""An encoder, a decoder and a shredder of variants, written from parquet-format's text for the tests alone.

A value is a pair: the name of a type and a Python value, as `("int8", 5)`, `("null", None)`, `("array", [...])` or
`("object", {...})`. Times are numbers, decimals pairs of the unscaled number and the scale, a uuid its bytes.
"""

from __future__ import annotations

import struct
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import define, field

Value: TypeAlias = tuple[str, Any]

_FORMATS = {
    "int8": (3, "<b"), "int16": (4, "<h"), "int32": (5, "<i"), "int64": (6, "<q"), "double": (7, "<d"),
    "date": (11, "<i"), "timestamptz": (12, "<q"), "timestamp": (13, "<q"), "float": (14, "<f"), "time": (17, "<q"),
    "timestamptz_ns": (18, "<q"), "timestamp_ns": (19, "<q"),
}  # fmt: skip
_BY_ID = {type_id: (name, fmt) for name, (type_id, fmt) in _FORMATS.items()}
DECIMAL_BYTES = {8: 4, 9: 8, 10: 16}
CONTEXT = Context(prec=60)


def metadata(names: list[str], *, width: int = 1) -> bytes:
    """Metadata of names in the order given, with offsets of `width` bytes."""
    data = [n.encode() for n in names]
    ends = [sum(map(len, data[:i])) for i in range(len(data) + 1)]
    return (
        bytes([1 | (width - 1) << 6])
        + b"".join(n.to_bytes(width, "little") for n in [len(data), *ends])
        + b"".join(data)
    )


def names_of(value: Value) -> set[str]:
    """All names of fields in a value."""
    kind, inside = value
    if kind == "array":
        return {n for v in inside for n in names_of(v)}
    return {m for n, v in inside.items() for m in {n, *names_of(v)}} if kind == "object" else set()


def encode(value: Value, names: list[str]) -> bytes:
    """A value, its fields' ids those of `names`; its values lie in reverse order, which the encoding allows."""
    kind, v = value
    if kind in _FORMATS:
        type_id, fmt = _FORMATS[kind]
        return bytes([type_id << 2]) + struct.pack(fmt, v)
    if kind in ("null", "boolean"):
        return bytes([{None: 0, True: 1, False: 2}[v] << 2])
    if kind.startswith("decimal"):
        number, scale = v
        size = int(kind.removeprefix("decimal"))
        type_id = {4: 8, 8: 9, 16: 10}[size]
        data: bytes = number.to_bytes(size, "little", signed=True)
        return bytes([type_id << 2, scale]) + data
    if kind in ("binary", "string"):
        data = v if kind == "binary" else v.encode()
        return bytes([{"binary": 15, "string": 16}[kind] << 2]) + len(data).to_bytes(4, "little") + data
    if kind == "uuid":
        return b"".join((b"\x50", v))
    if kind == "array":
        values, ids = [encode(x, names) for x in v], b""
        first, order = 0x1F, list(range(len(v)))
    else:
        keys = sorted(v, key=str.encode)
        values, ids = [encode(v[k], names) for k in keys], b"".join(names.index(k).to_bytes(2, "little") for k in keys)
        first, order = 0x5E, list(reversed(range(len(v))))
    at, starts = 0, [0] * len(values)
    for i in order:
        starts[i], at = at, at + len(values[i])
    offsets = b"".join(o.to_bytes(4, "little") for o in [*starts, at])
    return bytes([first]) + len(values).to_bytes(4, "little") + ids + offsets + b"".join(values[i] for i in order)


def decode_metadata(data: bytes) -> list[str]:
    """The names in metadata that takes all the bytes."""
    assert data[0] & 0x0F == 1
    width = (data[0] >> 6) + 1
    numbers = [int.from_bytes(data[i : i + width], "little") for i in range(1, len(data) - width + 1, width)]
    count, ends = numbers[0], numbers[1 : numbers[0] + 2]
    rest = data[1 + width * (count + 2) :]
    assert len(rest) == ends[-1]
    return [rest[a:b].decode() for a, b in pairwise(ends)]


def decode(data: bytes, names: list[str]) -> Value:
    """The value that starts the bytes; short strings are strings."""
    kind, header, body = data[0] & 3, data[0] >> 2, data[1:]
    if kind == 1:
        return "string", body[:header].decode()
    if kind == 0:
        return _primitive(header, body)
    offset_width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1 if kind == 2 else 0
    count_width = 4 if header & (0x10 if kind == 2 else 4) else 1
    count = int.from_bytes(body[:count_width], "little")
    ids_end = count_width + count * id_width
    values_start = ids_end + (count + 1) * offset_width
    ids = [int.from_bytes(body[i : i + id_width], "little") for i in range(count_width, ids_end, id_width or 1)]
    offsets = [int.from_bytes(body[i : i + offset_width], "little") for i in range(ids_end, values_start, offset_width)]
    assert len(offsets) == count + 1
    assert values_start + offsets[-1] <= len(body)
    values = [decode(body[values_start + o :], names) for o in offsets[:-1]]
    if kind == 3:
        return "array", values
    keys = [names[i] for i in ids]
    assert keys == sorted(set(keys), key=str.encode), "fields are sorted by the bytes of their names, each there once"
    return "object", dict(zip(keys, values, strict=True))


def _primitive(type_id: int, body: bytes) -> Value:
    if type_id in _BY_ID:
        name, fmt = _BY_ID[type_id]
        return name, struct.unpack_from(fmt, body)[0]
    if type_id in DECIMAL_BYTES:
        size = DECIMAL_BYTES[type_id]
        return f"decimal{size}", (int.from_bytes(body[1 : 1 + size], "little", signed=True), body[0])
    if type_id in (15, 16):
        data = body[4 : 4 + int.from_bytes(body[:4], "little")]
        return ("binary", data) if type_id == 15 else ("string", data.decode())
    if type_id == 20:
        return "uuid", body[:16]
    return {0: ("null", None), 1: ("boolean", True), 2: ("boolean", False)}[type_id]


def decoded(variant: dict[str, bytes] | None) -> Value | None:
    """The value of a row of a variant column."""
    return None if variant is None else decode(variant["value"], decode_metadata(variant["metadata"]))


ARROW = {
    "boolean": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "date": pa.date32(), "time": pa.time64("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "timestamp": pa.timestamp("us"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"), "timestamp_ns": pa.timestamp("ns"),
    "decimal4": pa.decimal128(9, 2), "decimal8": pa.decimal128(18, 0), "decimal16": pa.decimal128(38, 10),
    "binary": pa.binary(), "string": pa.string(), "uuid": pa.uuid(),
}  # fmt: skip


@define
class Shape:
    """How a value is shredded: as a primitive, as an object of these fields, as an array, or not at all.

    `omit_value` leaves out the column of values that do not fit, if there turn out to be none.
    """

    kind: str | None = None
    fields: dict[str, Shape] = field(factory=dict)
    element: Shape | None = None
    omit_value: bool = False
    needs_value: bool = False

    def shred(self, value: Value | None, names: list[str]) -> dict[str, Any]:
        """The columns of one value, None for one that is missing."""
        if value is None:
            return {"value": None, "typed_value": None}
        kind, v = value
        if kind != self.kind or (kind.startswith("decimal") and v[1] != ARROW[kind].scale):
            self.needs_value = True
            return {"value": encode(value, names), "typed_value": None}
        if kind == "array":
            assert self.element is not None
            return {"value": None, "typed_value": [self.element.shred(x, names) for x in v]}
        if kind == "object":
            rest = {k: x for k, x in v.items() if k not in self.fields}
            self.needs_value |= bool(rest)
            typed = {k: shape.shred(v.get(k), names) for k, shape in self.fields.items()}
            return {"value": encode(("object", rest), names) if rest else None, "typed_value": typed}
        if kind.startswith("decimal"):
            return {"value": None, "typed_value": Decimal(v[0]).scaleb(-v[1], CONTEXT)}
        return {"value": None, "typed_value": v}

    def parts(self) -> list[pa.Field]:
        """The fields of the group, once everything is shredded."""
        found = []
        if self.needs_value or self.kind is None or not self.omit_value:
            found.append(pa.field("value", pa.binary()))
        if self.kind is not None:
            found.append(pa.field("typed_value", self._typed()))
        return found

    def _typed(self) -> pa.DataType:
        if self.element is not None:
            return pa.list_(pa.field("element", pa.struct(self.element.parts()), nullable=False))
        if self.kind == "object":
            return pa.struct([pa.field(n, pa.struct(s.parts()), nullable=False) for n, s in self.fields.items()])
        return ARROW[str(self.kind)]


def to_array(rows: list[dict[str, Any] | None], fields: list[pa.Field], *, nullable: bool = True) -> pa.StructArray:
    """The Arrow array of shredded rows. Arrow itself builds no nested arrays of uuids.

    Nothing that is not nullable is null, even where what is around it is: Arrow could not write that.
    """
    columns = [_column([None if r is None else r[f.name] for r in rows], f) for f in fields]
    mask = pa.array([r is None for r in rows], pa.bool_()) if nullable else None
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def _column(values: list[Any], f: pa.Field) -> pa.Array:
    t = f.type
    if pa.types.is_struct(t):
        return to_array(values, list(t), nullable=f.nullable)
    if pa.types.is_list(t):
        elements = to_array([x for v in values for x in v or ()], list(t.value_type), nullable=False)
        offsets = [sum(len(v or ()) for v in values[:i]) for i in range(len(values) + 1)]
        mask = pa.array([v is None for v in values], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=t, mask=mask)
    if isinstance(t, pa.UuidType):
        return pa.array(values, pa.binary(16)).cast(t)
    return pa.array(values if f.nullable else [v or b"" for v in values], t)


def shredded(values: list[Value | None], shape: Shape) -> pa.StructArray:
    """A column of variants, None being a row without one, shredded. Rows have the same names in different orders."""
    known = sorted({n for v in values if v is not None for n in names_of(v)})
    rows = []
    for i, v in enumerate(values):
        names = known[i % 5 :] + known[: i % 5]
        rows.append(None if v is None else {"metadata": metadata(names, width=4), **shape.shred(v, names)})
    return to_array(rows, [pa.field("metadata", pa.binary(), nullable=False), *shape.parts()])
