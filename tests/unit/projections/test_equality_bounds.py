"""Which equality delete file may matter to a data file, by whatever metrics there are (SP6)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from icecore.engine.queries.named_queries import quote
from icecore.projections.plan.deletes.delete_bounds import equality_bounds
from icecore.projections.segments.entry_typing import METRIC_PREFIXES

KINDS = {"BIGINT": (1, 5), "DOUBLE": (1.0, 5.0), "BLOB": (b"\x01" * 16, b"\x05" * 16)}
COUNTS = [(0, 9), (9, 9), (3, 9)]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def overlaps(connection: duckdb.DuckDBPyConnection, columns: dict[str, str], rows: list[dict[str, Any]]) -> list[bool]:
    """For each pair of a delete file and a data file."""
    table = pa.Table.from_pylist(rows)
    chosen = "".join(f", {quote(c)}::{kind} AS {quote(c)}" for c, kind in columns.items())
    side = f"(SELECT n, 9 AS record_count, [1] AS equality_ids{chosen} FROM metrics)"
    sql = f"SELECT {equality_bounds(columns, [1])} FROM {side} AS d, {side} AS data ORDER BY d.n, data.n"
    connection.register("metrics", table)
    return [found for (found,) in connection.execute(sql).fetchall()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_is_not_there_is_one_of_nulls(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """There is a column of a metric only where some file has it: no set of columns may be missed."""
    every = {f"{p}_1": kind if p in ("lower", "upper") else "BIGINT" for p in METRIC_PREFIXES}
    rows: list[dict[str, Any]] = [
        {"n": n, "lower_1": at, "upper_1": at, "nulls_1": nulls, "nans_1": 0, "values_1": values}
        for n, (at, (nulls, values)) in enumerate(product(KINDS[kind], COUNTS))
    ]
    excluded = 0
    for there in product((False, True), repeat=len(METRIC_PREFIXES)):
        columns = {c: k for (c, k), has in zip(every.items(), there, strict=True) if has}
        some = [{c: v if c in columns or c == "n" else None for c, v in row.items()} for row in rows]
        found = overlaps(connection, columns, rows)
        assert found == overlaps(connection, every, some)
        excluded += found.count(False)
    assert excluded > 50
