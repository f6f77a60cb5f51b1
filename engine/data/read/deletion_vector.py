"""Deletion vectors: the `deletion-vector-v1` blob of a Puffin file, as sorted row positions.

Spec: Deletion Vectors (D5), Puffin. A 4-byte big-endian length, the magic D1 D3 39 64, a 64-bit roaring bitmap in the
portable format, and the CRC-32 of magic and bitmap.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt
import pyroaring

from icecore.engine.data.read.file_sources import decoding
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.storage.byte_cache import ByteCache, within_memory
from icecore.engine.storage.file_io import Storage

MAGIC = b"\xd1\xd3\x39\x64"
BLOB_TYPE = "deletion-vector-v1"
MAX_POSITION = 2**63 - 1
_EDGE = struct.Struct(">I")
_PUFFIN_MAGIC = b"PFA1"
Positions = npt.NDArray[np.int64]

KEPT_BYTES = 64 << 20
SETTLED_NS = 2_000_000_000
"""A file whose last change is more recent than this may change again and keep the same time of change."""

_KEPT: ByteCache[Hashable, Positions] = ByteCache(within_memory(KEPT_BYTES), lambda found: found.nbytes + 512)
"""The decoded vectors of this process, by their file's identity (`_of_file`) and place in it."""


def read_deletion_vector(storage: Storage, d: ContentFile) -> Positions:
    """The positions that a deletion vector holds, ascending, as an array that is read only.

    Vectors of local files are cached. Raises MissingFileError, CorruptFileError naming the file.
    """
    of_file = _of_file(storage.local_path(d.file_path))
    if of_file is None:
        return _read(storage, d)
    key = (of_file, d.content_offset, d.content_size_in_bytes, d.record_count)
    return _KEPT.get(key, lambda _: _read(storage, d))


def _of_file(path: str | None) -> Hashable | None:
    """A key of a local file that is another after each change; None if a change might not be seen."""
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    if found is None or not 0 < found.st_ctime_ns < time.time_ns() - SETTLED_NS:
        return None
    return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(storage: Storage, d: ContentFile) -> Positions:
    found = decode_deletion_vector(_blob(storage, d), d.file_path)
    if len(found) != d.record_count:
        raise CorruptFileError(
            f"{d.file_path}: the deletion vector of {d.referenced_data_file} should hold {d.record_count} "
            f"positions, found {len(found)}"
        )
    found.flags.writeable = False
    return found


def _blob(storage: Storage, d: ContentFile) -> bytes:
    """The bytes of a deletion vector; some early writers left out Puffin's frame and the offsets."""
    if d.content_offset is None or d.content_size_in_bytes is None:
        data = storage.read_bytes(d.file_path)
        if data.startswith(_PUFFIN_MAGIC):
            raise CorruptFileError(f"{d.file_path}: the manifest does not say where in the file the vector lies")
        return data
    with decoding(d.file_path), storage.open_input(d.file_path) as f:
        f.seek(d.content_offset)
        return bytes(f.read(d.content_size_in_bytes))


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
