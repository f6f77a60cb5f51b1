"""Puffin files: blobs, and a footer that describes them.

Spec: Puffin (PF1). The footer can be read from the end of the file alone, a blob by its offset and length. The format
has no checksums, so only what is compressed has one, in its compression frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from attrs import field, frozen

from icecore.engine.common.json_reader import get, get_list, get_str_map, loads, unknown
from icecore.engine.common.version import ENGINE_VERSION
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.formats.compression_frames import LZ4, ZSTD, compressed_frame, frame_content

MAGIC = b"PFA1"
CREATED_BY = "created-by"
CODECS = (None, LZ4, ZSTD)
MAX_PAYLOAD_SIZE = 2**31 - 1
_FOOTER_COMPRESSED = 1
_TAIL = struct.Struct("<iI4s")
_MIN_FOOTER_SIZE = len(MAGIC) + _TAIL.size
_GUESSED_FOOTER_SIZE = 16 * 1024
_BLOB_KEYS = frozenset(
    {"type", "fields", "snapshot-id", "sequence-number", "offset", "length", "compression-codec", "properties"}
)

ReadRange = Callable[[int, int], bytes]


@frozen
class Blob:
    """A blob to be written. `data` is uncompressed; `compression_codec` is None, `lz4` or `zstd`."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    data: bytes = field(repr=False)
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(factory=dict)


@frozen
class StoredBlob:
    """A blob as the footer describes it. `offset` and `length` are bytes of the file, after compression."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(factory=dict)
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "type": self.type,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "offset": self.offset,
            "length": self.length,
        }
        if self.compression_codec is not None:
            out["compression-codec"] = self.compression_codec
        if self.properties:
            out["properties"] = dict(self.properties)
        return out | dict(self.extra)

    @classmethod
    def from_dict(cls, obj: Any) -> StoredBlob:
        """The blob that a footer's JSON object describes. Raises ValidationError where it describes none."""
        where = "blob"
        fields = get_list(obj, "fields", where)
        if not all(isinstance(i, int) and not isinstance(i, bool) for i in fields):
            raise ValidationError(f"{where}: fields must be field ids, found {fields!r}")
        return cls(
            get(obj, "type", str, where),
            tuple(fields),
            get(obj, "snapshot-id", int, where),
            get(obj, "sequence-number", int, where),
            get(obj, "offset", int, where),
            get(obj, "length", int, where),
            get(obj, "compression-codec", str, where, None),
            get_str_map(obj, "properties", where, {}),
            unknown(obj, _BLOB_KEYS),
        )


@frozen
class PuffinFooter:
    """The footer of a Puffin file, with the sizes in bytes that table metadata records of it (MD4)."""

    blobs: tuple[StoredBlob, ...]
    properties: Mapping[str, str]
    footer_size_in_bytes: int
    file_size_in_bytes: int


@frozen
class PuffinFile:
    """The bytes of a Puffin file and its footer."""

    data: bytes = field(repr=False)
    footer: PuffinFooter


def write_puffin(
    blobs: Iterable[Blob], *, properties: Mapping[str, str] | None = None, compress_footer: bool = False
) -> PuffinFile:
    """A Puffin file of the blobs in their order; the same arguments give the same bytes.

    `created-by` is set unless the properties have it. Java can't read a compressed footer, nor lz4 blobs.
    Raises ValidationError for an unknown codec.
    """
    parts, offset, stored = [MAGIC], len(MAGIC), []
    for blob in blobs:
        if blob.compression_codec not in CODECS:
            raise ValidationError(
                f"a blob is compressed with lz4, zstd or not at all, found {blob.compression_codec!r}"
            )
        data = blob.data if blob.compression_codec is None else compressed_frame(blob.compression_codec, blob.data)
        stored.append(_stored(blob, offset, len(data)))
        parts.append(data)
        offset += len(data)
    all_properties = {CREATED_BY: ENGINE_VERSION, **(properties or {})}
    footer = _encode_footer(stored, all_properties, compress_footer)
    size = offset + len(footer)
    return PuffinFile(b"".join((*parts, footer)), PuffinFooter(tuple(stored), all_properties, len(footer), size))


def with_blobs(data: bytes, footer: PuffinFooter, blobs: Sequence[StoredBlob]) -> bytes:
    """A Puffin file with the blobs' bytes of `data`, and a footer that describes them as `blobs`."""
    compressed = bool(_TAIL.unpack_from(data, len(data) - _TAIL.size)[1] & _FOOTER_COMPRESSED)
    return data[: -footer.footer_size_in_bytes] + _encode_footer(blobs, footer.properties, compressed)


