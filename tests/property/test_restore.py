"""Whatever happened, a restore to any position gives what the catalog was there, by one commit on top of it all."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import Any

from budgets import examples
from core_tables import SCHEMA, rows, sorted_rows, store_of
from hypothesis import event, given
from hypothesis import strategies as st

import icecore
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.errors import CommitConflictError, IcecoreError, ValidationError

namespaces = st.sampled_from(["a", "b", "a.c"])
names = st.sampled_from([("a", "x"), ("a", "x"), ("a", "y"), ("a", "y"), ("b", "x"), ("a", "c", "y")])
steps = st.one_of(
    st.tuples(st.just("append"), names),
    st.tuples(st.just("append"), names),
    st.tuples(st.just("delete"), names, st.integers(0, 17)),
    st.tuples(st.just("delete"), names, st.integers(0, 17)),
    st.tuples(st.just("compact"), names),
    st.tuples(st.just("column"), names),
    st.tuples(st.just("spec"), names),
    st.tuples(st.just("order"), names),
    st.tuples(st.just("mode"), names),
    st.tuples(st.just("branch"), names),
    st.tuples(st.just("unbranch"), names),
    st.tuples(st.just("rollback"), names),
    st.tuples(st.just("replace"), names),
    st.tuples(st.just("create"), names),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("swap"), names, names),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("undrop"), names),
    st.tuples(st.just("view"), names),
    st.tuples(st.just("drop view"), names),
    st.tuples(st.just("namespace"), namespaces),
    st.tuples(st.just("drop namespace"), namespaces),
    st.tuples(st.just("describe"), namespaces),
)
START: list[tuple[Any, ...]] = [
    ("namespace", "a"),
    ("namespace", "b"),
    ("create", ("a", "x")),
    ("create", ("a", "y")),
    ("append", ("a", "x")),
    ("append", ("a", "y")),
]


def step(catalog: icecore.Catalog, number: int, change: tuple[Any, ...]) -> None:
    """Makes one change. Raises IcecoreError where it does not fit."""
    match change:
        case ("namespace", name):
            catalog.create_namespace(name)
        case ("drop namespace", name):
            catalog.drop_namespace(name)
        case ("describe", name):
            catalog.update_namespace_properties(name, updates={"number": str(number)})
        case ("create", name):
            catalog.create_table(name, SCHEMA, format_version=1 + number % 3)
        case ("replace", name):
            catalog.replace_table(name, SCHEMA)
        case ("rename", old, new):
            catalog.rename_table(old, new)
        case ("swap", one, other):
            with catalog.transaction() as all_of_it:
                all_of_it.rename_table(one, ("a", "between"))
                all_of_it.rename_table(other, one)
                all_of_it.rename_table(("a", "between"), other)
        case ("drop", name):
            catalog.drop_table(name)
        case ("undrop", name):
            catalog.undrop_table(name)
        case ("view", name):
            if catalog.view_exists(name):
                catalog.load_view(name).replace(f"SELECT {number} AS n")
            else:
                catalog.create_view(name, "SELECT 1 AS n", properties={"number": str(number)})
        case ("drop view", name):
            catalog.drop_view(name)
        case (kind, name, *rest):
            change_table(catalog.load_table(name), number, kind, *rest)


def change_table(table: icecore.Table, number: int, kind: str, *rest: Any) -> None:
    match kind:
        case "append":
            columns = {f.name: [None, None] for f in table.schema().fields}
            data = rows(number, number + 1).to_pydict()
            table.append([dict(zip(columns, r, strict=True)) for r in zip(*(columns | data).values(), strict=True)])
        case "delete":
            table.delete(f"id = {rest[0]}")
        case "compact":
            table.rewrite_data_files(options={"rewrite-all": "true"})
        case "column":
            with table.update_schema() as schema:
                schema.add_column(f"c{number}", "string")
        case "spec":
            with table.update_spec() as spec:
                spec.add_field("bucket(2, id)", f"p{number}")
        case "order":
            with table.update_sort_order() as order:
                order.asc("id")
        case "mode":
            table.set_properties({"write.delete.mode": "merge-on-read", "number": str(number)})
        case "branch":
            head = table.current_snapshot()
            if head is not None:
                table.manage_snapshots().create_branch(head.snapshot_id, f"b{number}").commit()
                table.append([{"id": number}], branch=f"b{number}")
        case "unbranch":
            for name in table.refs().keys() - {"main"}:
                table.manage_snapshots().remove_branch(name).commit()
        case "rollback":
            head = table.current_snapshot()
            if head is not None and head.parent_snapshot_id is not None:
                table.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()


def seen(catalog: icecore.Catalog | CatalogAt) -> dict[str, Any]:
    """All that a user sees of a catalog, but for the ids of schemas, specs and orders."""
    names = (name for namespace in catalog.all_namespaces() for name in catalog.list_tables(namespace))
    tables = [catalog.load_table(name) for name in names]
    return {
        "namespaces": {n: catalog.load_namespace_properties(n) for n in catalog.all_namespaces()},
        "tables": {t.name(): shape(t) for t in tables},
        "views": {v.name(): (v.sql_for("duckdb").sql, v.properties, v.location()) for v in catalog.views()},
    }


def shape(table: icecore.Table) -> dict[str, Any]:
    m = table.metadata
    return {
        "uuid": m.table_uuid,
        "schema": (m.schema().fields, m.schema().identifier_field_ids),
        "spec": m.spec().fields,
        "order": m.sort_order().fields,
        "location": m.location,
        "properties": dict(m.properties),
        "refs": dict(m.refs),
        "rows": {ref: sorted_rows(table.scan(ref=ref).to_arrow()) for ref in m.refs},
    }


@examples(5, new=49)
@given(st.lists(steps, min_size=8, max_size=16), st.randoms(use_true_random=False))
def test_a_restore_gives_what_was_there(history: list[tuple[Any, ...]], choice: Any) -> None:
    """All of it, at any position, and back again; a dry run says which events and leaves no trace."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        for number, change in enumerate([*START, *history]):
            with suppress(IcecoreError):
                step(catalog, number, change)
        for _ in range(2):
            before, end = seen(catalog), catalog.position
            position = choice.randrange(4, end + 1)
            then = seen(catalog.at(position))
            foretold = catalog.restore(position, dry_run=True)
            assert isinstance(foretold, CatalogDryRun) and (seen(catalog), catalog.position) == (before, end)
            last = catalog.restore(position)
            made = list(store_of(catalog).events(end))
            assert [e.kind for e in made] == [p.kind for p in foretold.parts]
            assert len({e.transaction_id for e in made}) <= 1 and last == catalog.position
            assert seen(catalog) == then and seen(catalog.at(end)) == before
            assert catalog.restore(position) == last, "a second restore has nothing to do"
            catalog.restore(end)
            assert seen(catalog) == before
        assert catalog.verify().ok
        catalog.rebuild()
        assert seen(catalog) == before


