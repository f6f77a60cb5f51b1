"""The bytes of metadata files: JSON, plain or compressed with gzip."""

from __future__ import annotations

import gzip
import io
import zlib

from icecore.engine.errors import ValidationError

GZIP_MAGIC = b"\x1f\x8b"
MOST_BYTES_OF_METADATA = 2**30
"""The most bytes of another engine's metadata file, compressed or not: more than any real one has."""


def decompress(data: bytes | str, where: str = "table metadata") -> bytes | str:
    """The JSON text of a metadata file, compressed or not.

    Raises ValidationError for gzip that is not whole, or has more than MOST_BYTES_OF_METADATA inside.
    """
    if not isinstance(data, bytes) or not data.startswith(GZIP_MAGIC):
        return data
    try:
        text = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MOST_BYTES_OF_METADATA + 1)
    except (OSError, EOFError, zlib.error) as e:
        raise ValidationError(f"{where} is not valid gzip: {e}") from e
    if len(text) > MOST_BYTES_OF_METADATA:
        raise ValidationError(f"{where} is gzip of more than {MOST_BYTES_OF_METADATA:,} bytes")
    return text


def compress(data: bytes, codec: str) -> bytes:
    """Metadata bytes by `write.metadata.compression-codec`, the same for the same input.

    Raises ValidationError for a codec other than `none` and `gzip`.
    """
    match codec:
        case "none":
            return data
        case "gzip":
            return gzip.compress(data, compresslevel=6, mtime=0)
        case _:
            raise ValidationError(f"metadata files are compressed by none or gzip, found {codec!r}")
