"""Row ids, sequence numbers and deletes of v3 tables, against a reader that shares no code with the engine."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from independent_reader import LAST_UPDATED, ROW_ID, rows_of

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])
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


def data(numbers: list[int]) -> pa.Table:
    return pa.table({"id": numbers, "s": ["abc"[n % 3] for n in numbers]}, schema=SCHEMA)


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


def apply(table: icecore.Table, action: str, argument: Any) -> None:
    match action:
        case "append":
            table.append(data(argument))
        case "delete":
            table.delete(argument)
        case "mode":
            table.set_properties({"write.delete.mode": argument})
        case "branch":
            current = table.current_snapshot()
            if current is not None:
                if "side" not in table.refs():
                    table.manage_snapshots().create_branch(current.snapshot_id, "side").commit()
                table.append(data(argument), branch="side")
        case "rename":
            table.update_schema().rename_column("id", "other").commit()
            table.update_schema().rename_column("other", "id").commit()


def lineage(table: icecore.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan(selected_fields=["*", ROW_ID, LAST_UPDATED]).to_arrow().to_pylist()
    return rows


def check(table: icecore.Table, known: dict[int, dict[str, Any]]) -> None:
    ours = lineage(table)
    assert table.metadata_location is not None
    theirs = rows_of(table.metadata_location)
    assert sorted(map(repr, map(sorted_items, ours))) == sorted(map(repr, map(sorted_items, theirs)))
    row_ids = [r[ROW_ID] for r in ours if r[ROW_ID] is not None]
    assert len(set(row_ids)) == len(row_ids)
    assert all(i < (table.metadata.next_row_id or 0) for i in row_ids)
    for row in ours:
        if row[ROW_ID] in known:
            assert row == known[row[ROW_ID]], "a row that was only moved keeps its id and sequence number (RL6)"


def sorted_items(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(row.items())
