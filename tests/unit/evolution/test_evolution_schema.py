"""Schema changes: ids, names, nesting, defaults, and every change that is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.terms import parse_partition_terms, parse_sort_terms
from icecore.engine.evolution.update_schema import AddColumn, SchemaOp, UpdateSchema, evolve_schema
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import MAX_FIELD_ID, Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.spec.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    parse_primitive,
)

LAST_ID = 20
Change = Callable[[UpdateSchema], object]


def primitive(field_id: int, name: str, type_name: str, required: bool = False, **more: Any) -> NestedField:
    return NestedField(field_id, name, parse_primitive(type_name), required, **more)


SCHEMA = Schema(
    (
        primitive(1, "id", "int", True),
        primitive(2, "name", "string", doc="who"),
        primitive(3, "day", "date"),
        NestedField(4, "place", StructType((primitive(5, "lat", "float"), primitive(6, "lon", "float")))),
        NestedField(
            7, "points", ListType(8, StructType((primitive(9, "x", "int", True), primitive(10, "y", "int"))), True)
        ),
        NestedField(
            11,
            "props",
            MapType(12, StructType((primitive(13, "k", "string"),)), 14, StructType((primitive(15, "v", "int"),))),
        ),
        NestedField(16, "tags", ListType(17, IntegerType(), True)),
        NestedField(18, "counts", MapType(19, StringType(), 20, IntegerType(), True)),
    ),
    schema_id=5,
    identifier_field_ids=(1,),
)


def change(
    *changes: Change,
    schema: Schema = SCHEMA,
    version: int = 2,
    specs: tuple[PartitionSpec, ...] = (),
    order: SortOrder | None = None,
    **options: Any,
) -> Schema:
    """The schema after the changes, as a table of that version would get it."""
    return change_with_last_id(*changes, schema=schema, version=version, specs=specs, order=order, **options)[0]


def change_with_last_id(
    *changes: Change,
    schema: Schema = SCHEMA,
    version: int = 2,
    specs: tuple[PartitionSpec, ...] = (),
    order: SortOrder | None = None,
    last_id: int = LAST_ID,
    **options: Any,
) -> tuple[Schema, int]:
    committed: list[tuple[SchemaOp, ...]] = []
    with UpdateSchema(committed.append) as update:
        for c in changes:
            c(update)
    return evolve_schema(
        schema, committed[0], last_column_id=last_id, format_version=version, specs=specs, sort_order=order, **options
    )


def names(schema: Schema) -> list[str]:
    return [f.name for f in schema.fields]


def names_in(schema: Schema, path: str) -> list[str]:
    struct = schema.find_field(path).field_type
    assert isinstance(struct, StructType)
    return [f.name for f in struct.fields]


# Adding


def test_t7_t8_an_added_column_is_optional_and_last_with_the_next_id() -> None:
    evolved, last = change_with_last_id(lambda u: u.add_column("age", "int", doc="in years"))
    assert evolved.fields[:-1] == SCHEMA.fields
    assert evolved.fields[-1] == NestedField(21, "age", IntegerType(), False, "in years")
    assert (evolved.schema_id, evolved.identifier_field_ids, last) == (5, (1,), 21)


def test_t8_ids_of_dropped_columns_never_come_back() -> None:
    evolved, last = change_with_last_id(lambda u: u.add_column("age", "int"), last_id=40)
    assert (evolved.find_field("age").field_id, last) == (41, 41)


def test_t7_nested_types_get_fresh_ids_a_struct_level_at_a_time() -> None:
    given = StructType(
        (
            NestedField(1, "a", IntegerType()),
            NestedField(1, "b", ListType(1, StructType((NestedField(1, "c", LongType()),)))),
            NestedField(1, "d", MapType(1, StringType(), 1, StructType((NestedField(1, "e", LongType()),)))),
        )
    )
    evolved, last = change_with_last_id(lambda u: u.add_column("s", given), lambda u: u.add_column("z", "int"))
    ids = {name: evolved.find_field(name).field_id for name in ("s", "s.a", "s.b", "s.d", "s.b.element", "s.b.c")}
    assert ids == {"s": 21, "s.a": 22, "s.b": 23, "s.d": 24, "s.b.element": 25, "s.b.c": 26}
    assert [evolved.find_field(n).field_id for n in ("s.d.key", "s.d.value", "s.d.e", "z")] == [27, 28, 29, 30]
    assert last == 30


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        (("place",), "place.alt"),
        (("points",), "points.element.alt"),
        (("points", "element"), "points.element.alt"),
        (("props",), "props.value.alt"),
        (("props", "value"), "props.value.alt"),
    ],
)
def test_t7_columns_are_added_to_structs_in_lists_and_maps(parent: tuple[str, ...], path: str) -> None:
    evolved = change(lambda u: u.add_column((*parent, "alt"), "double"))
    assert evolved.find_field(path).field_id == 21
    assert names(evolved) == names(SCHEMA)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("decimal(9,2)", "decimal(9, 2)"),
        (LongType(), "long"),
        (pa.int64(), "long"),
        (pa.timestamp("us", tz="UTC"), "timestamptz"),
        (pa.string(), "string"),
    ],
)
def test_types_are_given_as_text_iceberg_or_arrow(given: Any, expected: str) -> None:
    assert str(change(lambda u: u.add_column("c", given)).fields[-1].field_type) == expected


def test_an_arrow_struct_gets_fresh_ids_too() -> None:
    evolved = change(lambda u: u.add_column("c", pa.struct([("p", pa.int32()), ("q", pa.list_(pa.string()))])))
    assert [evolved.find_field(n).field_id for n in ("c", "c.p", "c.q", "c.q.element")] == [21, 22, 23, 24]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([lambda u: u.add_column("name", "int")], "'name' can't be added: there is one already"),
        ([lambda u: u.add_column(("place", "lat"), "int")], "'place.lat' can't be added"),
        ([lambda u: u.add_column(("points", "x"), "int")], "'points.element.x' can't be added"),
        ([lambda u: u.add_column("new", "int"), lambda u: u.add_column("new", "int")], "added twice"),
        ([lambda u: u.add_column(("nope", "x"), "int")], "no column 'nope'"),
        ([lambda u: u.add_column(("name", "x"), "int")], "no struct but string"),
        ([lambda u: u.add_column(("tags", "x"), "int")], "no struct but int"),
        ([lambda u: u.add_column(("props", "key", "x"), "int")], "keys of a map can't change"),
        ([lambda u: u.add_column("a.b", "int")], "as a tuple"),
        ([lambda u: u.add_column(("place.lat",), "int")], "'place.lat' can't be added"),
        ([lambda u: u.add_column("", "int")], "needs a name"),
        ([lambda u: u.add_column((), "int")], "needs a name"),
        ([lambda u: u.add_column("new", "integer")], "unknown type 'integer'; there are: boolean, int, "),
        ([lambda u: u.add_column("new", 7)], "found 7"),
        ([lambda u: u.add_column("new", "int", required=True)], "required without a default"),
        ([lambda u: u.delete_column("place"), lambda u: u.add_column(("place", "z"), "int")], "deletes it"),
        ([lambda u: u.rename_column("name", "who"), lambda u: u.add_column("name", "int")], "there is one already"),
        ([lambda u: u.rename_column("name", "who"), lambda u: u.add_column("who", "int")], "'who'"),
    ],
)
def test_additions_that_are_refused(changes: list[Change], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        change(*changes)


def test_a_name_with_a_dot_needs_a_tuple_and_must_stay_unambiguous() -> None:
    evolved = change(lambda u: u.add_column(("a.b",), "int"))
    assert evolved.find_field("a.b").field_id == 21
    with pytest.raises(ValidationError, match=r"two columns would have the name 'place\.lat'"):
        change(lambda u: u.rename_column("name", "place.lat"))


def test_case_rules_of_names_are_the_callers_choice() -> None:
    assert names(change(lambda u: u.add_column("NAME", "int")))[-1] == "NAME"
    with pytest.raises(ValidationError, match="'NAME' can't be added"):
        change(lambda u: u.add_column("NAME", "int"), case_sensitive=False)
    with pytest.raises(ValidationError, match="differ in case only"):
        change(lambda u: u.rename_column("day", "Name"), case_sensitive=False)
    evolved = change(lambda u: u.rename_column("NAME", "Name"), lambda u: u.move_first("NAME"), case_sensitive=False)
    assert names(evolved)[0] == "Name"
    with pytest.raises(ValidationError, match="no column 'NAME'"):
        change(lambda u: u.rename_column("NAME", "who"))


@pytest.mark.parametrize("type_name", ["timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"])
def test_t1_types_of_v3_are_refused_in_older_tables(type_name: str) -> None:
    with pytest.raises(
        ValidationError, match=f"^Invalid type for new: {type_name} is not supported until v3; the table is v2"
    ):
        change(lambda u: u.add_column("new", type_name))
    assert str(change(lambda u: u.add_column("new", type_name), version=3).fields[-1].field_type) == type_name


def test_t1_nested_types_of_v3_are_found_too() -> None:
    with pytest.raises(ValidationError, match=r"^Invalid type for new\.element: timestamp_ns is not"):
        change(lambda u: u.add_column("new", pa.list_(pa.timestamp("ns"))))


def test_t4_field_ids_have_an_end() -> None:
    assert (
        change(lambda u: u.add_column("last", "int"), last_id=MAX_FIELD_ID - 1).find_field("last").field_id
        == MAX_FIELD_ID
    )
    with pytest.raises(ValidationError, match=f"up to {MAX_FIELD_ID}"):
        change(lambda u: u.add_column("over", "int"), last_id=MAX_FIELD_ID)


# Defaults


def test_t9_an_added_default_is_both_initial_and_write_default() -> None:
    evolved = change(lambda u: u.add_column("since", "date", required=True, default_value="1970-01-03"), version=3)
    assert evolved.fields[-1] == primitive(21, "since", "date", True, initial_default=2, write_default=2)


def test_t9_only_the_write_default_changes() -> None:
    added = change(lambda u: u.add_column("n", "int", default_value=1), version=3)
    changed = change(lambda u: u.set_default_value("n", 7), schema=added, version=3).find_field("n")
    assert (changed.initial_default, changed.write_default) == (1, 7)
    cleared = change(lambda u: u.set_default_value("n", None), schema=added, version=3).find_field("n")
    assert (cleared.initial_default, cleared.write_default) == (1, None)
    at_once = change(
        lambda u: u.add_column("m", "int", default_value=1), lambda u: u.set_default_value("m", 7), version=3
    )
    assert (at_once.find_field("m").initial_default, at_once.find_field("m").write_default) == (1, 7)


@pytest.mark.parametrize("version", [1, 2])
def test_t9_defaults_need_v3(version: int) -> None:
    for wish in (
        lambda u: u.add_column("n", "int", default_value=1),
        lambda u: u.set_default_value("name", "x"),
        lambda u: u.add_column("s", StructType((primitive(1, "n", "int", write_default=3),))),
    ):
        with pytest.raises(ValidationError, match="needs format version 3"):
            change(wish, version=version)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_t9_a_required_column_needs_a_default_or_leave_to_break_rules(version: int) -> None:
    def wish(u: UpdateSchema) -> object:
        return u.add_column("n", "int", required=True)

    with pytest.raises(ValidationError, match="T9"):
        change(wish, version=version)
    assert change(wish, version=version, allow_incompatible_changes=True).find_field("n").required


@pytest.mark.parametrize(
    ("field_type", "default", "required", "says"),
    [
        ("variant", b"x", False, "must default to null"),
        ("unknown", None, True, "T9"),
        ("int", "x", False, "'x' is not a default of type int"),
        (StructType((primitive(1, "u", "unknown", True),)), None, False, "must be optional"),
        (StructType((primitive(1, "g", "geometry", initial_default=b"x"),)), None, False, "must default to null"),
        (StructType((primitive(1, "n", "int", True),)), {}, False, "required field 'n' has no default"),
        (StructType((primitive(1, "n", "int"),)), {"n": 1}, False, "its fields have their own"),
    ],
)
def test_t2_t9_defaults_that_no_column_can_have(
    field_type: Type | str, default: Any, required: bool, says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        change(lambda u: u.add_column("c", field_type, required=required, default_value=default), version=3)


def test_t2_an_unknown_column_is_never_required() -> None:
    with pytest.raises(ValidationError, match="must be optional"):
        change(lambda u: u.add_column("c", "unknown", required=True), version=3, allow_incompatible_changes=True)


def test_t9_a_required_struct_may_default_to_the_empty_struct() -> None:
    struct = StructType((primitive(1, "n", "int", True, initial_default=4, write_default=4),))
    added = change(lambda u: u.add_column("s", struct, required=True, default_value={}), version=3).find_field("s")
    assert (added.initial_default, added.required) == ({}, True)


def test_t9_a_required_column_keeps_its_write_default() -> None:
    added = change(lambda u: u.add_column("n", "int", required=True, default_value=1), version=3)
    with pytest.raises(ValidationError, match="can't be taken away"):
        change(lambda u: u.set_default_value("n", None), schema=added, version=3)


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
        ("name", "day", "two columns would have the name 'day'"),
        ("place.lat", "lon", "two columns would have the name 'place.lon'"),
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
