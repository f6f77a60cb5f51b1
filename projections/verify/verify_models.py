"""The check of the read models, and of the database file that holds them and the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from icecore.engine.archive.log_replica import ReplayedModels
from icecore.engine.errors import CorruptLogError, IcecoreError
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore
from icecore.engine.log.table_folders import ANYWHERE, TableFolders

if TYPE_CHECKING:
    import pyarrow as pa

VERIFY = "log/verify.sql"
MODELS = ("stream_head", "catalog_name", "manifest", "snapshot_manifests", "iceberg_namespace_properties")


def database_problems(store: EventStore) -> Iterator[str]:
    """The faults that SQLite itself finds in the file: pages, and indexes that don't fit their tables."""
    try:
        found = [str(row[0]) for row in store.rows(VERIFY, "integrity")]
    except CorruptLogError as e:
        found = [str(e)]
    yield from (f"{store.path}: {text}" for text in found if text != "ok")


def model_problems(store: EventStore, entries: Callable[[int], pa.Table | None] | None = None) -> Iterator[str]:
    """One sentence for each read model that differs from a replay of the log, naming the first row that does.

    `entries` gives an event's entries, maybe from a cache of decoded ones.
    """
    try:
        replayed = ReplayedModels(store, entries)
    except (IcecoreError, sqlite3.Error, LookupError, TypeError, ValueError, AttributeError) as e:
        yield f"the read models can't be replayed from the log: {type(e).__name__} {e}"
        return
    try:
        for model in MODELS:
            parameters = {"catalog": ReadModels(store).catalog_name} if model.startswith("iceberg") else {}
            theirs, ours = (s.execute(VERIFY, model, **parameters) for s in (replayed, store))
            for want, have in zip_longest(theirs, ours):
                if want is None or have is None or tuple(want) != tuple(have):
                    yield f"the read model {model} differs from a replay of the log at {_key(want or have)}; rebuild"
                    break
        yield from _folder_problems(store, replayed)
    finally:
        replayed.close()


def _folder_problems(store: EventStore, replayed: EventStore) -> Iterator[str]:
    """Folders of a table's files that the read model lacks: a deletion could take files there for unreferenced."""
    folders = TableFolders(store)
    if folders.known_up_to < store.head()[0]:
        # What is missing is added before it is used.
        return
    have = {(r["stream"], r["folder"]): r["position"] for r in store.rows(VERIFY, "table_folder")}
    for row in replayed.rows(VERIFY, "table_folder"):
        stream, folder, position = row["stream"], row["folder"], row["position"]
        if folder != ANYWHERE and (stream, folder) in have:
            continue
        if max(have.get((stream, ANYWHERE), 0), folders.noted_at(stream)) < position:
            yield f"the read model table_folder lacks {folder or 'any folder'!r} of {stream}; rebuild"
            return


def _key(row: sqlite3.Row) -> str:
    return ", ".join(str(v) for v in tuple(row)[:2])
