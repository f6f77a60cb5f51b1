"""SO1: sort orders get ids, equal ones come back; and how the updates that people build are committed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyiceberg.schema import Schema as PySchema
from pyiceberg.table.sorting import NullOrder as PyNullOrder
from pyiceberg.table.sorting import SortOrder as PySortOrder
from pyiceberg.table.update.sorting import UpdateSortOrder as PyUpdateSortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_ops import SchemaOp
from icecore.engine.evolution.terms import SortTerm, parse_sort_terms
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.evolution.update_sort_order import UpdateSortOrder, evolve_sort_order
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import UNSORTED, NullOrder, SortDirection, SortOrder
from icecore.engine.spec.types import LongType, NestedField, TimestampType

SCHEMA = Schema((NestedField(1, "id", LongType(), required=True), NestedField(2, "ts", TimestampType())))


def recorded(update: UpdateSortOrder) -> tuple[SortTerm | str, ...]:
    return update.ops


def builder() -> UpdateSortOrder:
    return UpdateSortOrder(lambda _: None)


def test_so1_orders_count_from_1_and_equal_ones_come_back() -> None:
    first = evolve_sort_order([UNSORTED], ["ts desc"], SCHEMA)
    second = evolve_sort_order([UNSORTED, first], ["ts desc", "bucket(4, id)"], SCHEMA)
    assert (first.order_id, second.order_id) == (1, 2)
    assert evolve_sort_order([UNSORTED, first, second], ["ts DESC NULLS LAST"], SCHEMA) is first
    assert evolve_sort_order([second], first, SCHEMA).order_id == 3
    assert evolve_sort_order([], ["ts"], SCHEMA).order_id == 1


@pytest.mark.parametrize("terms", [None, [], UNSORTED])
def test_so1_no_terms_are_unsorted(terms: list[str] | SortOrder | None) -> None:
    assert evolve_sort_order([parse_sort_terms(["ts"], SCHEMA)], terms, SCHEMA) == UNSORTED


def test_so1_the_builder_records_terms_with_directions_and_null_orders() -> None:
    update = builder().asc("id").desc("ts", null_order="nulls-first").asc("id", "bucket[4]", NullOrder.NULLS_LAST)
    order = evolve_sort_order([], recorded(update), SCHEMA)
    assert [(f.source_id, str(f.transform), str(f.direction), str(f.null_order)) for f in order.fields] == [
        (1, "identity", "asc", "nulls-first"),
        (2, "identity", "desc", "nulls-first"),
        (1, "bucket[4]", "asc", "nulls-last"),
    ]
    assert recorded(builder().asc("id").set("ts desc", "day(ts)")) == ("ts desc", "day(ts)")
    assert recorded(builder().asc("id").unsorted()) == ()
    assert recorded(builder().desc("day(ts)")) == (SortTerm("day(ts)", SortDirection.DESC),)


def test_so1_what_is_no_order_is_refused() -> None:
    with pytest.raises(ValidationError, match="unknown transform 'zorder'"):
        builder().asc("id", "zorder")
    with pytest.raises(ValidationError, match="nulls-first or nulls-last, found 'middle'"):
        builder().asc("id", null_order="middle")
    with pytest.raises(ValidationError, match="hour can't be applied to 'id'"):
        evolve_sort_order([], recorded(builder().asc("id", "hour")), SCHEMA)
    with pytest.raises(ValidationError, match="'nope'"):
        evolve_sort_order([], recorded(builder().asc("nope")), SCHEMA)


def test_so1_pyiceberg_makes_the_same_order() -> None:
    schema = PySchema.model_validate(SCHEMA.to_dict())
    orders = [PySortOrder.model_validate(o.to_dict()) for o in (UNSORTED, parse_sort_terms(["id"], SCHEMA))]
    peer = PyUpdateSortOrder(SimpleNamespace(table_metadata=SimpleNamespace(schema=lambda: schema, sort_orders=orders)))
    peer.asc("id", BucketTransform(4), PyNullOrder.NULLS_FIRST).desc("ts", IdentityTransform(), PyNullOrder.NULLS_LAST)
    mine = evolve_sort_order(
        [UNSORTED, parse_sort_terms(["id"], SCHEMA)], recorded(builder().asc("id", "bucket[4]").desc("ts")), SCHEMA
    )
    assert SortOrder.from_dict(peer._apply().model_dump(by_alias=True, mode="json")) == mine


def test_an_update_commits_once_on_a_clean_exit() -> None:
    committed: list[tuple[SchemaOp, ...]] = []
    with UpdateSchema(committed.append) as update:
        update.add_column("x", "int").move_first("x")
    assert [len(ops) for ops in committed] == [2]
    with pytest.raises(ValidationError, match="committed already"):
        update.commit()
    with pytest.raises(ValidationError, match="committed already"):
        update.delete_column("x")


def test_an_update_that_is_committed_inside_its_block_is_not_committed_again() -> None:
    committed: list[tuple[SchemaOp, ...]] = []
    with UpdateSchema(committed.append) as update:
        update.delete_column("x").commit()
    assert len(committed) == 1


def test_an_update_whose_block_fails_or_records_nothing_commits_nothing() -> None:
    committed: list[object] = []
    with pytest.raises(KeyError), UpdateSchema(committed.append) as update:
        update.add_column("x", "int")
        raise KeyError("elsewhere")
    with UpdateSortOrder(committed.append):
        pass
    assert committed == []


def test_asking_for_no_order_is_a_change() -> None:
    committed: list[tuple[SortTerm | str, ...]] = []
    with UpdateSortOrder(committed.append) as update:
        update.unsorted()
    assert committed == [()]
