"""The versions in the folder of a file system table, which any writer may add to. Spec: File System Tables (MD7)."""

from __future__ import annotations

import re

from icecore.engine.metadata.fold import version_names
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.version_hint import hinted_version

_VERSIONED = re.compile(r"v(\d{1,18})(?:\.gz)?\.metadata\.json(?:\.gz)?")


def version_after(folder: str, version: int, storage: Storage) -> str | None:
    """The file of the lowest version above one; None where there is none.

    Writers that delete old versions may have deleted the next one already. Then it is the hint that tells of later
    ones, and where it tells nothing all files are looked through.
    """
    for name in version_names(version + 1):
        if storage.exists(f"{folder}/{name}"):
            return f"{folder}/{name}"
    hinted = hinted_version(folder, storage)
    if hinted is not None and hinted <= version:
        return None
    found = ((version_of(name), name) for name in storage.list(folder))
    above = min(((n, name) for n, name in found if n is not None and n > version), default=None)
    return None if above is None else f"{folder}/{above[1]}"


def version_of(location: str) -> int | None:
    """The version whose file a location is; None for a file of another name."""
    found = _VERSIONED.fullmatch(location.rsplit("/", 1)[-1])
    return None if found is None else int(found[1])
