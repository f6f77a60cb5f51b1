"""The table properties that shape ORC files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from icecore.engine.properties.table_properties import MIB, ORC_CODEC, ORC_STRATEGY, ORC_STRIPE_SIZE, TARGET_FILE_SIZE
from icecore.engine.spec.content_file import FileFormat

_CODECS = {
    "zlib": "zlib",
    "gzip": "zlib",
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}


@frozen
class OrcOptions:
    """The options of ORC files, sizes in bytes. LZO, which Java can write, is not among the codecs."""

    file_format: ClassVar[FileFormat] = FileFormat.ORC

    target_file_size: int = 512 * MIB
    stripe_size: int = 64 * MIB
    block_size: int = MIB // 4
    row_group_rows: int = 1024 * 1024
    codec: str = "zlib"
    strategy: str = "speed"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> OrcOptions:
        """The options of table properties. Raises ValidationError naming a property that can't be read."""
        target = TARGET_FILE_SIZE.of(properties)
        return cls(
            target_file_size=target,
            # The writer holds a whole stripe back, so a larger one would make the file miss its size.
            stripe_size=min(target, ORC_STRIPE_SIZE.of(properties)),
            codec=_CODECS[ORC_CODEC.of(properties)],
            strategy=ORC_STRATEGY.of(properties),
        )

    @property
    def row_group_size(self) -> int:
        """Bytes of Arrow data that the writer takes at once."""
        return self.stripe_size
