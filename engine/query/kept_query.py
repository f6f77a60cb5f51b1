"""A query made ready, and whether the names in it mean what they meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.query.named_tables import Mention
from icecore.engine.query.query_answer import Held, PreparedQuery, QueryAnswer
from icecore.engine.query.query_sources import RowsOf, forgotten_of, is_same, rows_of
from icecore.engine.query.source_names import LoadedOnce, Lookup, NameScope, ViewSource

AllNames: TypeAlias = Callable[[], Iterable[Identifier]]


@frozen
class Meaning:
    """A name where it stands in a query or in a view of it, and what it meant."""

    mention: Mention
    scope: NameScope
    found: RowsOf | ViewSource
    forgotten: str

    @classmethod
    def of(cls, mention: Mention, scope: NameScope, found: RowsOf | ViewSource) -> Meaning:
        """The meaning that a name has now."""
        return cls(mention, scope, found, forgotten_of(found))

    def is_still(self, lookup: Lookup, all_names: AllNames) -> bool:
        """Whether it means the same. Raises what looking it up raises."""
        now = rows_of(self.mention, self.scope, lookup, all_names)
        return is_same(self.found, now) and self.forgotten == forgotten_of(now)


@frozen(eq=False)
class KeptQuery:
    """A query made ready, the meanings of its names in the order of their look-up, and what its answers share."""

    meanings: tuple[Meaning, ...]
    schema: pa.Schema
    prepared: PreparedQuery
    held: Held

    @classmethod
    def of(cls, answer: QueryAnswer, meanings: Iterable[Meaning]) -> KeptQuery:
        """The query of an answer, whose names have these meanings."""
        return cls(tuple(meanings), answer.schema, answer._prepared, answer._held)

    def disconnect(self) -> None:
        """Ends the connection that waits for it; in a forked process it is left to the parent."""
        self.held.idle.close()

    def answer(self, lookup: Lookup, all_names: AllNames, timeout: float | None) -> QueryAnswer | None:
        """An answer over the same rows; None where a name means something else by now.

        Raises what looking names up raises, as a new query would.
        """
        once = LoadedOnce(lookup)
        if not all(m.is_still(once, all_names) for m in self.meanings):
            return None
        return QueryAnswer(self.schema, evolve(self.prepared, timeout=timeout), self.held)
