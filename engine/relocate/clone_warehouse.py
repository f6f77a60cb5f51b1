"""Clones of a warehouse: a copy with an identity and paths of its own, which never touches its original."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import orjson
from attrs import evolve

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.warehouse import CLONE_NOTE, LOG_FILE
from icecore.engine.common.location import to_uri
from icecore.engine.errors import StorageError, ValidationError, WarehouseLockedError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Provenance
from icecore.engine.events.provenance import provenance
from icecore.engine.events.relocation import Relocation
from icecore.engine.log.location_mapping import storage_of
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.log.warehouse_folder import UUID, WarehouseFolder, local_folder
from icecore.engine.relocate.copied_folder import (
    UNFINISHED,
    check_shares_nothing,
    copy_warehouse,
    files_of,
    own_archives,
)
from icecore.engine.relocate.relocate_warehouse import Progress, RelocatedWarehouse, Relocating, no_progress
from icecore.engine.storage.file_io import Storage


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

    `to` is a new folder for it. Without one, `warehouse` is a copy that was made by hand, and becomes the clone. The
    whole history is copied; the clone's tables keep their uuids. With `metadata_only` no data file is copied: the clone
    reads those of the original, writes new ones in its own folder, and deletes none of the original's. It loses those
    that the original deletes: when it expires snapshots, and files that were compacted with them, purges a table, or is
    moved. Tables outside of the warehouse's folder are read-only in the clone, and so is data that tables inside have
    elsewhere; their metadata, and what is written for them, lies in the clone's folder. After a crash the same call
    resumes, with what was copied already. A dry run says what would be done.

    Raises ValidationError where the folder can't be cloned into or from, or metadata lies around a table elsewhere,
    WarehouseLockedError where another process clones there, CommitConflictError where files of the original are deleted
    again and again meanwhile, StorageError, and ForeignCommitError.
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
        if metadata_only and not there.is_home:
            raise ValidationError(
                f"{folder} was copied or moved, so its data is not where its log has it: move it or clone it in its "
                f"place, before another one shares its data"
            )
        place, files = WarehouseFolder(there.root, to_uri(target)), storage_of(source, there)
        if dry_run:
            sizes = [] if metadata_only else [p.stat().st_size for p in files_of(folder)]
            outcome = Relocating(source, place, ev.WAREHOUSE_CLONED, who, files, metadata_only).outcome()
            return evolve(outcome, copied_files=len(sizes), copied_bytes=sum(sizes))
        with _noted(target, note):
            if (target / LOG_FILE).exists():
                done = _finished(target)
            else:
                done = _made(source, place, files, who, metadata_only, progress)
    Catalog(target).close()
    return done


def _made(
    source: EventStore, place: WarehouseFolder, files: Storage, who: Provenance, metadata_only: bool, progress: Progress
) -> RelocatedWarehouse:
    """Copies to the folder that was opened, and gives the copy its paths; it is a warehouse when all is done."""
    target = local_folder(place.opened)
    log = target / f"{LOG_FILE}{UNFINISHED}"
    count, size = copy_warehouse(source, log, progress, metadata_only=metadata_only)
    with contextlib.closing(EventStore(log, create=False)) as store:
        # A clone that shares data is made of the original's files.
        files = files if metadata_only else storage_of(store, place)
        done = Relocating(store, place, ev.WAREHOUSE_CLONED, who, files, metadata_only, progress).run()
    os.replace(log, target / LOG_FILE)
    return evolve(done, copied_files=count, copied_bytes=size)


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
        check_shares_nothing(folder, store.path)
        if dry_run:
            return relocating.outcome()
        own_archives(store, folder)
        done = relocating.run()
    Catalog(folder).close()
    return done


def _check_target(folder: Path, target: Path) -> None:
    if not (folder / LOG_FILE).exists():
        raise StorageError(f"there is no warehouse log at {folder / LOG_FILE}")
    one, other = folder.resolve(), target.resolve()
    if other.is_relative_to(one) or one.is_relative_to(other):
        raise ValidationError(f"a warehouse can't be cloned from {folder} to {target}: one lies in the other")
    if target.exists() and not target.is_dir():
        raise ValidationError(f"{target} is no folder: a warehouse is cloned to a new one")
    if target.exists() and any(target.iterdir()) and not (target / CLONE_NOTE).exists():
        raise ValidationError(f"{target} is not empty: a warehouse is cloned to a new folder")


@contextlib.contextmanager
def _noted(target: Path, note: dict[str, str]) -> Iterator[None]:
    """A context that marks a folder as being cloned to, so that no other process takes it for anything else."""
    place = target / CLONE_NOTE
    with contextlib.ExitStack() as stack:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise StorageError(f"can't make the folder {target}: {e.strerror or e}") from e
        try:
            file = stack.enter_context(place.open("a+b"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), place.stat()):
                raise BlockingIOError
            file.seek(0)
            if file.read() not in (b"", orjson.dumps(note)):
                raise ValidationError(f"{target} has an unfinished clone of another warehouse: {place}")
            file.truncate(0)
            file.write(orjson.dumps(note))
            file.flush()
        except (BlockingIOError, FileNotFoundError) as e:
            raise WarehouseLockedError(f"another process is cloning to {target}") from e
        except OSError as e:
            raise StorageError(f"can't clone to {target}: {e.strerror or e}") from e
        yield
        place.unlink()


def _finished(target: Path) -> RelocatedWarehouse:
    """The result of a clone that was finished by an earlier call."""
    with contextlib.closing(EventStore(target / LOG_FILE, create=False, read_only=True)) as store:
        event = [e for e in store.stream_events(ev.CATALOG_STREAM) if e.kind == ev.WAREHOUSE_CLONED][-1]
        streams = [row["stream"] for row in store.rows(MODELS, "all_heads")]
    views = sum(map(ev.is_view_stream, streams))
    made = Relocation.from_dict(event.payload, event.position)
    return RelocatedWarehouse(made.source, made.target, len(streams) - views, views, position=event.position)
