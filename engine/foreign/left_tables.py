"""Tables that lie in a folder without a log, as those of a warehouse whose log was lost."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from pathlib import Path

from icecore.engine.common.text import abbreviated
from icecore.engine.foreign.table_folder import METADATA_ENDINGS

METADATA, DATA = "metadata", "data"
_LOOKED_AT = 100_000
"""The most names that are read: a folder may be the root of anything."""
_SHOWN = 3


def left_tables(folder: Path, most: int | None = _LOOKED_AT) -> list[Path]:
    """The folders of tables and views below a folder, those next to it first: each has a folder `metadata`.

    No more than `most` names are read; None for all.
    """
    found: list[Path] = []
    todo, looked_at = deque([folder]), 0
    while todo and (most is None or looked_at < most):
        current = todo.popleft()
        inner: list[str] = []
        with contextlib.suppress(OSError), os.scandir(current) as entries:
            for entry in entries:
                looked_at += 1
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
        if METADATA in inner and _has_metadata(current / METADATA):
            found.append(current)
            inner = [name for name in inner if name not in (METADATA, DATA)]
        todo.extend(current / name for name in sorted(inner))
    return found


def left_text(folder: Path, left: list[Path]) -> str:
    """The words for what lies in a folder without a log, and for what to do with it."""
    shown = abbreviated((str(path.relative_to(folder)) if path != folder else "its own" for path in left), _SHOWN)
    return (
        f"{folder} has no log, and holds tables or views: {shown}. If its icecore.db was lost, put it back, or "
        f"`icecore import` an exported log: nothing else has their history. In an empty warehouse `icecore "
        f"register-folder {folder}` takes each in as its newest metadata file has it"
    )


def _has_metadata(folder: Path) -> bool:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return any(entry.name.endswith(METADATA_ENDINGS) for entry in entries)
    return False
