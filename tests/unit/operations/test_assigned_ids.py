"""Commits of clients that decided on a state which others changed since: ids are the table's own, races are races."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import pytest
from client_writes import ClientCatalog, Updates, commit_updates
from core_tables import ids_of, make_table, rows, store_of

import icecore
from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.errors import CommitFailedError, ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.evolution.create_table import creation_payload
from icecore.engine.joint_commit.joint_commit import Part, commit_jointly
from icecore.engine.joint_commit.joint_tables import TableChange
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import TableUpdate, read_table_updates
from icecore.engine.spec.updates.view_update import read_view_updates


def column(field_id: int, name: str, kind: str = "long") -> dict[str, Any]:
    return {"id": field_id, "name": name, "required": False, "type": kind}


ID, NAME = column(1, "id"), column(2, "name", "string")


def add_schema(schema_id: int | None, *columns: dict[str, Any]) -> dict[str, Any]:
    named = {} if schema_id is None else {"schema-id": schema_id}
    return {"action": "add-schema", "schema": {"type": "struct", **named, "fields": list(columns)}}


def add_spec(spec_id: int | None, *fields: tuple[int | None, int, str]) -> dict[str, Any]:
    """A spec of (field id, source id, transform)."""
    made = [
        {"source-id": source, "transform": transform, "name": f"p{source}_{transform[:6]}"}
        | ({} if field_id is None else {"field-id": field_id})
        for field_id, source, transform in fields
    ]
    return {"action": "add-spec", "spec": ({} if spec_id is None else {"spec-id": spec_id}) | {"fields": made}}


def add_order(order_id: int | None, *sources: int, direction: str = "asc") -> dict[str, Any]:
    fields = [
        {"source-id": s, "transform": "identity", "direction": direction, "null-order": "nulls-first"} for s in sources
    ]
    named = {} if order_id is None else {"order-id": order_id}
    return {"action": "add-sort-order", "sort-order": {**named, "fields": fields}}


def use_schema(schema_id: int) -> dict[str, Any]:
    return {"action": "set-current-schema", "schema-id": schema_id}


def use_spec(spec_id: int) -> dict[str, Any]:
    return {"action": "set-default-spec", "spec-id": spec_id}


def use_order(order_id: int) -> dict[str, Any]:
    return {"action": "set-default-sort-order", "sort-order-id": order_id}


def written(catalog: icecore.Catalog, *ids: int) -> Updates:
    """The updates of an append that a client has written the files of, and not committed yet."""
    client = ClientCatalog(catalog)
    sent: list[Updates] = []

    def keep(updates: Updates) -> Updates:
        sent.append(updates)
        raise InterruptedError

    client.change = keep
    with contextlib.suppress(InterruptedError):
        client.load_table("ns.t").append(rows(*ids))
    return sent[0]


def replacing(updates: Updates, **more: Any) -> Updates:
    """Those updates as of a replacement: their snapshots have no parents."""
    for update in updates:
        if update["action"] == "add-snapshot":
            update["snapshot"] = {k: v for k, v in update["snapshot"].items() if k != "parent-snapshot-id"} | more
    return updates


def commit(table: icecore.Table, *updates: dict[str, Any], asserted: Updates | None = None) -> icecore.Table:
    """The table after a commit of updates as a client of the REST catalog sends them."""
    commit_updates(table._repository, table.state.stream, list(updates), asserted)
    return table.refresh()


def last_updates(catalog: icecore.Catalog) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store_of(catalog).event_at(catalog.position).payload["updates"]
    return found


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """A table of `id` and `name` with one row."""
    made = make_table(catalog)
    made.append(rows(1))
    return made


@pytest.mark.parametrize("says", [-1, 1])
def test_t8_a_schema_under_an_id_that_is_taken_gets_the_next_one(catalog: Any, table: icecore.Table, says: int) -> None:
    """Whether a client makes the last added one current or the id that it gave, it means what it added."""
    commit(table, add_schema(1, ID, NAME, column(3, "a")), use_schema(1))
    after = commit(table, add_schema(1, ID, NAME, column(4, "b")), use_schema(says))
    assert after.metadata.current_schema_id == 2
    assert [f.name for f in after.schema().fields] == ["id", "name", "b"]
    assert after.metadata.last_column_id == 4
    assert [u.get("schema-id", u.get("schema", {}).get("schema-id")) for u in last_updates(catalog)] == [2, 2]
    assert icecore.open(catalog.path).verify().ok


def test_t8_an_equal_schema_is_used_again(catalog: icecore.Catalog, table: icecore.Table) -> None:
    commit(table, add_schema(1, ID, NAME, column(3, "a")), use_schema(-1))
    after = commit(table, add_schema(5, ID, NAME), use_schema(-1))
    assert last_updates(catalog) == [use_schema(0)]
    assert [s.schema_id for s in after.metadata.schemas] == [0, 1]
    position = catalog.position
    commit(table, add_schema(9, ID, NAME), use_schema(9))
    assert catalog.position == position, "nothing changed, so there is no event"


def test_pt2_specs_are_numbered_as_schemas_are(catalog: icecore.Catalog, table: icecore.Table) -> None:
    commit(table, add_spec(1, (1000, 1, "bucket[8]")), use_spec(-1))
    after = commit(table, add_spec(1, (1000, 2, "truncate[2]")), use_spec(1))
    assert (after.metadata.default_spec_id, str(after.spec())) == (2, "[p2_trunca: truncate[2](2)]")
    after = commit(table, add_spec(7, (1009, 1, "bucket[8]")), use_spec(7))
    assert (after.metadata.default_spec_id, after.metadata.last_partition_id) == (1, 1001)
    assert last_updates(catalog) == [use_spec(1)]


def test_pt1_partition_fields_without_an_id_get_that_of_an_equal_one_or_a_new_one(table: icecore.Table) -> None:
    commit(table, add_spec(None, (None, 1, "bucket[8]")), use_spec(-1))
    after = commit(table, add_spec(None, (None, 2, "identity"), (None, 1, "bucket[8]")), use_spec(-1))
    assert [f.field_id for f in after.spec().fields] == [1001, 1000]
    after = commit(table, add_spec(None, (1005, 2, "truncate[3]"), (None, 1, "bucket[4]")), use_spec(-1))
    assert [f.field_id for f in after.spec().fields] == [1005, 1006]
    assert after.metadata.last_partition_id == 1006


def test_pt1_a_partition_field_under_an_id_of_another_one_gets_its_own(table: icecore.Table) -> None:
    """Values of both are in manifests under their ids, so one id has one meaning; an equal field keeps it."""
    commit(table, add_spec(1, (1000, 1, "bucket[4]")), use_spec(-1))
    table.refresh().append(rows(2))
    after = commit(table, add_spec(2, (1000, 2, "identity")), use_spec(-1))
    assert [f.field_id for f in after.spec().fields] == [1001]
    after.append(rows(3))
    after = commit(table, add_spec(3, (1001, 1, "bucket[4]"), (1000, 2, "identity")), use_spec(-1))
    assert [f.field_id for f in after.spec().fields] == [1000, 1001]
    found = [{k: v for k, v in p.items() if v is not None} for p in after.inspect.files()["partition"].to_pylist()]
    assert sorted(found, key=str) == [{"p1_bucket": 0}, {"p2_identi": "n3"}, {}]
    after = commit(table, add_spec(4, (1000, 1, "void"), (1000, 1, "bucket[8]"), (1001, 2, "identity")), use_spec(-1))
    assert [f.field_id for f in after.spec().fields] == [1000, 1002, 1001], "a field without values keeps its id"
    assert after.metadata.last_partition_id == 1002
    assert ids_of(after, row_filter="name = 'n2'") == [2]


def test_pt1_v1_ids_of_partition_fields_are_by_place(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, format_version=1)
    commit(table, add_spec(1, (1000, 1, "bucket[4]")), use_spec(-1))
    after = commit(table, add_spec(2, (1000, 2, "identity")), use_spec(-1))
    assert [f.field_id for f in after.spec().fields] == [1000]
    commit(table, {"action": "upgrade-format-version", "format-version": 2})
    after = commit(table, add_spec(3, (1000, 2, "identity"), (1001, 1, "identity")), use_spec(-1))
    assert [f.field_id for f in after.spec().fields] == [1000, 1001], "an id of two fields fits both"


def test_files_under_a_partition_field_that_stands_for_another_are_refused(
    catalog: icecore.Catalog, table: icecore.Table
) -> None:
    commit(table, add_spec(1, (1000, 1, "identity")), use_spec(-1))
    position, files = catalog.position, written(catalog, 2)
    with pytest.raises(CommitFailedError, match="under id 1000, which stands for another one and would be 1001"):
        commit(table, add_spec(2, (1000, 2, "identity")), use_spec(-1), *files)
    assert catalog.position == position


def test_so1_orders_are_numbered_and_unsorted_is_always_zero(catalog: icecore.Catalog, table: icecore.Table) -> None:
    commit(table, add_order(1, 1), use_order(-1))
    after = commit(table, add_order(1, 2, direction="desc"), use_order(-1))
    assert (after.metadata.default_sort_order_id, after.sort_order().fields[0].source_id) == (2, 2)
    assert commit(table, add_order(3, 1), use_order(3)).metadata.default_sort_order_id == 1
    assert commit(table, add_order(4), use_order(4)).metadata.default_sort_order_id == 0
    assert [o.order_id for o in table.refresh().metadata.sort_orders] == [0, 1, 2]


REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "last schema of none": ([use_schema(-1)], "Cannot set last added schema: no schema has been added"),
    "last spec of none": ([add_schema(1, ID), use_spec(-1)], "Cannot set last added spec: no spec has been added"),
    "last order of none": ([use_order(-1)], "Cannot set last added sort order: no sort order has been added"),
    "spec over no column": ([add_spec(1, (1000, 9, "identity"))], "no column with id 9"),
    "order over no column": ([add_order(1, 9), use_order(-1)], "no column with id 9"),
    "default spec over a column that is gone": (
        [add_spec(1, (1000, 2, "identity")), use_spec(-1), add_schema(1, ID), use_schema(-1)],
        "no column with id 2",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_refers_to_nothing_is_refused(catalog: icecore.Catalog, table: icecore.Table, which: str) -> None:
    updates, told = REFUSED[which]
    position = catalog.position
    with pytest.raises(ValidationError, match=told):
        commit(table, *updates)
    assert catalog.position == position


def test_concurrent_replacements_with_files_are_both_made(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """As the Java library sends them: nothing but the uuid is asserted, and the second snapshot has no parent."""
    gone = {"action": "remove-snapshot-ref", "ref-name": "main"}
    uuid = [{"type": "assert-table-uuid", "uuid": table.metadata.table_uuid}]
    first, second = replacing(written(catalog, 2)), replacing(written(catalog, 3), **{"schema-id": 1})
    commit(table, gone, add_order(1, 1, direction="desc"), use_order(-1), *first, asserted=uuid)
    commit(table, add_schema(1, ID, NAME, column(3, "z")), use_schema(-1))
    added = (add_schema(1, ID), use_schema(-1), add_order(1, 1), use_order(-1))
    after = commit(table, gone, *added, *second, asserted=uuid).metadata
    assert (after.current_schema_id, after.default_sort_order_id) == (2, 2)
    head = after.current_snapshot()
    assert head is not None and head.schema_id == 2, "the schema that the client added, under its own id"
    assert (head.parent_snapshot_id, head.sequence_number, after.last_sequence_number) == (None, 2, 2)
    assert ids_of(table.refresh()) == [1, 3], "all that its manifest list names"
    assert icecore.open(catalog.path).verify().ok


def test_files_under_a_spec_whose_id_is_taken_are_a_lost_race(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """Manifests name their spec by its id, so the commit can't be made under another one."""
    stale = (add_spec(1, (1000, 2, "identity")), use_spec(-1), *replacing(written(catalog, 2)))
    commit(table, add_spec(1, (1000, 1, "bucket[8]")), use_spec(-1))
    position = catalog.position
    told = r"^Validation failed, please retry: .* would be 2 by now in ns\.t; its last commit is position 4 by cleo"
    with pytest.raises(CommitFailedError, match=told) as e:
        commit(table, *stale)
    assert (e.value.http_status, e.value.retryable, catalog.position) == (409, True, position)


