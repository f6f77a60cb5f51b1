"""The tail of ORC files: the places of the stripes and the bytes of each column, which Arrow hides.

Spec: ORC v1, File Tail and Stripes. A tail is protocol buffers; only the few fields that are needed are decoded.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import cramjam
import pyarrow as pa
from attrs import frozen

from icecore.engine.errors import CorruptFileError

_MAGIC = b"ORC"
_NONE, _ZLIB, _SNAPPY, _LZ4, _ZSTD = 0, 1, 2, 4, 5
_TAIL_GUESS = 16 * 1024
_DEFAULT_BLOCK = 256 * 1024
_MOST_BLOCK = 2**23


@frozen
class Stripe:
    """One stripe: its offset, the bytes of its parts, and its number of rows."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int


@frozen
class _Compression:
    """The kind, and the most bytes that a chunk has before compression."""

    kind: int
    block_size: int


@frozen
class OrcTail:
    """The stripes of a file in their order, and the compression of its parts."""

    stripes: tuple[Stripe, ...]
    compression: _Compression


def read_tail(source: pa.NativeFile, where: str) -> OrcTail:
    """The tail of an ORC file. Raises CorruptFileError naming `where`."""
    size = source.size()
    end = source.read_at(min(size, _TAIL_GUESS), max(0, size - _TAIL_GUESS))
    if not end or len(end) <= end[-1]:
        raise CorruptFileError(f"{where} is not an ORC file: it has {size} bytes")
    script = end[-1 - end[-1] : -1]
    numbers = {n: v for n, v in _fields(script, where) if isinstance(v, int)}
    footer_length = numbers.get(1, 0)
    compression = _Compression(numbers.get(2, _NONE), numbers.get(3, _DEFAULT_BLOCK))
    if not script.endswith(_MAGIC) or footer_length > size - len(script) - 1:
        raise CorruptFileError(f"{where} is not an ORC file: it does not end as one")
    footer = source.read_at(footer_length, size - 1 - len(script) - footer_length)
    message = _decompressed(footer, compression, where)
    return OrcTail(tuple(_stripe(v, where) for n, v in _fields(message, where) if n == 3), compression)


def column_bytes(source: pa.NativeFile, tail: OrcTail, where: str) -> dict[int, int]:
    """The bytes of each ORC column, index and data, by its number: 0 is the row, then depth first."""
    sizes: dict[int, int] = {}
    for s in tail.stripes:
        footer = source.read_at(s.footer_length, s.offset + s.index_length + s.data_length)
        for number, stream in _fields(_decompressed(footer, tail.compression, where), where):
            if number != 1 or isinstance(stream, int):
                continue
            parts = {n: v for n, v in _fields(stream, where) if isinstance(v, int)}
            column = parts.get(2, 0)
            sizes[column] = sizes.get(column, 0) + parts.get(3, 0)
    return sizes


def _stripe(message: int | bytes, where: str) -> Stripe:
    if isinstance(message, int):
        raise CorruptFileError(f"{where}: the footer of the ORC file has a number for a stripe")
    found = {n: v for n, v in _fields(message, where) if isinstance(v, int)}
    return Stripe(*(found.get(n, 0) for n in range(1, 6)))


def _fields(message: bytes, where: str) -> Iterator[tuple[int, int | bytes]]:
    """The varint fields of a protocol buffer message as numbers, and its length-delimited ones as bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at, where)
        match tag & 7:
            case 0:
                value, at = _varint(message, at, where)
                yield tag >> 3, value
            case 2:
                length, at = _varint(message, at, where)
                if length > len(message) - at:
                    raise CorruptFileError(f"{where}: a field of the ORC tail is longer than the tail")
                yield tag >> 3, message[at : at + length]
                at += length
            case 1 | 5 as kind:
                at += 8 if kind == 1 else 4
            case kind:
                raise CorruptFileError(f"{where}: the ORC tail has a field of the unknown kind {kind}")


def _varint(message: bytes, at: int, where: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
        shift += 7
    raise CorruptFileError(f"{where}: a number in the ORC tail has no end")


def _decompressed(data: bytes, compression: _Compression, where: str) -> bytes:
    """The chunks of a compressed part put together: each has a header of three bytes, length and whether it is raw."""
    if compression.kind == _NONE:
        return data
    out = []
    at = 0
    while at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (header >> 1)]
        out.append(chunk if header & 1 else _inflated(chunk, compression, where))
        at += 3 + (header >> 1)
    return b"".join(out)


def _inflated(chunk: bytes, compression: _Compression, where: str) -> bytes:
    try:
        if compression.kind == _ZLIB:
            return zlib.decompress(chunk, -zlib.MAX_WBITS)
        if compression.kind == _SNAPPY:
            return bytes(cramjam.snappy.decompress_raw(chunk))
        if compression.kind == _LZ4:
            return bytes(cramjam.lz4.decompress_block(chunk, output_len=min(compression.block_size, _MOST_BLOCK)))
        if compression.kind == _ZSTD:
            return bytes(cramjam.zstd.decompress(chunk))
    except (zlib.error, cramjam.DecompressionError, ValueError) as e:
        raise CorruptFileError(f"{where}: the ORC tail can't be decompressed: {e}") from e
    raise CorruptFileError(f"{where}: the ORC compression {compression.kind} is not known")