@examples(5, new=49)
@given(st.lists(steps, min_size=6, max_size=12), st.randoms(use_true_random=False))
def test_reverts_of_all_since_are_a_restore(history: list[tuple[Any, ...]], choice: Any) -> None:
    """Where they are not refused; by one range, or by undoing one commit after another."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder, actor="ann") as catalog:
        for number, change in enumerate([*START, *history]):
            with suppress(IcecoreError):
                step(catalog, number, change)
        end = catalog.position
        position = choice.randrange(4, end + 1)
        then = rows_of(seen(catalog.at(position)))
        with suppress(CommitConflictError, ValidationError):
            if choice.random() < 0.5:
                raise ValidationError("one by one")
            foretold = catalog.revert(position + 1, through=end, dry_run=True)
            assert isinstance(foretold, CatalogDryRun)
            catalog.revert(position + 1, through=end)
            event("reverted")
            assert rows_of(seen(catalog)) == then
            assert [e.kind for e in store_of(catalog).events(end)] == [p.kind for p in foretold.parts]
        if catalog.position > end:
            return
        undone = store_of(catalog).event_at(end)
        with suppress(CommitConflictError, ValidationError):
            while undone.position > position:
                first = store_of(catalog).transaction_events(undone.transaction_id)[0].position
                catalog.undo()
                event("undone")
                assert rows_of(seen(catalog)) == rows_of(seen(catalog.at(first - 1)))
                undone = store_of(catalog).event_at(first - 1)
        assert catalog.verify().ok


def rows_of(found: dict[str, Any]) -> dict[str, Any]:
    """What is seen of a catalog, with the names of refs and their rows but not their snapshots."""
    tables = {name: {**shape, "refs": set(shape["refs"])} for name, shape in found["tables"].items()}
    for each in tables.values():
        each["refs"] -= {"main"}
        each["rows"] = {ref: rows for ref, rows in each["rows"].items() if rows or ref != "main"}
    return {**found, "tables": tables}