def test_l1_a_stale_sequence_number_is_a_lost_race(catalog: icecore.Catalog, table: icecore.Table) -> None:
    stale = written(catalog, 3)
    table.append(rows(2), message="meanwhile", author="eve")
    told = (
        r"^Validation failed, please retry: Cannot add snapshot with sequence number 2 older than last sequence "
        r"number 2 in ns\.t; its last commit is position 4 by eve \('meanwhile'\): append"
    )
    with pytest.raises(CommitFailedError, match=told):
        commit(table, *stale)
    assert ids_of(table.refresh()) == [1, 2]
    change = ChangeMetadata(lambda _: list(read_table_updates(stale)))
    dry = table._repository.dry_run(table.state.stream, lambda _: [change])
    assert dry.is_empty and "please retry" in dry.conflicts[0]


def test_rl1_a_stale_first_row_id_is_a_lost_race(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, format_version=3)
    table.append(rows(1))
    head = table.current_snapshot()
    assert head is not None
    stale = {k: v for k, v in head.to_dict(3).items() if k != "parent-snapshot-id"} | {"snapshot-id": 12}
    table.append(rows(2))
    with pytest.raises(CommitFailedError, match="please retry: Cannot add a snapshot, first-row-id is behind"):
        commit(table, {"action": "add-snapshot", "snapshot": {**stale, "first-row-id": 1}})


