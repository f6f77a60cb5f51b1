"""Clones a warehouse: a copy with an identity and paths of its own, which never touches what it was copied from."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import orjson
from attrs import evolve

from icecore.engine import events as ev
from icecore.engine.assembly import CACHE_FOLDER
from icecore.engine.catalog import CLONE_NOTE, LOG_FILE, Catalog
from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.events import Provenance
from icecore.engine.location import to_uri
from icecore.engine.log.store import EventStore
from icecore.engine.provenance import provenance
from icecore.engine.relocate_warehouse import Progress, RelocatedWarehouse, Relocating, no_progress
from icecore.engine.warehouse_folder import UUID, WarehouseFolder, local_folder
from icecore.engine.warehouse_mapping import storage_of

UNFINISHED = ".cloning"


def clone_warehouse(
    warehouse: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    metadata_only: bool = False,
    actor: str | None = None,
    message: str | None = None,
    author: str | None = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> RelocatedWarehouse:
    """Makes a copy of a warehouse that is a warehouse of its own; the original is only read.

    `to` is a new folder for it. Without one, `warehouse` is a copy that was made by hand, and becomes the clone. All of
    the history comes along; the clone's tables keep their uuids. With `metadata_only` no data is copied: the clone
    reads the original's data files, writes new ones in its own folder, and deletes none of the original's; what the
    original deletes is gone for both. Tables outside of the warehouse's folder are only read in the clone. Where the
    process ends in the middle, the same call goes on, with what was copied already. A dry run says what would be done.

    Raises ValidationError where the folder can't be cloned into or from, StorageError, ForeignCommitError.
    """
    folder = local_folder(warehouse)
    who = provenance(actor, message=message, author=author)
    if to is None:
        return _in_place(folder, who, metadata_only, dry_run, progress)
    target = local_folder(to)
    _check_target(folder, target)
    with contextlib.closing(EventStore(folder / LOG_FILE, create=False, read_only=True)) as source:
        identity = source.warehouse_value(UUID) or ""
        note = {"from": os.fspath(folder), UUID: identity, "metadata-only": str(metadata_only)}
        there = WarehouseFolder.of(source)
        place, files = WarehouseFolder(there.root, to_uri(target)), storage_of(source, there)
        if dry_run:
            sizes = [] if metadata_only else [p.stat().st_size for p in _files(folder)]
            found = Relocating(source, place, ev.WAREHOUSE_CLONED, who, files, metadata_only).outcome()
            return evolve(found, copied_files=len(sizes), copied_bytes=sum(sizes))
        _begin(target, note)
        log = target / f"{LOG_FILE}{UNFINISHED}"
        _copy_log(source, log)
    copied = _copy_files([] if metadata_only else list(_files(folder)), folder, target, progress)
    with contextlib.closing(EventStore(log, create=False)) as store:
        # What shares the data is made of the original's files.
        files = files if metadata_only else storage_of(store, place)
        done = Relocating(store, place, ev.WAREHOUSE_CLONED, who, files, metadata_only, progress).run()
    os.replace(log, target / LOG_FILE)
    (target / CLONE_NOTE).unlink()
    Catalog(target).close()
    return evolve(done, copied_files=copied[0], copied_bytes=copied[1])


def _in_place(
    folder: Path, who: Provenance, metadata_only: bool, dry_run: bool, progress: Progress
) -> RelocatedWarehouse:
    if metadata_only:
        raise ValidationError("a clone that shares its data needs a folder to go to")
    with contextlib.closing(EventStore(folder / LOG_FILE, create=False)) as store:
        place = WarehouseFolder.of(store)
        if place.is_home:
            raise ValidationError(f"{folder} is where its warehouse belongs: name a new folder to clone it to")
        relocating = Relocating(store, place, ev.WAREHOUSE_CLONED, who, storage_of(store, place), progress=progress)
        if dry_run:
            return relocating.outcome()
        done = relocating.run()
    Catalog(folder).close()
    return done


def _check_target(folder: Path, target: Path) -> None:
    if not (folder / LOG_FILE).exists():
        raise StorageError(f"there is no warehouse log at {folder / LOG_FILE}")
    if target == folder or target.is_relative_to(folder) or folder.is_relative_to(target):
        raise ValidationError(f"a warehouse can't be cloned from {folder} to {target}: one lies in the other")
    if target.exists() and any(target.iterdir()) and not (target / CLONE_NOTE).exists():
        raise ValidationError(f"{target} is not empty: a warehouse is cloned to a new folder")


def _begin(target: Path, note: dict[str, str]) -> None:
    """Notes what is cloned there, so that the folder is taken for nothing else until it is done."""
    place = target / CLONE_NOTE
    if place.exists():
        if orjson.loads(place.read_bytes()) != note:
            raise ValidationError(f"{target} has an unfinished clone of another warehouse: {place}")
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(orjson.dumps(note))
    except OSError as e:
        raise StorageError(f"can't clone to {target}: {e.strerror}") from e


def _copy_log(source: EventStore, target: Path) -> None:
    """A copy of the log as of one moment, whatever is committed meanwhile."""
    for ending in ("", "-wal", "-shm", "-journal"):
        target.with_name(target.name + ending).unlink(missing_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(target)) as copy:
            source.connection().backup(copy)
    except sqlite3.Error as e:
        raise StorageError(f"can't copy the log {source.path} to {target}: {e}") from e


def _files(folder: Path) -> Iterator[Path]:
    """All files of a warehouse but its log and its cache."""
    for parent, folders, names in os.walk(folder):
        if Path(parent) == folder:
            folders[:] = [f for f in folders if f != CACHE_FOLDER]
            names = [n for n in names if n not in (LOG_FILE, f"{LOG_FILE}-wal", f"{LOG_FILE}-shm")]
        yield from (Path(parent, name) for name in sorted(names))


def _copy_files(found: list[Path], folder: Path, target: Path, progress: Progress) -> tuple[int, int]:
    """Copies what is not copied yet; returns how many files there are, and their bytes."""
    wanted = {path.relative_to(folder) for path in found}
    for path in _files(target):
        # What an earlier call left that came to nothing.
        if path.relative_to(target) not in wanted and not path.name.startswith(LOG_FILE):
            path.unlink()
    size = 0
    for number, path in enumerate(found):
        progress("copying", number, len(found))
        with contextlib.suppress(FileNotFoundError):
            size += _copy_file(path, target / path.relative_to(folder))
    return len(found), size


def _copy_file(path: Path, to: Path) -> int:
    was = path.stat()
    with contextlib.suppress(OSError):
        now = to.stat()
        if (now.st_size, now.st_mtime_ns) == (was.st_size, was.st_mtime_ns):
            return was.st_size
    part = to.with_name(f".{to.name}{UNFINISHED}")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        shutil.copystat(path, part)
        os.replace(part, to)
    except FileNotFoundError:
        raise
    except OSError as e:
        raise StorageError(f"can't copy {path} to {to}: {e.strerror or e}") from e
    return was.st_size


__all__ = ["clone_warehouse"]
