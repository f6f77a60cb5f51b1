"""Writers that want the same name at the same time: one gets it, and the others are told so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, rows, store_of
from fault_writers import at_once

import icecore
from icecore.engine.errors import NamespaceNotEmptyError, NoSuchNamespaceError, TableAlreadyExistsError
from icecore.engine.log.store import WriteTransaction

Open = Callable[[], icecore.Catalog]


def test_one_name_is_given_to_one_table(catalog: icecore.Catalog) -> None:
    """Of four writers that create the same table, one gets it; the others are told that it exists."""
    won, lost = [], []

    def work(worker: int) -> None:
        with icecore.open(catalog.path) as mine:
            try:
                won.append(make_table(mine).state.stream)
            except TableAlreadyExistsError:
                lost.append(worker)

    at_once(4, work)
    assert len(won) == 1 and len(lost) == 3
    assert catalog.load_table("ns.t").state.stream == won[0]


def test_a_namespace_is_not_dropped_under_a_new_table(catalog: icecore.Catalog, open_again: Open) -> None:
    """A table made in a namespace keeps it; a namespace that was dropped takes no table."""
    other = open_again()
    make_table(catalog)
    with pytest.raises(NamespaceNotEmptyError, match="t"):
        other.drop_namespace("ns")
    catalog.drop_table("ns.t")
    other.drop_namespace("ns")
    with pytest.raises(NoSuchNamespaceError, match="ns"):
        make_table(catalog)


def test_a_rename_looks_the_name_up_in_the_lock(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the name went to another table just before, the rename is of that one, and comes wholly after it."""
    make_table(catalog, "t")
    other, store = open_again(), store_of(catalog)
    write_with = store.write_with

    def late(body: Callable[[WriteTransaction], Any], **alone: bool) -> Any:
        monkeypatch.setattr(store, "write_with", write_with)
        other.rename_table("ns.t", "ns.away")
        make_table(other, "t").append(rows(5))
        return write_with(body, **alone)

    monkeypatch.setattr(store, "write_with", late)
    catalog.rename_table("ns.t", "ns.new")
    assert catalog.list_tables("ns") == [("ns", "away"), ("ns", "new")]
    assert ids_of(catalog.load_table("ns.new")) == [5]
    assert ids_of(catalog.load_table("ns.away")) == []
    assert catalog.verify().problems == ()
