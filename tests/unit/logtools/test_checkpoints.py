"""Checkpoints: made on demand, the same as a replay, and what makes a long history open fast."""

from __future__ import annotations

import cProfile
import pstats
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from core_tables import make_table, repository_of, rows, store_of

import icecore
from icecore.engine.errors import ReadOnlyError
from icecore.engine.events.event import Event
from icecore.engine.log.sqlite_file import SqliteFile
from icecore.engine.log.store import EventStore
from icecore.engine.metadata.fold import fold

SHORT, LONG = 200, 2_000


def test_a_checkpoint_of_every_table_on_demand(catalog: icecore.Catalog) -> None:
    """Dropped tables too; what has one already gets none; `verify` finds them equal to a replay."""
    make_table(catalog).append(rows(1))
    make_table(catalog, "gone")
    catalog.drop_table("ns.gone")
    catalog.create_view("ns.v", "SELECT 1 AS x")
    assert catalog.checkpoint() == 3
    assert catalog.checkpoint() == 0
    catalog.load_table("ns.t").append(rows(2))
    assert catalog.checkpoint() == 1
    with icecore.open(catalog.path) as again:
        assert again.load_table("ns.t").metadata == catalog.load_table("ns.t").metadata
        assert again.verify().ok
    with icecore.open(catalog.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.checkpoint()


def counted_events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Every event of a stream that is read from now on."""
    seen: list[Event] = []
    plain = EventStore.stream_events

    def counting(self: EventStore, *arguments: Any, **options: Any) -> Iterator[Event]:
        for event in plain(self, *arguments, **options):
            seen.append(event)
            yield event

    monkeypatch.setattr(EventStore, "stream_events", counting)
    return seen


def test_the_first_commit_of_a_process_replays_from_the_checkpoint(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the state nor what is written out is folded from the beginning."""
    table = make_table(catalog)
    for number in range(20):
        table.set_properties({"n": str(number)})
    catalog.checkpoint()
    table.set_properties({"n": "last"})
    seen = counted_events(monkeypatch)
    with icecore.open(catalog.path) as again:
        again.load_table("ns.t").set_properties({"n": "more"})
        assert len(seen) <= 8, [e.stream_version for e in seen]
        monkeypatch.undo()
        state = again.load_table("ns.t").state
        assert fold(None, store_of(again).stream_events(state.stream)) == state
        assert repository_of(again).state_at(state.stream) == state and again.verify().ok


def test_a_long_history_opens_fast(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From checkpoints, opening and loading takes as many calls and steps of SQLite as for a tenth of it."""
    monkeypatch.setattr(EventStore, "__init__", _not_durable(EventStore.__init__))
    with icecore.open(warehouse) as made:
        made.create_namespace("ns")
        table = make_table(made, properties={"icecore.materialize": "manual"})
        calls = []
        for first, end in ((0, SHORT), (SHORT, LONG)):
            for number in range(first, end):
                table.set_properties({f"k{number % 10}": str(number)})
            made.checkpoint()
            calls.append(_calls_to_open(warehouse))
    for few, many in zip(*calls, strict=True):
        assert many < 1.1 * few, calls
    with icecore.open(warehouse) as again:
        assert again.position == LONG + 2
        assert again.load_table("ns.t").properties["k9"] == str(LONG - 1)
        assert again.at(LONG // 2).list_tables() == [("ns", "t")]
        assert again.log(limit=1)["name"].to_pylist() == ["ns.t"]


def _calls_to_open(warehouse: Path) -> tuple[int, int]:
    """The calls of functions, and the fives of steps of SQLite's machine, in opening it and loading the table."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def counted(self: SqliteFile) -> sqlite3.Connection:
        connection = connect(self)
        connection.set_progress_handler(step, 5)
        return connection

    def opened() -> None:
        with icecore.open(warehouse) as again:
            again.load_table("ns.t")

    connect = SqliteFile.connection
    opened()
    with cProfile.Profile() as profile:
        opened()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteFile, "connection", counted)
        opened()
    return int(pstats.Stats(profile).total_calls), steps  # type: ignore[attr-defined]  # typeshed leaves it out


def _not_durable(plain: Any) -> Any:
    """Commits that don't wait for the disk: what is counted is the opening."""
    return lambda self, *a, **o: plain(self, *a, **(o | {"durable": False}))
