"""Avro object container files in memory: header, blocks, sync markers and codecs.

Spec: Avro 1.12, Object Container Files. Records are neither encoded nor decoded here. Everything that is wrong with the
bytes raises CorruptFileError naming `where`, the file they are from.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import cramjam
import zstandard
from attrs import frozen

try:
    # Twice as fast, where there is a wheel of it.
    from isal import isal_zlib as inflate
except ImportError:
    inflate = zlib  # type: ignore[misc]  # the calls used here are the same

from icecore.engine.common.compressed_json import read_at_most
from icecore.engine.errors import CorruptFileError, ValidationError

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
# Writers end a block, before compression, with the record that brings it to this size.
BLOCK_BYTES = 64 * 1024
MOST_BYTES = 2**30
"""The most bytes of a block, and of a manifest or list, once decompressed: more than any real one has."""
DEFLATE_LEVEL = 6
ZSTANDARD_LEVEL = 3
_ERRORS: tuple[type[Exception], ...] = (  # type: ignore[assignment]  # a stub has an error, not its class
    zlib.error,
    inflate.error,
    zstandard.ZstdError,
    cramjam.DecompressionError,
    OSError,
    EOFError,
    lzma.LZMAError,
    ValueError,
)


@frozen
class AvroHeader:
    """The header of a container: its metadata, and where the first block starts in bytes."""

    where: str
    metadata: Mapping[str, bytes]
    codec: str
    sync_marker: bytes
    length: int

    @cached_property
    def schema(self) -> Any:
        """The writer schema, parsed when first asked for: many files may have the same. Raises CorruptFileError."""
        return _schema(self.metadata, self.where)

    def text(self, key: str) -> str | None:
        """A metadata value as text, None where the key is missing."""
        value = self.metadata.get(key)
        return None if value is None else value.decode("utf-8", "replace")


@frozen
class AvroBlock:
    """One block: the number of its records and their encoded bytes, decompressed."""

    count: int
    data: bytes


def read_header(data: bytes, where: str) -> AvroHeader:
    """The header of a container. Raises CorruptFileError naming `where`."""
    if data[:4] == b"AGS1":
        raise CorruptFileError(f"{where} is encrypted (an AES GCM stream), which can't be read")
    if data[:4] != MAGIC:
        raise CorruptFileError(f"{where} is not an Avro file: expected it to start with {MAGIC!r}, found {data[:4]!r}")
    metadata: dict[str, bytes] = {}
    position = 4
    while True:
        count, position = _read_long(data, position, where)
        if count == 0:
            break
        if count < 0:
            _, position = _read_long(data, position, where)
        for _ in range(abs(count)):
            key, position = _read_bytes(data, position, where)
            value, position = _read_bytes(data, position, where)
            metadata[key.decode("utf-8", "replace")] = value
    sync_marker, position = _take(data, position, SYNC_SIZE, where)
    return AvroHeader(where, metadata, metadata.get("avro.codec", b"null").decode("latin-1"), sync_marker, position)


def read_blocks(
    data: bytes, header: AvroHeader, where: str, most_bytes: int | None = MOST_BYTES
) -> Iterator[AvroBlock]:
    """The blocks of a container, decompressed.

    Raises CorruptFileError where a sync marker differs, and for more than `most_bytes` in all; None for any number,
    as data files may have, but in one block.
    """
    position, size = header.length, 0
    while position < len(data):
        count, position = _read_long(data, position, where)
        packed, position = _read_bytes(data, position, where)
        marker, position = _take(data, position, SYNC_SIZE, where)
        if marker != header.sync_marker:
            raise CorruptFileError(f"{where}: the block before byte {position} does not end in the sync marker")
        if count < 0:
            raise CorruptFileError(f"{where}: the block before byte {position} says that it has {count} records")
        block = AvroBlock(count, _decompress(header.codec, packed, where))
        size += len(block.data)
        if most_bytes is not None and size > most_bytes:
            raise _too_long(most_bytes, where)
        yield block


def write_container(
    metadata: Mapping[str, str | bytes], blocks: Iterable[AvroBlock], *, codec: str, sync_marker: bytes
) -> bytes:
    """The bytes of a container; the same input gives the same bytes. `metadata` must have the key `avro.schema`."""
    encoded = (encode_block(b, codec=codec, sync_marker=sync_marker) for b in blocks)
    return b"".join([encode_header(metadata, codec=codec, sync_marker=sync_marker), *encoded])


def write_block(
    metadata: Mapping[str, str | bytes], count: int, parts: Sequence[bytes], *, sync_marker: bytes
) -> bytes:
    """The bytes of a container of one block without compression, whose `count` records come in parts.

    `metadata` must have the key `avro.schema`.
    """
    header = encode_header(metadata, codec="null", sync_marker=sync_marker)
    return b"".join([header, write_long(count), write_long(sum(map(len, parts))), *parts, sync_marker])


def encode_header(metadata: Mapping[str, str | bytes], *, codec: str, sync_marker: bytes) -> bytes:
    """The bytes before the first block; `metadata` must have the key `avro.schema`.

    Raises ValidationError for an unknown codec.
    """
    if len(sync_marker) != SYNC_SIZE:
        raise ValidationError(f"a sync marker has {SYNC_SIZE} bytes, found {len(sync_marker)}")
    entries = {**metadata, "avro.codec": codec}
    out = [MAGIC, write_long(len(entries))]
    for key, value in entries.items():
        out += [_with_length(key.encode()), _with_length(value.encode() if isinstance(value, str) else value)]
    return b"".join([*out, b"\x00", sync_marker])


def encode_block(block: AvroBlock, *, codec: str, sync_marker: bytes, level: int | None = None) -> bytes:
    """The bytes of one block; `level` is the codec's own, where it has any."""
    packed = _compress(codec, block.data, level)
    return b"".join([write_long(block.count), write_long(len(packed)), packed, sync_marker])


