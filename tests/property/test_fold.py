"""Laws of the fold: prefixes, checkpoints, replays, rebuilds and the past all agree with the live state."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from attrs import evolve
from budgets import examples
from core_tables import local, metadata_files, repository_of, sorted_rows, store_of
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.errors import IcecoreError
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.replay.kinds import TABLES
from icecore.engine.spec.types import LongType

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
names = st.sampled_from(["a", "b"])
columns = st.sampled_from(["a", "b", "name"])
commands = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 5)),
    st.tuples(st.just("append"), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("overwrite"), st.integers(0, 5)),
    st.tuples(st.just("add column"), names),
    st.tuples(st.just("add column"), names),
    st.tuples(st.just("drop column"), columns),
    st.tuples(st.just("rename column"), columns, columns),
    st.tuples(st.just("partition"), st.sampled_from(["bucket(2, id)", "truncate(1, name)", "id"])),
    st.tuples(st.just("unpartition")),
    st.tuples(st.just("sort"), st.sampled_from(["id DESC", "name ASC NULLS LAST"])),
    st.tuples(st.just("set"), names, st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    st.tuples(st.just("unset"), names),
    st.tuples(st.just("manual"), st.booleans()),
    st.tuples(st.just("materialize")),
    st.tuples(st.just("branch"), names),
    st.tuples(st.just("tag"), names),
    st.tuples(st.just("remove branch"), names),
    st.tuples(st.just("remove tag"), names),
    st.tuples(st.just("rollback")),
    st.tuples(st.just("rename table"), names),
    st.tuples(st.just("drop table")),
    st.tuples(st.just("upgrade"), st.integers(1, 3)),
    st.tuples(st.just("several"), names),
)
START = [("append", 0), ("branch", "a"), ("tag", "b"), ("add column", "a"), ("append", 3)]
scenarios = st.lists(commands, min_size=2, max_size=12).map(lambda steps: [*START, *steps])
bounded = examples(8, new=84)


class Warehouse:
    """A warehouse with one table at a time, to which commands are done; those that don't fit are refused."""

    def __init__(self, folder: str, version: int, scheme: str) -> None:
        self.catalog = icecore.open(folder)
        self.catalog.create_namespace("ns")
        self.version, self.scheme = version, scheme
        self.made = 0
        self.create()

    def create(self) -> None:
        self.made += 1
        properties = {"icecore.commit-scheme": self.scheme}
        name = ("ns", f"t{self.made}")
        self.table = self.catalog.create_table(name, SCHEMA, format_version=self.version, properties=properties)

    def rows(self, first: int) -> pa.Table:
        schema = schema_to_arrow(self.table.schema(), with_ids=False)
        values: dict[pa.DataType, list[Any]] = {
            pa.int64(): list(range(first, first + 3)),
            pa.string(): ["x", None, "y"],
        }
        return pa.table({f.name: pa.array(values[f.type], f.type) for f in schema}, schema=schema)

    def do(self, command: tuple[Any, ...]) -> bool:
        """Whether the command was accepted; a refused one must leave the log as it was."""
        before = self.catalog.position
        try:
            self._do(*command)
        except IcecoreError:
            assert self.catalog.position == before, f"{command} was refused, but is in the log"
            return False
        return self.catalog.position > before

    def _do(self, kind: str, *args: Any) -> None:
        table = self.table
        current = table.metadata.current_snapshot_id
        match kind:
            case "append":
                table.append(self.rows(args[0]))
            case "delete":
                table.delete(f"id <= {args[0]}")
            case "overwrite":
                table.overwrite(self.rows(args[0]), f"id = {args[0]}")
            case "add column":
                table.update_schema().add_column(args[0], LongType()).commit()
            case "drop column":
                table.update_schema().delete_column(args[0]).commit()
            case "rename column":
                table.update_schema().rename_column(*args).commit()
            case "partition":
                table.update_spec().add_field(args[0]).commit()
            case "unpartition":
                with table.update_spec() as update:
                    for f in table.spec().fields:
                        update.remove_field(f.name)
            case "sort":
                table.update_sort_order().set(args[0]).commit()
            case "set":
                table.set_properties({args[0]: args[1]})
            case "unset":
                table.remove_properties(args[0])
            case "manual":
                table.set_properties({"icecore.materialize": "manual" if args[0] else "commit"})
            case "materialize":
                self.catalog.materialize(table.name())
                table.refresh()
            case "branch" if current is not None:
                table.manage_snapshots().create_branch(current, f"b{args[0]}", max_ref_age_ms=10**9).commit()
            case "tag" if current is not None:
                table.manage_snapshots().create_tag(current, f"t{args[0]}").commit()
            case "remove branch":
                table.manage_snapshots().remove_branch(f"b{args[0]}").commit()
            case "remove tag":
                table.manage_snapshots().remove_tag(f"t{args[0]}").commit()
            case "rollback":
                snapshot = table.current_snapshot()
                if snapshot is not None and snapshot.parent_snapshot_id is not None:
                    table.manage_snapshots().rollback_to_snapshot(snapshot.parent_snapshot_id).commit()
            case "rename table":
                self.table = self.catalog.rename_table(table.name(), ("ns", f"{args[0]}{self.made}"))
            case "drop table":
                self.catalog.drop_table(table.name())
                self.create()
            case "upgrade":
                table.upgrade(args[0])
            case "several":
                with table.transaction() as transaction:
                    transaction.update_schema().add_column(f"s{args[0]}", LongType()).commit()
                    transaction.set_properties({"several": args[0]})
                    transaction.delete("id = 1")


