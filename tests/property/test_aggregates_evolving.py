"""Aggregates of columns of every type equal DuckDB's, through promotions, evolved specs and deletes of all kinds."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from expression_cases import filter_texts
from hypothesis import given
from hypothesis import strategies as st

LENGTHS = ["truncate(1)", "truncate(2)", "truncate(16)", "full", "counts", "none"]


@pytest.mark.parametrize("version", [1, 2, 3])
@examples(2, new=28)
@given(data=st.data())
def test_aggregates_of_any_type_equal_duckdb(version: int, data: st.DataObject) -> None:
    """Minima and maxima by bounds that are cut short, of other types, of nothing but NaN, or absent."""
    with tempfile.TemporaryDirectory() as folder:
        evolving = Evolving.create(Path(folder), version, data)
        length = data.draw(st.sampled_from(LENGTHS), label="metrics")
        evolving.table.set_properties({"write.metadata.metrics.default": length})
        evolving.apply(("append", [0, 1, 2, 3, 4]))
        if data.draw(st.booleans(), label="other metrics from here"):
            evolving.table.set_properties({"write.metadata.metrics.default": "truncate(16)"})
        for step in data.draw(steps(deletes=True, keys=version > 1), label="steps"):
            evolving.apply(step)
        filters = ["TRUE", *(data.draw(filter_texts(evolving.columns()), label="filter") for _ in range(2))]
        for text in filters:
            check(evolving, text)


def check(evolving: Evolving, text: str) -> None:
    calls = [f"{f}({name})" for name in evolving.types for f in ("min", "max", "count")]
    columns = ", ".join(f'{call} AS "{call}"' for call in calls)
    try:
        wanted = evolving.model.sql(f"SELECT count(*) AS n, {columns} FROM rows WHERE {text}").to_arrow_table()
    except duckdb.Error:
        return
    # The columns together, and some alone: what one has to read another can't see.
    together = evolving.table.scan(text).aggregate("count(*)", *calls)
    assert together["count(*)"] == wanted["n"][0].as_py(), text
    answers = {call: wanted[call][0].as_py() for call in calls}
    values = together.values
    for call in calls:
        assert same(values[call], answers[call]), (text, call, values[call], answers[call])
    for call in random.Random(text).sample(calls, 4):
        alone = evolving.table.scan(text).aggregate(call)
        assert same(alone[call], answers[call]), (text, call, alone[call], answers[call])
        assert alone.files_read <= alone.files_planned


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return bool(str(a) == str(b) if type(a) is not type(b) else a == b) and (a is None) == (b is None)