def write_long(value: int) -> bytes:
    """A number as Avro encodes int and long: zigzag, then seven bits a byte."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _schema(metadata: Mapping[str, bytes], where: str) -> Any:
    if "avro.schema" not in metadata:
        raise CorruptFileError(f"{where}: the Avro header has no schema")
    try:
        return json.loads(metadata["avro.schema"])
    except (ValueError, RecursionError) as e:
        raise CorruptFileError(f"{where}: the schema in the Avro header is not JSON: {e}") from e


def _read_long(data: bytes, position: int, where: str) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise CorruptFileError(f"{where}: no whole number at byte {position} of {len(data)}; is the file cut?")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7


def _take(data: bytes, position: int, length: int, where: str) -> tuple[bytes, int]:
    if not 0 <= length <= len(data) - position:
        raise CorruptFileError(
            f"{where}: expected {length} bytes from byte {position}, the file has {len(data)} in all; is it cut?"
        )
    return data[position : position + length], position + length


def _read_bytes(data: bytes, position: int, where: str) -> tuple[bytes, int]:
    length, position = _read_long(data, position, where)
    return _take(data, position, length, where)


def _with_length(data: bytes) -> bytes:
    return write_long(len(data)) + data


def _decompress(codec: str, data: bytes, where: str) -> bytes:
    if codec == "null":
        return data
    try:
        out = _decompressed(codec, data, MOST_BYTES + 1, where)
    except _ERRORS as e:
        raise CorruptFileError(f"{where}: a block can't be decompressed as {codec}: {e}") from e
    if len(out) > MOST_BYTES:
        raise _too_long(MOST_BYTES, where)
    return out


def _too_long(most_bytes: int, where: str) -> CorruptFileError:
    return CorruptFileError(f"{where} has more than {most_bytes:,} bytes, once decompressed")


def _decompressed(codec: str, data: bytes, most_bytes: int, where: str) -> bytes:
    """The data of a block, cut at `most_bytes`."""
    match codec:
        case "deflate":
            inflater = inflate.decompressobj(-zlib.MAX_WBITS)
            out = inflater.decompress(data, most_bytes)
            if not inflater.eof and len(out) < most_bytes:
                raise CorruptFileError(f"{where}: a deflated block ends early")
            return out
        case "snappy":
            if cramjam.snappy.decompress_raw_len(data[:-4]) > MOST_BYTES:
                raise _too_long(MOST_BYTES, where)
            out = bytes(cramjam.snappy.decompress_raw(data[:-4]))
            if zlib.crc32(out) != int.from_bytes(data[-4:], "big"):
                raise CorruptFileError(f"{where}: the checksum of a snappy block does not fit")
            return out
        case "zstandard":
            with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
                return read_at_most(stream, most_bytes)
        case "bzip2":
            return read_at_most(bz2.BZ2File(io.BytesIO(data)), most_bytes)
        case "xz":
            return read_at_most(lzma.LZMAFile(io.BytesIO(data)), most_bytes)
    raise CorruptFileError(f"{where}: the codec {codec!r} is not known")


def _compress(codec: str, data: bytes, level: int | None) -> bytes:
    match codec:
        case "null":
            return data
        case "deflate":
            deflater = zlib.compressobj(DEFLATE_LEVEL if level is None else level, zlib.DEFLATED, -zlib.MAX_WBITS)
            return deflater.compress(data) + deflater.flush()
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")
        case "zstandard":
            return zstandard.ZstdCompressor(level=ZSTANDARD_LEVEL if level is None else level).compress(data)
        case _:
            raise ValidationError(f"the Avro codec must be null, deflate, snappy or zstandard, found {codec!r}")
