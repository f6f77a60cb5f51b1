"""The table properties that shape Avro files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from icecore.engine.data.file.option_values import level
from icecore.engine.properties.table_properties import AVRO_CODEC, AVRO_LEVEL, MIB, TARGET_FILE_SIZE
from icecore.engine.spec.content_file import FileFormat

_CODECS = {
    "gzip": "deflate",
    "zstd": "zstandard",
    "snappy": "snappy",
    "uncompressed": "null",
    "none": "null",
}
_LEVELS = {"deflate": (1, 9), "zstandard": (-(2**17), 22)}


@frozen
class AvroOptions:
    """The options of Avro files: the codec by Avro's own name, sizes in bytes."""

    file_format: ClassVar[FileFormat] = FileFormat.AVRO

    target_file_size: int = 512 * MIB
    row_group_size: int = 8 * MIB
    row_group_rows: int = 64 * 1024
    codec: str = "deflate"
    level: int | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> AvroOptions:
        """The options of table properties. Raises ValidationError naming a property that can't be read."""
        codec = _CODECS[AVRO_CODEC.of(properties)]
        return cls(
            target_file_size=TARGET_FILE_SIZE.of(properties),
            codec=codec,
            level=level(AVRO_LEVEL, properties, *_LEVELS[codec]) if codec in _LEVELS else None,
        )
