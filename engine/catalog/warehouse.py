"""An open warehouse folder: its log, and the parts that a catalog and all that it gives work with."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from icecore.engine.errors import LostLogWarning, MovedWarehouseWarning, ReadOnlyError, StorageError, ValidationError
from icecore.engine.log.location_mapping import storage_of
from icecore.engine.log.lock.held_log import has_content, wal_path
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import FORGETTING, MODELS, EventStore
from icecore.engine.log.warehouse_folder import ROOT, WarehouseFolder, local_folder, note_root
from icecore.engine.query.kept_queries import KeptQueries
from icecore.engine.repository.assembly import CACHE_FOLDER, assemble, scratch_folder
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.storage.atomic_write import sweep
from icecore.engine.storage.location_rules import LocationRules
from icecore.projections.plan.planning import Planning

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.events.event import Provenance
    from icecore.engine.joint_commit.joint_commit import CommitTargets, Part

LOG_FILE = "icecore.db"
CLONE_NOTE = f"{CACHE_FOLDER}/cloning.json"


@frozen(eq=False)
class Warehouse:
    """The parts of one open warehouse."""

    path: Path
    folder: WarehouseFolder
    store: EventStore
    repository: Repository
    views: ViewRepository
    planning: Planning
    queries: KeptQueries = field(factory=KeptQueries, repr=False)

    @property
    def models(self) -> ReadModels:
        """The read models: names, heads and manifest lists."""
        return self.repository.models

    @property
    def targets(self) -> CommitTargets:
        """The repositories that the parts of a commit are made in."""
        from icecore.engine.joint_commit.joint_commit import CommitTargets

        return CommitTargets(self.repository, self.views)

    def commit(self, part: Part, provenance: Provenance, *, dry_run: bool) -> CatalogDryRun | None:
        """Makes one change, or says what it would be. Raises ReadOnlyError, and what the part raises."""
        from icecore.engine.joint_commit.joint_commit import commit_part

        self.store.check_writable()
        return commit_part(self.targets, part, provenance, dry_run=dry_run)

    def close(self) -> None:
        """Closes the log and drops all caches."""
        self.queries.clear()
        self.planning.close()
        self.store.close()


def open_warehouse(
    path: str | os.PathLike[str],
    *,
    create: bool,
    read_only: bool,
    name: str,
    location_roots: Iterable[str] | None = None,
    unique_locations: bool = False,
) -> Warehouse:
    """Opens a warehouse folder, and finishes what a crash left unfinished in it.

    Raises StorageError, ReadOnlyError, CorruptLogError, WarehouseLockedError, ValidationError for a root that is no
    location and for an empty name.
    """
    path = local_folder(path)
    if not name:
        raise ValidationError("the catalog of a warehouse needs a name that is not empty")
    if create and not read_only:
        _make_folder(path)
    if (path / CLONE_NOTE).exists() and not (path / LOG_FILE).exists():
        raise StorageError(f"a clone to {path} was not finished: run `icecore clone` again, or remove it")
    store = EventStore(path / LOG_FILE, create=create, read_only=read_only)
    folder = WarehouseFolder.of(store)
    if not folder.is_home:
        store.refusal = folder.refusal()
        warnings.warn(store.refusal, MovedWarehouseWarning, stacklevel=4)
    if store.is_writable and store.warehouse_value(ROOT) is None:
        _found(store, folder, name)
    repository, views = assemble(store, storage_of(store, folder))
    repository.location_rules = LocationRules.of(path, location_roots, unique=unique_locations)
    cache = None if read_only and not os.access(path, os.W_OK) else path / CACHE_FOLDER / "segments"
    warehouse = Warehouse(path, folder, store, repository, views, Planning(repository, cache))
    repository.foreign.adopt_all()
    if store.is_writable:
        _heal(warehouse)
    return warehouse


def has_log(folder: Path) -> bool:
    """Whether a folder has a log; an empty file is none."""
    log = folder / LOG_FILE
    return has_content(log) or has_content(wal_path(log))


def check_left_tables(path: str | os.PathLike[str], *, create: bool) -> None:
    """Looks for tables in a folder that has no log, before a warehouse is made there, and warns by a LostLogWarning.

    Raises StorageError instead of warning where the log may not be made, and where the folder is not local.
    """
    folder = local_folder(path)
    if has_log(folder) or (folder / CLONE_NOTE).exists():
        return
    from icecore.engine.foreign.left_tables import left_tables, left_text

    if left := left_tables(folder):
        text, way = left_text(folder, left), "; `icecore init` makes an empty one"
        if around := next((above for above in folder.parents if has_log(above)), None):
            text = f"{folder} lies in the warehouse {around}: open that one if the tables are its. If not: {text}"
            way = ""
        if not create:
            raise StorageError(f"{text}{way}")
        warnings.warn(f"{text}; an empty one is made now", LostLogWarning, stacklevel=3)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except PermissionError as e:
        raise ReadOnlyError(f"can't make the warehouse folder {path}: {e.strerror}") from e
    except OSError as e:
        raise StorageError(f"can't make the warehouse folder {path}: {e.strerror}") from e


def _found(store: EventStore, folder: WarehouseFolder, name: str) -> None:
    """Stores the name of a new warehouse, and its folder."""
    with store.write():
        store.execute(MODELS, "set_warehouse", key="catalog-name", value=name)
        store.execute(MODELS, "set_warehouse", key="warehouse-uuid", value=str(uuid.uuid4()))
        note_root(store, folder.root)


def _heal(warehouse: Warehouse) -> None:
    """Finishes the work of a process that died: files, deletions, and a forgetting."""
    sweep(scratch_folder(warehouse.store))
    warehouse.repository.files.heal()
    warehouse.views.heal()
    if warehouse.store.rows(MODELS, "deletions_due"):
        from icecore.engine.deletion.delete_files import finish_due

        finish_due(warehouse.repository)
    if warehouse.store.archives.all():
        from icecore.engine.forget.redact_events import remove_unfinished_archives

        remove_unfinished_archives(warehouse.store)
    if warehouse.store.warehouse_value(FORGETTING) is not None:
        from icecore.engine.forget.forget import Forgetter

        Forgetter(warehouse.repository, warehouse.planning.planner).tidy()
