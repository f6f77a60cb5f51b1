"""The answer of a query, which is computed each time that its rows are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.common import fork_safety
from icecore.engine.common.optional_packages import to_pandas
from icecore.engine.common.text import rows_html
from icecore.engine.errors import MissingFileError, StorageError, ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.queries.query_limits import Deadline, within_limits
from icecore.engine.query.file_instances import FILE_INSTANCES, instance_of
from icecore.engine.query.kept_relations import KeptRelations, is_kept
from icecore.engine.query.needed_rows import NeededRows
from icecore.engine.query.plain_rows import plain
from icecore.engine.query.query_sources import RowsOf, TableNeed, TableRows
from icecore.engine.query.told_time import tell_time
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.scan.relation.missing_files import with_expiry
from icecore.engine.scan.relation.registered_scan import make_view, register_relation
from icecore.engine.scan.relation.row_stream import RowStream
from icecore.engine.scan.relation.scan_relation import ScanRelation

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

BATCH_ROWS = 131_072
_SHOWN = 20
"""The rows that a notebook shows."""


@frozen
class PreparedQuery:
    """A query over internal names, what these stand for, how much of it is needed, and the time that it was made at.

    Errors call it `owner`. `views` has queries by such names, each over rows and the views before it.
    """

    owner: str
    sql: str
    parameters: Mapping[str, Any] | None
    rows: Mapping[str, RowsOf]
    views: Mapping[str, str]
    needed: Mapping[str, NeededRows]
    timeout: float | None
    memory_limit: str | None
    now: str | None


@define(eq=False)
class QueryConnection:
    """A connection that reaches the rows of a query, and its streams of those that this engine reads."""

    con: duckdb.DuckDBPyConnection
    streams: list[RowStream] = field(factory=list)

    def failure(self) -> Exception | None:
        """The error of a stream that failed."""
        return next((s.failed for s in self.streams if s.failed is not None), None)


@define(eq=False)
class IdleConnection:
    """A connection that waits to be used again, in the process that made it."""

    _waiting: list[tuple[int, QueryConnection]] = field(factory=list)

    def taken(self) -> QueryConnection | None:
        """The connection, which nobody else has from now on; None where there is none that answers."""
        found = self._popped()
        if found is None:
            return None
        try:
            duck.rows(found.con, query(duck.SETTINGS, "reads_files"))
        except duckdb.Error:
            # After a fatal error an instance answers nothing any more.
            found.con.close()
            return None
        for s in found.streams:
            s.failed = None
        return found

    def put(self, connection: QueryConnection) -> None:
        """Keeps a connection, unless there is one."""
        if self._waiting:
            connection.con.close()
        else:
            self._waiting.append((os.getpid(), connection))

    def close(self) -> None:
        """Ends the connection, if there is one; in a forked process it is left to the parent."""
        if (found := self._popped()) is not None:
            found.con.close()

    def _popped(self) -> QueryConnection | None:
        try:
            pid, found = self._waiting.pop()
        except IndexError:
            return None
        if pid == os.getpid():
            return found
        fork_safety.abandon(found.con)
        return None


@define(eq=False)
class Held:
    """The parts that answers of one query over the same rows share: relations of little memory, and a connection.

    `shared` has relations that other queries use too.
    """

    shared: KeptRelations | None = None
    relations: dict[str, ScanRelation] = field(factory=dict)
    idle: IdleConnection = field(factory=IdleConnection)

    def relation(self, need: TableNeed) -> ScanRelation:
        """The relation for a need, held for the answers to come, unless it is large. Raises what planning raises."""
        found = need.relation() if self.shared is None else self.shared.relation(need)
        if is_kept(found):
            self.relations.setdefault(need.name, found)
        return found


@define(eq=False)
class QueryAnswer:
    """The rows of a query over tables as they were when it was made. Each call that gives rows computes them.

    Such calls raise QueryLimitError where time or memory are over, MissingFileError, CorruptFileError or StorageError
    where a file can't be read, and ValidationError with DuckDB's words where a row can't be computed.
    """

    schema: pa.Schema
    _prepared: PreparedQuery = field(repr=False)
    _held: Held = field(factory=Held, repr=False)
    _relations: dict[str, ScanRelation] = field(factory=dict, repr=False)
    _arrow: dict[str, pa.Table] = field(factory=dict, repr=False)
    _own_idle: IdleConnection = field(factory=IdleConnection, repr=False)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def scans(self) -> list[DataScan]:
        """The scans that give the query its rows, one for each time that it names a table: what it has to read."""
        needed = self._prepared.needed
        return [r.needed(needed[n]) for n, r in self._prepared.rows.items() if isinstance(r, TableRows)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        with self._running() as con:
            return duck.rows(con, self._prepared.sql, self._prepared.parameters)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        with self._running() as con:
            return plain(duck.arrow(con, self._prepared.sql, self._prepared.parameters), self._prepared.owner)

    def arrow_reader(self, batch_rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow batches, computed as they are taken."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(batch_rows))

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame. Raises MissingDependencyError where pandas is not installed."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The rows as a stream that any library takes that knows Arrow's PyCapsule interface."""
        return self.arrow_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}: {f.type}" for f in list(self.schema)[:8])
        more = len(self.schema) - 8
        return f"QueryAnswer({shown}{f', and {more} more' if more > 0 else ''})"

    def _repr_html_(self) -> str:
        """The first rows in a notebook, computed for it."""
        with self._running() as con:
            values = self._prepared.parameters
            rows = con.sql(self._prepared.sql, params=dict(values) if values else None).limit(_SHOWN + 1).fetchall()
        return rows_html(self.columns, rows[:_SHOWN]) + ("<p>… more rows</p>" if len(rows) > _SHOWN else "")

    def _batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with self._running() as con:
            for batch in duck.batches(con, self._prepared.sql, batch_rows, self._prepared.parameters):
                yield from plain(pa.Table.from_batches([batch]), self._prepared.owner).to_batches()

    @contextmanager
    def _running(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A context with a connection that can reach the rows of the query, and nothing else."""
        limit = self._prepared.memory_limit
        deadline = Deadline(self._prepared.timeout)
        used = self._idle.taken()
        is_new = used is None
        try:
            used = used or QueryConnection(self._connection())
            with duck.ctrl_c(), within_limits(used.con, deadline, limit):
                if is_new:
                    self._register(used)
                yield used.con
        except BaseException as e:
            if used is not None:
                used.con.close()
            if isinstance(e, duckdb.Error):
                raise (used and used.failure()) or self._failure(e) from e
            raise
        self._idle.put(used)

    @property
    def _idle(self) -> IdleConnection:
        """The idle connection of all answers, if this one has only relations that they share; else its own.

        Errors are told by the relations.
        """
        self._relations = {**self._held.relations, **self._relations}
        are_held = all(self._held.relations.get(n) is r for n, r in self._relations.items())
        return self._held.idle if are_held else self._own_idle

    def _connection(self) -> duckdb.DuckDBPyConnection:
        """A connection that can reach the local files of the query, and perhaps others of the same snapshots.

        Its files and its memory are settings of a whole instance, so connections for the same snapshots share one.
        """
        for name, rows in self._prepared.rows.items():
            if isinstance(rows, TableRows) and name not in self._relations:
                self._relations[name] = self._held.relation(TableNeed.of(name, rows, self._prepared.needed[name]))
        files = frozenset(f for r in self._relations.values() for f in r.files)
        if self._prepared.memory_limit is not None:
            return instance_of(files, self._prepared.memory_limit)
        scans = [r.scan for r in self._prepared.rows.values() if files and isinstance(r, TableRows)]
        snapshots = frozenset((s.metadata.table_uuid, s.snapshot.snapshot_id) for s in scans if s.snapshot is not None)
        return FILE_INSTANCES.connect(snapshots, files)

    def _register(self, made: QueryConnection) -> None:
        con = made.con
        tell_time(con, self._prepared.now)
        for name, rows in self._prepared.rows.items():
            if isinstance(rows, TableRows):
                made.streams += register_relation(con, name, self._relations[name])
            else:
                if name not in self._arrow:
                    self._arrow[name] = rows.read()
                duck.register(con, name, self._arrow[name])
        for name, sql in self._prepared.views.items():
            make_view(con, name, sql)

    def _failure(self, error: duckdb.Error) -> Exception:
        """The error that is behind DuckDB's where no stream failed."""
        owner = self._prepared.owner
        for name, relation in self._relations.items():
            rows = self._prepared.rows[name]
            for path in relation.files:
                if not os.path.exists(path) and isinstance(rows, TableRows):
                    return with_expiry(rows.scan, MissingFileError.of(path, f"{owner}: there is no file {path}"))
        if isinstance(error, duckdb.IOException):
            return StorageError(f"{owner}: a file can't be read: {error}")
        return ValidationError(f"{owner} can't be run: {reason(error)}")


def reason(error: duckdb.Error) -> str:
    """DuckDB's words without the text of the query, which has internal names."""
    said = " ".join(str(error).partition("\n\nLINE ")[0].split())
    return said + duck.as_text(said)
