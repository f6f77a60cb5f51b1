"""Puffin files in storage, read only in the parts that are needed."""

from __future__ import annotations

from icecore.engine.formats.puffin import PuffinFooter, StoredBlob, blob_by_ranges, footer_by_ranges
from icecore.engine.storage.file_io import Storage, translated


def read_footer(storage: Storage, location: str) -> PuffinFooter:
    """The footer of a Puffin file, of which only the end is read.

    Raises MissingFileError, StorageError, or CorruptFileError naming the file.
    """
    with translated(location, "read"), storage.open_input(location) as f:
        return footer_by_ranges(int(f.size()), lambda start, length: bytes(f.read_at(length, start)), location)


def read_blob(storage: Storage, location: str, blob: StoredBlob) -> bytes:
    """The uncompressed bytes of a blob. Raises MissingFileError, StorageError, or CorruptFileError naming the file."""
    with translated(location, "read"), storage.open_input(location) as f:
        return blob_by_ranges(lambda start, length: bytes(f.read_at(length, start)), blob, location)
