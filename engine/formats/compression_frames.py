"""LZ4 and Zstandard frames with their content size, as Puffin wants them.

Spec: Puffin, Compression codecs (PF1). One frame holds the whole of the data; both kinds carry a checksum of it.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam
import zstandard

from icecore.engine.errors import CorruptFileError

MOST_BYTES = 2**30
"""The most bytes of a frame's content: more than any real one has."""
_FED_BYTES = 4096
LZ4: Final = "lz4"
ZSTD: Final = "zstd"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = struct.Struct("<4sBB")
_LZ4_VERSION_MASK, _LZ4_VERSION = 0xC0, 0x40
_LZ4_HAS_SIZE = 0x08
_LONG = struct.Struct("<Q")
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF


def compressed_frame(codec: str, data: bytes) -> bytes:
    """One frame of the data; the same data gives the same bytes."""
    if codec == ZSTD:
        return zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=True).compress(data)
    return _with_content_size(bytes(cramjam.lz4.compress(data)), len(data))


def frame_content(codec: str, data: bytes, where: str) -> bytes:
    """The data of one frame. Raises CorruptFileError naming `where` for anything else than one whole frame."""
    return _decompress_zstd(data, where) if codec == ZSTD else _decompress_lz4(data, where)


def _decompress_zstd(data: bytes, where: str) -> bytes:
    # As a stream: at one go, a broken content size would be allocated before the error is found.
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    out, rest = bytearray(), memoryview(data)
    try:
        while rest and not decompressor.eof:
            # Few bytes at once, as each may stand for thousands.
            out += decompressor.decompress(rest[:_FED_BYTES])
            rest = rest[_FED_BYTES:]
            if len(out) > MOST_BYTES:
                raise CorruptFileError(f"{where} has more than {MOST_BYTES:,} bytes, once decompressed")
    except (zstandard.ZstdError, MemoryError) as e:
        raise CorruptFileError(f"{where} is no Zstandard frame: {e}") from e
    if not decompressor.eof or decompressor.unused_data or rest:
        raise CorruptFileError(f"{where} is not one whole Zstandard frame")
    return bytes(out)


def _decompress_lz4(data: bytes, where: str) -> bytes:
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise CorruptFileError(f"{where} is no LZ4 frame")
    try:
        out = bytes(cramjam.lz4.decompress(data))
    except (cramjam.DecompressionError, MemoryError) as e:
        raise CorruptFileError(f"{where} is no LZ4 frame: {e}") from e
    if data[4] & _LZ4_HAS_SIZE and (len(data) < 14 or _LONG.unpack_from(data, 6)[0] != len(out)):
        raise CorruptFileError(f"{where}: the content of the LZ4 frame does not have the size that it names")
    return out


def _with_content_size(frame: bytes, size: int) -> bytes:
    """The same frame with the content size in its header: the compressor leaves it out."""
    magic, flags, block_size = _LZ4_HEADER.unpack_from(frame)
    if magic != _LZ4_MAGIC or flags & _LZ4_VERSION_MASK != _LZ4_VERSION or flags & _LZ4_HAS_SIZE:
        return frame
    descriptor = bytes((flags | _LZ4_HAS_SIZE, block_size)) + _LONG.pack(size)
    return _LZ4_MAGIC + descriptor + bytes((_xxh32_short(descriptor) >> 8 & 0xFF,)) + frame[7:]


def _xxh32_short(data: bytes) -> int:
    """The xxHash-32 of fewer than 16 bytes with seed 0, which checks the header of an LZ4 frame."""
    h = _PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        h = _rotate(h + word * _PRIME_3 & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        h = _rotate(h + byte * _PRIME_5 & _MASK, 11) * _PRIME_1 & _MASK
    h = (h ^ h >> 15) * _PRIME_2 & _MASK
    h = (h ^ h >> 13) * _PRIME_3 & _MASK
    return h ^ h >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
