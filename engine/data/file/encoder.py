"""The common interface of the writers of all file formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa
from attrs import frozen


@frozen
class Layout:
    """The layout of a finished file: bytes by column id, and offsets at which it can be split; None where unknown."""

    column_sizes: Mapping[int, int] | None
    split_offsets: tuple[int, ...] | None


class Encoder(Protocol):
    """A writer of rows into an open stream in one format."""

    def write(self, rows: pa.Table) -> None:
        """Writes rows of the stored schema (`stored_table`), in Parquet as one row group."""
        ...

    def end(self) -> None:
        """Writes what ends the file; the stream stays open."""
        ...

    def layout(self) -> Layout:
        """The layout of the file, once it is closed."""
        ...

    def abandon(self) -> None:
        """Lets go of everything but the stream, after an error."""
        ...
