"""Names and texts that DuckDB means in another way than a table does."""

from __future__ import annotations

import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import ExpressionError, NoSuchSnapshotError, ValidationError


def test_a_nul_in_a_query_is_refused(catalog: icecore.Catalog) -> None:
    """DuckDB's tree of a query ends a text there, so that another one would be asked for; a parameter may hold it."""
    table = catalog.create_table("ns.t", pa.schema([("s", pa.string())]))
    table.append([{"s": "a"}, {"s": "a\0b"}])
    with pytest.raises(ValidationError, match="must not hold a NUL"):
        catalog.query("SELECT * FROM ns.t WHERE s = 'a\0b'")
    assert catalog.query("SELECT count(*) FROM ns.t WHERE s = $s", {"s": "a\0b"}).fetchall() == [(1,)]


def test_a_number_at_the_end_is_no_other_column(catalog: icecore.Catalog) -> None:
    """A column that differs from another in case alone gets a number, but not the name of a third."""
    table = catalog.create_table("ns.t", pa.schema([(name, pa.int64()) for name in ("a", "A", "a_1")]))
    table.append(pa.table([[1], [2], [3]], schema=table.scan().to_arrow().schema))
    assert catalog.query("SELECT a_1 FROM ns.t WHERE a_1 = 3").fetchall() == [(3,)]
    assert table.scan().to_duckdb("t").sql("SELECT a_1 FROM t").fetchall() == [(3,)]


def test_what_a_scan_is_asked_is_taken_as_it_is(catalog: icecore.Catalog) -> None:
    """An empty name is no branch, there is no hour 25, and a plan is shown whatever its filter."""
    schema = pa.schema([("s", pa.string()), ("x", pa.float64()), ("t", pa.timestamp("us"))])
    table = catalog.create_table("ns.t", schema)
    table.append([{"s": "abc", "x": 1.0, "t": None}])
    with pytest.raises(NoSuchSnapshotError):
        table.scan(ref="").to_arrow()
    with pytest.raises(ExpressionError, match="no hour 25"):
        table.scan("hour(t) = '2024-01-01-25'")
    assert table.scan(limit=2**70).to_arrow().num_rows == 1
    for condition, residual in (("s LIKE '%b%'", '{"type":"not-null","term":"s"}'), ("x < 'inf'", "true")):
        assert table.scan(condition).plan().to_arrow()["residual"].to_pylist() == [residual]