def decode_footer(data: bytes, where: str) -> PuffinFooter:
    """The footer of a whole Puffin file in memory. Raises CorruptFileError naming `where`."""
    return footer_by_ranges(len(data), lambda start, length: data[start : start + length], where)


def decode_blob(data: bytes, blob: StoredBlob, where: str) -> bytes:
    """The uncompressed bytes of a blob of a whole Puffin file in memory. Raises CorruptFileError."""
    return blob_by_ranges(lambda start, length: data[start : start + length], blob, where)


def _stored(blob: Blob, offset: int, length: int) -> StoredBlob:
    return StoredBlob(
        blob.type,
        tuple(blob.fields),
        blob.snapshot_id,
        blob.sequence_number,
        offset,
        length,
        blob.compression_codec,
        dict(blob.properties),
    )


def _encode_footer(blobs: Sequence[StoredBlob], properties: Mapping[str, str], compressed: bool) -> bytes:
    payload = orjson.dumps({"blobs": [b.to_dict() for b in blobs], "properties": dict(properties)})
    if compressed:
        payload = compressed_frame(LZ4, payload)
    if len(payload) > MAX_PAYLOAD_SIZE:
        raise ValidationError(f"a Puffin footer holds at most {MAX_PAYLOAD_SIZE} bytes, found {len(payload)}")
    return MAGIC + payload + _TAIL.pack(len(payload), _FOOTER_COMPRESSED if compressed else 0, MAGIC)


def footer_by_ranges(file_size: int, read: ReadRange, where: str) -> PuffinFooter:
    """The footer of a file, read through `read(start, length)`. Raises CorruptFileError naming `where`."""
    if file_size < len(MAGIC) + _MIN_FOOTER_SIZE:
        raise CorruptFileError(f"{where}: a Puffin file has at least 20 bytes, found {file_size}")
    end = read(max(0, file_size - _GUESSED_FOOTER_SIZE), min(file_size, _GUESSED_FOOTER_SIZE))
    payload_size, flags, magic = _TAIL.unpack_from(end, len(end) - _TAIL.size)
    if magic != MAGIC:
        raise CorruptFileError(f"{where}: expected the magic PFA1 of Puffin at the end, found {magic!r}")
    if flags & ~_FOOTER_COMPRESSED:
        raise CorruptFileError(f"{where}: the flags {flags:#x} of the Puffin footer are not known")
    footer_size = payload_size + _MIN_FOOTER_SIZE
    if payload_size < 0 or footer_size + len(MAGIC) > file_size:
        raise CorruptFileError(f"{where}: the footer can't have {payload_size} bytes in a file of {file_size}")
    footer = end[-footer_size:] if footer_size <= len(end) else read(file_size - footer_size, footer_size)
    if footer[:4] != MAGIC:
        raise CorruptFileError(f"{where}: expected the magic PFA1 where the footer starts, found {footer[:4]!r}")
    payload = footer[len(MAGIC) : -_TAIL.size]
    if flags & _FOOTER_COMPRESSED:
        payload = frame_content(LZ4, payload, f"{where}: the footer")
    try:
        obj = loads(payload, "the Puffin footer")
        blobs = tuple(StoredBlob.from_dict(b) for b in get_list(obj, "blobs", "the Puffin footer"))
        properties = get_str_map(obj, "properties", "the Puffin footer", {})
    except ValidationError as e:
        raise CorruptFileError(f"{where}: {e}") from e
    for blob in blobs:
        _check_range(blob, file_size - footer_size, where)
    return PuffinFooter(blobs, properties, footer_size, file_size)


def _check_range(blob: StoredBlob, footer_start: int, where: str) -> None:
    if blob.offset < len(MAGIC) or blob.length < 0 or blob.offset + blob.length > footer_start:
        raise CorruptFileError(
            f"{where}: the {blob.type} blob of {blob.length} bytes at offset {blob.offset} does not lie between the "
            f"head of the file and its footer at {footer_start}"
        )


def blob_by_ranges(read: ReadRange, blob: StoredBlob, where: str) -> bytes:
    """The uncompressed bytes of a blob, read through `read(start, length)`. Raises CorruptFileError naming `where`."""
    data = read(blob.offset, blob.length)
    if len(data) != blob.length:
        raise CorruptFileError(f"{where}: the {blob.type} blob should have {blob.length} bytes, found {len(data)}")
    match blob.compression_codec:
        case None | "none":
            return data
        case "lz4" | "zstd" as codec:
            return frame_content(codec, data, f"{where}: the {blob.type} blob at offset {blob.offset}")
        case codec:
            raise CorruptFileError(f"{where}: a blob is compressed with lz4, zstd or not at all, found {codec!r}")
