"""The kinds of delete files in a set of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.projections.segments.entry_typing import METRIC_PREFIXES

DELETES = "plan/deletes.sql"


@frozen
class DeleteKinds:
    """The kinds of delete files in a set, and their number, `count`.

    `equality_ids` are the columns that equality deletes compare.
    """

    vectors: bool
    named: bool
    positions: bool
    equality: bool
    equality_ids: tuple[int, ...]
    count: int

    @classmethod
    def of_query(cls, connection: duckdb.DuckDBPyConnection, deletes: str) -> DeleteKinds:
        """The kinds among the entries of a query in brackets."""
        (row,) = duck.rows(connection, kinds_statement(deletes))
        return cls.of_row(row)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> DeleteKinds:
        """The kinds that the one row of `kinds_statement` tells."""
        vectors, named, positions, equality, ids, count = row
        return cls(vectors, named, positions, equality, tuple(sorted(ids or ())), count)

    def among(self, entries: pa.Table) -> DeleteKinds:
        """The kinds of some of the live delete files."""
        by_position, is_vector = pc.equal(entries["content"], 1), pc.equal(entries["file_format"], "PUFFIN")
        older, is_named = pc.and_not(by_position, is_vector), pc.is_valid(entries["referenced_data_file"])
        kinds = (pc.and_(by_position, is_vector), pc.and_(older, is_named), pc.and_not(older, is_named))
        vectors, named, positions, equality = (pc.any(k).as_py() is True for k in (*kinds, pc.invert(by_position)))
        return DeleteKinds(vectors, named, positions, equality, self.equality_ids, entries.num_rows)

    @property
    def metrics(self) -> list[str]:
        """The columns of bounds and counts that equality deletes and data files are compared by."""
        return [f"{prefix}_{i}" for i in self.equality_ids for prefix in METRIC_PREFIXES]

    def metrics_in(self, columns: Iterable[str]) -> list[str]:
        """The `metrics` that there are among some columns."""
        wanted = frozenset(self.metrics)
        return [c for c in columns if c in wanted]


def kinds_statement(deletes: str) -> str:
    """The statement for the kinds among the entries of a query in brackets."""
    return query(DELETES, "kinds", deletes=deletes)
