"""Names and properties that try to break out: of SQL text, of the folder, of URIs, of other engines' tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from core_tables import SCHEMA, ids_of, local, make_table, pyiceberg_catalog, rows
from odd_names import NAMES

import icecore
from icecore.engine.common.identifiers import MAX_FOLDER_NAME, folder_name, identifier_tuple, name_parts
from icecore.engine.errors import NoSuchNamespaceError, NoSuchTableError, ValidationError, name_text
from icecore.engine.log import table_folders


def test_tables_of_any_name_live_in_the_warehouse(catalog: icecore.Catalog) -> None:
    """They are made, listed, read, renamed and verified under their names; their files stay inside of the warehouse."""
    peer = pyiceberg_catalog(catalog.path)
    for number, name in enumerate(NAMES):
        table = catalog.create_table(("ns", name), SCHEMA)
        table.append(rows(number))
        assert catalog.table_exists(("ns", name)), name
        inside = local(table.location()).resolve()
        assert (catalog.path.resolve() / "ns") == inside.parent, name
        assert all(p.is_relative_to(inside) for p in (local(t.file.file_path) for t in table.scan().plan_files())), name
        assert local(table.metadata_location).exists()
        assert peer.load_table(("ns", name)).scan().to_arrow()["id"].to_pylist() == [number], name
    assert sorted(catalog.list_tables("ns")) == sorted(("ns", name) for name in NAMES)
    peer.close()
    with icecore.open(catalog.path) as again:
        assert sorted(again.sql("SELECT name FROM tables")["name"].to_pylist()) == sorted(NAMES)
        for number, name in enumerate(NAMES):
            assert ids_of(again.load_table(("ns", name))) == [number], name
            again.rename_table(("ns", name), "ns.plain")
            again.rename_table("ns.plain", ("ns", name + "x" if len(name) < 255 else f"y{number}"))
        again.rebuild()
        assert again.verify().problems == ()
    assert sorted(p.name for p in catalog.path.parent.iterdir()) == [catalog.path.name], "nothing beside the warehouse"


def test_a_replay_finds_the_folders_of_a_name_whose_spellings_hold_one_another(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever order the spellings come, which differs by process."""
    spellings = table_folders.folder_keys
    monkeypatch.setattr(table_folders, "folder_keys", lambda location: sorted(spellings(location)))
    catalog.create_table(("ns", "x/y=z"), SCHEMA)
    monkeypatch.setattr(table_folders, "folder_keys", lambda location: sorted(spellings(location), reverse=True))
    catalog.create_table(("ns", "x/y=w"), SCHEMA)
    assert catalog.verify().problems == ()
    monkeypatch.setattr(table_folders, "folder_keys", lambda location: sorted(spellings(location)))
    assert catalog.verify().problems == ()


def test_a_name_with_dots_is_quoted_in_text(catalog: icecore.Catalog) -> None:
    """With double quotes or backticks, as in SQL; quotes in the midst of a name are of the name."""
    for number, name in enumerate(NAMES):
        identifier = ("ns", name)
        assert identifier_tuple(name_text(identifier)) == identifier_tuple(f"`ns`.`{name.replace('`', '``')}`")
        assert identifier_tuple(name_text(identifier)) == identifier
        catalog.create_table(name_text(identifier), SCHEMA).append(rows(number))
        assert ids_of(catalog.load_table(identifier)) == [number]
    assert [name_text(("ns", n)) for n in ("a b", 'quo"te', '"', '"a')] == ["ns.a b", 'ns.quo"te', 'ns."', 'ns."a']
    for odd in [('"', '"'), ('"a', 'b"'), ("`", "`.`"), ('"a"', '"b"'), ("ns", '"a"b"'), ("ns", '""')]:
        assert identifier_tuple(name_text(odd)) == odd
    assert [name_parts(n) for n in ('a."b', 'a."b"c.d', 'a."b".', "")] == [
        ("a", '"b'), ("a", '"b"c', "d"), ("a", "b", ""), ("",),
    ]  # fmt: skip
    with pytest.raises(NoSuchTableError, match=r"""did you mean 'ns\."a\.b\.c"'"""):
        catalog.load_table(("ns", "a.b.d"))
    for load in (catalog.load_table, catalog.at(catalog.position).load_table):
        with pytest.raises(
            NoSuchTableError, match=r"""Table does not exist: ns\.a\.b\.c.*; did you mean 'ns\."a\.b\.c"'"""
        ):
            load("ns.a.b.c")
    with pytest.raises(NoSuchTableError, match=r"""did you mean 'ns\."a\.b\.c"'"""):
        catalog.query("SELECT * FROM ns.a.b.c")


