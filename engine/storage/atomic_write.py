"""Atomic writes of local files: written apart, then put in their place at once.

A process that dies leaves such a file behind. All of a warehouse lie in one folder, so that whoever opens it next finds
them without looking through every table. A lock on the file, which ends with the process that holds it, tells a file
that is being written from one that nobody will ever finish.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from functools import lru_cache
from typing import IO

from icecore.engine.storage.late_files import LateFiles

SUFFIX = ".tmp"
_ATTEMPTS = 3


def put_file(
    path: str, data: bytes, *, scratch: str | None, replace: bool, durable: bool, late: LateFiles | None = None
) -> None:
    """Puts a whole local file in place, in an existing folder; if `durable`, it is on the disk before it has its name.

    A new one among `late` files has its name first, and is made durable with them. It is written in the folder
    `scratch`, or beside its place where that is None or on another file system. Without `replace`, raises
    FileExistsError where there is a file already. Raises OSError.
    """
    for attempt in range(_ATTEMPTS):
        folder = _folder_for(os.path.dirname(path), scratch)
        try:
            _put(path, data, folder, replace, durable, late)
            return
        except FileNotFoundError:
            _folder_for.cache_clear()
            # Somebody swept between our making the file and our locking it; a lost folder stays an error.
            if attempt == _ATTEMPTS - 1 or not os.path.isdir(os.path.dirname(path)):
                raise
        except OSError as e:
            _folder_for.cache_clear()
            if e.errno != errno.EXDEV:
                raise
            scratch = None


def put_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file that somebody asked for, whole or not at all, where a link leads; a device just gets the text.

    Raises OSError, which names the file.
    """
    target, data = os.path.realpath(path), text.encode()
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as f:
                f.write(data)
        else:
            put_file(target, data, scratch=None, replace=True, durable=False)
    except OSError as e:
        raise OSError(e.errno, e.strerror, os.fspath(path)) from e


def sweep(scratch: str) -> int:
    """Deletes what dead processes left in the folder; returns how many files. What can't be deleted stays."""
    swept = 0
    with contextlib.suppress(OSError):
        for name in os.listdir(scratch):
            if name.endswith(SUFFIX):
                with contextlib.suppress(OSError):
                    swept += _sweep_one(os.path.join(scratch, name))
    return swept


def _sweep_one(path: str) -> bool:
    with open(path, "rb") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        os.unlink(path)
        return True


@lru_cache(maxsize=1024)
def _folder_for(beside: str, scratch: str | None) -> str:
    """The folder in which a file for another one is written: `scratch` if possible; cached until a write fails."""
    if scratch is None:
        return beside
    try:
        os.makedirs(scratch, exist_ok=True)
        same = os.stat(scratch).st_dev == os.stat(beside or ".").st_dev
        return scratch if same and os.access(scratch, os.W_OK) else beside
    except OSError:
        return beside


def _put(path: str, data: bytes, folder: str, replace: bool, durable: bool, late: LateFiles | None) -> None:
    if late is not None and (not durable or not late.takes_more or os.path.lexists(path)):
        late = None
    temporary = os.path.join(folder, f".{os.path.basename(path)[:100]}.{uuid.uuid4().hex}{SUFFIX}")
    is_left = True
    with open(temporary, "xb") as f:
        try:
            _lock(f)
            f.write(data)
            f.flush()
            if durable and late is None:
                os.fsync(f.fileno())
            if replace:
                os.replace(temporary, path)
                is_left = False
            else:
                os.link(temporary, path)
            if late is not None:
                late.add(path, f.fileno())
        finally:
            if is_left:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)


def _lock(f: IO[bytes]) -> None:
    """Locks a file that is being written; where the file system knows no locks, nobody can sweep either."""
    with contextlib.suppress(OSError):
        fcntl.flock(f, fcntl.LOCK_EX)
