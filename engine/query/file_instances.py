"""Instances of DuckDB that read some files and reach nothing else, kept for the next query of the same tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import duckdb
from attrs import define, field, frozen

from icecore.engine.common import fork_safety
from icecore.engine.common.fork_safety import Lock
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.queries.query_limits import limited_connection
from icecore.engine.query.needed_rows import PLANS

MOST_KEPT = 4
MOST_FILES = 1000
"""The most files of several queries for one instance: to allow a thousand takes as long as all else of making it."""


def instance_of(files: Iterable[str], memory_limit: str | None) -> duckdb.DuckDBPyConnection:
    """A new instance whose connections can reach these files alone, and change no setting."""
    con = limited_connection(memory_limit)
    for setting in ("arrow_as_is", "no_python_names"):
        duck.rows(con, query(duck.SETTINGS, setting))
    if listed := ", ".join(map(duck.literal, sorted(files))):
        duck.rows(con, query(PLANS, "only_these_files", files=f"[{listed}]"))
    duck.rows(con, query(duck.SETTINGS, "no_files"))
    duck.rows(con, query(PLANS, "no_more_settings"))
    return con


@frozen
class FileInstance:
    """An instance and the files that it can reach."""

    root: duckdb.DuckDBPyConnection
    files: frozenset[str]


@define(eq=False)
class FileInstances:
    """The instances of the snapshots that were asked last: to make one takes longer than many a query.

    Queries that read no file share one, of no snapshots. An instance can't be allowed more files, so one that lacks a
    file is replaced by one with the files of both, if they are not too many: all are files of the same snapshots.
    """

    most_kept: int = MOST_KEPT
    most_files: int = MOST_FILES
    _kept: dict[Hashable, FileInstance] = field(factory=dict, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        fork_safety.watch(self)

    def forget_parent(self) -> None:
        """Leaves all of them to the parent process."""
        for instance in self._kept.values():
            fork_safety.abandon(instance.root)
        self._kept = {}

    def connect(self, snapshots: Hashable, files: frozenset[str]) -> duckdb.DuckDBPyConnection:
        """A connection that can reach these files of some snapshots; no other sees its names."""
        try:
            return self._connect(snapshots, files)
        except duckdb.Error:
            # After a fatal error an instance answers nothing any more.
            with self._lock:
                self._kept.pop(snapshots, None)
            return self._connect(snapshots, files)

    def _connect(self, snapshots: Hashable, files: frozenset[str]) -> duckdb.DuckDBPyConnection:
        with self._lock:
            found = self._kept.get(snapshots)
        if found is None or not files <= found.files:
            both = files | found.files if found else files
            files = both if len(both) <= self.most_files else files
            # Outside of the lock, so that no query waits: an instance of many files takes long to make.
            found = FileInstance(instance_of(files, None), files)
        with self._lock:
            self._kept.pop(snapshots, None)
            self._kept[snapshots] = found
            if len(self._kept) > self.most_kept:
                del self._kept[next(iter(self._kept))]
        connection = found.root.cursor()
        duck.rows(connection, query(duck.SETTINGS, "reads_files"))
        return connection


FILE_INSTANCES = FileInstances()
"""The instances of the process."""
