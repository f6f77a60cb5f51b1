"""Partition spec changes: ids that come back, void fields in v1, names, and what is refused (PT1 to PT3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionSpec as PyPartitionSpec
from pyiceberg.schema import Schema as PySchema
from pyiceberg.table.update.spec import UpdateSpec as PyUpdateSpec

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.terms import parse_partition_terms
from icecore.engine.evolution.update_spec import SpecOp, UpdateSpec, evolve_spec
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import DayTransform, UnknownTransform
from icecore.engine.spec.types import (
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "ts", TimestampType()),
        NestedField(3, "name", StringType()),
        NestedField(4, "a", StructType((NestedField(5, "b", IntegerType()),))),
        NestedField(6, "tags", ListType(7, IntegerType())),
        NestedField(8, "shard", IntegerType()),
    )
)
Change = Callable[[UpdateSpec], object]


def change(
    current: PartitionSpec, *changes: Change, version: int = 2, specs: Iterable[PartitionSpec] = (), last_id: int = 0
) -> PartitionSpec:
    """The spec after the changes in a table that has `specs` and `current`."""
    committed: list[tuple[SpecOp, ...]] = []
    with UpdateSpec(committed.append) as update:
        for c in changes:
            c(update)
    specs = (*specs, current)
    last_id = max([last_id, *(s.last_assigned_field_id for s in specs)])
    return evolve_spec(
        current, committed[0], schema=SCHEMA, all_specs=specs, last_partition_id=last_id, format_version=version
    )


def spec(*terms: str, spec_id: int = 0) -> PartitionSpec:
    return PartitionSpec(parse_partition_terms(list(terms), SCHEMA).fields, spec_id)


def rows(found: PartitionSpec) -> list[tuple[int, str, str]]:
    return [(f.field_id, f.name, str(f.transform)) for f in found.fields]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_pt1_added_fields_come_last_with_the_next_ids(version: int) -> None:
    found = change(
        spec("day(ts)"),
        lambda u: u.add_field("bucket(4, id)"),
        lambda u: u.add_field("name", "truncate[2]", "prefix"),
        lambda u: u.add_identity("a.b"),
        version=version,
    )
    assert rows(found) == [
        (1000, "ts_day", "day"),
        (1001, "id_bucket_4", "bucket[4]"),
        (1002, "prefix", "truncate[2]"),
        (1003, "a.b", "identity"),
    ]
    assert found.spec_id == 1
    assert [f.source_ids for f in found.fields] == [(2,), (1,), (3,), (5,)]


def test_a_term_may_bring_its_name_and_a_transform_object_will_do() -> None:
    found = change(
        UNPARTITIONED, lambda u: u.add_field("bucket(4, id) AS b"), lambda u: u.add_field("ts", DayTransform())
    )
    assert rows(found) == [(1000, "b", "bucket[4]"), (1001, "ts_day", "day")]


def test_pt1_v2_drops_fields_and_never_gives_their_ids_to_others() -> None:
    found = change(
        spec("day(ts)", "bucket(4, id)"), lambda u: u.remove_field("ts_day"), lambda u: u.add_field("hour(ts)")
    )
    assert rows(found) == [(1001, "id_bucket_4", "bucket[4]"), (1002, "ts_hour", "hour")]
    assert change(spec("day(ts)"), lambda u: u.remove_field("day(ts)")).fields == ()


def test_pt2_v2_takes_the_id_and_name_of_an_equal_field_of_any_earlier_spec() -> None:
    first = spec("day(ts) AS the_day", "bucket(4, id)")
    second = PartitionSpec((first.fields[1],), 1)
    again = change(second, lambda u: u.add_field("day(ts)"), specs=(first,))
    assert rows(again) == [(1001, "id_bucket_4", "bucket[4]"), (1000, "the_day", "day")]
    assert again.spec_id == 2
    renamed = change(second, lambda u: u.add_field("ts", "day", "another"), specs=(first,))
    assert rows(renamed)[1] == (1002, "another", "day")
    third = change(second, lambda u: u.remove_field("id_bucket_4"), lambda u: u.add_field("name"), specs=(first,))
    assert rows(third) == [(1002, "name", "identity")]


def test_pt2_an_equivalent_spec_comes_back_as_it_is() -> None:
    first = spec("day(ts)", "bucket(4, id)", spec_id=0)
    second = change(first, lambda u: u.remove_field("ts_day"))
    assert second.spec_id == 1
    third = change(second, lambda u: u.remove_field("id_bucket_4"), lambda u: u.add_field("day(ts)"), specs=(first,))
    assert third.spec_id == 2
    back = change(third, lambda u: u.add_field("bucket(4, id)"), specs=(first, second))
    assert back is first
    assert change(first, lambda u: u.rename_field("ts_day", "ts_day")) is first


def test_pt3_v1_turns_dropped_fields_into_void_and_keeps_their_place() -> None:
    found = change(
        spec("name", "bucket(4, id)"), lambda u: u.remove_field("name"), lambda u: u.add_field("day(ts)"), version=1
    )
    assert rows(found) == [(1000, "name", "void"), (1001, "id_bucket_4", "bucket[4]"), (1002, "ts_day", "day")]


def test_pt3_v1_a_void_field_gives_its_name_to_a_new_one() -> None:
    dropped = change(spec("name", "bucket(4, id)"), lambda u: u.remove_field("name"), version=1)
    again = change(dropped, lambda u: u.add_field("name"), version=1)
    assert rows(again) == [(1000, "name_1000", "void"), (1001, "id_bucket_4", "bucket[4]"), (1002, "name", "identity")]
    at_once = change(
        spec("day(ts) AS d"), lambda u: u.remove_field("d"), lambda u: u.add_field("hour(ts) AS d"), version=1
    )
    assert rows(at_once) == [(1000, "d_1000", "void"), (1001, "d", "hour")]
    renamed = change(
        spec("day(ts) AS d", "bucket(4, id) AS b"),
        lambda u: u.remove_field("d"),
        lambda u: u.rename_field("b", "d"),
        version=1,
    )
    assert rows(renamed) == [(1000, "d_1000", "void"), (1001, "d", "bucket[4]")]


def test_pt1_v1_ids_are_sequential_in_each_spec() -> None:
    found = change(
        UNPARTITIONED, lambda u: u.add_field("day(ts)"), version=1, specs=(spec("id", "name", spec_id=1),), last_id=1001
    )
    assert rows(found) == [(1000, "ts_day", "day")]
    assert found.spec_id == 2


def test_pt2_after_an_upgrade_a_void_field_gives_way_to_the_field_that_it_was() -> None:
    first = spec("name", "bucket(4, id)")
    voided = change(first, lambda u: u.remove_field("name"), version=1)
    back = change(voided, lambda u: u.add_field("name"), version=2, specs=(first,))
    assert rows(back) == [(1001, "id_bucket_4", "bucket[4]"), (1000, "name", "identity")]


def test_pt1_one_spec_never_has_an_id_twice() -> None:
    """Specs of v1 tables may give one id to different fields; such an id is not taken again beside its other owner."""
    first, second = spec("name"), spec("bucket(4, id)", spec_id=1)
    found = change(second, lambda u: u.add_field("name"), specs=(first,))
    assert rows(found) == [(1000, "id_bucket_4", "bucket[4]"), (1001, "name", "identity")]


@pytest.mark.parametrize("version", [1, 2])
def test_removing_and_adding_again_leaves_the_field_where_it_was(version: int) -> None:
    first = spec("day(ts)", "bucket(4, id)")
    assert change(first, lambda u: u.remove_field("ts_day"), lambda u: u.add_field("day(ts)"), version=version) is first
    named = change(first, lambda u: u.remove_field("ts_day"), lambda u: u.add_field("ts", "day", "d"), version=version)
    assert rows(named) == [(1000, "d", "day"), (1001, "id_bucket_4", "bucket[4]")]


def test_fields_are_renamed_in_place_even_to_each_others_names() -> None:
    found = change(
        spec("day(ts) AS x", "bucket(4, id) AS y"),
        lambda u: u.rename_field("x", "y"),
        lambda u: u.rename_field("y", "x"),
    )
    assert rows(found) == [(1000, "y", "day"), (1001, "x", "bucket[4]")]


FIRST = spec("day(ts)", "bucket(4, id) AS b", "name")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([lambda u: u.add_field("day(ts)")], "is the field 'ts_day' already"),
        ([lambda u: u.add_field("days(ts) AS other")], "is the field 'ts_day' already"),
        ([lambda u: u.add_field("a.b"), lambda u: u.add_field("a.b AS c")], "added twice"),
        ([lambda u: u.add_field("a.b AS c"), lambda u: u.add_field("bucket(2, a.b) AS c")], "added twice"),
        ([lambda u: u.add_field("hour(ts)"), lambda u: u.add_field("year(ts)")], "redundant beside 'ts_hour'"),
        ([lambda u: u.add_field("bucket(2, id) AS b")], "there is one of that name"),
        ([lambda u: u.add_field("bucket(2, id) AS shard")], "the name of a column"),
        ([lambda u: u.add_field("a.b AS shard")], "the name of a column"),
        ([lambda u: u.rename_field("b", "shard")], "the name of a column"),
        ([lambda u: u.add_field("nope")], "no column 'nope'"),
        ([lambda u: u.add_field("nope", "day")], "no column 'nope'"),
        ([lambda u: u.add_field("day(ts)", "day")], "no column"),
        ([lambda u: u.add_field("bucket(2, id) AS x", None, "y")], "a second name"),
        ([lambda u: u.add_field("tags", "bucket[2]")], "must be primitive"),
        ([lambda u: u.add_field("tags.element", "bucket[2]")], "not inside a list or map"),
        ([lambda u: u.add_field("name", "day")], "can't be applied to string"),
        ([lambda u: u.add_field("id", "zorder[2]")], "unknown transform 'zorder"),
        ([lambda u: u.remove_field("nope")], "no partition field 'nope' to remove; there are: ts_day"),
        ([lambda u: u.remove_field("hour(ts)")], "no partition field 'hour"),
        ([lambda u: u.add_field("a.b"), lambda u: u.remove_field("a.b")], "the same change adds it"),
        ([lambda u: u.add_field("a.b AS c"), lambda u: u.remove_field("a.b")], "the same change adds it"),
        ([lambda u: u.rename_field("b", "c"), lambda u: u.remove_field("b")], "renames it"),
        ([lambda u: u.remove_field("b"), lambda u: u.rename_field("b", "c")], "removes it"),
        ([lambda u: u.add_field("a.b"), lambda u: u.rename_field("a.b", "c")], "the same change adds it"),
        ([lambda u: u.rename_field("nope", "c")], "no partition field 'nope' to rename"),
        ([lambda u: u.rename_field("b", "ts_day")], "used twice"),
        ([lambda u: u.rename_field("b", "")], "needs a name"),
    ],
)
def test_changes_that_are_refused(changes: list[Change], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        change(FIRST, *changes)


def test_two_time_fields_of_one_column_may_come_in_two_changes() -> None:
    found = change(spec("day(ts)"), lambda u: u.add_field("hour(ts)"))
    assert [f.name for f in found.fields] == ["ts_day", "ts_hour"]


def test_g3_a_spec_with_an_unknown_transform_changes_only_to_one_without() -> None:
    odd = PartitionSpec((PartitionField((1,), 1000, UnknownTransform("zorder[2]"), "z"),))
    with pytest.raises(ValidationError, match="unknown here"):
        change(odd, lambda u: u.add_field("day(ts)"))
    assert rows(change(odd, lambda u: u.remove_field("z"), lambda u: u.add_field("day(ts)"))) == [
        (1001, "ts_day", "day")
    ]


# The peer

PEER_CHANGES: list[list[tuple[str, tuple[str, ...]]]] = [
    [("add_field", ("id", "bucket[4]"))],
    [("add_field", ("name", "truncate[3]")), ("add_identity", ("a.b",))],
    [("remove_field", ("id_bucket_4",)), ("add_field", ("ts", "month", "m"))],
    [("rename_field", ("m", "months")), ("add_field", ("id", "bucket[8]"))],
    [("remove_field", ("a.b",))],
    [("add_identity", ("a.b",)), ("remove_field", ("name_trunc_3",))],
    [("add_field", ("id", "bucket[4]"))],
    [("remove_field", ("id_bucket_8",)), ("remove_field", ("id_bucket_4",))],
    [("add_field", ("id", "bucket[8]"))],
]


def theirs(
    calls: list[tuple[str, tuple[str, ...]]], current: PartitionSpec, specs: dict[int, PartitionSpec], version: int
) -> dict[str, Any]:
    schema = PySchema.model_validate(SCHEMA.to_dict())
    py_specs = {i: PyPartitionSpec.model_validate(s.to_dict()) for i, s in specs.items()}
    metadata = SimpleNamespace(
        format_version=version,
        spec=lambda: py_specs[current.spec_id],
        specs=lambda: py_specs,
        schema=lambda: schema,
        last_partition_id=max(s.last_assigned_field_id for s in specs.values()),
    )
    update = PyUpdateSpec(SimpleNamespace(table_metadata=metadata))
    for method, arguments in calls:
        getattr(update, method)(*arguments)
    dumped: dict[str, Any] = update._apply().model_dump(by_alias=True)
    return PartitionSpec.from_dict(
        {**dumped, "fields": [{**f, "transform": str(f["transform"])} for f in dumped["fields"]]}
    ).to_dict()


@pytest.mark.parametrize("version", [1, 2])
def test_pt1_pt2_a_history_of_changes_gives_the_specs_that_pyiceberg_gives(version: int) -> None:
    current = UNPARTITIONED
    specs = {0: current}
    for calls in PEER_CHANGES:

        def apply(u: UpdateSpec, calls: list[tuple[str, tuple[str, ...]]] = calls) -> None:
            for method, arguments in calls:
                getattr(u, method)(*arguments)

        evolved = change(current, apply, version=version, specs=specs.values())
        assert evolved.to_dict() == theirs(calls, current, specs, version)
        current = specs[evolved.spec_id] = evolved
    assert len(specs) > 6
