"""The version hint beside a table's metadata files, which names the newest of them (MD7)."""

from __future__ import annotations

import re

from icecore.engine.errors import CorruptFileError, MissingFileError
from icecore.engine.metadata.fold import TableState, is_file_system, version_names
from icecore.engine.storage.file_io import Storage

VERSION_HINT = "version-hint.text"
MOST_BYTES_OF_HINT = 4096
"""The most bytes of a version hint; a longer one names nothing."""
_VERSIONED = re.compile(r"^v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?$")


def write_hint(state: TableState, location: str, storage: Storage, *, durable: bool) -> None:
    """Writes the version hint beside a metadata file (MD7): a number, or the file's name without its ending.

    It need not be `durable` where it is noted that the next open writes it again. A later version of another engine's
    stays hinted: where those before it were deleted, nothing else leads to it.
    """
    folder, _, name = location.rpartition("/")
    if not folder:
        # A damaged row names no folder.
        return
    numbered = _VERSIONED.match(name) if is_file_system(state) else None
    if is_file_system(state) and numbered is None:
        # Another engine's file, found through iceberg_tables: those who follow the hint look for numbers.
        return
    if numbered and _is_hinted_above(folder, int(numbered[1]), storage):
        return
    hint = numbered[1] if numbered else name.removesuffix(".metadata.json")
    if numbered:
        storage.drop_checksum(f"{folder}/{VERSION_HINT}")
    storage.write_atomic(f"{folder}/{VERSION_HINT}", hint.encode(), durable=durable)


def hint_of(state: TableState) -> str:
    """The version hint of a state with a metadata file."""
    assert state.metadata_location is not None, "the caller checked"
    name = state.metadata_location.rsplit("/", 1)[-1]
    return str(state.metadata_version) if is_file_system(state) else name.removesuffix(".metadata.json")


def hinted_version(folder: str, storage: Storage) -> int | None:
    """The version that the hint names; None where there is no hint, or one of no version."""
    try:
        text = storage.read_bytes(f"{folder}/{VERSION_HINT}", MOST_BYTES_OF_HINT).decode("ascii", "replace").strip()
    except (MissingFileError, CorruptFileError):
        return None
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def _is_hinted_above(folder: str, version: int, storage: Storage) -> bool:
    hinted = hinted_version(folder, storage)
    if hinted is None or hinted <= version:
        return False
    return any(storage.exists(f"{folder}/{name}") for name in version_names(hinted))


def drop_lone_hint(folder: str, storage: Storage) -> None:
    """Deletes the version hint in a metadata folder of a purged table, where it is alone. Raises StorageError."""
    hint = f"{folder}/{VERSION_HINT}"
    path = storage.local_path(hint)
    if path is not None and set(storage.list(folder)) <= {VERSION_HINT, f".{VERSION_HINT}.crc"}:
        storage.delete(hint)
