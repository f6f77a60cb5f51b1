"""Compiled Java classes in a folder of the user's, where the next session finds them.

Compiling takes a good part of the CPU of a session's first DataFrame, which waits for it. Classes of other sources, of
another Spark or Java are deleted when no session has used them for long: a file's time is that of its last use.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from icecore.engine.spark.java import cache_folder
from icecore.engine.storage.atomic_write import put_file, sweep

_DAY_S = 24 * 3600
_UNUSED_S = 90 * _DAY_S


def place_of(texts: Iterable[str], java_version: str, class_path: str) -> Path | None:
    """The file for the classes that sources compile to, in their order, by a Java version and archives of a class path.

    None where other archives could have the same file: the driver is on another host, or has classes in folders.
    """
    entries = [Path(e) for e in class_path.split(os.pathsep) if e]
    try:
        archives = [(e, e.stat()) for e in entries if e.is_file()]
        if not archives or any((e / "org").is_dir() for e in entries):
            return None
        folder = cache_folder() / "classes"
    except (OSError, RuntimeError):
        return None
    told = hashlib.sha256()
    for text in (java_version, *(f"{e} {found.st_size} {found.st_mtime_ns}" for e, found in archives), *texts):
        told.update(hashlib.sha256(text.encode()).digest())
    return folder / f"{told.hexdigest()}.zip"


def kept_classes(place: Path) -> dict[str, bytes] | None:
    """The bytes of each class by its name; None where no classes are kept, or they are damaged."""
    try:
        with zipfile.ZipFile(place) as archive:
            classes = {name: archive.read(name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError):
        return None
    with contextlib.suppress(OSError):
        if _age_s(place) > _DAY_S:
            os.utime(place)
    return classes


def keep_classes(place: Path, classes: Mapping[str, bytes]) -> None:
    """Keeps the bytes of classes, if it can, as they are compiled again otherwise; deletes those that nobody uses."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in classes.items():
            archive.writestr(name, data)
    with contextlib.suppress(OSError):
        # Only the user may write classes that the user's drivers run.
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        put_file(str(place), out.getvalue(), scratch=None, replace=True, durable=False)
        _sweep(place.parent)


def _sweep(folder: Path) -> None:
    """Deletes files that no session has used for long. Raises OSError.

    A session that opens such a file meanwhile still reads it, or compiles the classes anew.
    """
    sweep(str(folder))
    for place in folder.glob("*.zip"):
        with contextlib.suppress(OSError):
            if _age_s(place) > _UNUSED_S:
                place.unlink()


def _age_s(place: Path) -> float:
    """The seconds since a file's last use, to a day. Raises OSError."""
    return time.time() - place.stat().st_mtime