def streams(catalog: icecore.Catalog) -> list[str]:
    return sorted({e.stream for e in store_of(catalog).events() if e.stream != "catalog"})


@bounded
@given(steps=scenarios, version=st.integers(1, 3), scheme=st.sampled_from(["metastore", "filesystem"]))
def test_fold_of_a_prefix_then_the_rest_is_the_fold_of_all(
    steps: list[tuple[Any, ...]], version: int, scheme: str
) -> None:
    """fold(all) = fold(fold(prefix), rest) for any cut, also through the bytes of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(folder, version, scheme)
        for step in steps:
            warehouse.do(step)
        for stream in streams(warehouse.catalog):
            events = list(store_of(warehouse.catalog).stream_events(stream))
            whole = fold(None, events)
            for cut in range(len(events) + 1):
                prefix = fold(None, events[:cut])
                assert fold(prefix, events[cut:]) == whole
                if prefix is not None:
                    again = TABLES.decode(TABLES.encode(prefix), stream)
                    assert again == prefix
                    assert fold(again, events[cut:]) == whole
        warehouse.catalog.close()


@bounded
@given(steps=scenarios, version=st.integers(1, 3), scheme=st.sampled_from(["metastore", "filesystem"]))
def test_replay_gives_the_live_state_and_the_past(steps: list[tuple[Any, ...]], version: int, scheme: str) -> None:
    """A replay by another process equals the live state, and `at(position)` equals what the state was then."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(folder, version, scheme)
        was: dict[int, TableState] = {warehouse.catalog.position: warehouse.table.state}
        for step in steps:
            if warehouse.do(step):
                warehouse.table.refresh()
                was[warehouse.catalog.position] = warehouse.table.state
        with icecore.open(folder, read_only=True) as fresh:
            assert fresh.load_table(warehouse.table.name()).state == warehouse.table.state
            for position, state in was.items():
                past = fresh.at(position)
                assert past.load_table(state.identifier).state == state
                assert past.list_tables("ns") == [state.identifier]
            assert fresh.verify().problems == ()
        warehouse.catalog.close()


@examples(5, new=56)
@given(steps=scenarios, version=st.integers(1, 3), scheme=st.sampled_from(["metastore", "filesystem"]))
def test_rebuild_gives_the_same_bytes(steps: list[tuple[Any, ...]], version: int, scheme: str) -> None:
    """After losing every metadata file, `rebuild` writes each but those of expired snapshots, with the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(folder, version, scheme)
        for step in steps:
            warehouse.do(step)
        catalog, table = warehouse.catalog, warehouse.table
        before, rows = metadata_files(table), sorted_rows(table.scan().to_arrow())
        written = [r["location"] for r in store_of(catalog).rows("log/read_models.sql", "all_files")]
        for location in written:
            local(location).unlink()
        expired = {local(location).name for location in set(written) - needed(catalog)}
        missing = sum(f.count for f in catalog.verify().findings)
        assert missing == len(written) - len(expired)
        catalog.rebuild()
        assert metadata_files(table) == {name: data for name, data in before.items() if name not in expired}
        assert catalog.verify().problems == ()
        assert catalog.load_table(table.name()).state == table.state
        assert sorted_rows(catalog.load_table(table.name()).scan().to_arrow()) == rows
        catalog.close()


def needed(catalog: icecore.Catalog) -> set[str]:
    """The files that were written out but for the manifests and lists that no snapshot needs any more (R2)."""
    repository, rows = repository_of(catalog), store_of(catalog).rows("log/read_models.sql", "all_files")
    found = {r["location"] for r in rows if r["kind"] not in ("manifest", "manifest-list")}
    for stream in streams(catalog):
        state = repository.state(stream)
        for snapshot in state.metadata.snapshots:
            listed = repository.list_manifests(state, snapshot)
            found |= {snapshot.manifest_list or "", *(m.manifest.manifest_path for m in listed)}
    return found


def test_fold_of_nothing_is_nothing() -> None:
    """No event, no state."""
    assert fold(None, []) is None


def test_the_fold_reads_no_clock_and_no_file(catalog: icecore.Catalog) -> None:
    """States of a replay depend on the events alone: without any data or metadata file they are the same."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    for path in (catalog.path / "ns").rglob("*"):
        if path.is_file():
            path.unlink()
    repository_of(catalog).forget()
    assert catalog.load_table("ns.t").state == table.state


def test_a_state_of_another_metadata_differs(catalog: icecore.Catalog) -> None:
    """Equality of states looks into the metadata, so that the laws above mean something."""
    table = catalog.create_table("ns.t", SCHEMA)
    assert evolve(table.state, metadata=evolve(table.metadata, properties={"a": "b"})) != table.state
