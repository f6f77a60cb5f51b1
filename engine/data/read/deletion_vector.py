"""Deletion vectors: the `deletion-vector-v1` blob of a Puffin file, as sorted row positions.

Spec: Deletion Vectors (D5), Puffin. A 4-byte big-endian length, the magic D1 D3 39 64, a 64-bit roaring bitmap in the
portable format, and the CRC-32 of magic and bitmap.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyroaring

from icecore.engine.errors import CorruptFileError, ValidationError

MAGIC = b"\xd1\xd3\x39\x64"
BLOB_TYPE = "deletion-vector-v1"
MAX_POSITION = 2**63 - 1
_EDGE = struct.Struct(">I")
Positions = npt.NDArray[np.int64]


def decode_deletion_vector(blob: bytes, where: str) -> Positions:
    """The deleted positions, ascending. Raises CorruptFileError naming `where` the blob is from."""
    if len(blob) < 12:
        raise CorruptFileError(f"{where}: a deletion vector has at least 12 bytes, found {len(blob)}")
    (length,) = _EDGE.unpack_from(blob)
    if length != len(blob) - 8:
        raise CorruptFileError(f"{where}: the deletion vector should have {length} bytes, found {len(blob) - 8}")
    body = blob[4:-4]
    if body[:4] != MAGIC:
        raise CorruptFileError(
            f"{where}: expected the magic {MAGIC.hex()} of a deletion vector, found {body[:4].hex()}"
        )
    (checksum,) = _EDGE.unpack_from(blob, len(blob) - 4)
    if zlib.crc32(body) != checksum:
        raise CorruptFileError(f"{where}: the checksum of the deletion vector does not fit")
    try:
        bitmap = pyroaring.BitMap64.deserialize(body[4:])
    except (ValueError, MemoryError) as e:
        raise CorruptFileError(f"{where}: the bitmap of the deletion vector can't be decoded: {e}") from e
    positions = np.array(bitmap.to_array(), dtype=np.uint64)
    if len(positions) and positions[-1] > MAX_POSITION:
        raise CorruptFileError(f"{where}: the deletion vector has the position {positions[-1]}")
    return positions.astype(np.int64)


def encode_deletion_vector(positions: pyroaring.BitMap64 | Positions | Iterable[int]) -> bytes:
    """The blob of row positions, in any order. Raises ValidationError for a negative position."""
    bitmap = bitmap_of(positions)
    bitmap.run_optimize()
    body = MAGIC + bitmap.serialize()
    return _EDGE.pack(len(body)) + body + _EDGE.pack(zlib.crc32(body))


def bitmap_of(positions: pyroaring.BitMap64 | Positions | Iterable[int]) -> pyroaring.BitMap64:
    """A new bitmap of row positions. Raises ValidationError for one that is negative or above 2^63 - 1."""
    if isinstance(positions, pyroaring.BitMap64):
        bitmap = positions.copy()
    else:
        values = np.asarray(positions if isinstance(positions, np.ndarray) else list(positions))
        if len(values) and (values.dtype.kind not in "iu" or values.min() < 0):
            raise ValidationError(f"a row position is a whole number and not negative, found {values.min()}")
        bitmap = pyroaring.BitMap64(values.astype(np.uint64))
    if len(bitmap) and bitmap.max() > MAX_POSITION:
        raise ValidationError(f"a row position is at most {MAX_POSITION}, found {bitmap.max()}")
    return bitmap
