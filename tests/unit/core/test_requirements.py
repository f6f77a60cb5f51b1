"""What updates rely on, update by update, as the Java library's `UpdateRequirements` has it (C4)."""

from __future__ import annotations

from typing import Any

import pytest
from core_tables import make_table, rows, store_of

import icecore
from icecore.engine.metadata.requirements import requirements_for

UUID = {"type": "assert-table-uuid"}
SCHEMA = {"type": "assert-current-schema-id", "current-schema-id": 0}
SPEC = {"type": "assert-default-spec-id", "default-spec-id": 0}
ORDER = {"type": "assert-default-sort-order-id", "default-sort-order-id": 0}
FIELD = {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2}
PARTITION = {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999}


def ref(name: str, snapshot_id: Any) -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}


def set_ref(name: str) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": "branch", "snapshot-id": 7}


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
    updates = [set_ref(a) if a in ("main", "dev", "new") else {"action": a} for a in actions]
    uuid = {**UUID, "uuid": table.metadata.table_uuid}
    refs = {"main": ref("main", head), "dev": ref("dev", head), "new": ref("new", None)}
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
