"""Names in pages: the same as in one list, whatever they are, and namespaces that are there because of inner ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import SCHEMA, make_table, store_of
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_names import NAMES

import icecore
from icecore.engine.catalog.clients.name_pages import NameKind, list_page
from icecore.engine.common.identifiers import Identifier, IdentifierLike
from icecore.engine.errors import NamespaceNotEmptyError, NoSuchNamespaceError, ValidationError


def all_pages(catalog: icecore.Catalog, kind: NameKind, namespace: IdentifierLike, size: int) -> list[Identifier]:
    found: list[Identifier] = []
    token: str | None = ""
    while token is not None:
        page = list_page(catalog, kind, namespace, size, token)
        assert len(page.names) <= size
        assert page.names or not found, "no page after the last name"
        found += page.names
        token = page.next_token
    return found


LEVEL = st.text(st.sampled_from("a-./\x01\x20b\U0010ffffé".replace(".", "")), min_size=1, max_size=2)
TREES = st.lists(st.lists(LEVEL, min_size=1, max_size=3).map(tuple), max_size=12, unique=True)


@settings(max_examples=25)
@given(TREES, st.integers(1, 3))
def test_pages_of_namespaces_are_the_whole_list(
    tmp_path_factory: pytest.TempPathFactory, tree: list[Identifier], size: int
) -> None:
    """At each level, implied ones too, each once."""
    with icecore.open(tmp_path_factory.mktemp("w")) as catalog:
        with catalog.transaction() as transaction:
            for name in tree:
                transaction.create_namespace(name)
        parents = {n[:depth] for n in tree for depth in range(len(n) + 1)} | {()}
        for parent in parents:
            inside = {n[: len(parent) + 1] for n in tree if len(n) > len(parent) and n[: len(parent)] == parent}
            found = all_pages(catalog, "namespace", parent, size)
            assert sorted(found) == sorted(inside) == catalog.list_namespaces(parent)
            assert len(found) == len(inside)
            assert all(catalog.namespace_exists(n) and catalog.load_namespace_properties(n) == {} for n in inside)


def test_pages_of_tables_and_views_of_any_name(catalog: icecore.Catalog) -> None:
    """Neither kind is in the other's pages, nor those of another namespace."""
    catalog.create_namespace("other")
    catalog.create_table("other.t", SCHEMA)
    with catalog.transaction() as transaction:
        for number, name in enumerate(NAMES):
            if number % 3:
                transaction.create_table(("ns", name), SCHEMA, properties={"icecore.materialize": "manual"})
            else:
                transaction.create_view(("ns", name), "SELECT 1 AS one")
    for size in (1, 7, 1000):
        assert all_pages(catalog, "table", "ns", size) == catalog.list_tables("ns")
        assert all_pages(catalog, "view", "ns", size) == catalog.list_views("ns")
    assert len(catalog.list_tables("ns")) + len(catalog.list_views("ns")) == len(NAMES)


def test_names_that_come_and_go_between_pages_move_no_other(catalog: icecore.Catalog) -> None:
    for name in "bdfh":
        make_table(catalog, name)
    first = list_page(catalog, "table", "ns", 2)
    assert [n[-1] for n in first.names] == ["b", "d"]
    catalog.drop_table("ns.d")
    catalog.drop_table("ns.b")
    make_table(catalog, "a")
    make_table(catalog, "e")
    rest = list_page(catalog, "table", "ns", 9, first.next_token)
    assert [n[-1] for n in rest.names] == ["e", "f", "h"] and rest.next_token is None


@pytest.mark.parametrize("token", ["x", "%%%", "é", "bnVsbA", "W10", "WyJ0YWJsZSIsWyJucyJdLDVd", "\ud800", "A" * 9999])
def test_tokens_that_are_none_are_refused(catalog: icecore.Catalog, token: str) -> None:
    with pytest.raises(ValidationError, match="page token"):
        list_page(catalog, "table", "ns", 5, token)


def test_a_token_is_of_one_list(catalog: icecore.Catalog) -> None:
    """One of tables is none of views, nor of another namespace's tables."""
    make_table(catalog, "a")
    make_table(catalog, "b")
    catalog.create_namespace("other")
    token = list_page(catalog, "table", "ns", 1).next_token
    others: list[tuple[NameKind, str]] = [("view", "ns"), ("table", "other")]
    for kind, namespace in others:
        with pytest.raises(ValidationError, match="another list"):
            list_page(catalog, kind, namespace, 5, token)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "3", None])
