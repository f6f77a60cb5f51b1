"""The columns of Parquet files, known from an earlier file with the same schema: opening each takes ten times as long.

Spec: parquet-format, FileMetaData.
"""

from __future__ import annotations

from attrs import define, field

from icecore.engine.data.file.file_field import FileField
from icecore.engine.data.parquet.parquet_row_groups import around_row_groups, read_footer
from icecore.engine.data.read.file_sources import open_source
from icecore.engine.spec.content_file import FileFormat
from icecore.engine.storage.file_io import Storage

_MOST = 32
"""The most kinds of footers to remember: with more, files have little in common, and each is opened."""


@define(eq=False)
class KnownColumns:
    """The columns of opened files, by the parts of their footers around the row groups. Threads may share it."""

    _known: dict[tuple[bytes, bytes], tuple[FileField, ...]] = field(factory=dict)

    def of(self, storage: Storage, location: str) -> tuple[FileField, ...]:
        """The columns of a file. Raises what `open_source` raises."""
        footer = self._footer(storage, location) if len(self._known) < _MOST else b""
        for (before, after), fields in tuple(self._known.items()):
            is_long = len(footer) >= len(before) + len(after)
            if is_long and footer.startswith(before) and footer.endswith(after):
                return fields
        found = open_source(storage, location, FileFormat.PARQUET).fields
        if footer:
            self._learn(footer, found)
        return found

    @staticmethod
    def _footer(storage: Storage, location: str) -> bytes:
        """The footer of a file; empty if it can't be read, of which the error comes when the file is opened."""
        with storage.open_input(location) as source:
            try:
                return read_footer(source)
            except (ValueError, OSError):
                return b""

    def _learn(self, footer: bytes, fields: tuple[FileField, ...]) -> None:
        try:
            self._known[around_row_groups(footer)] = fields
        except (ValueError, RecursionError):
            # Arrow or DuckDB read footers that can't be taken apart here; each such file is opened.
            return