def test_namespaces_of_any_name(catalog: icecore.Catalog) -> None:
    """Namespaces of odd names hold properties and tables, and can be dropped."""
    names = [n for n in NAMES if "." not in n]
    peer = pyiceberg_catalog(catalog.path)
    for name in names:
        catalog.create_namespace((name,), {name: name})
        assert (name,) in catalog.list_namespaces()
        assert catalog.load_namespace_properties((name,)) == {name: name}
        table = catalog.create_table((name, "t"), SCHEMA)
        table.append(rows(1))
        assert local(table.location()).resolve().is_relative_to(catalog.path.resolve()), name
        if name.strip():  # PyIceberg refuses namespaces of white space alone
            assert peer.load_table((name, "t")).scan().to_arrow()["id"].to_pylist() == [1], name
    peer.close()
    assert catalog.verify().problems == ()
    for name in names:
        catalog.drop_table((name, "t"))
        catalog.drop_namespace((name,))
        with pytest.raises(NoSuchNamespaceError):
            catalog.load_namespace_properties((name,))
    assert catalog.verify().problems == ()


BAD: list[Any] = ["", "ns", "ns.", ".t", "ns..t", ("ns",), (), ("ns", ""), ("", "t"), ("a.b", "t"), ("ns", "a\x00b")]
BAD += [("ns", "x" * 256), ("ns", "\ud800"), ("ns", 1), (None, "t"), ("ns", b"t")]


@pytest.mark.parametrize("identifier", BAD, ids=lambda i: ascii(i)[:30])
def test_names_that_are_none_are_refused(catalog: icecore.Catalog, identifier: Any) -> None:
    """Every call that takes an identifier refuses what is none, with an error of ours, and the log stays."""
    position = catalog.position
    for call in (
        lambda: catalog.create_table(identifier, SCHEMA),
        lambda: catalog.load_table(identifier),
        lambda: catalog.drop_table(identifier),
        lambda: catalog.rename_table(identifier, "ns.u"),
        lambda: catalog.table_exists(identifier),
        lambda: catalog.register_table(identifier, "nowhere"),
    ):
        with pytest.raises(ValidationError):
            call()
    assert catalog.position == position


@pytest.mark.parametrize("namespace", ["", "a..b", (), ("",), ("a.b",), ("\ud800",), (1,), ("x" * 256,)], ids=ascii)
def test_namespaces_that_are_none_are_refused(catalog: icecore.Catalog, namespace: Any) -> None:
    """The same for namespaces."""
    for call in (
        lambda: catalog.create_namespace(namespace),
        lambda: catalog.drop_namespace(namespace),
        lambda: catalog.load_namespace_properties(namespace),
        lambda: catalog.list_tables(namespace),
    ):
        with pytest.raises(ValidationError):
            call()


def test_case_and_composition_tell_names_apart(catalog: icecore.Catalog) -> None:
    """Names that look alike are different tables in different folders."""
    names = ["T", "t", "é", "e\u0301", "a/b", "a%2Fb", "a b", "a+b"]
    for i, name in enumerate(names):
        catalog.create_table(("ns", name), SCHEMA).append(rows(i))
    tables = [catalog.load_table(("ns", n)) for n in names]
    assert [ids_of(t) for t in tables] == [[i] for i in range(len(names))]
    assert len({t.location() for t in tables}) == len(names)


