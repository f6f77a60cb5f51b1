"""Instances of DuckDB in memory, used again: one takes 20 ms to make, a connection to it next to nothing."""

from __future__ import annotations

import itertools
import os
import tempfile
from typing import Any

import duckdb
from attrs import define, field, frozen

from icecore.engine.common import fork_safety
from icecore.engine.common.fork_safety import Lock
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote

MOST_IDLE = 4
_SQL = "settings/instances.sql"
_numbers = itertools.count(1)


def spill_folder() -> dict[str, Any]:
    """The configuration by which an instance spills into a folder that no other one uses."""
    return {"temp_directory": os.path.join(tempfile.gettempdir(), f"icecore-{os.getpid()}-{next(_numbers)}")}


@frozen(eq=False)
class Instance:
    """A DuckDB in memory that one holder has, and its connection, whose temporary tables and names end with it."""

    root: duckdb.DuckDBPyConnection
    connection: duckdb.DuckDBPyConnection

    def abandon(self) -> None:
        """Leaves it to the parent process."""
        fork_safety.abandon(self.root)
        fork_safety.abandon(self.connection)

    def close(self) -> None:
        """Ends it, with all that is in it."""
        self.connection.close()
        self.root.close()


@define(eq=False)
class KeptInstances:
    """Instances without extensions; one holder at a time takes each and gives it back, to be emptied and taken again.

    Only for statements of our own: others may leave settings, logs and secrets behind. Settings that a holder changes
    stay too: each holder sets those that it needs.
    """

    most_idle: int = MOST_IDLE
    _idle: list[duckdb.DuckDBPyConnection] = field(factory=list, init=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        fork_safety.watch(self)

    def forget_parent(self) -> None:
        """Leaves the idle ones to the parent process."""
        for root in self._idle:
            fork_safety.abandon(root)
        self._idle = []

    def take(self) -> Instance:
        """An empty instance, which is the caller's until it is given back or closed."""
        with self._lock:
            root = self._idle.pop() if self._idle else None
        root = root or _connect()
        return Instance(root, root.cursor())

    def give_back(self, instance: Instance) -> None:
        """Empties an instance and keeps it, or closes it where it can't be emptied or enough are kept."""
        instance.connection.close()
        try:
            _empty(instance.root)
        except duckdb.Error:
            instance.root.close()
            return
        with self._lock:
            if len(self._idle) < self.most_idle:
                self._idle.append(instance.root)
                return
        instance.root.close()


def _connect() -> duckdb.DuckDBPyConnection:
    no_extensions = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    return duckdb.connect(":memory:", config=spill_folder() | no_extensions)


def _empty(root: duckdb.DuckDBPyConnection) -> None:
    """Drops the tables and detaches the files of the holders before."""
    for (name,) in duck.rows(root, query(_SQL, "attached")):
        duck.rows(root, query(_SQL, "detach", name=quote(name)))
    for (name,) in duck.rows(root, query(_SQL, "tables")):
        duck.rows(root, query(_SQL, "drop_table", name=quote(name)))


@define(eq=False)
class SharedInstance:
    """One DuckDB of the process for work on rows at hand, by any number of threads, each with a connection.

    `settings` are those that each connection begins with, by their names in `sql/settings/duckdb.sql`. Some are the
    whole instance's, so work that needs others has an instance of its own.
    """

    settings: tuple[str, ...] = ()
    _root: duckdb.DuckDBPyConnection | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        fork_safety.watch(self)

    def forget_parent(self) -> None:
        """Leaves it to the parent process."""
        fork_safety.abandon(self._root)
        self._root = None

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A connection whose temporary tables and registered names no other sees."""
        try:
            return self._connect()
        except duckdb.Error:
            # After a fatal error an instance answers nothing any more.
            self._root = None
            return self._connect()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._root is None:
                self._root = duckdb.connect(":memory:", config=spill_folder())
            connection = self._root.cursor()
        for setting in self.settings:
            duck.rows(connection, query(duck.SETTINGS, setting))
        return connection


ROWS_AT_HAND = SharedInstance()
"""The instance for our own statements."""
SQL_OF_USERS = SharedInstance(("utc", "no_files", "no_python_names"))
"""The instance for statements of users over registered tables: they reach nothing else."""
