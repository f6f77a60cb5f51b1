"""Commits of others that do not follow the log are refused, until one side is chosen, and none is lost."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows
from foreign_peer import kinds, location_of
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.errors import ForeignCommitError, NoSuchTableError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.foreign.adopter import ForeignCommitWarning

MANUAL = {"icecore.materialize": "manual"}


def diverge(catalog: icecore.Catalog, peer: SqlCatalog) -> icecore.Table:
    """A table by hand with an unpublished commit, over which PyIceberg commits."""
    table = make_table(catalog, properties=MANUAL)
    table.append(rows(1))
    catalog.materialize("ns.t")
    table.append(rows(2))
    peer.load_table("ns.t").append(rows(3))
    return table


@pytest.mark.parametrize("ours", ["append", "materialize", "rebuild", "rename", "drop"])
def test_a_commit_beside_unpublished_ones_is_refused(catalog: icecore.Catalog, peer: SqlCatalog, ours: str) -> None:
    """Neither is overwritten: an error names both, and says what resolves it."""
    table = diverge(catalog, peer)
    position, theirs = catalog.position, location_of(peer)
    with pytest.warns(ForeignCommitWarning, match="resolve"):
        with pytest.raises(ForeignCommitError, match=r"ns\.t.*resolve") as caught:
            match ours:
                case "append":
                    table.append(rows(4))
                case "materialize":
                    catalog.materialize()
                case "rename":
                    catalog.rename_table("ns.t", "ns.u")
                case "drop":
                    catalog.drop_table("ns.t")
                case _:
                    catalog.rebuild()
        assert theirs in str(caught.value)
        assert catalog.position == position
        assert (ids_of(catalog.load_table("ns.t")), peer_ids(catalog.path)) == ([1, 2], [1, 3])
    with pytest.warns(ForeignCommitWarning, match="resolve"):
        icecore.open(catalog.path).close()
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("keep", ["log", "foreign"])
def test_resolve_keeps_one_and_loses_none(catalog: icecore.Catalog, peer: SqlCatalog, keep: str) -> None:
    """One of the two is the table; the other stays readable in the log."""
    diverge(catalog, peer)
    position = catalog.position
    peer.load_table("ns.t").append(rows(5))
    theirs = location_of(peer)
    with pytest.warns(ForeignCommitWarning, match="resolve"):
        table = catalog.resolve("ns.t", keep, message="we know", author="ann", idempotency_key="k")
        ended = catalog.position
        assert catalog.resolve("ns.t", keep, idempotency_key="k").name() == table.name()
        assert catalog.position == ended, "it is made once"
    assert ids_of(catalog.at(position).load_table("ns.t")) == [1, 2]
    assert ids_of(catalog.at(position + 2).load_table("ns.t")) == [1, 3, 5]
    if keep == "log":
        assert ids_of(table) == peer_ids(catalog.path) == [1, 2]
        assert table.metadata.metadata_log[-1].metadata_file == theirs
    else:
        assert ids_of(table) == peer_ids(catalog.path) == [1, 3, 5]
        assert table.metadata_location == theirs
    assert {r["actor"] for r in catalog.log("ns.t", after=position).to_pylist()} <= {"ann", None}
    assert any(r["message"] == "we know" for r in catalog.log("ns.t", after=position).to_pylist())
    assert catalog.verify().problems == ()
    with pytest.raises(ValidationError, match="no conflict"):
        catalog.resolve("ns.t", keep)
    expected = ids_of(table)
    peer.load_table("ns.t").append(rows(6))
    catalog.load_table("ns.t").append(rows(7))
    catalog.materialize("ns.t")
    assert ids_of(catalog.load_table("ns.t")) == peer_ids(catalog.path) == sorted([*expected, 6, 7])
    pointer = location_of(peer)
    catalog.rebuild()
    assert location_of(peer) == pointer
    assert peer_ids(catalog.path) == sorted([*expected, 6, 7])
    assert catalog.verify().problems == ()


def test_resolve_wants_a_side(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """No conflict, an unknown side, an unknown table: each is a clear error, and nothing is stored."""
    make_table(catalog)
    position = catalog.position
    with pytest.raises(ValidationError, match="no conflict"):
        catalog.resolve("ns.t", "log")
    with pytest.raises(ValidationError, match="both"):
        catalog.resolve("ns.t", "both")
    with pytest.raises(NoSuchTableError):
        catalog.resolve("ns.x", "log")
    assert catalog.position == position


@pytest.mark.parametrize("damage", ["lost", "cut", "other table", "lower version", "rolled back"])
def test_what_is_no_next_version_is_refused_and_can_be_overruled(
    catalog: icecore.Catalog, peer: SqlCatalog, damage: str
) -> None:
    """A pointer to nothing, to rubbish, to a copy under another id, to an old file of ours: refused, until resolved."""
    table = make_table(catalog)
    first = local(table.metadata_location)
    table.append(rows(1))
    table.append(rows(2))
    data = local(table.metadata_location).read_bytes()
    bad = first.with_name("00009-bad.metadata.json")
    match damage:
        case "cut":
            bad.write_bytes(data[: len(data) // 2])
        case "other table":
            bad.write_bytes(
                data.replace(str(table.metadata.table_uuid).encode(), b"0" * 8 + b"-0000-0000-0000-" + b"0" * 12)
            )
        case "lower version":
            bad.write_bytes(data.replace(b'"format-version":2', b'"format-version":1'))
        case "rolled back":
            bad = first
    with sqlite3.connect(catalog.path / "icecore.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{bad}",))
    position = catalog.position
    warned = contextlib.nullcontext() if damage == "other table" else pytest.warns(ForeignCommitWarning)
    with warned:
        other = make_table(catalog, "other")
    if damage == "other table":
        # The name holds another table now: ours was dropped there.
        assert kinds(catalog, position)[:2] == [ev.TABLE_DROPPED, ev.TABLE_REGISTERED]
        return
    with pytest.raises(ForeignCommitError, match=bad.name):
        table.append(rows(3))
    peer.load_table("ns.other").append(rows(1))
    other.append(rows(2))
    assert ids_of(other) == [1, 2], "what stands in the way of one table does in that of no other"
    with pytest.warns(ForeignCommitWarning):
        assert ids_of(icecore.open(catalog.path).load_table("ns.t")) == [1, 2]
    if damage == "rolled back":
        assert ids_of(catalog.resolve("ns.t", "foreign")) == peer_ids(catalog.path) == []
    else:
        with pytest.raises(ForeignCommitError):
            catalog.resolve("ns.t", "foreign")
        assert ids_of(catalog.resolve("ns.t", "log")) == peer_ids(catalog.path) == [1, 2]
    catalog.load_table("ns.t").append(rows(4))
    assert 4 in peer_ids(catalog.path)
    assert catalog.verify().problems == ()
