"""Histories of tables with row ids, and what a reader that shares no code with the engine has to find in them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from independent_reader import LAST_UPDATED, ROW_ID, rows_of

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])


def data(numbers: list[int]) -> pa.Table:
    return pa.table({"id": numbers, "s": ["abc"[n % 3] for n in numbers]}, schema=SCHEMA)


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
        case "two":
            with table.transaction() as transaction:
                transaction.append(data(argument))
                transaction.append(data(argument[:1]))
        case "spec":
            if len(table.specs()) == 1:
                table.update_spec().add_field("id", "bucket[2]").commit()


def lineage(table: icecore.Table, **scan: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan(selected_fields=["*", ROW_ID, LAST_UPDATED], **scan).to_arrow().to_pylist()
    return rows


def texts(rows: list[dict[str, Any]], without: str = "") -> list[str]:
    return sorted(repr(sorted((k, v) for k, v in row.items() if k != without)) for row in rows)


def check(table: icecore.Table, known: dict[int, dict[str, Any]]) -> None:
    """Rows equal those read from the files alone; ids don't repeat, and of `known` rows none has moved (RL6)."""
    ours = lineage(table)
    assert table.metadata_location is not None
    assert texts(ours) == texts(rows_of(table.metadata_location))
    row_ids = [r[ROW_ID] for r in ours if r[ROW_ID] is not None]
    assert len(set(row_ids)) == len(row_ids)
    assert all(i < (table.metadata.next_row_id or 0) for i in row_ids)
    for row in ours:
        assert row[ROW_ID] not in known or row == known[row[ROW_ID]], "a row keeps its id and sequence number (RL6)"
