"""Whole reads of files on disk that surely end: a name may be that of a pipe, which would wait, or of a device."""

from __future__ import annotations

import os
import stat

from icecore.engine.errors import CorruptFileError, StorageError


def read_local(location: str, path: str, most: int | None) -> bytes:
    """The content of a regular file. Raises StorageError for any other, CorruptFileError for more than `most` bytes."""
    with open(path, "rb", opener=_without_waiting) as f:
        found = os.fstat(f.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise StorageError(f"can't read {location}: it is no regular file")
        check_size(location, found.st_size, most)
        return f.read()


def check_size(location: str, size: int, most: int | None) -> None:
    """Raises CorruptFileError where a file has more than `most` bytes."""
    if most is not None and size > most:
        raise CorruptFileError(f"{location} has {size:,} bytes, more than the {most:,} that such a file may have")


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
