"""The tables of events are made by the same words as ever, in a log, in an archive, and of the events kept of it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from core_tables import make_table, rows, store_of

import icecore

GOLDEN = Path(__file__).with_name("event_tables.sql")
UPDATE = os.environ.get("ICECORE_UPDATE_GOLDEN") == "1"
DDL = (
    "SELECT sql FROM sqlite_master WHERE name IN ('event', 'kept_event', 'event_content', 'kept_content') ORDER BY name"
)


def test_tables_of_events_are_made_as_before(tmp_path: Path) -> None:
    """So a log or an archive of today differs from one of an earlier release in nothing but its events."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog)
        table.append(rows(1))
        table.append(rows(2))
        archived = catalog.archive(4)
        assert archived is not None
        found = []
        for path in (store_of(catalog).path, archived.path):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                found += [f"{sql};\n" for (sql,) in connection.execute(DDL)]
    assert len(found) == 6
    if UPDATE:
        GOLDEN.write_text("\n".join(found))
    assert "\n".join(found) == GOLDEN.read_text()
