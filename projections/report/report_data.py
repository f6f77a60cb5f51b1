"""The data of a report: of each table what SQL over the audit tables tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen

from icecore.engine.queries.named_queries import query

QUERIES = "report/report.sql"
ONE, ALL = "table_uuid = $uuid", "TRUE"
Ask = Callable[[str, Mapping[str, Any]], pa.Table]
"""The answer of the SQL prompt to a query with parameters."""
Row = Mapping[str, Any]


@frozen(eq=False)
class TableData:
    """The rows of one table: what it is, and those of its file sizes, partitions, commits and refs."""

    name: str
    about: Row
    sizes: Sequence[Row]
    partitions: Sequence[Row]
    commits: Sequence[Row]
    refs: Sequence[Row]

    def sum(self, what: str) -> int:
        """The sum of a column over the partitions."""
        return sum(p[what] for p in self.partitions)


def report_data(ask: Ask, table_uuid: str | None) -> list[TableData]:
    """The data of all tables by name, or of those with one UUID."""
    condition, values = (ALL, dict[str, Any]()) if table_uuid is None else (ONE, {"uuid": table_uuid})
    queries = {
        "tables": query(QUERIES, "tables", condition=condition),
        "sizes": query(QUERIES, "sizes", condition=condition),
        "partitions": query(QUERIES, "partitions", condition=condition),
        "commits": query(QUERIES, "commits", condition=condition),
        "refs": query(QUERIES, "refs", condition=condition),
    }
    found = {name: ask(sql, values).to_pylist() for name, sql in queries.items()}
    rows = {name: _by_table(of) for name, of in found.items() if name != "tables"}
    return [
        TableData(t["name_now"], t, *(rows[n][_key(t)] for n in ("sizes", "partitions", "commits", "refs")))
        for t in found["tables"]
    ]


def _key(row: Row) -> tuple[str, str]:
    return row["name_now"], row["table_uuid"]


def _by_table(rows: Sequence[Row]) -> defaultdict[tuple[str, str], list[Row]]:
    found: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[_key(row)].append(row)
    return found
