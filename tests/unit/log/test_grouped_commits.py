"""Commits of threads to tables and views share a transaction of SQLite, and each is decided on the one before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, rows, store_of
from group_writers import Writers, groups

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.events.keyed_request import KeyedRequest
from icecore.engine.log.store import WriteTransaction
from icecore.engine.repository.answer_once import answer_once
from icecore.engine.repository.repository import Repository

__all__ = ["groups"]


def test_commits_of_threads_are_one_transaction(
    catalog: icecore.Catalog, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To one table and to others; each is decided on the one before, and its files are written."""
    tables = [make_table(catalog, name) for name in ("t", "u")]
    outcomes = together(catalog, monkeypatch, *(lambda n=n: tables[n % 2].append(rows(n)) for n in range(6)))
    assert set(outcomes.values()) == {None} and groups[-1] == 6
    assert [ids_of(catalog.load_table(f"ns.{n}")) for n in "tu"] == [[0, 2, 4], [1, 3, 5]]
    assert [s.sequence_number for s in catalog.load_table("ns.t").snapshots()] == [1, 2, 3]
    assert catalog.verify().problems == ()


def together(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, *works: Callable[[], Any]) -> dict[int, Any]:
    """What calls gave or raised that commit to tables in one group."""
    writers = Writers(store_of(catalog), *works)
    original = Repository.commit_inside

    def held(self: Repository, *args: Any, **kwargs: Any) -> Any:
        if not writers.first_is_in.is_set():
            writers.hold()
        return original(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Repository, "commit_inside", held)
        return writers.run()


def test_a_file_system_table_ends_its_group(
    catalog: icecore.Catalog, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version file is its commit: what settles the claim on it must find the event in the log for good."""
    plain = make_table(catalog, "plain")
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    made = len(groups)
    works = [lambda t=t, i=i: t.append(rows(i)) for i, t in enumerate((plain, table, table, plain))]
    together(catalog, monkeypatch, *works)
    assert groups[made:] == [2, 1, 1]
    assert ids_of(catalog.load_table("ns.t")) == [1, 2] and ids_of(catalog.load_table("ns.plain")) == [0, 3]
    assert catalog.verify().problems == ()


def test_what_is_not_committed_is_seen_by_nobody_else(
    catalog: icecore.Catalog, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even by who reads through the same catalog, while the group is written: tables nor views."""
    table, view = make_table(catalog), catalog.create_view("ns.v", "SELECT id FROM t")
    seen: list[Any] = []

    def look() -> None:
        seen.append((dict(catalog.load_table("ns.t").properties), dict(catalog.load_view("ns.v").properties)))
        store_of(catalog).close()

    def looking(_: WriteTransaction) -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(60)

    outcomes = together(
        catalog,
        monkeypatch,
        lambda: table.set_properties({"a": "1"}),
        lambda: view.set_properties({"a": "1"}),
        lambda: view.set_properties({"b": "1"}),
        lambda: store_of(catalog).write_with(looking),
    )
    assert not any(isinstance(o, BaseException) for o in outcomes.values())
    assert seen == [({}, {})] and groups[-1] == 4
    assert catalog.load_table("ns.t").properties == {"a": "1"}
    assert catalog.load_view("ns.v").properties == {"a": "1", "b": "1"}


def test_answers_to_requests_are_stored_with_their_parts(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that failed has none; each of the others is found by its key."""
    table = make_table(catalog)

    def asked(n: int) -> KeyedRequest:
        return KeyedRequest(f"k{n}", "append", str(n), now_ms() + 60_000)

    def again(stored: Any) -> str:
        assert stored.first_position is not None
        return "again"

    def ask(n: int) -> Any:
        change = (lambda: table.append(rows(n))) if n != 1 else (lambda: table.delete("nothing = 1"))
        return answer_once(store_of(catalog), asked(n), change, again)

    together(catalog, monkeypatch, *(lambda n=n: ask(n) for n in (0, 2, 3)))
    assert [ask(n) for n in (0, 2, 3)] == ["again"] * 3
    assert ids_of(catalog.load_table("ns.t")) == [0, 2, 3]
