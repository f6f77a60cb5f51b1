"""Matches of a value in variants: numbers, times and UUIDs that a variant holds as bytes; texts are found as bytes.

Spec: Parquet's variant encoding, value encoding of primitives.
"""

from __future__ import annotations

import contextlib
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.variant.variant_encoding import ARRAY, OBJECT, PRIMITIVE, child_offsets, value_size

Decoder = Callable[[bytes], Any]


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _decimal(data: bytes) -> Decimal:
    return Decimal(_integer(data[1:])).scaleb(-data[0])


def _float(form: str) -> Decoder:
    return lambda data: struct.unpack(form, data)[0]


_NUMBERS: Mapping[int, Decoder] = {
    **dict.fromkeys((3, 4, 5, 6), _integer),
    **dict.fromkeys((8, 9, 10), _decimal),
    7: _float("<d"),
    14: _float("<f"),
}
_TIMES: Mapping[int, pa.DataType] = {
    11: pa.date32(),
    12: pa.timestamp("us", "UTC"),
    13: pa.timestamp("us"),
    17: pa.time64("us"),
    18: pa.timestamp("ns", "UTC"),
    19: pa.timestamp("ns"),
}
_TRUE, _FALSE, _UUID = 1, 2, 20


@frozen
class VariantMatches:
    """The value as each primitive type that is no text: what the bytes of its type id must say."""

    number: Decimal | None
    stored: Mapping[int, bytes]

    @classmethod
    def of(cls, text: str, typed: Callable[[pa.DataType], pa.Scalar | None]) -> VariantMatches:
        """The forms of a value by its text; `typed` gives it in a type, None where it says none."""
        stored: dict[int, bytes] = {}
        if (boolean := typed(pa.bool_())) is not None:
            stored[_TRUE if boolean.as_py() else _FALSE] = b""
        for type_id, kind in _TIMES.items():
            if (found := typed(kind)) is not None:
                width = 4 if pa.types.is_date32(kind) else 8
                stored[type_id] = int(found.value).to_bytes(width, "little", signed=True)
        with contextlib.suppress(ValueError):
            stored[_UUID] = uuid.UUID(text).bytes
        return cls(_number(text), stored)

    def count(self, values: pa.Array) -> int:
        """The number of matches in the binary values of variants; bytes that are no variant have none."""
        if self.number is None and not self.stored:
            return 0
        return sum(self._in(data) for data in values.to_pylist() if data)

    def _in(self, data: bytes) -> int:
        try:
            return sum(self._is(type_id, found) for type_id, found in _primitives(data, 0))
        except (ValueError, IndexError, struct.error, RecursionError):
            return 0

    def _is(self, type_id: int, data: bytes) -> bool:
        decode = _NUMBERS.get(type_id)
        if decode is None:
            return self.stored.get(type_id) == data
        found: Any = decode(data)
        if self.number is None:
            return False
        return bool(found == (float(self.number) if isinstance(found, float) else self.number))


def is_variant(kind: pa.StructType) -> bool:
    """Whether a struct has the fields of a variant, or of the inside of a shredded one."""
    names = {f.name for f in kind}
    is_binary = "value" in names and _is_binary(kind.field("value").type)
    return is_binary and bool(names & {"metadata", "typed_value"})


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _number(text: str) -> Decimal | None:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _primitives(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """The type ids and bytes of the primitives in a value, short strings aside. Raises ValueError, IndexError."""
    match data[at] & 3:
        case kind if kind == PRIMITIVE:
            yield data[at] >> 2, data[at + 1 : at + value_size(data, at)]
        case kind if kind in (OBJECT, ARRAY):
            for place in child_offsets(data, at):
                yield from _primitives(data, place)
