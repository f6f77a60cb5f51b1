"""The copy of a warehouse's folder: its log as of one moment, its archives, and all files that this log references.

The copy shares no file with the original: targets of links, and files outside of the folder, are copied too, except
those of tables that are outside of it. A copy that was made by hand is checked for shared files before it is changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Set
from pathlib import Path

from icecore.engine.archive.write_archive import archive_path
from icecore.engine.catalog.warehouse import LOG_FILE
from icecore.engine.common.location import local_path
from icecore.engine.errors import CommitConflictError, StorageError, ValidationError
from icecore.engine.events.event import DELETIONS, LOG_FORGOTTEN
from icecore.engine.foreign.foreign_rows import FOREIGN
from icecore.engine.forget.redact_events import REDACTION
from icecore.engine.log.store import EventStore
from icecore.engine.relocate.relocate_warehouse import Progress
from icecore.engine.repository.assembly import CACHE_FOLDER
from icecore.projections.files.materialize import CLAIMS_FOLDER
from icecore.projections.files.version_files import version_of

UNFINISHED = ".cloning"
_ATTEMPTS = 10
_LET_GO = frozenset({*DELETIONS, LOG_FORGOTTEN})


def copy_warehouse(source: EventStore, log: Path, progress: Progress, *, metadata_only: bool) -> tuple[int, int]:
    """Copies a warehouse to the folder of `log`; returns the number of its files there, and their bytes.

    Everything is copied again where files that the copied log may reference were deleted meanwhile. Raises
    StorageError, and CommitConflictError where that happens each time.
    """
    folder = source.path.absolute().parent
    for _ in range(_ATTEMPTS):
        position = source.head()[0]
        known = set() if metadata_only else set(files_of(folder))
        _copy_claims([] if metadata_only else sorted((folder / CLAIMS_FOLDER).glob("*.json")), log.parent)
        _copy_log(source, log)
        copied = _copy_files([] if metadata_only else list(files_of(folder)), log, folder, progress)
        with contextlib.closing(EventStore(log, create=False)) as store:
            own_archives(store, folder)
            _leave_later_versions(store, folder, known)
        if not any(event.kind in _LET_GO for event in source.events(position)):
            return copied
    raise CommitConflictError(f"files of {folder} were deleted again and again while they were copied; try again later")


def own_archives(store: EventStore, folder: Path) -> None:
    """Gives a copied log archives in its own folder; those that it names are in `folder`, or at their stored path.

    A missing archive stays missing. Raises StorageError.
    """
    home = store.path.absolute().parent
    for archive in store.archives.all():
        there = folder / archive.file
        own = home / archive.file
        if not own.is_relative_to(home):
            own = archive_path(home / LOG_FILE, archive.first_position, archive.last_position)
        if there == own:
            continue
        with contextlib.suppress(FileNotFoundError):
            _copy_file(there, own)
            with store.write():
                told = {"archive_id": archive.archive_id, "length": archive.length, "sha256": archive.sha256}
                store.execute(REDACTION, "put_archive_file", file=str(own.relative_to(home)), **told)


def _leave_later_versions(store: EventStore, folder: Path, known: Set[Path]) -> None:
    """Deletes the copies of versions that are neither in a copied log nor were among the files `known` before it.

    They would be taken for another engine's commits: of a later moment, and with data files that may not be copied.
    """
    home = store.path.absolute().parent
    for row in store.rows(FOREIGN, "numbered_heads"):
        path, version = local_path(row["known"]), version_of(row["known"])
        if path is None or version is None or not Path(path).is_relative_to(folder):
            continue
        for copy in (home / Path(path).parent.relative_to(folder)).glob("v*"):
            if (version_of(copy.name) or 0) > version and folder / copy.relative_to(home) not in known:
                copy.unlink()


def check_shares_nothing(folder: Path, log: Path) -> None:
    """Raises ValidationError for a copy that shares files with its original, which would change with it."""
    for path in _links(folder):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ValidationError(
                f"{path} is a link out of the copy, so what it leads to may be the original's: clone to a new folder "
                f"instead, which copies it"
            )
    if log.stat().st_nlink > 1:
        raise ValidationError(
            f"{log} has another name (a hard link), so a change of it may be one of the original's log: clone the "
            f"original to a new folder instead"
        )


def files_of(folder: Path) -> Iterator[Path]:
    """All files of a warehouse but its log and its cache, behind links too."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        at = Path(parent)
        folders[:] = [f for f in folders if not _leads_back(at / f)]
        if at == folder:
            folders[:] = [f for f in folders if f != CACHE_FOLDER]
            names = [n for n in names if n not in (LOG_FILE, f"{LOG_FILE}-wal", f"{LOG_FILE}-shm")]
        yield from (at / name for name in sorted(names))


def _leads_back(path: Path) -> bool:
    """Whether a folder is a link to one that it lies in."""
    return path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())


def _links(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        yield from (path for name in (*folders, *names) if (path := Path(parent, name)).is_symlink())


def _copy_claims(found: list[Path], target: Path) -> None:
    """Copies the claims on versions before the log: one on a version that the copied log lacks must be there."""
    shutil.rmtree(target / CLAIMS_FOLDER, ignore_errors=True)
    for path in found:
        with contextlib.suppress(FileNotFoundError):
            _copy_file(path, target / CLAIMS_FOLDER / path.name)


def _copy_log(source: EventStore, target: Path) -> None:
    """Copies the log as of one moment, whatever is committed meanwhile."""
    for ending in ("", "-wal", "-shm", "-journal"):
        target.with_name(target.name + ending).unlink(missing_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(target)) as copy:
            source.connection().backup(copy)
    except sqlite3.Error as e:
        raise StorageError(f"can't copy the log {source.path} to {target}: {e}") from e


def _copy_files(found: list[Path], log: Path, folder: Path, progress: Progress) -> tuple[int, int]:
    """Copies files that are not copied yet; returns the number of all files, and their bytes."""
    target = log.parent
    wanted = {path.relative_to(folder) for path in found}
    for path in files_of(target):
        # A leftover of an earlier call that failed.
        if path.relative_to(target) not in wanted and not path.name.startswith(log.name):
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
