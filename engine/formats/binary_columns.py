"""Arrow columns of bytes from numpy arrays and back, without a Python loop over rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.formats import arrays
from icecore.engine.formats.arrays import Mask

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@frozen
class Places:
    """The places from which a column of `count` rows takes the values of another: row `rows[i]` from `positions[i]`.

    Other rows are null. Without `rows`, all rows take a value, in order. `evenly` is `positions` as a slice if they are
    evenly spaced: numpy copies such numbers several times as fast.
    """

    positions: Ints
    rows: Ints | None
    count: int
    evenly: slice | None = None

    @classmethod
    def of_each(cls, positions: Ints, distance: int) -> Places:
        """The places of a column with one position for every row; a slice too if they are `distance` apart."""
        first, last = int(positions[0]), int(positions[-1])
        is_even = last - first == (len(positions) - 1) * distance
        return cls(positions, None, len(positions), slice(first, last + 1, distance) if is_even else None)

    @property
    def index(self) -> Ints | slice:
        """The positions, as numpy takes them at the least cost."""
        return self.positions if self.evenly is None else self.evenly

    def take(self, values: pa.Array) -> pa.Array:
        """The column, from the values of the other one."""
        if self.evenly is not None and pa.types.is_int64(values.type) and not values.null_count:
            return arrays.numbers(arrays.to_numbers(values)[self.evenly])
        if self.rows is None:
            return values.take(arrays.numbers(self.positions))
        index = np.zeros(self.count, np.int64)
        missing = np.ones(self.count, np.bool_)
        index[self.rows], missing[self.rows] = self.positions, False
        return values.take(arrays.numbers(index, missing=missing))

    def null_count(self, values: pa.Array) -> int:
        """The number of rows without a value, where all positions are in the other column."""
        nulls = values.null_count and int((~arrays.to_mask(values.is_valid())[self.index]).sum())
        return self.count - len(self.positions) + nulls


def validity(valid: Mask | None) -> pa.Buffer | None:
    """The validity bitmap of a mask that is true where there is a value; None where all are."""
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def from_matrix(rows: Bytes, valid: Mask | None = None) -> pa.BinaryArray:
    """A binary column whose values all have the length of a row of the matrix."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width or 1, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    return _binary(offsets, np.ascontiguousarray(rows), valid)


def from_suffixes(rows: Bytes, lengths: Ints, valid: Mask | None = None) -> pa.BinaryArray:
    """A binary column of the last `lengths` bytes of each row of the matrix."""
    count, width = rows.shape
    keep = np.arange(width) >= (width - lengths)[:, None]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return _binary(offsets, rows[keep], valid)


def from_lengths(data: Bytes, lengths: Ints) -> pa.BinaryArray:
    """Consecutive bytes cut into values of these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return _binary(offsets, np.ascontiguousarray(data), None)


def list_positions(column: pa.Array) -> tuple[Ints, Ints]:
    """The number of items of each row of a list or map column, none where null, and their positions in its values."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    counts = np.diff(offsets)
    positions = np.arange(offsets[0], offsets[-1])
    valid = arrays.to_mask(column.is_valid())
    if counts[~valid].any():
        # Items below a null row don't count.
        positions = positions[np.repeat(valid, counts)]
        counts = np.where(valid, counts, 0)
    return counts, positions


def select(values: pa.Array, positions: Ints) -> pa.Array:
    """The values at ascending positions; no copy where they are one stretch."""
    if not len(positions):
        return values.slice(0, 0)
    if positions[-1] - positions[0] + 1 == len(positions):
        return values.slice(positions[0], len(positions))
    return values.take(pa.array(positions))


def to_arrays(column: pa.BinaryArray) -> tuple[Ints, Bytes]:
    """The offsets (one more than values) and the bytes of a binary column without 64-bit offsets."""
    _, offsets, data = column.buffers()
    positions = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    return positions, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def gather(data: Bytes, starts: Ints, width: int) -> Bytes:
    """`width` bytes from each start, as the rows of a matrix."""
    if not len(starts) or not width:
        return np.zeros((len(starts), width), np.uint8)
    # One item of `width` bytes starts at each byte: numpy copies items whole, not byte by byte.
    items = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    out: Bytes = items[starts].view(np.uint8).reshape(len(starts), width)
    return out


def minimal_lengths(big_endian: Bytes) -> Ints:
    """The fewest bytes that each row's number needs, in two's complement."""
    count, width = big_endian.shape
    sign = np.where(big_endian[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    redundant = (big_endian[:, :-1] == sign) & ((big_endian[:, 1:] ^ sign) < 0x80)
    leading = np.logical_and.accumulate(redundant, axis=1) if width > 1 else redundant
    return width - leading.sum(axis=1, dtype=np.int64) if width else np.zeros(count, np.int64)


def little_endian(values: npt.NDArray[np.generic]) -> Bytes:
    """The bytes of fixed-width numbers, one row each."""
    ordered = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    return ordered.view(np.uint8).reshape(len(values), values.dtype.itemsize)


def interleave(columns: list[pa.BinaryArray], count: int) -> pa.BinaryArray:
    """The values of several columns of `count` rows, row by row."""
    if len(columns) == 1:
        return columns[0]
    order = np.arange(len(columns) * count).reshape(len(columns), count).T.ravel()
    return pc.take(pa.concat_arrays(columns), pa.array(order))


def _binary(offsets: npt.NDArray[np.int32], data: Bytes, valid: Mask | None) -> pa.BinaryArray:
    buffers = [validity(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
