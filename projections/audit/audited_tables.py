"""The tables of a catalog for one query: those that it needs, each loaded once, without those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.deletion.file_look import FileLooks
from icecore.engine.errors import IcecoreError
from icecore.engine.events.event import uuid_of_stream
from icecore.engine.queries.query_limits import Deadline
from icecore.engine.table.table import Table
from icecore.engine.view.view import View
from icecore.projections.audit.needed_tables import NeededTables
from icecore.projections.history.logged_tables import names_of

Read = TypeVar("Read")
TEXT_MAP = pa.map_(pa.string(), pa.string())


class AuditedCatalog(Protocol):
    """A catalog as audits see it."""

    def log(self) -> pa.Table: ...

    def all_namespaces(self) -> Iterable[Identifier]: ...

    def load_namespace_properties(self, namespace: Identifier) -> Mapping[str, str]: ...

    def views(self) -> Iterable[View]: ...


@frozen(eq=False)
class AuditedTable:
    """A table by its name and stream; `load` reads it from the log.

    `identifier_now` is its name in the present catalog, None where it has none there.
    """

    identifier: Identifier
    stream: str
    load: Callable[[], Table]
    identifier_now: Identifier | None

    @property
    def namespace(self) -> str:
        """The namespace as dotted text."""
        return ".".join(self.identifier[:-1])

    @property
    def name(self) -> str:
        """The name without its namespace."""
        return self.identifier[-1]

    @property
    def table_uuid(self) -> str:
        """The table's UUID."""
        return uuid_of_stream(self.stream)

    @property
    def named(self) -> dict[str, str | None]:
        """The columns of an audit table that name the table: see NAMED."""
        return names_of(self.identifier, self.table_uuid, self.identifier_now)

    @property
    def keys(self) -> dict[str, str | None]:
        """The texts by which a query can name it: see `NeededTables`."""
        return {**self.named, "table_uuid": self.table_uuid.lower()}


@define(eq=False)
class AuditedTables:
    """The tables of a catalog for one query. Errors of reading them are in `problems`, by stream.

    Those whose streams are in `passed_over` are not read. `sound` are those with a few files, which were all read.
    """

    listed: Callable[[], Sequence[AuditedTable]]
    deadline: Deadline = field(factory=Deadline)
    problems: dict[str, tuple[AuditedTable, IcecoreError]] = field(factory=dict)
    passed_over: frozenset[str] = frozenset()
    sound: set[str] = field(factory=set)
    looks: FileLooks = field(factory=FileLooks)
    _all: Sequence[AuditedTable] | None = None
    _loaded: dict[str, Table] = field(factory=dict)

    def needed(self, needed: NeededTables) -> list[AuditedTable]:
        """The tables that a query can need, by name."""
        if self._all is None:
            self._all = self.listed()
        return [t for t in self._all if needed.has(t.keys) and t.stream not in self.passed_over]

    def readable(self) -> AuditedTables:
        """The same tables without those that could not be read so far: a store that does not answer takes seconds."""
        found = AuditedTables(
            self.listed, self.deadline, self.problems, frozenset(self.problems), self.sound, self.looks
        )
        found._all, found._loaded = self._all, self._loaded
        return found

    def read(self, needed: NeededTables, read: Callable[[Table], Read]) -> Iterator[tuple[AuditedTable, Read]]:
        """The result of reading each needed table; one that can't be read is a problem, and left out.

        Raises QueryLimitError.
        """
        for audited in self.needed(needed):
            self.deadline.check()
            if (found := self.tried(audited, read)) is not None:
                yield audited, found

    def tried(self, audited: AuditedTable, read: Callable[[Table], Read]) -> Read | None:
        """The result of reading one table; None where it can't be read, which is a problem."""
        try:
            table = self._loaded.get(audited.stream)
            if table is None:
                table = self._loaded[audited.stream] = audited.load()
            return read(table)
        except IcecoreError as e:
            self.problems.setdefault(audited.stream, (audited, e))
            return None
