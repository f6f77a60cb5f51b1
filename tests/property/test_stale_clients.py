"""Clients that add schemas, specs and orders, each on the state that it knew: all get what they asked for, in order."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from icecore.engine.evolution.create_table import creation_updates
from icecore.engine.metadata.assigned_ids import with_own_ids
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import NestedField, parse_primitive
from icecore.engine.spec.updates.metadata_update import LAST_ADDED, UNASSIGNED, AddSchema
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    TableUpdate,
    read_table_updates,
)

# Columns 1 and 2 are in all schemas, so that each spec and order fits each of them.
FIELDS = [NestedField(i, f"c{i}", parse_primitive("long"), required=False) for i in range(1, 5)]
SCHEMAS = [Schema((*FIELDS[:2], *more)) for n in range(3) for more in combinations(FIELDS[2:], n)]
TERMS = [(1, "identity"), (1, "bucket[4]"), (2, "truncate[3]")]
SPECS = [
    PartitionSpec(
        tuple(PartitionField((s,), 1000 + i, parse_transform(t), f"p{s}{t[0]}") for i, (s, t) in enumerate(c))
    )
    for n in range(3)
    for c in combinations(TERMS, n)
]
ORDERS = [
    SortOrder(tuple(SortField((s,), parse_transform("identity")) for s in c), 1 if c else 0)
    for c in ((), (1,), (2,), (1, 2))
]
IDS = st.sampled_from([UNASSIGNED, 0, 1, 2, 3, 6])
KINDS = ("schema", "spec", "order")


def add(kind: str, part: Any, given_id: int) -> TableUpdate:
    """The update that adds a part under an id, as it comes over the wire."""
    match kind:
        case "schema":
            update: Any = AddSchema(evolve(part, schema_id=given_id))
        case "spec":
            update = AddPartitionSpec(evolve(part, spec_id=given_id))
        case _:
            update = AddSortOrder(part if not part.fields else evolve(part, order_id=given_id or UNASSIGNED))
    return next(read_table_updates([update.to_dict()]))


def use(kind: str, named: int) -> TableUpdate:
    if kind == "schema":
        return SetCurrentSchema(named)
    return SetDefaultSpec(named) if kind == "spec" else SetDefaultSortOrder(named)


def in_use(metadata: TableMetadata, kind: str) -> Any:
    """What a kind's part in use holds, whatever its id."""
    if kind == "schema":
        return metadata.schema().fields
    if kind == "spec":
        return [(f.source_ids, f.transform, f.name) for f in metadata.spec().fields]
    return metadata.sort_order().fields


def content(part: Any) -> Any:
    if isinstance(part, PartitionSpec):
        return [(f.source_ids, f.transform, f.name) for f in part.fields]
    return part.fields


@st.composite
def commits(draw: st.DrawFn) -> list[tuple[str, Any, int, bool]]:
    """One client's commit: (kind, part, the id that it gives, whether it says -1 of it), each kind once."""
    kinds = draw(st.lists(st.sampled_from(KINDS), unique=True, min_size=1))
    parts: dict[str, list[Any]] = {"schema": SCHEMAS, "spec": SPECS, "order": ORDERS}
    return [(k, draw(st.sampled_from(parts[k])), draw(IDS), draw(st.booleans())) for k in kinds]


def first() -> TableMetadata:
    builder = MetadataBuilder()
    builder.apply(creation_updates("u", "file:///t", Schema(tuple(FIELDS[:2])), None, None, {}, 2), 1)
    return builder.build()


@settings(max_examples=80)
@given(st.lists(commits(), max_size=6))
def test_each_client_has_what_it_added_in_use(clients: list[list[tuple[str, Any, int, bool]]]) -> None:
    """Whatever ids they give, nothing that was there changes or is there twice, and the event replays as it is."""
    metadata = first()
    for commit in clients:
        updates: list[TableUpdate] = []
        for kind, part, given_id, says_last in commit:
            added = add(kind, part, given_id)
            own = added.sort_order.order_id if isinstance(added, AddSortOrder) else given_id
            updates += [added, use(kind, LAST_ADDED if says_last or own == UNASSIGNED else own)]
        accepted = with_own_ids(metadata, updates)
        assert with_own_ids(metadata, accepted) == accepted
        builder = MetadataBuilder(metadata)
        builder.apply(read_table_updates(u.to_dict() for u in accepted), 2)
        after = builder.build()
        for kind, part, _, _ in commit:
            assert in_use(after, kind) == content(part)
        assert after.schemas[: len(metadata.schemas)] == metadata.schemas
        assert after.partition_specs[: len(metadata.partition_specs)] == metadata.partition_specs
        assert after.sort_orders[: len(metadata.sort_orders)] == metadata.sort_orders
        for found in (after.schemas, after.partition_specs, after.sort_orders):
            assert len({repr(content(p)) for p in found}) == len(found)
        assert all(value != LAST_ADDED for u in accepted for value in u.to_dict().values())
        metadata = after
