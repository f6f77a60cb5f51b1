"""Aggregates of a scan equal DuckDB's over all rows, whatever of them came from metadata."""

from __future__ import annotations

import math
import tempfile
from typing import Any

import pytest
from budgets import examples
from histories import LAYOUTS
from hypothesis import given
from hypothesis import strategies as st
from test_scan_rows import SCHEMA, SPECS, Model, apply, filters, rows, steps

import icecore

AGGREGATES = ["count(*)", *(f"{f}({c})" for c in SCHEMA.names for f in ("count", "min", "max"))]


@pytest.mark.parametrize(("format_version", "mode"), LAYOUTS)
@examples(2, new=35)
@given(
    first=rows,
    history=steps,
    wanted=st.lists(filters, min_size=1, max_size=3),
    spec=st.sampled_from(SPECS),
    length=st.sampled_from(["truncate(1)", "truncate(16)", "counts", "none", "full"]),
    chosen=st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True),
)
def test_aggregates_equal_duckdb(
    format_version: int,
    mode: str,
    first: list[dict[str, Any]],
    history: list[tuple[str, Any]],
    wanted: list[str],
    spec: list[str],
    length: str,
    chosen: list[str],
) -> None:
    """With any filter, deletes, partitions, and metrics that are cut short or were not written."""
    properties = {"write.delete.mode": mode, "write.metadata.metrics.default": length}
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t", SCHEMA, partition_spec=spec, format_version=format_version, properties=properties
        )
        model = Model()
        for number, (action, argument) in enumerate([("append", first), *history]):
            apply(table, model, action, argument)
            if number == 0:
                table.set_properties({"write.metadata.metrics.default": "truncate(16)"})
        for condition in ["TRUE", *wanted]:
            for asked in (AGGREGATES, chosen):
                found = table.scan(condition).aggregate(*asked)
                expected = model.con.sql(f"SELECT {', '.join(asked)} FROM t WHERE {condition}").fetchall()[0]
                for text, answer in zip(asked, expected, strict=True):
                    assert same(found[text], answer), (condition, text, found[text], answer)
                assert found.files_read <= found.files_planned
            nulls = table.scan(condition).aggregate("null_count(s)")["null_count(s)"]
            assert nulls == model.con.sql(f"SELECT count(*) - count(s) FROM t WHERE {condition}").fetchall()[0][0]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(a == b) and (a is None) == (b is None)