def test_dots_in_tuples_do_not_mix_tables_up(catalog: icecore.Catalog) -> None:
    """("ns", "a.b") and ("ns", "a") + "b" are two tables."""
    catalog.create_namespace("ns.a")
    catalog.create_table(("ns", "a.b"), SCHEMA).append(rows(1))
    catalog.create_table(("ns", "a", "b"), SCHEMA).append(rows(2))
    assert ids_of(catalog.load_table(("ns", "a.b"))) == [1]
    assert ids_of(catalog.load_table(("ns", "a", "b"))) == ids_of(catalog.load_table("ns.a.b")) == [2]
    catalog.drop_table(("ns", "a.b"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table(("ns", "a.b"))
    assert catalog.verify().problems == ()


TEXTS = ["", " ", "\x00", "a\x00b", "'; DROP TABLE event; --", '{"a": 1}', "\u2028", "🧊" * 500, "x" * 100_000, "\r\n"]


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: ascii(t)[:20])
def test_properties_and_messages_of_any_text(catalog: icecore.Catalog, text: str) -> None:
    """Odd text in properties, messages, authors and snapshot summaries comes back as it was, after a rebuild too."""
    table = make_table(catalog, properties={"created": text})
    if text:
        table.set_properties({text: text})
    table.append(rows(1), message=text, author=f"a{text}", snapshot_properties={"note": text})
    with icecore.open(catalog.path) as again:
        again.rebuild()
        found = again.load_table("ns.t")
        assert found.properties["created"] == text
        assert not text or found.properties[text] == text
        snapshot = found.current_snapshot()
        assert snapshot is not None and (snapshot.summary or {})["note"] == text
        last = again.log("ns.t").to_pylist()[-1]
        assert (last["message"], last["actor"]) == (text, f"a{text}")
        assert again.verify().problems == ()


@pytest.mark.parametrize("bad", [{"a": 1}, {1: "a"}, {"a": None}, {"a": "\ud800"}, {"\udfff": "a"}], ids=ascii)
def test_properties_that_are_no_text_are_refused(catalog: icecore.Catalog, bad: Any) -> None:
    """Properties are strings; anything else is refused everywhere, and the log stays."""
    table = make_table(catalog)
    position = catalog.position
    for call in (
        lambda: table.set_properties(bad),
        lambda: make_table(catalog, "u", properties=bad),
        lambda: catalog.create_namespace("other", bad),
        lambda: catalog.update_namespace_properties("ns", updates=bad),
        lambda: table.append(rows(1), snapshot_properties=bad),
    ):
        with pytest.raises(ValidationError):
            call()
    assert catalog.position == position


@pytest.mark.parametrize("name", ["", "a b", "'; --", "a/b", "🧊", "x" * 300], ids=lambda n: ascii(n)[:20])
def test_refs_of_any_name(catalog: icecore.Catalog, name: str) -> None:
    """Branches and tags take any name that is not empty."""
    table = make_table(catalog)
    table.append(rows(1))
    head = table.metadata.current_snapshot_id
    assert head is not None
    if not name:
        with pytest.raises(ValidationError):
            table.manage_snapshots().create_branch(head, name).commit()
        return
    table.manage_snapshots().create_branch(head, name).commit()
    table.append(rows(2), branch=name)
    assert ids_of(table, ref=name) == [1, 2]
    assert ids_of(table) == [1]


@pytest.mark.parametrize("name", ["a b", "a.b", 'q"uote', "'; --", "é", "select", "_file", "x" * 200], ids=ascii)
def test_columns_of_any_name(catalog: icecore.Catalog, name: str) -> None:
    """A column of an odd name is written, filtered on by its quoted name, partitioned by, and read back."""
    import pyarrow as pa

    data = pa.table({"id": pa.array([1, 2], pa.int64()), name: pa.array(["x", "y"])})
    table = catalog.create_table("ns.t", data.schema)
    table.append(data)
    quoted = '"' + name.replace('"', '""') + '"'
    assert ids_of(table, row_filter=f"{quoted} = 'y'") == [2]
    table.delete(f"{quoted} = 'x'")
    assert table.scan().to_arrow().to_pylist() == [{"id": 2, name: "y"}]
    peer = pyiceberg_catalog(catalog.path)
    assert peer.load_table("ns.t").scan().to_arrow().to_pylist() == [{"id": 2, name: "y"}]
    peer.close()


@pytest.mark.parametrize("name", NAMES)
def test_folder_names_are_one_segment_and_distinct(name: str) -> None:
    """A folder name never leaves its parent, fits a file system, and differs from every other name's."""
    folder = folder_name(name)
    assert Path("/w", folder).parent == Path("/w") and Path("/w", folder).name == folder
    assert len(folder.encode()) <= MAX_FOLDER_NAME
    assert [n for n in NAMES if folder_name(n) == folder] == [name]
    decoded = os.path.normpath(f"/w/ns/{unquote(folder)}")
    assert decoded.startswith("/w/ns/"), "nor does it for who decodes it"


def test_a_name_of_dots_leaves_its_neighbours_their_folders(tmp_path: Path) -> None:
    """Whoever decodes %2E would take its folder for that of the namespace, in which all others are."""
    with icecore.open(tmp_path / "lake", unique_locations=True) as catalog:
        catalog.create_namespace("ns")
        for name in (".", "..", "../ns", "%252e", "?x", "t"):
            table = catalog.create_table(("ns", name), SCHEMA)
            assert local(table.location()).parent == tmp_path / "lake" / "ns", name


def test_warehouses_of_odd_paths(tmp_path: Path) -> None:
    """A warehouse folder may have spaces, percent signs, hashes, question marks and quotes in its path."""
    for name in ("with space", "100%", "a#b?c", "quo'te\"", "é🧊", "%20"):
        with icecore.open(tmp_path / name) as catalog:
            catalog.create_namespace("ns")
            table = make_table(catalog)
            table.append(rows(1))
            assert ids_of(table) == [1]
            assert catalog.verify().problems == ()
        with icecore.open(tmp_path / name, read_only=True) as again:
            assert ids_of(again.load_table("ns.t")) == [1]
