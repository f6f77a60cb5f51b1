"""Segments: wide entries of manifests, in DuckDB tables of files that are written once, or in memory.

A file is named by what is in it and put in place whole, so any number of processes reads and writes them without locks;
DuckDB reads the columns and row groups that a plan needs, and keeps them in memory as far as its limit goes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
from attrs import define, evolve, field, frozen

from icecore.engine.errors import CorruptFileError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.projections.segments.entry_typing import EntryTyping, StoredTypes, duckdb_type

FILE = "plan/segments.sql"
# Part of each file's name: to be raised when what a segment holds changes.
SEGMENT_VERSION = 4
SUFFIX = ".segment"
_PREFIX = f"v{SEGMENT_VERSION}-{duckdb.__version__}-"
_UNFINISHED = "unfinished-"
_ABANDONED_AFTER_S = 3600.0
_OUTLIVED_AFTER_S = 30 * 24 * 3600.0
"""The age at which files of other releases, of ours or of DuckDB, are removed: processes may still use them."""
NUMBER_BITS = 32


@frozen
class SegmentInfo:
    """The content of a segment.

    `columns` are the DuckDB types of its columns. `manifests` has the key of each, in the order of their numbers, and
    `idle` the number of merges in a row before which no plan looked for it.
    """

    columns: Mapping[str, str]
    typed: StoredTypes
    manifests: tuple[str, ...]
    idle: tuple[int, ...]
    rows: int

    def to_json(self) -> str:
        """The JSON text that the segment's file holds."""
        typed = self.typed
        return orjson.dumps(
            {
                "columns": dict(self.columns),
                "types": dict(typed.types),
                "unreadable": sorted(typed.unreadable),
                "unknown": sorted(typed.unknown),
                "specs": {str(i): text for i, text in typed.specs.items()},
                "manifests": self.manifests,
                "idle": self.idle,
                "rows": self.rows,
            }
        ).decode()

    @classmethod
    def from_json(cls, text: str, where: str) -> SegmentInfo:
        """The content told by a segment's file. Raises CorruptFileError."""
        try:
            found = orjson.loads(text)
            typed = StoredTypes(
                found["types"],
                frozenset(found["unreadable"]),
                frozenset(found["unknown"]),
                {int(i): t for i, t in found["specs"].items()},
            )
            return cls(found["columns"], typed, tuple(found["manifests"]), tuple(found["idle"]), found["rows"])
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise CorruptFileError(f"{where} is not a segment that can be read: {e}") from e


NOTHING = SegmentInfo({}, StoredTypes({}, frozenset(), frozenset(), {}), (), (), 0)


@frozen(eq=False)
class Segment:
    """A segment that plans can be made from.

    `entries` is its table in SQL, `conversions` the columns that are to be read as another type. `looked_for` are the
    manifests that some plan of this process had in its snapshot. One without a path is in memory, and grows.
    """

    number: int
    entries: str
    info: SegmentInfo
    conversions: Mapping[str, str]
    path: Path | None = None
    looked_for: set[int] = field(factory=set)

    @property
    def offset(self) -> int:
        """The number that makes the numbers of its manifests unique among segments."""
        return self.number << NUMBER_BITS

    def rows(self, names: Iterable[str], condition: str, typing: EntryTyping) -> str:
        """A query for columns of the entries that a condition holds for, with `m` unique among segments."""
        columns = "".join(f", {self.column(n, typing)}" for n in names)
        return query(
            FILE, "entries_of", offset=str(self.offset), columns=columns, entries=self.entries, where=condition
        )

    def column(self, name: str, typing: EntryTyping) -> str:
        """SQL for a column as it is typed now."""
        if name in self.conversions:
            return f"{self.conversions[name]} AS {quote(name)}"
        if name in self.info.columns:
            return quote(name)
        wanted = typing.type_of(name) if name.startswith(("lower_", "upper_", "part_")) else None
        return f"CAST(NULL AS {duckdb_type(wanted) if wanted else 'BIGINT'}) AS {quote(name)}"

    def usable_columns(self, typing: EntryTyping) -> dict[str, str]:
        """The columns that still have a meaning, with their DuckDB types."""
        typed = self.info.typed.types
        out = {}
        for name, kind in self.info.columns.items():
            if name not in typed:
                out[name] = kind
            elif (wanted := typing.type_of(name)) is not None:
                out[name] = duckdb_type(wanted) if name in self.conversions else kind
        return out


