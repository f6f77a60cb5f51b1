"""The key of a partition: bytes that are equal exactly where spec id and partition tuple are (SP5).

Four bytes of the spec id, then for each field of the spec one byte that says whether there is a value, four of its
length, and its bytes. Numbers are as wide as any promotion makes them, so that keys outlive promotions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.formats.arrays import to_mask
from icecore.engine.formats.binary_columns import from_matrix, little_endian
from icecore.engine.formats.typed_values import identity_bytes
from icecore.engine.spec import single_value
from icecore.engine.spec.types import DateType, FloatType, IntegerType, PrimitiveType

_SPEC_BYTES = 4
_WIDE = 8


def spec_piece(spec_id: int, count: int) -> pa.BinaryArray:
    """The beginning of keys of one spec, `count` times."""
    return from_matrix(np.tile(np.frombuffer(spec_id.to_bytes(_SPEC_BYTES, "big"), np.uint8), (count, 1)))


def value_pieces(typed: pa.Array, raw: pa.Array) -> list[pa.Array]:
    """The parts of keys for the values of a field. Values that can't be read as their type stay as they are."""
    wider = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}.get(typed.type)
    typed = typed if wider is None else typed.cast(wider)
    data = pc.coalesce(identity_bytes(typed), raw).fill_null(b"")
    there = to_mask(raw.is_valid()).astype(np.uint8)
    lengths = pc.binary_length(data).to_numpy(zero_copy_only=False)
    return [from_matrix(there[:, None]), from_matrix(little_endian(lengths)), data]


def partition_of_key(key: bytes, types: Iterable[PrimitiveType]) -> tuple[Any, ...]:
    """The partition tuple of a key, by the types of the spec's fields. Raises ValidationError as `from_bytes` does."""
    values = zip(types, values_of_key(key), strict=True)
    return tuple(None if v is None else single_value.from_bytes(kind, _narrow(kind, v)) for kind, v in values)


def spec_id_of_key(key: bytes) -> int:
    """The spec id of a key."""
    return int.from_bytes(key[:_SPEC_BYTES], "big")


def values_of_key(key: bytes) -> tuple[bytes | None, ...]:
    """The values in a key, one for each field of its spec: the bytes, None for a null."""
    out = []
    position = _SPEC_BYTES
    while position < len(key):
        is_there, length = struct.unpack_from("<?i", key, position)
        position += 5 + length
        out.append(key[position - length : position] if is_there else None)
    return tuple(out)


def _narrow(kind: PrimitiveType, data: bytes) -> bytes:
    """The bytes of a number in the width of its type, if they are wider and the number fits."""
    try:
        if isinstance(kind, IntegerType | DateType) and len(data) == _WIDE:
            return struct.pack("<i", *struct.unpack("<q", data))
        if isinstance(kind, FloatType) and len(data) == _WIDE:
            return struct.pack("<f", *struct.unpack("<d", data))
    except (struct.error, OverflowError):
        pass
    return data
