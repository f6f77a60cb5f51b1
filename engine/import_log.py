"""Makes a new warehouse of an exported log."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from icecore.engine.catalog import DEFAULT_CATALOG_NAME, LOG_FILE, Catalog
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.events import is_view_stream
from icecore.engine.file_follower import MaterializationWarning
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.log.transfer import ImportedLog, PathOrFile, import_records
from icecore.engine.warehouse_mapping import put_mapping
from icecore.projections.pointers import take_to_be_there


def import_log(
    source: PathOrFile,
    warehouse: str | os.PathLike[str],
    *,
    name: str = DEFAULT_CATALOG_NAME,
    materialize: bool = True,
    location_mapping: Mapping[str, str] | None = None,
) -> ImportedLog:
    """Makes a warehouse folder whose log has the same positions, ids and hashes as the exported one.

    `source` is a path or an open binary file, as `Catalog.export_log` wrote it, of either format. Locations in the log
    are absolute, so metadata files are written where the log says, with the same bytes as ever; `materialize=False`
    writes none and takes them to be there, but for tables whose commits are materialized by hand. Data files are not in
    a log. `location_mapping` maps prefixes of locations to where their files lie now: the new warehouse reads and
    writes them there, while the locations in log and metadata stay, as their hashes ask for, so that other engines read
    such tables only where they can map locations too. Raises ValidationError where the warehouse is not empty,
    CorruptLogError where the chain is broken, CorruptFileError, StorageError; no log is left then where there was none.
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
            found = import_records(catalog._store, catalog._models, source)
        _bring_up(catalog, materialize)
    return found


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


def _bring_up(catalog: Catalog, materialize: bool) -> None:
    for row in catalog._store.rows(MODELS, "all_heads"):
        stream = row["stream"]
        if not materialize:
            _take_to_be_there(catalog, stream)
            continue
        try:
            if is_view_stream(stream):
                catalog._views.materialize(stream)
            else:
                catalog._repository.files.materialize(stream)
        except IcecoreError as e:
            warnings.warn(
                f"the log is imported, but the files of {stream} can't be written ({type(e).__name__}: {e}); "
                f"the next open goes on",
                MaterializationWarning,
                stacklevel=3,
            )


def _take_to_be_there(catalog: Catalog, stream: str) -> None:
    """Points the read models at the files that the log's first owner wrote."""
    is_view = is_view_stream(stream)
    state = catalog._views.state(stream) if is_view else catalog._repository.state(stream)
    with catalog._store.write():
        take_to_be_there(catalog._store, catalog._models, state)
