"""The table properties that shape Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from icecore.engine.data.file.option_values import MIB, choice, level, positive
from icecore.engine.spec.content_file import FileFormat

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
_LEVELS = {"zstd": (-(2**17), 22), "gzip": (1, 9), "brotli": (0, 11)}


@frozen
class ParquetOptions:
    """How Parquet files are written. Sizes are in bytes; a row group's size is that of its Arrow data."""

    file_format: ClassVar[FileFormat] = FileFormat.PARQUET

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
        codec = choice(properties, "write.parquet.compression-codec", _CODECS, "zstd")
        return cls(
            target_file_size=positive(properties, "write.target-file-size-bytes", 512 * MIB),
            row_group_size=positive(properties, "write.parquet.row-group-size-bytes", 128 * MIB),
            row_group_rows=positive(properties, "write.parquet.row-group-limit", 1024 * 1024),
            page_size=positive(properties, "write.parquet.page-size-bytes", MIB),
            dictionary_size=positive(properties, "write.parquet.dict-size-bytes", 2 * MIB),
            codec=codec,
            level=level(properties, "write.parquet.compression-level", *_LEVELS[codec]) if codec in _LEVELS else None,
        )
