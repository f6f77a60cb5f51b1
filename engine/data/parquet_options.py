"""The table properties that shape Parquet files, read and checked."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from icecore.engine.errors import ValidationError

MIB = 1024 * 1024
_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "uncompressed": "none",
    "none": "none",
}
_LEVELLED = frozenset(("zstd", "gzip", "brotli"))


@frozen
class ParquetOptions:
    """How Parquet files are written. Sizes are in bytes; a row group's size is that of its Arrow data."""

    target_file_size: int = 512 * MIB
    row_group_size: int = 128 * MIB
    row_group_rows: int = 1024 * 1024
    page_size: int = MIB
    dictionary_size: int = 2 * MIB
    codec: str = "zstd"
    level: int | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ParquetOptions:
        """The options of table properties. Raises ValidationError naming a property that can't be read."""
        codec = properties.get("write.parquet.compression-codec", "zstd").strip().lower()
        if codec not in _CODECS:
            raise ValidationError(
                f"property write.parquet.compression-codec: expected one of {', '.join(_CODECS)}, found {codec!r}"
            )
        level = properties.get("write.parquet.compression-level")
        return cls(
            target_file_size=_size(properties, "write.target-file-size-bytes", 512 * MIB),
            row_group_size=_size(properties, "write.parquet.row-group-size-bytes", 128 * MIB),
            row_group_rows=_size(properties, "write.parquet.row-group-limit", 1024 * 1024),
            page_size=_size(properties, "write.parquet.page-size-bytes", MIB),
            dictionary_size=_size(properties, "write.parquet.dict-size-bytes", 2 * MIB),
            codec=_CODECS[codec],
            level=_level(level) if level is not None and codec in _LEVELLED else None,
        )


def _size(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValidationError(f"property {key}: expected a positive whole number, found {text!r}")
    return int(text)


def _level(text: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise ValidationError(
            f"property write.parquet.compression-level: expected a whole number, found {text!r}"
        ) from e
