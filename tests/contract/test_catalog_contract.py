"""What any face of a warehouse must keep, whether it stays open or is opened anew for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, rows

import icecore
from icecore.engine.errors import (
    IcecoreError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchSnapshotError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnprocessableEntityError,
    ValidationError,
)
from icecore.engine.log.namespaces import ChangedProperties

Face = Callable[[], icecore.Catalog]


@pytest.fixture(params=["one catalog", "a new one each time", "rebuilt each time"])
def face(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Face]:
    """Gives the catalog to make a call on."""
    opened = [icecore.open(tmp_path / "w")]

    def again() -> icecore.Catalog:
        if request.param != "one catalog":
            opened[-1].close()
            opened.append(icecore.open(tmp_path / "w", create=False))
        if request.param == "rebuilt each time":
            opened[-1].rebuild()
        return opened[-1]

    yield again
    assert opened[-1].verify().problems == ()
    opened[-1].close()


def test_namespaces(face: Face) -> None:
    """Made, listed by level, changed, and dropped only where empty."""
    face().create_namespace("a", {"k": "v"})
    face().create_namespace(("a", "b"))
    face().create_namespace("c")
    assert face().list_namespaces() == [("a",), ("c",)]
    assert face().list_namespaces("a") == [("a", "b")]
    assert face().list_namespaces(("a", "b")) == []
    for _ in range(2):
        changed = face().update_namespace_properties("a", ["none", "k"], {"l": "w"}, idempotency_key="once")
        assert changed == ChangedProperties(updated=("l",), removed=("k",), missing=("none",))
    assert face().load_namespace_properties("a") == {"l": "w"}
    with pytest.raises(NamespaceAlreadyExistsError, match="exists: a"):
        face().create_namespace("a")
    with pytest.raises(NamespaceNotEmptyError, match=r"a\.b"):
        face().drop_namespace("a")
    face().drop_namespace("a.b")
    face().drop_namespace("a")
    assert face().list_namespaces() == [("c",)]
    with pytest.raises(UnprocessableEntityError, match="both"):
        face().update_namespace_properties("c", ["x"], {"x": "y"})


def test_a_missing_namespace(face: Face) -> None:
    """Every call on a namespace that is not there says so."""
    calls: list[Callable[[icecore.Catalog], Any]] = [
        lambda c: c.load_namespace_properties("no"),
        lambda c: c.update_namespace_properties("no", updates={"a": "b"}),
        lambda c: c.drop_namespace("no"),
        lambda c: c.list_tables("no"),
        lambda c: c.list_namespaces("no"),
        lambda c: c.create_table("no.t", SCHEMA),
    ]
    for call in calls:
        with pytest.raises(NoSuchNamespaceError, match="no"):
            call(face())


def test_tables(face: Face) -> None:
    """Made, listed, renamed within and across namespaces, and dropped."""
    face().create_namespace("a")
    face().create_namespace("b")
    face().create_table("a.t", SCHEMA).append(rows(1))
    face().create_table("a.s", SCHEMA)
    assert face().list_tables("a") == [("a", "s"), ("a", "t")]
    with pytest.raises(TableAlreadyExistsError, match=r"a\.t"):
        face().create_table("a.t", SCHEMA)
    assert face().rename_table("a.t", "b.u").name() == ("b", "u")
    assert not face().table_exists("a.t") and face().table_exists("b.u")
    assert ids_of(face().load_table("b.u")) == [1]
    with pytest.raises(NoSuchNamespaceError):
        face().rename_table("b.u", "no.u")
    with pytest.raises(TableAlreadyExistsError):
        face().rename_table("b.u", "a.s")
    face().load_table("b.u").append(rows(2))
    face().drop_table("b.u")
    assert face().list_tables("b") == []
    face().create_table("b.u", SCHEMA)
    assert ids_of(face().load_table("b.u")) == []


def test_a_missing_table(face: Face) -> None:
    """Every call on a table that is not there says so."""
    face().create_namespace("a")
    calls: list[Callable[[icecore.Catalog], Any]] = [
        lambda c: c.load_table("a.no"),
        lambda c: c.drop_table("a.no"),
        lambda c: c.rename_table("a.no", "a.t"),
        lambda c: c.materialize("a.no"),
        lambda c: c.log("a.no"),
        lambda c: c.at(c.position).load_table("a.no"),
    ]
    for call in calls:
        with pytest.raises(NoSuchTableError, match=r"a\.no"):
            call(face())


def test_rows_over_time(face: Face) -> None:
    """Appends, deletes and overwrites; every snapshot, ref, time and log position shows what was there."""
    face().create_namespace("a")
    face().create_table("a.t", SCHEMA)
    face().load_table("a.t").append(rows(1, 2), message="one", author="me")
    face().load_table("a.t").delete("id = 1")
    face().load_table("a.t").overwrite(rows(8, 9), "id = 2")
    table = face().load_table("a.t")
    assert ids_of(table) == [8, 9]
    history = table.history()
    assert [ids_of(table, snapshot_id=e.snapshot_id) for e in history] == [[1, 2], [2], [8, 9]]
    assert [ids_of(table, as_of=e.timestamp_ms) for e in history] == [[1, 2], [2], [8, 9]]
    with pytest.raises(NoSuchSnapshotError):
        table.scan(as_of=history[0].timestamp_ms - 1)
    assert [ids_of(face().at(p).load_table("a.t")) for p in (2, 3, 4, 5)] == [[], [1, 2], [2], [8, 9]]
    for position in (-1, 99):
        with pytest.raises(ValidationError):
            face().at(position)
    first = face().log("a.t").to_pylist()[1]
    assert (first["message"], first["actor"], first["operation"]) == ("one", "me", "append")


def test_refs(face: Face) -> None:
    """Branches take commits of their own; tags stay; main moves back and forth."""
    face().create_namespace("a")
    face().create_table("a.t", SCHEMA).append(rows(1))
    first = face().load_table("a.t").metadata.current_snapshot_id
    assert first is not None
    with face().load_table("a.t").manage_snapshots() as refs:
        refs.create_tag(first, "start").create_branch(first, "dev")
    face().load_table("a.t").append(rows(2), branch="dev")
    face().load_table("a.t").delete("id = 1", branch="dev")
    face().load_table("a.t").append(rows(3))
    table = face().load_table("a.t")
    assert [ids_of(table, ref=r) for r in ("main", "dev", "start")] == [[1, 3], [2], [1]]
    calls: list[Callable[[icecore.Table], Any]] = [
        lambda t: t.append(rows(4), branch="start"),
        lambda t: t.append(rows(4), branch=""),
        lambda t: t.manage_snapshots().create_tag(first, "dev").commit(),
        lambda t: t.manage_snapshots().create_tag(12345, "x").commit(),
        lambda t: t.manage_snapshots().remove_branch("main").commit(),
        lambda t: t.manage_snapshots().remove_tag("dev").commit(),
    ]
    for call in calls:
        with pytest.raises(IcecoreError):
            call(face().load_table("a.t"))
    face().load_table("a.t").append(rows(4), branch="new")
    assert ids_of(face().load_table("a.t"), ref="new") == [1, 3, 4]
    face().load_table("a.t").manage_snapshots().remove_branch("new").commit()
    face().load_table("a.t").manage_snapshots().rollback_to_snapshot(first).commit()
    assert ids_of(face().load_table("a.t")) == [1]
    face().load_table("a.t").manage_snapshots().set_current_snapshot(ref_name="dev").commit()
    assert ids_of(face().load_table("a.t")) == [2]
    face().load_table("a.t").manage_snapshots().remove_branch("dev").remove_tag("start").commit()
    assert set(face().load_table("a.t").refs()) == {"main"}


@pytest.mark.parametrize(
    "query",
    ["SELEKT", "SELECT * FROM nowhere", "SELECT no FROM log", "COPY log TO '/tmp/x'", "SELECT * FROM '/etc/passwd'"],
)
def test_a_wrong_query_is_an_error_of_ours(face: Face, query: str) -> None:
    """SQL that is wrong, or wants out of the warehouse, is refused."""
    with pytest.raises(ValidationError):
        face().sql(query)


def test_sql_sees_what_is_there(face: Face) -> None:
    """The audit tables hold the events, the namespaces and the tables."""
    face().create_namespace("a")
    face().create_table("a.t", SCHEMA).append(rows(1, 2))
    found = face().sql("SELECT kind, count(*) AS n FROM log GROUP BY kind ORDER BY kind").to_pylist()
    assert found == [
        {"kind": "namespace.created", "n": 1},
        {"kind": "table.committed", "n": 1},
        {"kind": "table.created", "n": 1},
    ]
    assert face().sql("SELECT records, data_files FROM tables WHERE name = $name", {"name": "t"}).to_pylist() == [
        {"records": 2, "data_files": 1}
    ]
    assert face().sql("SELECT records FROM tables WHERE name = ?", ["t"]).to_pylist() == [{"records": 2}]
    assert face().sql("SELECT sum(record_count) AS n FROM files").to_pylist() == [{"n": 2}]
