"""Requests under keys: carried out once, answered as often as they come, whatever dies between."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from core_tables import make_table, rows, store_of

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import (
    CommitFailedError,
    IcecoreError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchTableError,
    ReadOnlyError,
    ReusedKeyError,
    StorageError,
    TableAlreadyExistsError,
    WarehouseLockedError,
)
from icecore.engine.events.keyed_request import KeyedRequest
from icecore.engine.log.request_keys import DEFAULT_LIFETIME_MS, StoredAnswer
from icecore.engine.repository.answer_once import answer_once
from icecore.engine.repository.repository import Repository

MADE = "made"


class Killed(BaseException):
    """Stands for the end of the process."""


def request(
    key: str = "k", operation: str = "create ns.t", body: str = "1", lifetime: int = DEFAULT_LIFETIME_MS
) -> KeyedRequest:
    return KeyedRequest(key, operation, body, now_ms() + lifetime)


def ask(catalog: icecore.Catalog, asked: KeyedRequest, make: Callable[[], object]) -> str | StoredAnswer:
    """`made`, or what was stored."""

    def answer() -> str | StoredAnswer:
        make()
        return MADE

    return answer_once(store_of(catalog), asked, answer, lambda stored: stored)


def stored(catalog: icecore.Catalog) -> list[sqlite3.Row]:
    found: list[sqlite3.Row] = store_of(catalog).connection().execute("SELECT * FROM request_key").fetchall()
    return found


def test_a_request_is_carried_out_once(catalog: icecore.Catalog) -> None:
    """The second time it is answered by the events of the first, which the first of them names by its key."""
    assert ask(catalog, request(), lambda: make_table(catalog)) == MADE
    position = catalog.position
    again = ask(catalog, request(), lambda: make_table(catalog))
    assert again == StoredAnswer(200, position, position, None)
    assert catalog.position == position
    assert store_of(catalog).event_at(position).provenance.idempotency_key == "k"


def test_a_request_that_found_nothing_left_to_do_is_answered_as_the_one_that_did_it(catalog: icecore.Catalog) -> None:
    """A client sends it again while the first is at work: which begins before there is an answer, and ends after it."""
    catalog.create_namespace("some", {"a": "1"})
    first: list[str | StoredAnswer] = []

    def remove(meanwhile: Callable[[], object]) -> None:
        meanwhile()
        catalog.update_namespace_properties("some", ["a"])

    def the_first() -> None:
        first.append(ask(catalog, request(), lambda: remove(int)))

    second = ask(catalog, request(), lambda: remove(the_first))
    assert (first, second) == ([MADE], StoredAnswer(200, catalog.position, catalog.position, None))


def test_a_request_that_was_cut_off_after_its_commit_was_carried_out(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """The answer is stored in the event's own transaction: who dies before he could say it said it all the same."""

    def die() -> None:
        make_table(catalog)
        raise Killed

    with pytest.raises(Killed):
        ask(catalog, request(), die)
    position = catalog.position
    assert isinstance(ask(open_again(), request(), die), StoredAnswer)
    assert catalog.position == position


def test_a_request_that_was_cut_off_before_its_commit_is_carried_out(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("icecore.engine.log.request_keys.RequestKeys.put", die)
        ask(catalog, request(), lambda: make_table(catalog))
    assert not catalog.table_exists("ns.t")
    assert ask(catalog, request(), lambda: make_table(catalog)) == MADE
    assert catalog.verify().problems == ()


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (request(operation="drop ns.u"), "was used for create ns.t before"),
        (request(body="2"), "was used with another body before"),
    ],
)
def test_a_key_is_for_one_request(catalog: icecore.Catalog, other: KeyedRequest, text: str) -> None:
    ask(catalog, request(), lambda: make_table(catalog))
    with pytest.raises(ReusedKeyError, match=text) as refused:
        ask(catalog, other, lambda: make_table(catalog, "u"))
    assert refused.value.http_status == 400
    assert not catalog.table_exists("ns.u")


def test_the_key_of_a_call_is_no_requests(catalog: icecore.Catalog) -> None:
    make_table(catalog).append(rows(1), idempotency_key="k")
    with pytest.raises(ReusedKeyError, match=r"the table.committed of table:\S+ at position \d+"):
        ask(catalog, request(), lambda: make_table(catalog, "u"))


def test_a_final_refusal_is_said_again(catalog: icecore.Catalog) -> None:
    """Also once the same request would be carried out: its sender may have gone on meanwhile."""
    make_table(catalog)
    for _ in range(2):
        with pytest.raises(NamespaceNotEmptyError, match=r"Namespace ns is not empty\. It holds 't'"):
            ask(catalog, request(), lambda: catalog.drop_namespace("ns"))
        if catalog.table_exists("ns.t"):
            catalog.drop_table("ns.t")
    assert ask(catalog, request("k2"), lambda: catalog.drop_namespace("ns")) == MADE


