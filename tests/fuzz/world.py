"""The warehouse of a walk with everybody who has it open, and the dice of the step that is taken."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as PeerTable

import icecore
from icecore.projections.plan.deletes.lost_values import losable_fields

from .filters import Filter, Row, random_filter
from .jvm import Jvm
from .model import Column, Model, Version
from .past import Moment, RowChange
from .values import TYPES, arrow_table, random_value

NAME = "ns.t"
ID = 0
"""The key of the column that tells rows apart."""
_NAMES = ("b", "a b", "Größe", "select", "it's", "c", "d", "e", "f", "g")


@define
class World:
    """Two catalogs of ours, PyIceberg's and Java's, on one folder. `dice` are those of one step."""

    folder: Path
    catalogs: list[icecore.Catalog]
    jvm: Jvm
    model: Model
    dice: random.Random
    is_file_system: bool = False
    """Whether Java commits as its HadoopTables do, by a metadata file with the next number."""
    moments: list[Moment] = field(factory=list)
    changes: list[RowChange] = field(factory=list)
    handle: tuple[icecore.Table, tuple[Column, ...]] | None = None
    peer: SqlCatalog | None = None
    is_ours: bool = False
    """Whether the last commit was."""
    spark: Any = None
    """A session, where the walk has one."""

    def ours(self) -> icecore.Table:
        """The table as one of our catalogs has it."""
        return self.dice.choice(self.catalogs).load_table(NAME)

    def note(self, is_ours: bool) -> None:
        """Keeps what the model is at the log's position now."""
        now = Moment.of(self.catalogs[0].position, self.model)
        change = RowChange.between(self.moments[-1], now) if self.moments and is_ours else None
        if change is not None:
            self.changes.append(change)
        self.moments.append(now)
        self.is_ours = is_ours

    def held(self) -> icecore.Table:
        """The table as it is, or as it was loaded some steps ago where its columns are still the same."""
        if self.handle is None or self.handle[1] != self.model.columns or self.dice.random() < 0.3:
            self.handle = (self.ours(), self.model.columns)
        return self.handle[0]

    def place(self, kind: str) -> Path:
        """A folder beside the warehouse that is not there yet."""
        self.model.next_id += 1
        return self.folder.parent / f"{kind} {self.model.next_id}"

    def leave(self) -> None:
        """Everybody closes the warehouse, as SQLite wants it before its file is moved."""
        for catalog in self.catalogs:
            catalog.close()
        if self.peer is not None:
            self.peer.close()
        self.jvm.ask("close")

    def settle(self, folder: Path) -> None:
        """Everybody opens the warehouse in the folder that it was moved to."""
        self.folder = folder
        for which in range(len(self.catalogs)):
            self.reopen(which)
        self.jvm.ask("open", warehouse=str(folder))

    def reopen(self, which: int) -> None:
        self.handle = None
        self.catalogs[which].close()
        self.catalogs[which] = icecore.open(self.folder, actor=f"ours {which}")

    def theirs(self) -> PeerTable:
        """The table as PyIceberg has it."""
        if self.peer is not None:
            self.peer.close()
        self.peer = SqlCatalog("icecore", uri=f"sqlite:///{self.folder}/icecore.db", warehouse=str(self.folder))
        return self.peer.load_table(NAME)

    def is_beyond_theirs(self) -> bool:
        """Whether PyIceberg may take rows for live that are deleted, or the reverse."""
        return bool(self.model.equality_keys) or self.is_misread()

    def is_misread(self) -> bool:
        """Whether it does so without a word.

        It doesn't find deletes by position where a partition's column was dropped and one of two manifests is older, as
        newer ones have nulls. To a file that was picked again it applies deletes from before.
        """
        return self.model.has_picked or bool(losable_fields(self.catalogs[0].load_table(NAME).metadata))

    def java(self, op: str, **fields: Any) -> Any:
        location = f"file://{self.folder}/ns/t" if self.is_file_system else None
        return self.jvm.ask(op, table=NAME, location=location, **fields)

    # What dice choose

    def branch(self) -> str:
        """Mostly main, at times another one, at times one that is not there yet."""
        others = [b for b in self.model.branches if b != "main"]
        if self.dice.random() < 0.75:
            return "main"
        if others and (self.dice.random() < 0.8 or len(others) > 2):
            return self.dice.choice(others)
        return f"b{self.dice.randrange(4)}" if "main" in self.model.refs else "main"

    def version(self) -> Version | None:
        """A snapshot whose rows are known."""
        return self.dice.choice(self.model.known) if self.model.known else None

    def rows(self, least: int = 1, most: int = 5) -> tuple[Row, ...]:
        """New rows, each with an id of its own but now and then."""
        out = []
        for _ in range(self.dice.randint(least, most)):
            row = {c.key: random_value(self.dice, c.type) for c in self.model.columns}
            row[ID] = self.model.next_id
            self.model.next_id += 1
            out.append(row)
        return tuple(out)

    def droppable(self) -> list[Column]:
        """Columns that may go: Java can't write to a v1 table that has a void partition field of a lost column."""
        table = self.catalogs[0].load_table(NAME)
        sources = {f.source_id for f in table.spec().fields} if table.format_version < 2 else set()
        needed = {f.name for f in table.schema().fields if f.field_id in sources}
        return [c for c in self.model.droppable if c.key != ID and c.name not in needed]

    def changed(self, row: Row) -> Row:
        """The same id with other values."""
        return {c.key: random_value(self.dice, c.type) for c in self.model.columns} | {ID: row[ID]}

    def some(self, rows: Sequence[Row], most: int = 3) -> list[Row]:
        """A few of them."""
        return self.dice.sample(list(rows), min(len(rows), self.dice.randint(1, most)))

    def filter(self, branch: str = "main", *, of_floats: bool = True, depth: int = 1) -> Filter:
        columns = [c for c in self.model.plain if of_floats or not c.is_float]
        return random_filter(self.dice, columns, self.model.at(branch), depth)

    def new_column(self, *, of_structs: bool = True) -> Column:
        """A column that could be added."""
        taken = {c.name for c in self.model.columns}
        name = self.dice.choice([n for n in _NAMES if n not in taken] or [f"x{self.model.next_key}"])
        types = [t for t in TYPES if of_structs or t != "struct"]
        return Column(self.model.next_key, name, self.dice.choice(types))

    def arrow(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> Any:
        columns = self.model.columns if columns is None else columns
        return arrow_table([(c.name, c.type) for c in columns], self.lists(rows, columns))

    def lists(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> list[list[Any]]:
        """Rows as lists in the order of the columns, as the JVM takes them."""
        columns = self.model.columns if columns is None else columns
        return [[c.of(r) for c in columns] for r in rows]
