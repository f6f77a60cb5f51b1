"""What updates rely on, update by update, as the Java library's `UpdateRequirements` has it (C4)."""

from __future__ import annotations

from typing import Any

import pytest
from core_tables import make_table, rows, store_of
from update_samples import TABLE_UPDATES

import icecore
from icecore.engine.metadata.requirements import requirements_for
from icecore.engine.spec.snapshot import SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.requirement import (
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
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
