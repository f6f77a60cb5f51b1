"""What updates rely on, update by update, as the Java library's `UpdateRequirements` has it (C4)."""

from __future__ import annotations

from typing import Any

import pytest
from core_tables import make_table, rows, store_of
from update_samples import TABLE_UPDATES

import icecore
from icecore.engine.metadata.requirements import failures, requirements_for
from icecore.engine.repository.failed_requirements import failure
from icecore.engine.spec.snapshot import SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.requirement import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    TableRequirement,
)
from icecore.engine.spec.updates.table_update import SetSnapshotRef, TableUpdate, read_table_updates

SCHEMA = AssertCurrentSchemaId(0)
SPEC = AssertDefaultSpecId(0)
ORDER = AssertDefaultSortOrderId(0)
FIELD = AssertLastAssignedFieldId(2)
PARTITION = AssertLastAssignedPartitionId(999)
UPDATES = {u.action: u for u in read_table_updates(TABLE_UPDATES)}


def set_ref(name: str) -> TableUpdate:
    return SetSnapshotRef(name, SnapshotRef(7, SnapshotRefType.BRANCH))


@pytest.mark.parametrize(
    ("actions", "expected", "of_replace"),
    [
        (["assign-uuid", "upgrade-format-version", "set-location", "set-properties", "remove-properties"], [], []),
        (["add-snapshot", "remove-snapshots", "remove-snapshot-ref", "set-statistics", "add-sort-order"], [], []),
        (["add-schema", "add-schema"], [FIELD], [FIELD]),
        (["set-current-schema"], [SCHEMA], []),
        (["add-schema", "set-current-schema"], [FIELD, SCHEMA], [FIELD]),
        (["add-spec"], [PARTITION], [PARTITION]),
        (["set-default-spec", "set-default-spec"], [SPEC], []),
        (["set-default-sort-order"], [ORDER], []),
        (["remove-partition-specs"], [SPEC, "dev"], []),
        (["remove-schemas"], [SCHEMA, "dev"], []),
        (["remove-schemas", "remove-partition-specs"], [SCHEMA, "dev", SPEC], []),
        (["main"], ["main"], []),
        (["main", "main", "dev"], ["main", "dev"], []),
        (["new"], ["new"], []),
    ],
)
def test_c4_requirements_are_those_of_java(
    catalog: icecore.Catalog, actions: list[str], expected: list[Any], of_replace: list[Any]
) -> None:
    """Each update's requirement comes once; tags and main don't keep schemas and specs from being removed."""
    table = make_table(catalog)
    table.append(rows(1))
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, "dev").create_tag(head, "v1").commit()
    updates = [set_ref(a) if a in ("main", "dev", "new") else UPDATES[a] for a in actions]
    uuid = AssertTableUuid(table.metadata.table_uuid)
    heads = {"main": head, "dev": head, "new": None}
    refs = {name: AssertRefSnapshotId(name, snapshot_id) for name, snapshot_id in heads.items()}
    assert requirements_for(table.metadata, updates) == [
        uuid,
        *(refs[e] if isinstance(e, str) else e for e in expected),
    ]
    assert requirements_for(table.metadata, updates, is_replace=True) == [uuid, *of_replace]


def test_c4_a_replaced_table_relies_on_ids_alone(catalog: icecore.Catalog) -> None:
    """The event of a replacement says so: neither the snapshot nor the schema it replaces is required."""
    table = make_table(catalog)
    table.append(rows(1))
    catalog.replace_table("ns.t", rows(1).schema.append(rows(1).schema.field("name").with_name("other")))
    event = store_of(catalog).event_at(catalog.position)
    assert {r["type"] for r in event.payload["requirements"]} <= {
        "assert-table-uuid",
        "assert-last-assigned-field-id",
        "assert-last-assigned-partition-id",
    }


FAILURES: dict[str, tuple[TableRequirement, str]] = {
    "the table is there": (AssertCreate(), "table already exists"),
    "another table": (AssertTableUuid("other"), "UUID does not match: expected {0.table_uuid} != other"),
    "another column": (AssertLastAssignedFieldId(7), "last assigned field id changed: expected id 7 != 2"),
    "another schema": (AssertCurrentSchemaId(3), "current schema changed: expected id 3 != 0"),
    "another partition field": (
        AssertLastAssignedPartitionId(1001),
        "last assigned partition id changed: expected id 1001 != 999",
    ),
    "another spec": (AssertDefaultSpecId(4), "default partition spec changed: expected id 4 != 0"),
    "another order": (AssertDefaultSortOrderId(5), "default sort order changed: expected id 5 != 0"),
    "a branch moved": (
        AssertRefSnapshotId("main", 1),
        "branch main has changed: expected id 1 != {0.current_snapshot_id}",
    ),
    "a tag moved": (AssertRefSnapshotId("v1", 1), "tag v1 has changed: expected id 1 != {0.current_snapshot_id}"),
    "a ref is gone": (AssertRefSnapshotId("dev", 1), "branch or tag dev is missing, expected 1"),
    "a branch was made": (AssertRefSnapshotId("main", None), "branch main was created concurrently"),
    "a tag was made": (AssertRefSnapshotId("v1", None), "tag v1 was created concurrently"),
}


@pytest.mark.parametrize("which", FAILURES)
def test_failures_are_told_in_the_words_of_java(table_with_refs: icecore.Table, which: str) -> None:
    requirement, told = FAILURES[which]
    metadata = table_with_refs.metadata
    assert [text for _, text in failures(metadata, [requirement])] == [f"Requirement failed: {told.format(metadata)}"]
    uuid = str(metadata.table_uuid).upper()
    assert not list(failures(metadata, [AssertTableUuid(uuid), AssertRefSnapshotId("dev", None)]))


def test_a_failure_names_the_table_and_the_commit(table_with_refs: icecore.Table) -> None:
    """After Java's words come the table, and the commit that changed what was required."""
    repository, state = table_with_refs._repository, table_with_refs.state
    requirement = AssertRefSnapshotId("main", 1)
    refused = failure(repository.store, state, requirement, "Requirement failed: x")
    assert refused.startswith("Requirement failed: x in ns.t; it was changed by position 3 by ")


@pytest.fixture
def table_with_refs(catalog: icecore.Catalog) -> icecore.Table:
    """A table with one snapshot, on main and the tag `v1`."""
    table = make_table(catalog)
    table.append(rows(1))
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_tag(head, "v1").commit()
    return table
