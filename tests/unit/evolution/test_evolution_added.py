"""Added columns: ids, nesting, defaults, and every addition that is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from schema_changes import SCHEMA, Change, change, change_with_last_id, names, primitive

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.spec.schema import MAX_FIELD_ID
from icecore.engine.spec.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
)

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
