"""A table with a secret that is in none of its rows any more, but in the log."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

import icecore

SECRET = "zoe.secret@x.org"
SCHEMA = pa.schema([("id", pa.int64()), ("email", pa.string()), ("who", pa.struct([("phone", pa.string())]))])


def row(number: int, email: str) -> dict[str, Any]:
    return {"id": number, "email": email, "who": {"phone": f"phone of {email}"}}


def expire(table: icecore.Table) -> None:
    """Lets all history go: afterwards the table has one snapshot, whose manifests have no deleted entries."""
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).commit()


def erase(catalog: icecore.Catalog, **options: Any) -> icecore.Table:
    """A table that had the secret in a row at position 3, which was deleted, expired and whose files are gone."""
    table: icecore.Table = catalog.create_table(("ns", "users"), SCHEMA, **options)
    table.append([row(1, SECRET)], message="signup")
    table.append([row(2, "bob@x.org")])
    # Until 16 manifests are looked into, nothing of them is on disk.
    for number in range(3, 20):
        table.append([row(number, f"n{number}@x.org")])
    assert table.scan("email < 'c'").count() == 1
    table.delete("id = 1")
    expire(table)
    assert options or (catalog.path / ".icecore" / "segments").exists()
    return table
