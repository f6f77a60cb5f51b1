"""Commits that are sure to lose races, and what they left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import local, make_table, repository_of, rows

import icecore

Open = Callable[[], icecore.Catalog]


def files_in(table: icecore.Table) -> set[str]:
    """The data and delete files that lie in the table's folder."""
    return {p.name for p in (local(table.location()) / "data").rglob("*") if p.is_file()}


def files_of(table: icecore.Table) -> set[str]:
    """The data and delete files that some snapshot knows."""
    paths = set()
    for snapshot in table.snapshots():
        for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
            paths |= {f.file_path.rsplit("/", 1)[-1] for f in (task.file, *task.delete_files)}
    return paths


def count_calls(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, noting: Callable[[], Any] = lambda: None
) -> list[Any]:
    """The first arguments of the calls that are made of a function from now on; `noting` is called before each."""
    calls: list[Any] = []
    original = getattr(module, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[0])
        noting()
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, counted)
    return calls


def note_locks(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[bool]:
    """Whether the catalog has the write lock, at each call that is made of a function from now on."""
    connection, locked = repository_of(catalog).store.connection(), list[bool]()
    count_calls(monkeypatch, module, name, lambda: locked.append(connection.in_transaction))
    return locked


def table_of_files(catalog: icecore.Catalog, *starts: int, **options: Any) -> icecore.Table:
    """A table with a file for each start, of the three ids from there on."""
    table = make_table(catalog, **options)
    for start in starts:
        table.append(rows(start, start + 1, start + 2))
    return table
