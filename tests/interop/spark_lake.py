"""Columns and rows of tables that Spark finds by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("st", POINT), ("score", pa.float64())])


def rows(k: int) -> list[dict[str, Any]]:
    """Rows of two cities, so that each commit has two files of four rows."""
    return [{"id": k * 10 + i, "city": f"c{i % 2}", "st": {"x": i, "y": f"y{k}"}, "score": i / 2} for i in range(8)]
