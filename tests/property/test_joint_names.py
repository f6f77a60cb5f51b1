"""Any changes of names and namespaces in one transaction are what they are one by one, or nothing at all."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from budgets import examples
from core_tables import SCHEMA, rows, store_of
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.catalog.catalog_transaction import CatalogTransaction
from icecore.engine.errors import IcecoreError

namespaces = st.sampled_from(["a", "b", "a.c"])
names = st.tuples(namespaces, st.sampled_from(["x", "y"])).map(lambda t: (*t[0].split("."), t[1]))
change = st.one_of(
    st.tuples(st.just("create_namespace"), namespaces),
    st.tuples(st.just("create_namespace"), namespaces),
    st.tuples(st.just("drop_namespace"), namespaces),
    st.tuples(st.just("update"), namespaces, st.sampled_from(["k", "l"])),
    st.tuples(st.just("create_table"), names),
    st.tuples(st.just("create_table"), names),
    st.tuples(st.just("rename_table"), names, names),
    st.tuples(st.just("drop_table"), names),
    st.tuples(st.just("undrop_table"), names),
    st.tuples(st.just("create_view"), names),
    st.tuples(st.just("rename_view"), names, names),
    st.tuples(st.just("drop_view"), names),
    st.tuples(st.just("undrop_view"), names),
)
# Where it starts: a namespace with a table in it, and what was dropped from it.
START = [
    ("create_namespace", "a"),
    ("create_table", ("a", "x")),
    ("create_table", ("a", "y")),
    ("drop_table", ("a", "y")),
    ("create_view", ("a", "y")),
]


def make(where: icecore.Catalog | CatalogTransaction, number: int, change: tuple[Any, ...]) -> None:
    match change:
        case ("update", namespace, key):
            where.update_namespace_properties(namespace, updates={key: str(number)})
        case ("create_table", name):
            where.create_table(name, SCHEMA, properties={"number": str(number)}).append(rows(number))
        case ("create_view", name):
            where.create_view(name, f"SELECT {number} AS n")
        case (method, *arguments):
            getattr(where, method)(*arguments)


def seen(catalog: icecore.Catalog) -> dict[str, Any]:
    """All that a user, or PyIceberg through its tables, sees of the catalog."""
    connection = sqlite3.connect(catalog.path / "icecore.db")
    try:
        shared = connection.execute("SELECT table_namespace, table_name, iceberg_type FROM iceberg_tables").fetchall()
        properties = connection.execute("SELECT * FROM iceberg_namespace_properties").fetchall()
    finally:
        connection.close()
    return {
        "namespaces": {n: catalog.load_namespace_properties(n) for n in catalog.all_namespaces()},
        "tables": {t.name(): (t.properties["number"], t.scan().count()) for t in catalog.tables()},
        "views": {v.name(): v.sql_for("duckdb").sql for v in catalog.views()},
        "shared": sorted(shared),
        "shared namespaces": sorted(properties),
    }


def kinds(catalog: icecore.Catalog, after: int) -> list[str]:
    return [e.kind for e in store_of(catalog).events(after)]


@examples(8, new=105)
@given(st.lists(change, min_size=1, max_size=9), st.booleans())
def test_a_transaction_is_its_changes_one_by_one_or_nothing(changes: list[tuple[Any, ...]], fails: bool) -> None:
    """The same error of the same change, after which nothing is there; else the same catalog, in one transaction.

    A dry run before says the same and leaves no trace; what is committed survives verify and rebuild. Changes that
    can't be made are left out, or where it `fails` the first of them is the last.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        icecore.open(Path(folder) / "one") as single,
        icecore.open(Path(folder) / "all") as joint,
    ):
        for number, each in enumerate(START):
            make(single, number, each)
            make(joint, number, each)
        before, position = seen(joint), joint.position
        expected: type | None = None
        chosen = []
        for number, each in enumerate(changes, 100):
            try:
                make(single, number, each)
                chosen.append((number, each))
            except IcecoreError as e:
                if fails:
                    chosen.append((number, each))
                    expected = type(e)
                    break
        for dry_run in (True, False):
            found: type | None = None
            try:
                with joint.transaction(dry_run=dry_run) as transaction:
                    for number, each in chosen:
                        make(transaction, number, each)
            except IcecoreError as e:
                found = type(e)
            assert found == expected
            if dry_run and expected is None:
                assert transaction.outcome is not None
                foretold = [p.kind for p in transaction.outcome.parts]
            if dry_run or expected is not None:
                assert (seen(joint), joint.position) == (before, position)
        assert joint.verify().problems == ()
        if expected is None:
            assert seen(joint) == seen(single)
            assert kinds(joint, position) == foretold == kinds(single, position)
            assert len({e.transaction_id for e in store_of(joint).events(position)}) == (1 if chosen else 0)
            joint.rebuild()
            assert seen(joint) == seen(single)
            assert joint.verify().problems == ()
