"""The limits of a query hold however its statements and the program's own work follow each other."""

from __future__ import annotations

import time
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from icecore.engine.errors import QueryLimitError
from icecore.engine.queries import duck
from icecore.engine.queries.query_limits import Deadline, limited_connection, within_limits


def test_a_statement_that_begins_when_the_time_is_over_is_stopped_too() -> None:
    con, deadline = limited_connection(None), Deadline(0.02)
    with pytest.raises(QueryLimitError, match=r"timeout of 0\.02 s"), within_limits(con, deadline, None):
        time.sleep(0.05)
        duck.rows(con, "SELECT count(*) FROM range(1000000000000) WHERE random() < 0")
    con.close()


def test_ctrl_c_while_duckdb_works_is_a_keyboard_interrupt() -> None:
    """DuckDB makes a RuntimeError of it, where it looks for one at all."""
    with pytest.raises(KeyboardInterrupt), duck.ctrl_c():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="other"), duck.ctrl_c():
        raise RuntimeError("other")


def test_ctrl_c_while_duckdb_reads_a_stream_is_a_keyboard_interrupt() -> None:
    """DuckDB makes an error of its own of what Python raises for it; a value in an error is none."""

    def batches() -> Iterator[pa.RecordBatch]:
        raise KeyboardInterrupt
        yield

    con = limited_connection(None)
    stream = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    with pytest.raises(KeyboardInterrupt), duck.registered(con, "stream", stream):
        duck.rows(con, "FROM stream")
    with pytest.raises(duckdb.ConversionException, match="KeyboardInterrupt"):
        duck.rows(con, "SELECT 'failed: KeyboardInterrupt'::INT")
    con.close()
