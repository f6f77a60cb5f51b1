"""Row ids, sequence numbers and deletes of v3 tables, against a reader that shares no code with the engine."""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from independent_reader import ROW_ID
from row_lineage import SCHEMA, apply, check, data, lineage

import icecore

ids = st.lists(st.integers(0, 12), min_size=1, max_size=6)
conditions = st.sampled_from(["id < 4", "id = 7", "s = 'b'", "id > 8 OR s = 'a'", "id IS NULL", "id BETWEEN 2 AND 9"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), ids),
        st.tuples(st.just("delete"), conditions),
        st.tuples(st.just("mode"), st.sampled_from(["copy-on-write", "merge-on-read"])),
        st.tuples(st.just("branch"), ids),
        st.tuples(st.just("rename"), st.none()),
    ),
    min_size=2,
    max_size=9,
)


@pytest.mark.parametrize("first_version", [1, 2, 3])
@examples(2, new=42)
@given(before=st.lists(ids, max_size=2), deleted=conditions, history=steps)
def test_RL1_RL7_D2_D5_lineage_equals_an_independent_reading(
    first_version: int, before: list[list[int]], deleted: str, history: list[tuple[str, Any]]
) -> None:
    """Rows, row ids, sequence numbers and deletes equal those read from the files alone; ids never repeat or move."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": "merge-on-read"}
        table = catalog.create_table(
            "ns.t", SCHEMA, partition_spec=["s"], format_version=first_version, properties=properties
        )
        for numbers in before:
            table.append(data(numbers))
        table.delete(deleted)
        table.upgrade(3)
        for action, argument in history:
            known = {r[ROW_ID]: r for r in lineage(table) if r[ROW_ID] is not None}
            apply(table, action, argument)
            check(table, known)
