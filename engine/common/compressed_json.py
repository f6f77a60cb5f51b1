"""The bytes of metadata files: JSON, plain or compressed."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING

from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    from _typeshed import SupportsRead

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PART = 2**20
MOST_BYTES_OF_METADATA = 2**30
"""The most bytes of another engine's metadata file, compressed or not: more than any real one has."""


def decompress(data: bytes | str, where: str = "table metadata") -> bytes | str:
    """The JSON text of a metadata file, compressed or not: by gzip or, as iceberg-go can, by zstd.

    Raises ValidationError for what is compressed and not whole, or has more than MOST_BYTES_OF_METADATA inside.
    """
    if not isinstance(data, bytes) or not data.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
        return data
    codec = "gzip" if data.startswith(GZIP_MAGIC) else "zstd"
    try:
        text = (_gunzip if codec == "gzip" else _unzstd)(data, MOST_BYTES_OF_METADATA + 1)
    except (OSError, EOFError, zlib.error) as e:
        raise ValidationError(f"{where} is not valid {codec}: {e}") from e
    if len(text) > MOST_BYTES_OF_METADATA:
        raise ValidationError(f"{where} is {codec} of more than {MOST_BYTES_OF_METADATA:,} bytes")
    return text


def read_at_most(stream: SupportsRead[bytes], most: int) -> bytes:
    """The bytes of a stream, cut at `most`, read in parts: at one go, memory would be taken for `most` of them."""
    out = bytearray()
    while len(out) < most and (part := stream.read(min(most - len(out), _PART))):
        out += part
    return bytes(out)


def _gunzip(data: bytes, most: int) -> bytes:
    return read_at_most(gzip.GzipFile(fileobj=io.BytesIO(data)), most)


def _unzstd(data: bytes, most: int) -> bytes:
    import pyarrow as pa  # Slow to load, and few need it here.

    return read_at_most(pa.CompressedInputStream(pa.BufferReader(data), "zstd"), most)


def compress(data: bytes, codec: str) -> bytes:
    """Metadata bytes by `write.metadata.compression-codec` or by zstd, the same for the same input.

    Raises ValidationError for a codec other than `none`, `gzip` and `zstd`.
    """
    match codec:
        case "none":
            return data
        case "gzip":
            return gzip.compress(data, compresslevel=6, mtime=0)
        case "zstd":
            import pyarrow as pa

            return bytes(pa.compress(data, codec="zstd", asbytes=True))
        case _:
            raise ValidationError(f"metadata files are compressed by none, gzip or zstd, found {codec!r}")


def codec_of_name(name: str) -> str:
    """The codec of a metadata file by its name, as readers tell it: gzip for `.gz`, zstd for `.zstd`, else none."""
    return "gzip" if ".gz" in name else "zstd" if ".zstd" in name else "none"
