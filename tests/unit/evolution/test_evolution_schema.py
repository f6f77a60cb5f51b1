"""Changes of columns that are there: deleted, renamed, promoted, moved, and every change that is refused."""

from __future__ import annotations

import pytest
from schema_changes import LAST_ID, SCHEMA, Change, change, change_with_last_id, names, names_in, primitive

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_evolution import evolve_schema
from icecore.engine.evolution.schema_ops import AddColumn, SchemaOp
from icecore.engine.evolution.terms import parse_partition_terms, parse_sort_terms
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.types import (
    IntegerType,
    MapType,
    StringType,
    StructType,
    parse_primitive,
)

# Deleting


def test_t7_deleting_and_adding_again_gives_another_id() -> None:
    evolved = change(lambda u: u.delete_column("name"), lambda u: u.add_column("name", "int"))
    assert names(evolved) == [n for n in names(SCHEMA) if n != "name"] + ["name"]
    assert evolved.find_field("name").field_id == 21


def test_t7_nested_columns_are_deleted_by_path() -> None:
    evolved = change(lambda u: u.delete_column("place.lat"), lambda u: u.delete_column(("points", "y")))
    assert (names_in(evolved, "place"), names_in(evolved, "points.element")) == (["lon"], ["x"])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([lambda u: u.delete_column("nope")], "no column 'nope'"),
        ([lambda u: u.delete_column("id")], "identifier field 'id' can't be deleted"),
        ([lambda u: u.delete_column("points.element")], "part of a list or map"),
        ([lambda u: u.delete_column("counts.value")], "part of a list or map"),
        ([lambda u: u.delete_column("props.key.k")], "keys of a map can't change"),
        ([lambda u: u.add_column("new", "int"), lambda u: u.delete_column("new")], "the same change adds it"),
        ([lambda u: u.rename_column("name", "who"), lambda u: u.delete_column("name")], "updates or moves"),
        ([lambda u: u.update_column("place.lat", "double"), lambda u: u.delete_column("place")], "updates or moves"),
        ([lambda u: u.add_column(("place", "z"), "int"), lambda u: u.delete_column("place")], "adds to"),
        ([lambda u: u.move_first("name"), lambda u: u.delete_column("name")], "moves it"),
        ([lambda u: u.move_after("day", "name"), lambda u: u.delete_column("name")], "moves it"),
        ([lambda u: u.delete_column("place"), lambda u: u.delete_column("place.lat")], "deletes it"),
        ([lambda u: u.delete_column("name"), lambda u: u.rename_column("name", "who")], "deletes it"),
        ([lambda u: u.delete_column("place"), lambda u: u.update_column("place.lat", "double")], "deletes it"),
        ([lambda u: u.delete_column("name"), lambda u: u.move_after("day", "name")], "deletes it"),
    ],
)
def test_deletions_that_are_refused(changes: list[Change], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        change(*changes)


def test_deleting_twice_is_deleting() -> None:
    assert "name" not in names(change(lambda u: u.delete_column("name"), lambda u: u.delete_column("name")))


def test_pt1_columns_that_the_table_is_partitioned_or_sorted_by_stay() -> None:
    old = parse_partition_terms(["bucket(4, name)"], SCHEMA)
    current = PartitionSpec(parse_partition_terms(["year(day)", "place.lat"], SCHEMA).fields, 1)
    for path in ("day", "place.lat", "place"):
        with pytest.raises(ValidationError, match="can't be deleted: partition field"):
            change(lambda u, path=path: u.delete_column(path), specs=(old, current), default_spec_id=1)  # type: ignore[misc]
    assert "name" not in names(change(lambda u: u.delete_column("name"), specs=(old, current), default_spec_id=1))
    with pytest.raises(ValidationError, match="partition field 'name_bucket_4' of spec 0 needs it"):
        change(lambda u: u.delete_column("name"), specs=(old, current))
    with pytest.raises(ValidationError, match="sort field identity of order 1 needs it"):
        change(lambda u: u.delete_column("name"), order=parse_sort_terms(["name"], SCHEMA))


def test_pt3_a_void_partition_field_holds_no_column() -> None:
    spec = parse_partition_terms(["void(name) AS name"], SCHEMA)
    assert "name" not in names(change(lambda u: u.delete_column("name"), specs=(spec,)))


# Renaming


def test_t7_a_renamed_column_keeps_id_type_doc_and_identity() -> None:
    evolved = change(lambda u: u.rename_column("name", "who"), lambda u: u.rename_column("id", "key"))
    assert evolved.fields[1] == primitive(2, "who", "string", doc="who")
    assert evolved.identifier_field_ids == (1,)
    assert names_in(change(lambda u: u.rename_column("points.x", "lng")), "points.element") == ["lng", "y"]


def test_two_columns_can_swap_their_names() -> None:
    evolved = change(lambda u: u.rename_column("name", "day"), lambda u: u.rename_column("day", "name"))
    assert [evolved.find_field(n).field_id for n in ("day", "name")] == [2, 3]


@pytest.mark.parametrize(
    ("path", "new_name", "says"),
    [
        ("name", "day", "column name 'day' is used twice"),
        ("place.lat", "lon", "column name 'place.lon' is used twice"),
        ("nope", "x", "no column 'nope'"),
        ("name", "", "the new name is empty"),
        ("points.element", "x", "part of a list or map"),
        ("props.key.k", "x", "keys of a map can't change"),
    ],
)
def test_renames_that_are_refused(path: str, new_name: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        change(lambda u: u.rename_column(path, new_name))


def test_new_names_do_not_take_those_of_partition_fields() -> None:
    spec = parse_partition_terms(["year(day)", "name", "bucket(4, id) AS shard"], SCHEMA)
    for wish in (lambda u: u.add_column("day_year", "int"), lambda u: u.rename_column("place", "shard")):
        with pytest.raises(ValidationError, match="the name of a partition field of spec 0"):
            change(wish, specs=(spec,))
    assert "who" in names(change(lambda u: u.rename_column("name", "who"), specs=(spec,)))
    renamed = change(lambda u: u.rename_column("name", "who"), specs=(spec,))
    assert "name" in names(change(lambda u: u.rename_column("who", "name"), schema=renamed, specs=(spec,)))


# Types, nullability, docs


def test_t7_promotions_reach_elements_and_values_but_not_keys() -> None:
    evolved = change(
        lambda u: u.update_column("id", "long"),
        lambda u: u.update_column("place.lat", "double"),
        lambda u: u.update_column("tags.element", "long"),
        lambda u: u.update_column("counts.value", "long"),
        lambda u: u.update_column("points.x", "long"),
    )
    found = [
        str(evolved.find_field(n).field_type) for n in ("id", "place.lat", "tags.element", "counts.value", "points.x")
    ]
    assert found == ["long", "double", "long", "long", "long"]
    assert evolved.find_field("tags.element").required and evolved.find_field("counts.value").required
    numbers = change(lambda u: u.add_column("m", MapType(1, IntegerType(), 2, IntegerType())))
    with pytest.raises(ValidationError, match="keys of a map can't change"):
        change(lambda u: u.update_column("m.key", "long"), schema=numbers)


@pytest.mark.parametrize(
    ("path", "target", "version"),
    [
        ("id", "string", 3),
        ("name", "int", 3),
        ("place", "int", 3),
        ("day", "timestamp", 2),
        ("day", "timestamptz", 3),
        ("id", "int", 2),
    ],
)
def test_t7_what_is_no_promotion_is_refused(path: str, target: str, version: int) -> None:
    if SCHEMA.find_field(path).field_type == parse_primitive(target):
        assert change(lambda u: u.update_column(path, target), version=version) == SCHEMA
        return
    for allow in (False, True):
        with pytest.raises(ValidationError, match=rf"{path!r} can't change from .* to {target}"):
            change(lambda u: u.update_column(path, target), version=version, allow_incompatible_changes=allow)


def test_t7_a_date_becomes_a_timestamp_with_its_defaults_in_v3() -> None:
    base = change(lambda u: u.add_column("d", "date", default_value=3), version=3)
    evolved = change(lambda u: u.update_column("d", "timestamp"), schema=base, version=3).find_field("d")
    assert (str(evolved.field_type), evolved.initial_default, evolved.write_default) == (
        "timestamp",
        *[3 * 86_400_000_000] * 2,
    )


def test_t7_unknown_becomes_anything_in_v3_with_fresh_ids_inside() -> None:
    base, last = change_with_last_id(lambda u: u.add_column("u", "unknown"), version=3)
    target = StructType((primitive(1, "a", "int"), primitive(1, "b", "int")))
    evolved, last = change_with_last_id(lambda u: u.update_column("u", target), schema=base, version=3, last_id=last)
    assert [evolved.find_field(n).field_id for n in ("u", "u.a", "u.b")] == [21, 22, 23]
    assert last == 23
    with pytest.raises(ValidationError, match="must be optional"):
        change(lambda u: u.update_column("u", required=True), schema=base, version=3, allow_incompatible_changes=True)


def test_t7_a_promotion_must_keep_the_values_of_every_spec() -> None:
    day = parse_partition_terms(["day(day)", "bucket(4, id)"], SCHEMA)
    identity = PartitionSpec(parse_partition_terms(["day"], SCHEMA).fields, 1)

    def wish(u: UpdateSchema) -> object:
        return u.update_column("day", "timestamp")

    assert str(change(wish, specs=(day,), version=3).find_field("day").field_type) == "timestamp"
    with pytest.raises(ValidationError, match=r"partition field 'day' \(identity\) of spec 1 would have other values"):
        change(wish, specs=(day, identity), default_spec_id=0, version=3)
    assert str(change(lambda u: u.update_column("id", "long"), specs=(day,)).find_field("id").field_type) == "long"


def test_t7_columns_become_optional_freely_and_required_only_by_force() -> None:
    evolved = change(lambda u: u.make_column_optional("points.x"), lambda u: u.make_column_optional("tags.element"))
    assert evolved.find_field("points.x").optional and evolved.find_field("tags.element").optional
    with pytest.raises(ValidationError, match="'name' can't become required"):
        change(lambda u: u.update_column("name", required=True))
    assert (
        change(lambda u: u.update_column("name", required=True), allow_incompatible_changes=True)
        .find_field("name")
        .required
    )
    assert change(lambda u: u.update_column("id", required=True)) == SCHEMA
    defaulted = change(
        lambda u: u.add_column("n", "int", default_value=1), lambda u: u.update_column("n", required=True), version=3
    )
    assert defaulted.find_field("n").required


def test_t5_an_identifier_field_stays_required() -> None:
    with pytest.raises(ValidationError, match="identifier field 'id' must be required"):
        change(lambda u: u.make_column_optional("id"))


def test_docs_change_and_combine_with_other_updates() -> None:
    evolved = change(
        lambda u: u.update_column("name", doc="person"),
        lambda u: u.rename_column("name", "who"),
        lambda u: u.update_column("id", "long", doc="key"),
        lambda u: u.move_first("name"),
    )
    assert evolved.fields[0] == primitive(2, "who", "string", doc="person")
    assert evolved.find_field("id") == primitive(1, "id", "long", True, doc="key")
    with pytest.raises(ValidationError, match="given a doc or default"):
        change(lambda u: u.update_column("tags.element", doc="x"))


def test_what_changes_nothing_gives_the_same_schema() -> None:
    committed: list[tuple[SchemaOp, ...]] = []
    UpdateSchema(committed.append).update_column("name").commit()
    assert committed == [()]
    assert evolve_schema(SCHEMA, (), last_column_id=LAST_ID, format_version=2) == (SCHEMA, LAST_ID)


# Moving


def test_t7_moves_run_in_order_after_additions() -> None:
    evolved = change(
        lambda u: u.add_column("new", "int"),
        lambda u: u.move_first("name"),
        lambda u: u.move_after("new", "name"),
        lambda u: u.move_before("tags", "id"),
        lambda u: u.move_after("place.lat", "place.lon"),
        lambda u: u.move_before("points.y", "points.x"),
        lambda u: u.add_column(("place", "alt"), "float"),
        lambda u: u.move_first("place.alt"),
    )
    assert names(evolved)[:4] == ["name", "new", "tags", "id"]
    assert sorted(names(evolved)) == sorted([*names(SCHEMA), "new"])
    assert (names_in(evolved, "place"), names_in(evolved, "points.element")) == (["alt", "lon", "lat"], ["y", "x"])


def test_a_column_that_was_deleted_and_added_again_can_be_moved() -> None:
    evolved = change(
        lambda u: u.delete_column("name"), lambda u: u.add_column("name", "long"), lambda u: u.move_after("name", "id")
    )
    assert [(f.field_id, f.name) for f in evolved.fields[:2]] == [(1, "id"), (21, "name")]


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (lambda u: u.move_first("nope"), "no column 'nope'"),
        (lambda u: u.move_after("name", "nope"), "no column 'nope'"),
        (lambda u: u.move_after("name", "name"), "after itself"),
        (lambda u: u.move_before("name", "place.lat"), "different structs"),
        (lambda u: u.move_after("place.lat", "points.x"), "different structs"),
        (lambda u: u.move_first("points.element"), "part of a list or map"),
        (lambda u: u.move_first("props.key.k"), "keys of a map can't change"),
    ],
)
def test_moves_that_are_refused(wish: Change, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        change(wish)


# Identifier fields


def test_t5_identifier_fields_are_replaced_by_name() -> None:
    evolved = change(
        lambda u: u.update_column("name", required=True),
        lambda u: u.set_identifier_fields("id", "name"),
        allow_incompatible_changes=True,
    )
    assert evolved.identifier_field_ids == (1, 2)
    assert change(lambda u: u.set_identifier_fields()).identifier_field_ids == ()
    assert "id" not in names(change(lambda u: u.set_identifier_fields(), lambda u: u.delete_column("id")))


def test_t5_identifier_fields_follow_renames_in_either_order() -> None:
    for changes in (
        [lambda u: u.rename_column("id", "key"), lambda u: u.set_identifier_fields("key")],
        [lambda u: u.set_identifier_fields("id"), lambda u: u.rename_column("id", "key")],
    ):
        assert change(*changes).identifier_field_ids == (1,)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("name", "must be required"),
        ("nope", "no column 'nope'"),
        ("points.x", "inside a list or map"),
        ("place", "primitive"),
    ],
)
def test_t5_fields_that_can_not_identify_rows(name: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        change(lambda u: u.set_identifier_fields(name))


def test_t5_a_column_added_in_the_same_change_can_identify_rows() -> None:
    evolved = change(
        lambda u: u.add_column("key", "long", required=True, default_value=0),
        lambda u: u.set_identifier_fields("key"),
        version=3,
    )
    assert evolved.identifier_field_ids == (21,)


def test_ops_are_plain_values_that_apply_alike_every_time() -> None:
    ops = (AddColumn((), "a", IntegerType()), AddColumn(("place",), "b", StringType()))
    first = evolve_schema(SCHEMA, ops, last_column_id=LAST_ID, format_version=2)
    assert first == evolve_schema(SCHEMA, ops, last_column_id=LAST_ID, format_version=2)
    assert SCHEMA.has_name("a") is False
