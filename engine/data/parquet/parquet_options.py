"""The table properties that shape Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from icecore.engine.data.file.option_values import level
from icecore.engine.properties.table_properties import (
    MIB,
    PARQUET_CODEC,
    PARQUET_DICTIONARY_SIZE,
    PARQUET_LEVEL,
    PARQUET_PAGE_SIZE,
    PARQUET_ROW_GROUP_ROWS,
    PARQUET_ROW_GROUP_SIZE,
    TARGET_FILE_SIZE,
)
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
    """The options of Parquet files. Sizes are in bytes; a row group's size is that of its Arrow data."""

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
        codec = _CODECS[PARQUET_CODEC.of(properties)]
        return cls(
            target_file_size=TARGET_FILE_SIZE.of(properties),
            row_group_size=PARQUET_ROW_GROUP_SIZE.of(properties),
            row_group_rows=PARQUET_ROW_GROUP_ROWS.of(properties),
            page_size=PARQUET_PAGE_SIZE.of(properties),
            dictionary_size=PARQUET_DICTIONARY_SIZE.of(properties),
            codec=codec,
            level=level(PARQUET_LEVEL, properties, *_LEVELS[codec]) if codec in _LEVELS else None,
        )