@pytest.mark.parametrize(
    "error", [StorageError("no space"), WarehouseLockedError("busy"), CommitFailedError("lost"), ReadOnlyError("no")]
)
def test_what_may_go_otherwise_next_time_is_not_kept(catalog: icecore.Catalog, error: IcecoreError) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        ask(catalog, request(), fail)
    assert ask(catalog, request(), lambda: make_table(catalog)) == MADE


def test_a_request_that_changes_nothing_is_kept(catalog: icecore.Catalog) -> None:
    """No event has its key; later it might change something."""
    table = make_table(catalog, properties={"a": "1"})
    assert ask(catalog, request(), lambda: table.set_properties({"a": "1"})) == MADE
    table.set_properties({"a": "2"})
    assert ask(catalog, request(), lambda: table.set_properties({"a": "1"})) == StoredAnswer(200, None, None, None)
    assert catalog.load_table("ns.t").properties["a"] == "2"


def test_words_are_stored_with_the_event(catalog: icecore.Catalog) -> None:
    asked = request()

    def tell() -> None:
        asked.answer = '{"missing": ["a"]}'
        catalog.update_namespace_properties("ns", ["a"])

    ask(catalog, asked, tell)
    position = catalog.position
    assert ask(catalog, request(), tell) == StoredAnswer(200, position, position, '{"missing": ["a"]}')


def test_all_events_of_a_transaction_are_named(catalog: icecore.Catalog) -> None:
    """Of which the first has the key. A later commit of the same request has none: it is another commit."""
    position = catalog.position

    def two() -> None:
        with catalog.transaction() as both:
            both.create_table("ns.t", rows(1).schema)
            both.create_table("ns.u", rows(1).schema)
        catalog.drop_table("ns.u")

    ask(catalog, request(), two)
    assert [e.provenance.idempotency_key for e in store_of(catalog).events(position)] == ["k", None, None]
    assert ask(catalog, request(), two) == StoredAnswer(200, position + 1, position + 2, None)


def test_an_expired_answer_is_dropped(catalog: icecore.Catalog) -> None:
    """Its key stays with the event, so that nothing is done twice."""
    ask(catalog, request("old", lifetime=0), lambda: make_table(catalog))
    with pytest.raises(ReusedKeyError, match=r"the table.created of table:\S+ at position"):
        ask(catalog, request("old"), lambda: catalog.drop_table("ns.t"))
    ask(catalog, request("new"), lambda: catalog.drop_table("ns.t"))
    assert [r["idempotency_key"] for r in stored(catalog)] == ["new"]


def test_of_two_at_once_both_are_answered_as_the_first(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """The second finds the name taken, by the first."""
    other = open_again()

    def slow() -> None:
        assert ask(other, request(), lambda: make_table(other)) == MADE
        make_table(catalog)

    assert isinstance(ask(catalog, request(), slow), StoredAnswer)
    with pytest.raises(TableAlreadyExistsError):
        make_table(catalog)


def test_of_two_at_once_one_commit_is_made(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = make_table(catalog), open_again()
    original = Repository._try_commit
    waiting = [lambda: ask(other, request(), lambda: other.load_table("ns.t").append(rows(1)))]

    def delayed(self: Repository, *args: Any, **kwargs: Any) -> Any:
        if waiting:
            waiting.pop()()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Repository, "_try_commit", delayed)
    ask(catalog, request(), lambda: table.append(rows(1)))
    assert catalog.load_table("ns.t").scan().count() == 1
    assert len(stored(catalog)) == 1


def test_an_error_is_one_of_its_class_again(catalog: icecore.Catalog) -> None:
    for key, make in {
        "a": lambda: catalog.load_table("ns.none"),
        "b": lambda: catalog.create_namespace("ns"),
    }.items():
        found = []
        for _ in range(2):
            with pytest.raises((NoSuchTableError, NamespaceAlreadyExistsError)) as e:
                ask(catalog, request(key), make)
            found.append((type(e.value), str(e.value)))
        assert found[0] == found[1]


def test_a_text_is_forgotten_in_answers_too(catalog: icecore.Catalog) -> None:
    """Where no event has it either: then it is in no byte of the log's files."""
    with pytest.raises(NoSuchTableError):
        ask(catalog, request(), lambda: catalog.drop_table("ns.zoe_secret"))
    ask(catalog, request("kept"), lambda: make_table(catalog))
    catalog.forget_text("zoe_secret", dry_run=True)
    assert len(stored(catalog)) == 2
    assert catalog.forget_text("zoe_secret").position is None
    assert [r["idempotency_key"] for r in stored(catalog)] == ["kept"]
    assert all(b"zoe_secret" not in p.read_bytes() for p in catalog.path.glob("icecore.db*"))
    assert catalog.verify().problems == ()


def test_a_rebuild_leaves_the_answers(catalog: icecore.Catalog) -> None:
    """They don't follow from the log. One without them has no table for them."""
    assert (
        not store_of(catalog).connection().execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'request%'").fetchall()
    )
    ask(catalog, request(), lambda: make_table(catalog))
    catalog.rebuild()
    assert isinstance(ask(catalog, request(), lambda: make_table(catalog)), StoredAnswer)
