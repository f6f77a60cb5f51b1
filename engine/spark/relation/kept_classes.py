"""Compiled Java classes in a folder of the user's, where the next session finds them.

To compile them takes a good part of the CPU of a session's first DataFrame, which waits for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from icecore.engine.spark.java import cache_folder
from icecore.engine.storage.atomic_write import put_file


def place_of(texts: Iterable[str], java_version: str, class_path: str) -> Path | None:
    """The file for the classes that sources compile to, in that order, beside the archives of a class path.

    None where one couldn't be told from that of others: the driver is on another host, or has classes in folders.
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
    """The bytes of each class by its name; None where there are none, or they were damaged."""
    try:
        with zipfile.ZipFile(place) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, EOFError, ValueError):
        return None


def keep_classes(place: Path, classes: Mapping[str, bytes]) -> None:
    """Keeps the bytes of classes, if it can: without them they are compiled again."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in classes.items():
            archive.writestr(name, data)
    with contextlib.suppress(OSError):
        # What a driver runs is nobody's to write but its user's.
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        put_file(str(place), out.getvalue(), scratch=None, replace=True, durable=False)