COLUMNS_ADDED_SINGLY, ROWS_COPIED = 16, 25
"""Adding a column takes longer the more columns a table has: a thousand took ten seconds. So many columns at most, and
one more for each so many rows, are added singly; for more the rows are copied into a wider table."""


@define
class Growing:
    """Entries on their way into a table: in memory, or in a new segment file."""

    connection: duckdb.DuckDBPyConnection
    entries: str
    info: SegmentInfo = NOTHING

    def add(
        self, rows: pa.Table, typed: StoredTypes, manifests: Sequence[str], idle: Sequence[int] | None = None
    ) -> None:
        """Appends rows whose manifests, numbered in `m`, follow on those that are there."""
        # DuckDB finds it by its name in this frame: a registered table would be held until the transaction ends.
        incoming, source = rows, query(FILE, "incoming")
        with duck.ctrl_c():
            if self.info.columns:
                self._make_room(_kinds(self.connection.execute(query(FILE, "describe", source=source)).fetchall()))
            ((count,),) = self.connection.execute(self._taken_in(source)).fetchall()
        self._added(typed, manifests, idle or [0] * len(manifests), count)
        del incoming

    def add_query(self, source: str, typed: StoredTypes, manifests: Sequence[str], idle: Sequence[int]) -> None:
        """Appends the rows of a query, as `add`."""
        if self.info.columns:
            self._make_room(_kinds(duck.rows(self.connection, query(FILE, "describe", source=source))))
        ((count,),) = duck.rows(self.connection, self._taken_in(source))
        self._added(typed, manifests, idle, count)

    def _taken_in(self, source: str) -> str:
        """The statement that takes the rows of a query over; the first makes the table."""
        name = "insert_entries" if self.info.columns else "create_entries_of"
        return query(FILE, name, entries=self.entries, source=source)

    def _make_room(self, columns: Mapping[str, str]) -> None:
        known = self.info.columns
        self.info = evolve(self.info, columns={**columns, **known})
        self._add_columns({n: kind for n, kind in columns.items() if n not in known})

    def _create(self, entries: str) -> None:
        defined = ", ".join(f"{quote(n)} {kind}" for n, kind in self.info.columns.items())
        duck.rows(self.connection, query(FILE, "create_entries", entries=entries, columns=defined))

    def _add_columns(self, columns: Mapping[str, str]) -> None:
        if len(columns) <= COLUMNS_ADDED_SINGLY + self.info.rows // ROWS_COPIED:
            for name, kind in columns.items():
                add = query(FILE, "add_column", entries=self.entries, column=quote(name), kind=kind)
                duck.rows(self.connection, add)
            return
        place, _, name = self.entries.rpartition(".")
        wider = f"{place}.wider"
        duck.rows(self.connection, query(FILE, "drop_entries", entries=wider))
        self._create(wider)
        # Whatever fails, a plan finds all entries that were there, or no table, and then loads them again.
        every = query(FILE, "all_entries", entries=self.entries)
        duck.rows(self.connection, query(FILE, "insert_entries", entries=wider, source=every))
        duck.rows(self.connection, query(FILE, "drop_entries", entries=self.entries))
        duck.rows(self.connection, query(FILE, "rename_entries", entries=wider, name=name))

    def _added(self, typed: StoredTypes, manifests: Sequence[str], idle: Sequence[int], rows: int) -> None:
        had = self.info.typed
        entries = query(FILE, "all_entries", entries=self.entries)
        self.info = SegmentInfo(
            self.info.columns or _kinds(duck.rows(self.connection, query(FILE, "describe", source=entries))),
            StoredTypes(
                {**had.types, **typed.types},
                had.unreadable | typed.unreadable,
                had.unknown | typed.unknown,
                {**had.specs, **typed.specs},
            ),
            (*self.info.manifests, *manifests),
            (*self.info.idle, *idle),
            self.info.rows + rows,
        )

    def retype(self, typing: EntryTyping, conversions: Mapping[str, str]) -> None:
        """Converts a table in memory to the present types, by `conversions`."""
        types, columns = dict(self.info.typed.types), dict(self.info.columns)
        for name in self.info.typed.types:
            wanted = typing.type_of(name)
            if wanted is None:
                duck.rows(self.connection, query(FILE, "drop_column", entries=self.entries, column=quote(name)))
                del types[name], columns[name]
            elif name in conversions:
                kind = duckdb_type(wanted)
                parts = {"entries": self.entries, "column": quote(name), "kind": kind, "value": conversions[name]}
                sql = query(FILE, "retype_column", **parts)
                duck.rows(self.connection, sql)
                types[name], columns[name] = wanted, kind
        self.info = evolve(self.info, columns=columns, typed=evolve(self.info.typed, types=types))


