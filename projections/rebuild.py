"""Makes everything that follows from the log again: the read models, and the files for other engines."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection

from icecore.engine.errors import CorruptLogError, ForeignCommitError, StorageError
from icecore.engine.events import CATALOG_STREAM, is_view_stream
from icecore.engine.identifiers import Identifier
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.read_models import dotted
from icecore.engine.log.sqlite_file import run_script
from icecore.engine.log.store import MODELS, SCHEMA, EventStore
from icecore.engine.repository import Repository
from icecore.engine.sql_files import query
from icecore.engine.view_repository import ViewRepository


def rebuild(store: EventStore, repository: Repository, views: ViewRepository) -> None:
    """Drops and rebuilds the read models in one transaction, then writes all files again, with the same bytes.

    What `iceberg_tables` holds of other catalogs is not ours, and stays. Raises, before anything is dropped,
    CorruptLogError where the log itself can't be trusted, and ForeignCommitError where another engine's commit can't be
    adopted, or comes just now: the read models are the only place that knows of it.
    """
    _check_chain(store)
    damaged = repository.foreign.sync()
    if found := [p for p in damaged if not p.is_damage]:
        raise ForeignCommitError(found[0].text)
    _remove_damaged(repository)
    streams = []
    with store.write():
        _check_nothing_new(repository, {p.identifier for p in damaged})
        connection = store.connection()
        connection.execute("REINDEX")
        for name in ("drop_read_models", "read_models"):
            run_script(connection, query(SCHEMA, name))
        for name in ("clear_iceberg_tables", "clear_iceberg_namespaces"):
            store.execute(MODELS, name, catalog=repository.models.catalog_name)
        for event in store.events():
            repository.models.apply(event)
            if event.stream != CATALOG_STREAM and event.stream_version == 1:
                streams.append(event.stream)
    repository.forget()
    views.forget()
    for stream in streams:
        _materialize(repository, views, stream)


def rebuild_one(store: EventStore, repository: Repository, views: ViewRepository, stream: str) -> None:
    """Writes all files of one table or view again, with the same bytes; the read models stay. Raises as `rebuild`."""
    _check_chain(store)
    if not is_view_stream(stream):
        repository.foreign.settle(stream)
    _remove_damaged(repository, stream)
    with store.write():
        store.execute(MODELS, "forget_materialized", stream=stream)
    repository.forget()
    views.forget()
    _materialize(repository, views, stream)


def _check_chain(store: EventStore) -> None:
    problems = list(chain_problems(store))
    if problems:
        raise CorruptLogError(f"the log can't be trusted, so nothing is rebuilt from it: {problems[0]}")


def _materialize(repository: Repository, views: ViewRepository, stream: str) -> None:
    if is_view_stream(stream):
        views.materialize(stream)
    else:
        repository.files.materialize(stream)


def _remove_damaged(repository: Repository, only: str | None = None) -> None:
    """Deletes metadata files whose bytes are no longer those that were written, so that they can be made anew.

    A version of a file system table is never written over, since another writer's would be lost: but where the log
    notes that this version was written from it, other bytes are damage.
    """
    for row in repository.store.rows(MODELS, "all_files"):
        if row["kind"] != "metadata" or only not in (None, row["stream"]):
            continue
        stream = row["stream"]
        storage = repository.storage if is_view_stream(stream) else repository.storage_of(repository.state(stream))
        with contextlib.suppress(StorageError):
            if hashlib.sha256(storage.read_bytes(row["location"])).hexdigest() != row["sha256"]:
                storage.delete(row["location"])


def _check_nothing_new(repository: Repository, damaged: Collection[Identifier]) -> None:
    """Raises ForeignCommitError where another engine changed a row since the look before the lock was taken."""
    rows = repository.foreign.rows
    changed = [*(d.identifier for d in rows.differences()), *(d.namespace for d in rows.namespaces())]
    if new := [name for name in changed if name not in damaged]:
        raise ForeignCommitError(f"another engine changed {dotted(new[0])} in iceberg_tables just now; rebuild again")
