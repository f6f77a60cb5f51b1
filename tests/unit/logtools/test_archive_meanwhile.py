"""Archiving while others archive, forget, read, rebuild or commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from busy_log import busy
from core_tables import ids_of, make_table, rows, store_of

import icecore
from icecore.engine.archive import write_archive
from icecore.engine.errors import (
    CommitConflictError,
    CommitFailedError,
    ConflictingCommitsError,
)
from icecore.engine.events.event import Event
from icecore.engine.log import chain
from icecore.engine.log.archives import Archive


@pytest.fixture
def cut(catalog: icecore.Catalog) -> int:
    """A position in the middle of the log, which has a history then."""
    return busy(catalog)


def test_a_conflict_is_told_without_the_archive(
    cut: int, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    found = catalog.archive(cut)
    assert found is not None
    found.path.unlink()
    transaction = catalog.load_table("ns.t").transaction()
    transaction.update_schema().add_column("x", "long").commit()
    transaction.append(rows(2))
    open_again().load_table("ns.t").update_schema().add_column("y", "long").commit()
    with pytest.raises(CommitFailedError, match="somebody else"):
        transaction.commit()


def test_of_two_that_archive_one_is_refused(
    cut: int, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer, moving = open_again(), write_archive._write_file

    def late(*arguments: object) -> object:
        written = moving(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(write_archive, "_write_file", moving)
        peer.archive(cut - 1)
        return written

    monkeypatch.setattr(write_archive, "_write_file", late)
    with pytest.raises(CommitConflictError, match="another process archived"):
        catalog.archive(cut)
    (archive,) = catalog.archives()
    assert archive.last_position == cut - 2 and catalog.verify().ok
    assert [p.name for p in catalog.path.iterdir() if "archive" in p.name] == [archive.file]


def test_what_is_forgotten_while_its_events_are_archived_does_not_come_back(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that was written before is given up, and so the log verifies; archived again it has it no more."""
    table = make_table(catalog, "told")
    table.append(rows(1), message="for Secretville")
    table.append(rows(2))
    peer, written = open_again(), write_archive._write_file

    def late(*arguments: object) -> object:
        found = written(*arguments)  # type: ignore[arg-type]
        monkeypatch.undo()
        peer.forget_text("Secretville")
        return found

    cut = catalog.position
    monkeypatch.setattr(write_archive, "_write_file", late)
    with pytest.raises(CommitConflictError, match=f"something was forgotten meanwhile, at position {cut + 1}"):
        catalog.archive(cut)
    assert catalog.verify().ok and not [p for p in catalog.path.iterdir() if "archive" in p.name]
    made = catalog.archive(cut)
    assert made is not None and b"Secretville" not in made.path.read_bytes()
    assert catalog.verify().ok


def test_an_archive_that_is_written_anew_while_the_log_is_read_is_read_on(
    cut: int, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """As of what is forgotten in it: its former file is gone when its turn comes."""
    make_table(catalog, "told").append(rows(1), message="for Secretville")
    told = catalog.position
    catalog.archive(cut)
    make_table(catalog, "last")
    catalog.archive(told + 1)
    events = store_of(catalog).events()
    first = next(events)
    open_again().forget_text("Secretville")
    found = [first, *events]
    assert [e.position for e in found] == list(range(1, told + 2))
    assert found[told - 1].provenance.message == "for forgotten"


def test_an_archive_that_is_written_anew_as_it_is_opened_is_opened_anew(
    cut: int, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its former file was taken for one that is missing, and a search passed over what it held."""
    store, table = store_of(catalog), make_table(catalog, "told")
    for number in (1, 2):
        table.append(rows(number), message=f"for Secretville {number}")
    make_table(catalog, "last")
    catalog.archive(catalog.position)
    first, opening = next(store.events()), store.archives._open
    reads: list[Callable[[], Event | None]] = [
        lambda: next(store.events()),
        lambda: store.event_by_id(first.event_id),
    ]
    for number, read in enumerate(reads, 1):

        def late(archive: Archive, number: int = number) -> sqlite3.Connection:
            monkeypatch.undo()
            open_again().forget_text(f"Secretville {number}")
            assert not store.archives.path_of(archive).exists()
            return opening(archive)

        monkeypatch.setattr(store.archives, "_open", late)
        assert read() == first


def test_who_reads_the_log_as_of_one_moment_has_the_archives_of_that_moment(
    cut: int, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """They go when nobody reads as of then, as what the database itself still has of it."""
    table = make_table(catalog, "told")
    table.append(rows(1), message="for Secretville")
    table.append(rows(2), message="for Hushtown")
    table.append(rows(3))
    catalog.archive(catalog.position)
    catalog.forget_text("Secretville")
    store = store_of(catalog)
    with store.reading():
        position, (then,) = store.head()[0], store.archives.paths()
        open_again().forget_text("Hushtown")
        open_again()
        assert [e.position for e in store.events()] == list(range(1, position + 1))
    open_again()
    assert not then.exists() and catalog.verify().ok


@pytest.mark.parametrize("name", [None, "ns.last"])
def test_what_is_archived_meanwhile_stops_no_rebuild(
    name: str | None, cut: int, catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain is checked as of one moment."""
    make_table(catalog, "last")
    needed = chain._needed_positions

    def archived_before(*of: Any) -> frozenset[int]:
        with icecore.open(catalog.path) as other:
            other.archive(cut)
        return needed(*of)

    monkeypatch.setattr(chain, "_needed_positions", archived_before)
    catalog.rebuild(name)
    monkeypatch.undo()
    assert len(catalog.archives()) == 1 and catalog.verify().ok


def test_a_pinned_conflict_is_told_without_the_archive(catalog: icecore.Catalog) -> None:
    """A base from before the cut: the conflict is one, though who made it can't be read any more."""
    table = make_table(catalog, "pinned")
    table.append(rows(1))
    base = table.metadata.current_snapshot_id
    table.append(rows(2))
    make_table(catalog, "later")
    found = catalog.archive(catalog.position)
    assert found is not None
    found.path.unlink()
    with pytest.raises(ConflictingCommitsError, match="was added by snapshot"):
        table.delete("id < 5", base_snapshot_id=base)
    assert ids_of(table) == [1, 2]