def _kinds(described: Iterable[Sequence[Any]]) -> dict[str, str]:
    """The DuckDB types of columns by name."""
    return {name: kind for name, kind, *_ in described}


@define
class SegmentFolder:
    """The segment files of one table."""

    path: Path

    def names(self) -> list[str]:
        """The files that this version can read, those with the most rows first."""
        try:
            found = [n for n in os.listdir(self.path) if n.startswith(_PREFIX) and n.endswith(SUFFIX)]
        except OSError:
            return []
        return sorted(found, reverse=True)

    def attach(self, connection: duckdb.DuckDBPyConnection, name: str, alias: str) -> SegmentInfo | None:
        """Attaches a file under a name; None where it is gone, or is removed since it is damaged."""
        path = self.path / name
        try:
            sql = query(FILE, "attach", path=duck.literal(os.fspath(path)), name=alias)
            duck.rows(connection, sql)
        except duckdb.Error:
            self.remove([name])
            return None
        try:
            (text,) = duck.rows(connection, query(FILE, "get_info", name=alias))[0]
            return SegmentInfo.from_json(text, os.fspath(path))
        except (duckdb.Error, CorruptFileError, IndexError):
            self.detach(connection, alias)
            self.remove([name])
            return None

    @staticmethod
    def detach(connection: duckdb.DuckDBPyConnection, alias: str) -> None:
        """Detaches a file."""
        duck.rows(connection, query(FILE, "detach", name=alias))

    @contextlib.contextmanager
    def writing(self, connection: duckdb.DuckDBPyConnection, alias: str) -> Iterator[Growing]:
        """A context with a new file for entries, which is put in place at its end. Raises OSError, duckdb.Error."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.sweep()
        path = self.path / f"{_UNFINISHED}{uuid.uuid4().hex}{SUFFIX}"
        duck.rows(connection, query(FILE, "attach_new", path=duck.literal(os.fspath(path)), name=alias))
        attached = True
        try:
            connection.begin()
            growing = Growing(connection, f"{alias}.entries")
            yield growing
            duck.rows(connection, query(FILE, "put_info", name=alias), {"info": growing.info.to_json()})
            connection.commit()
            duck.rows(connection, query(FILE, "checkpoint", name=alias))
            self.detach(connection, alias)
            attached = False
            os.replace(path, self.path / file_name(growing.info))
        except BaseException:
            if attached:
                with contextlib.suppress(duckdb.Error):
                    connection.rollback()
                with contextlib.suppress(duckdb.Error):
                    self.detach(connection, alias)
            raise
        finally:
            self.remove([path.name, path.name + ".wal"])

    def remove(self, names: Iterable[str]) -> None:
        """Drops files: processes that have them open go on reading, and what is missing can be made again."""
        for name in names:
            with contextlib.suppress(OSError):
                (self.path / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Removes files of writers that died unfinished, and old files of other releases."""
        now = time.time()
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.path):
                if entry.name.startswith(_PREFIX) or SUFFIX not in entry.name:
                    continue
                limit = _ABANDONED_AFTER_S if entry.name.startswith(_UNFINISHED) else _OUTLIVED_AFTER_S
                # Another process may have removed it.
                with contextlib.suppress(FileNotFoundError):
                    if now - entry.stat().st_mtime > limit:
                        self.remove([entry.name])


def file_name(info: SegmentInfo) -> str:
    """The name of a segment file, by its content; by name, larger ones sort behind smaller ones."""
    digest = hashlib.sha256(evolve(info, idle=()).to_json().encode()).hexdigest()[:32]
    return f"{_PREFIX}{info.rows:012d}-{digest}{SUFFIX}"
