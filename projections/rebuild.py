"""Makes everything that follows from the log again: the read models, and the files for other engines."""

from __future__ import annotations

import contextlib
import hashlib

from icecore.engine.errors import CorruptLogError, ForeignCommitError, StorageError
from icecore.engine.events import CATALOG_STREAM, is_view_stream
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.store import MODELS, SCHEMA, EventStore, statements
from icecore.engine.repository import Repository
from icecore.engine.sql_files import query
from icecore.engine.view_repository import ViewRepository


def rebuild(store: EventStore, repository: Repository, views: ViewRepository) -> None:
    """Drops and rebuilds the read models in one transaction, then writes all files again, with the same bytes.

    Raises, before anything is dropped, CorruptLogError where the log itself can't be trusted, and ForeignCommitError
    where another engine's commit can't be adopted: the read models are the only place that knows of it.
    """
    problems = list(chain_problems(store))
    if problems:
        raise CorruptLogError(f"the log can't be trusted, so nothing is rebuilt from it: {problems[0]}")
    if found := [p for p in repository.foreign.sync() if not p.is_damage]:
        raise ForeignCommitError(found[0].text)
    _remove_damaged(repository)
    streams = []
    with store.write():
        connection = store.connection()
        connection.execute("REINDEX")
        for name in ("drop_read_models", "read_models"):
            for statement in statements(query(SCHEMA, name) + ";"):
                connection.execute(statement)
        for event in store.events():
            repository.models.apply(event)
            if event.stream != CATALOG_STREAM and event.stream_version == 1:
                streams.append(event.stream)
    repository.forget()
    views.forget()
    for stream in streams:
        if is_view_stream(stream):
            views.materialize(stream)
        else:
            repository.files.materialize(stream)


def _remove_damaged(repository: Repository) -> None:
    """Deletes metadata files whose bytes are no longer those that were written, so that they can be made anew.

    A version of a file system table is never written over, since another writer's would be lost: but where the log
    notes that this version was written from it, other bytes are damage.
    """
    for row in repository.store.rows(MODELS, "all_files"):
        if row["kind"] != "metadata":
            continue
        stream = row["stream"]
        storage = repository.storage if is_view_stream(stream) else repository.storage_of(repository.state(stream))
        with contextlib.suppress(StorageError):
            if hashlib.sha256(storage.read_bytes(row["location"])).hexdigest() != row["sha256"]:
                storage.delete(row["location"])
