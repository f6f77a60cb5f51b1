"""The table properties that shape ORC files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from icecore.engine.data.file.option_values import MIB, choice, positive
from icecore.engine.spec.content_file import FileFormat

_CODECS = {
    "zlib": "zlib",
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}
_STRATEGIES = {"speed": "speed", "compression": "compression"}


@frozen
class OrcOptions:
    """How ORC files are written, sizes in bytes. LZO, which Java can write, is not among the codecs."""

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
        target = positive(properties, "write.target-file-size-bytes", 512 * MIB)
        return cls(
            target_file_size=target,
            # The writer holds a whole stripe back, so a larger one would make the file miss its size.
            stripe_size=min(target, positive(properties, "write.orc.stripe-size-bytes", 64 * MIB)),
            codec=choice(properties, "write.orc.compression-codec", _CODECS, "zlib"),
            strategy=choice(properties, "write.orc.compression-strategy", _STRATEGIES, "speed"),
        )

    @property
    def row_group_size(self) -> int:
        """Bytes of Arrow data that the writer takes at once."""
        return self.stripe_size