def test_a_stale_part_of_a_joint_commit_is_a_lost_race_of_all(catalog: icecore.Catalog, table: icecore.Table) -> None:
    other = make_table(catalog, "u")
    stale = written(catalog, 3)
    table.append(rows(2))
    position = catalog.position
    parts: list[Part] = []
    for name, of, updates in (("u", other, [add_schema(7, ID), use_schema(7)]), ("t", table, stale)):
        change = ChangeMetadata(partial(_read, updates))
        parts.append(TableChange.of(("ns", name), of.state.stream, [change]))
    with pytest.raises(CommitFailedError, match="please retry"):
        commit_jointly(catalog._warehouse.targets, parts, Provenance())
    assert (catalog.position, other.refresh().metadata.current_schema_id) == (position, 0)


def _read(updates: Updates, _: TableMetadata) -> list[TableUpdate]:
    return list(read_table_updates(updates))


def test_a_creation_by_a_client_is_numbered_from_the_start() -> None:
    """The ids that it gives, or leaves out, become the table's, and nothing says -1 in the log."""
    parts = [(add_schema(None, ID), use_schema(-1)), (add_spec(None, (None, 1, "bucket[4]")), use_spec(-1))]
    parts.append((add_order(None), use_order(-1)))
    made = creation_payload(("ns", "t"), read_table_updates(u for part in parts for u in part))["updates"]
    spec = made[2]["spec"]
    assert made[0]["schema"]["schema-id"] == 0 and made[1] == use_schema(0)
    assert (spec["spec-id"], spec["fields"][0]["field-id"], made[3]) == (0, 1000, use_spec(0))
    assert made[4]["sort-order"]["order-id"] == 0 and made[5] == use_order(0)


def test_v1_ids_of_views_are_their_own_too(catalog: icecore.Catalog) -> None:
    """A version names the schema that the same commit added, whichever id that got; so does what makes it current."""
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    catalog.create_view("ns.v", "SELECT 2 AS y", replace=True)
    version = view.current_version().to_dict() | {"version-id": 2, "schema-id": 1}
    version["representations"] = [{"type": "sql", "sql": "SELECT 3 AS z", "dialect": "duckdb"}]
    updates = [
        add_schema(1, column(0, "z")),
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": 2},
    ]
    views = catalog._warehouse.views
    views.commit(view.state.stream, lambda _: read_view_updates(updates), Provenance())
    after = catalog.load_view("ns.v")
    assert (after.metadata.current_version_id, after.current_version().schema_id) == (3, 2)
    assert [f.name for f in after.schema().fields] == ["z"]
    assert last_updates(catalog)[-1]["view-version-id"] == 3
