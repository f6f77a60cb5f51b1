"""Moves of a warehouse: its log and tables get the paths of the folder that they lie in now."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.warehouse import LOG_FILE
from icecore.engine.common.location import local_path, to_uri
from icecore.engine.errors import IcecoreError, StorageError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.provenance import provenance
from icecore.engine.log.location_mapping import storage_of
from icecore.engine.log.store import EventStore
from icecore.engine.log.warehouse_folder import UUID, WarehouseFolder, local_folder
from icecore.engine.relocate.relocate_warehouse import Progress, RelocatedWarehouse, Relocating, no_progress
from icecore.engine.storage.file_io import Storage


def move_warehouse(
    warehouse: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    actor: str | None = None,
    message: str | None = None,
    author: str | None = None,
    dry_run: bool = False,
    progress: Progress = no_progress,
) -> RelocatedWarehouse:
    """Gives a warehouse that was moved the paths of its new folder, so that every engine reads and writes it there.

    With `to` the folder is moved there first, on the same file system. The move is one event, and earlier events are
    read with the new folder from then on. Metadata files are written anew, and so are position delete files and Puffin
    files of deletion vectors, which name data files by path. Tables outside of the folder stay where they are. After a
    crash the same call resumes. A dry run says what would be done.

    Raises ValidationError where the warehouse is in its own folder, or the one that it was copied from is still there
    (then use `clone_warehouse`), StorageError, ForeignCommitError, CommitConflictError.
    """
    folder = local_folder(warehouse)
    who = provenance(actor, message=message, author=author)
    if to is not None:
        folder = _moved_folder(folder, local_folder(to), dry_run)
    with contextlib.closing(EventStore(folder / LOG_FILE, create=False)) as store:
        place = WarehouseFolder.of(store)
        files = storage_of(store, place)
        if to is not None and dry_run:
            place = WarehouseFolder(place.root, to_uri(local_folder(to)))
        if place.is_home:
            raise ValidationError(f"{folder} is where its warehouse belongs: there is nothing to move")
        if to is None or not dry_run:
            _check_original_gone(place, store)
        relocating = Relocating(store, place, ev.WAREHOUSE_MOVED, who, files, progress=progress)
        if dry_run:
            return relocating.outcome()
        done = relocating.run()
    Catalog(folder).close()
    return done


def _moved_folder(folder: Path, to: Path, dry_run: bool) -> Path:
    """Renames the folder, while no commit is under way. A second call finds it renamed."""
    if not (folder / LOG_FILE).exists() and (to / LOG_FILE).exists():
        return to
    if to.exists() and not _is_empty(to):
        raise ValidationError(
            f"{to} is there already: a warehouse is moved to a folder that is not there yet, or empty"
        )
    with contextlib.closing(EventStore(folder / LOG_FILE, create=False)) as store:
        if not WarehouseFolder.of(store).is_home:
            raise ValidationError(f"{folder} was moved already: give it its paths first, without naming another folder")
        if dry_run:
            return folder
        with store.write():
            try:
                to.parent.mkdir(parents=True, exist_ok=True)
                Storage().remove_empty_folders(os.fspath(to))
                os.rename(folder, to)
            except OSError as e:
                hint = (
                    ": it is on another file system; copy the folder there yourself, remove the old one, and run move "
                    "on the new one"
                    if e.errno == errno.EXDEV
                    else ""
                )
                raise StorageError(f"can't move {folder} to {to}: {e.strerror}{hint}") from e
    return to


def _is_empty(folder: Path) -> bool:
    """Whether a folder holds only folders, as the process that had the moved warehouse open may leave it."""
    return folder.is_dir() and not any(names for _, _, names in os.walk(folder))


def _check_original_gone(place: WarehouseFolder, store: EventStore) -> None:
    root = local_path(place.root)
    log = Path(root or "") / LOG_FILE
    if not log.exists():
        return
    with contextlib.suppress(IcecoreError), contextlib.closing(EventStore(log, create=False, read_only=True)) as there:
        if there.warehouse_value(UUID) != store.warehouse_value(UUID):
            return
    raise ValidationError(
        f"the warehouse that {store.path.parent} is a copy of is still at {root}: clone makes the copy a warehouse of "
        f"its own"
    )
