"""Statements that DuckDB runs."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from icecore.engine.queries import duck


@pytest.mark.parametrize("rows", [0, 1, 2_048, 2_049, 300_000])
def test_batches_are_the_rows_in_their_order_and_none_is_empty(rows: int) -> None:
    with duckdb.connect() as connection, duck.registered(connection, "numbers", pa.table({"x": range(rows)})):
        found = list(duck.batches(connection, "SELECT x FROM numbers WHERE x % 3 = 0", 2_048))
    assert [x for batch in found for x in batch.column(0).to_pylist()] == list(range(0, rows, 3))
    assert all(0 < batch.num_rows <= 2_048 for batch in found)
