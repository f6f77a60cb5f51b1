"""The import of an exported log as a warehouse."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
from attrs import evolve

from icecore.engine.archive.export_log import Origin
from icecore.engine.archive.log_transfer import ImportedLog, PathOrFile, import_records
from icecore.engine.catalog.catalog import DEFAULT_CATALOG_NAME, Catalog
from icecore.engine.catalog.warehouse import LOG_FILE
from icecore.engine.errors import IcecoreError, MovedWarehouseWarning, ValidationError
from icecore.engine.events.event import CONTENT, LOG_FORGOTTEN, WAREHOUSE_CLONED, is_view_stream
from icecore.engine.log.location_mapping import mapping_of, put_mapping, storage_of
from icecore.engine.log.redactions import redactions_of
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.log.warehouse_folder import ROOT, SHARED, UUID, WarehouseFolder, root_of_events
from icecore.engine.repository.assembly import assemble
from icecore.projections.files.file_follower import MaterializationWarning
from icecore.projections.files.pointers import take_to_be_there
from icecore.projections.plan.planner import FORGOTTEN


def import_log(
    source: PathOrFile,
    warehouse: str | os.PathLike[str],
    *,
    name: str = DEFAULT_CATALOG_NAME,
    materialize: bool = True,
    location_mapping: Mapping[str, str] | None = None,
) -> ImportedLog:
    """Creates a warehouse whose log has the same positions, ids and hashes as the exported one.

    `source` is a path or an open binary file that `Catalog.export_log` wrote, of either format. A log has no data
    files. In the folder that it was exported from the warehouse continues: its metadata files are written at their
    locations with the same bytes. With `materialize=False` none is written; they are taken to be there, except for
    tables that are materialized by hand. In another folder the warehouse is as a copied one, with a
    MovedWarehouseWarning: metadata, history and plans are read from the log, rows from files that were copied along, it
    is read-only, and `move_warehouse` or `clone_warehouse` makes it writable. `location_mapping` maps prefixes of
    locations to where their files are now. If it maps the log's folder, the warehouse is read and written there, while
    log and metadata keep their locations, as the hashes require; so other engines read such tables only where they can
    map locations too. Raises ValidationError where the warehouse is not empty, CorruptLogError where the hash chain is
    broken, CorruptFileError, StorageError; no log is left then where there was none.
    """
    with contextlib.ExitStack() as opened:
        with _taken_back(Path(warehouse)):
            if location_mapping:
                Path(warehouse).mkdir(parents=True, exist_ok=True)
                with contextlib.closing(EventStore(Path(warehouse) / LOG_FILE)) as store:
                    put_mapping(store, location_mapping)
            catalog = opened.enter_context(Catalog(warehouse, name=name))
            if catalog.position:
                raise ValidationError(f"{catalog.path} is not empty: its log has {catalog.position} events")
            with catalog._warehouse.store.write():
                imported = import_records(catalog._warehouse.store, catalog._warehouse.models, source)
                folder = _put_in_place(catalog._warehouse.store, imported.origin)
                if not (folder.is_home and materialize):
                    _take_to_be_there(catalog)
        if not folder.is_home:
            warnings.warn(folder.refusal(), MovedWarehouseWarning, stacklevel=2)
        elif materialize:
            _bring_up(catalog._warehouse.store, folder)
    return evolve(imported, origin=Origin(imported.origin.uuid, folder.root))


@contextlib.contextmanager
def _taken_back(folder: Path) -> Iterator[None]:
    """Removes the log that a failed import leaves empty, where there was none before."""
    log = folder / LOG_FILE
    was_there = log.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            for ending in ("", "-wal", "-shm"):
                log.with_name(log.name + ending).unlink(missing_ok=True)
        raise


def _put_in_place(store: EventStore, origin: Origin) -> WarehouseFolder:
    """Stores the identity and folder of the log's warehouse, and the locations that it shares if it is a clone."""
    for event in store.filtered_events(kind=WAREHOUSE_CLONED):
        shared = orjson.dumps(event.payload.get("shared", [])).decode()
        store.execute(MODELS, "put_warehouse", key=SHARED, value=shared)
        origin = evolve(origin, uuid=origin.uuid or event.payload["warehouse-uuid"])
    _note_forgotten(store)
    root = origin.root or root_of_events(store)
    # Where the mapping maps the log's own folder, the warehouse is at home in the folder that it was imported into.
    if root is not None and mapping_of(store).resolve(root) == root:
        store.execute(MODELS, "put_warehouse", key=ROOT, value=root)
        if origin.uuid is not None:
            store.execute(MODELS, "put_warehouse", key=UUID, value=origin.uuid)
    return WarehouseFolder.of(store)


def _note_forgotten(store: EventStore) -> None:
    """Notes the position at which bounds of each table's files were forgotten last, for explanations of plans."""
    for event in store.filtered_events(kind=LOG_FORGOTTEN):
        for stream in {store.event_at(r.position).stream for r in redactions_of(event) if r.part == CONTENT}:
            store.execute(MODELS, "put_warehouse", key=f"{FORGOTTEN}{stream}", value=str(event.position))


def _bring_up(store: EventStore, folder: WarehouseFolder) -> None:
    """Writes the metadata files of all tables and views, except those that a clone shares with its original."""
    repository, views = assemble(store, storage_of(store, folder))
    for row in store.rows(MODELS, "all_heads"):
        stream = row["stream"]
        try:
            views.materialize(stream) if is_view_stream(stream) else repository.files.materialize(stream)
        except IcecoreError as e:
            warnings.warn(
                f"the log is imported, but the files of {stream} can't be written ({type(e).__name__}: {e}); "
                f"the next open goes on",
                MaterializationWarning,
                stacklevel=3,
            )


def _take_to_be_there(catalog: Catalog) -> None:
    """Publishes the files that the log's first owner wrote in the read models; inside of a write transaction."""
    for row in catalog._warehouse.store.rows(MODELS, "all_heads"):
        stream = row["stream"]
        state = (
            catalog._warehouse.views.state(stream)
            if is_view_stream(stream)
            else catalog._warehouse.repository.state(stream)
        )
        take_to_be_there(catalog._warehouse.store, catalog._warehouse.models, state)