def test_sizes_that_are_none_are_refused(catalog: icecore.Catalog, size: Any) -> None:
    with pytest.raises(ValidationError, match="size"):
        list_page(catalog, "table", "ns", size)
    assert list_page(catalog, "table", "ns", 1 << 70).names == ()


def test_the_cost_of_a_page_is_that_of_its_names(catalog: icecore.Catalog) -> None:
    """SQLite runs as many steps for a page of many names as for one of few."""
    steps: list[int] = []

    def count(make: Callable[[str], None], kind: NameKind, namespace: str) -> None:
        for names in (20, 400):
            with store_of(catalog).write():
                for number in range(names):
                    make(f"{number:04}")
            done = [0]

            def step(done: list[int] = done) -> int:
                done[0] += 1
                return 0

            connection = store_of(catalog).connection()
            connection.set_progress_handler(step, 1)
            page = list_page(catalog, kind, namespace, 5)
            list_page(catalog, kind, namespace, 5, page.next_token)
            connection.set_progress_handler(None, 0)
            steps.append(done[0])

    models = catalog._warehouse.models
    run = store_of(catalog).execute
    file = "log/read_models.sql"

    def namespace(name: str) -> None:
        for inner in "xyz":
            run(file, "put_namespace", name=f"{name}.{inner}", properties="{}")

    count(namespace, "namespace", "")
    assert steps[1] < steps[0] * 2 and len(models.inner_namespaces(())) == 401
    steps.clear()

    def view(name: str) -> None:
        run(file, "delete_name", stream=f"view:{name}")
        run(file, "put_name", namespace="ns", name=f"a{name}", kind="view", stream=f"view:{name}")
        if int(name) < 20:
            run(file, "delete_name", stream=f"table:{name}")
            run(file, "put_name", namespace="ns", name=f"b{name}", kind="table", stream=f"table:{name}")

    count(view, "table", "ns")
    assert steps[1] < steps[0] * 2 and len(models.names_in(("ns",))) == 420


def test_a_namespace_that_is_implied_is_there(catalog: icecore.Catalog) -> None:
    """What is listed can be loaded, then and now; it goes with the last one inside of it."""
    catalog.create_namespace("p.q")
    assert catalog.list_namespaces() == [("ns",), ("p",)]
    assert catalog.namespace_exists("p") and catalog.load_namespace_properties("p") == {}
    assert catalog.at(catalog.position).load_namespace_properties("p") == {}
    assert catalog.list_tables("p") == catalog.list_views("p") == []
    with pytest.raises(NamespaceNotEmptyError, match=r"p\.q"):
        catalog.drop_namespace("p")
    catalog.drop_namespace("p.q")
    assert not catalog.namespace_exists("p")
    with pytest.raises(NoSuchNamespaceError):
        catalog.drop_namespace("p")


GIVEN: dict[str, Callable[[icecore.Catalog], Any]] = {
    "created": lambda c: c.create_namespace("p"),
    "a property": lambda c: c.update_namespace_properties("p", ["none"], {"owner": "ann"}),
    "a table": lambda c: c.create_table("p.t", SCHEMA),
    "a view": lambda c: c.create_view("p.v", "SELECT 1 AS one"),
    "a renamed table": lambda c: c.rename_table("ns.old", "p.t"),
    "a table undropped": lambda c: c.undrop_table("p.gone"),
}


@pytest.mark.parametrize("how", GIVEN)
def test_an_implied_namespace_is_created_with_what_it_gets(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], how: str
) -> None:
    """So it stays when the inner one goes, and the log, its read models and other engines agree on it."""
    make_table(catalog, "old")
    catalog.create_namespace("p")
    catalog.create_table("p.gone", SCHEMA)
    catalog.drop_table("p.gone")
    catalog.drop_namespace("p")
    catalog.create_namespace("p.q")
    GIVEN[how](catalog)
    catalog.drop_namespace("p.q")
    assert ("p",) in catalog.all_namespaces()
    assert catalog.load_namespace_properties("p") == ({"owner": "ann"} if how == "a property" else {})
    catalog.rebuild()
    assert catalog.verify().problems == ()
    assert catalog.load_namespace_properties("p") == open_again().load_namespace_properties("p")


def test_the_separator_of_urls_is_in_no_new_namespace(catalog: icecore.Catalog) -> None:
    with pytest.raises(ValidationError, match="0x1F"):
        catalog.create_namespace(("a\x1fb",))
    with pytest.raises(ValidationError, match="0x1F"), catalog.transaction() as transaction:
        transaction.create_namespace(("a", "\x1f"))
    assert catalog.list_namespaces() == [("ns",)]
