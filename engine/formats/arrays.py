"""Numbers and texts as Arrow arrays and back, by their buffers.

`pyarrow.array` and `to_numpy` import pandas where it is installed, to know its objects: for a process that only plans
that is a quarter of the time from its start to its first plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]

_DTYPES = {
    pa.uint8(): np.uint8,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
_KEPT_AS = {32: np.int32, 64: np.int64}


def numbers(values: npt.ArrayLike, dtype: npt.DTypeLike = np.int64, *, missing: Mask | None = None) -> pa.Array:
    """Numbers of a numpy type, null where `missing` says so. Memory of a fitting numpy array is shared."""
    found = np.ascontiguousarray(values, dtype)
    valid = None if missing is None else _bits(~missing)
    return pa.Array.from_buffers(pa.from_numpy_dtype(found.dtype), len(found), [valid, pa.py_buffer(found)])


def optional_numbers(values: Sequence[int | None]) -> pa.Array:
    """64-bit numbers, null for None."""
    there = np.fromiter((v is not None for v in values), np.bool_, len(values))
    found = np.fromiter((v or 0 for v in values), np.int64, len(values))
    return pa.Array.from_buffers(pa.int64(), len(found), [_bits(there), pa.py_buffer(found)])


def null(kind: pa.DataType) -> pa.Scalar:
    """The null of a type. `pa.scalar(None, kind)` would load pandas."""
    return pa.nulls(1, kind)[0]


def booleans(values: Mask, *, missing: Mask | None = None) -> pa.Array:
    """Truth values, null where `missing` says so."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None if missing is None else _bits(~missing), _bits(values)])


def optional_booleans(values: Sequence[bool | None]) -> pa.Array:
    """Truth values, null for None."""
    return booleans(
        np.fromiter((bool(v) for v in values), np.bool_, len(values)),
        missing=np.fromiter((v is None for v in values), np.bool_, len(values)),
    )


def texts(values: Iterable[str]) -> pa.Array:
    """Texts, none of them null."""
    return _variable(pa.string(), [v.encode() for v in values])


def optional_bytes(values: Iterable[bytes | None]) -> pa.Array:
    """Bytes, null for None."""
    return _variable(pa.binary(), list(values))


def to_numbers(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """The numbers of a column as an array, undefined where null; not copied where the column is in one piece.

    Dates, times and timestamps come as the numbers that Arrow stores.
    """
    dtype = np.dtype(_DTYPES.get(column.type) or _KEPT_AS[column.type.bit_width])
    found = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        data = chunk.buffers()[1]
        start = chunk.offset * dtype.itemsize
        found.append(np.frombuffer(data, dtype, len(chunk), start) if len(chunk) else np.zeros(0, dtype))
    return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, dtype), *found])


def to_mask(column: pa.BooleanArray | pa.ChunkedArray) -> Mask:
    """The truth values of a column as an array, undefined where null."""
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, np.bool_), *(to_mask(c) for c in column.chunks)])
    bits = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    end = column.offset + len(column)
    return np.unpackbits(bits, count=end, bitorder="little")[column.offset :].astype(np.bool_)


def _variable(arrow_type: pa.DataType, values: Sequence[bytes | None]) -> pa.Array:
    there = np.fromiter((v is not None for v in values), np.bool_, len(values))
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter((len(v or b"") for v in values), np.int32, len(values)), out=offsets[1:])
    data = b"".join(v or b"" for v in values)
    return pa.Array.from_buffers(arrow_type, len(values), [_bits(there), pa.py_buffer(offsets), pa.py_buffer(data)])


def _bits(values: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
