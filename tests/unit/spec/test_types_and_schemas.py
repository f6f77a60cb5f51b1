"""Types and schemas: type strings, ids, names, identifier fields, versions, JSON."""

from __future__ import annotations

from typing import Any

import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.schema import Schema, check_format_version
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    Type,
    UnknownType,
    VariantType,
    parse_primitive,
)

PLAIN = (
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns"),
    *("timestamptz_ns", "string", "uuid", "binary", "unknown", "variant", "geometry", "geography"),
)


@pytest.mark.parametrize("text", PLAIN)
def test_t1_type_strings(text: str) -> None:
    """T1: each type is written as it is read."""
    assert str(parse_primitive(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(9,2)", DecimalType(9, 2)),
        ("decimal(9, 2)", DecimalType(9, 2)),
        ("decimal( 38 , 0 )", DecimalType(38, 0)),
        ("fixed[16]", FixedType(16)),
        ("fixed[ 16 ]", FixedType(16)),
        ("geometry(srid:4326)", GeometryType("srid:4326")),
        ("geometry( srid:4326 )", GeometryType("srid:4326")),
        ("geometry", GeometryType("OGC:CRS84")),
        ("geography(srid:4326, spherical)", GeographyType("srid:4326", "spherical")),
        ("geography(srid:4326,karney)", GeographyType("srid:4326", "karney")),
        ("geography(srid:4326)", GeographyType("srid:4326")),
        ("Geography(SRID:4326, Karney)", GeographyType("SRID:4326", "karney")),
        ("GEOMETRY(srid:3857)", GeometryType("srid:3857")),
        ("geography", GeographyType("OGC:CRS84", "spherical")),
    ],
)
def test_t3_t6_parameters_and_white_space(text: str, expected: Type) -> None:
    """T3, T6: parameters with or without white space, defaults of CRS and algorithm; the text reads back."""
    assert parse_primitive(text) == expected
    assert parse_primitive(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "integer", "decimal", "decimal(39,2)", "decimal(0,0)", "decimal(9)", "fixed", "fixed[-1]", "fixed[x]"),
        *("struct", "varchar(3)", "geography(a, flat)", "geometry(a, b)", "timestamp_ms", "list<int>"),
    ],
)
def test_t6_other_strings_are_refused(text: str) -> None:
    """T6: what is no type is an error of ours."""
    with pytest.raises(ValidationError):
        parse_primitive(text)


def field(field_id: int, name: str, kind: Type | None = None, **options: Any) -> NestedField:
    return NestedField(field_id, name, kind or LongType(), **options)


def test_t4_ids_are_unique_at_any_depth() -> None:
    """T4: an id may be used once in a schema, lists, maps and structs included."""
    for other in (
        ListType(1, LongType()),
        MapType(1, StringType(), 3, LongType()),
        MapType(3, StringType(), 1, LongType()),
        StructType((field(1, "x"),)),
    ):
        with pytest.raises(ValidationError, match="field id 1"):
            Schema((field(1, "a"), field(2, "b", other)))


def test_names_are_unique_in_a_struct() -> None:
    """A name may come once in one struct, and again in another."""
    with pytest.raises(ValidationError, match="'a'"):
        Schema((field(1, "a"), field(2, "a")))
    with pytest.raises(ValidationError, match=r"s\.a"):
        Schema((field(1, "s", StructType((field(2, "a"), field(3, "a")))),))
    Schema((field(1, "a"), field(2, "s", StructType((field(3, "a"),)))))


IDENTIFIER_CASES: list[tuple[NestedField, int, str]] = [
    (field(1, "a"), 9, "not in the schema"),
    (field(1, "a"), 1, "required"),
    (field(1, "a", DoubleType(), required=True), 1, "double"),
    (field(1, "a", StructType((field(2, "b", required=True),)), required=True), 1, "primitive"),
    (field(1, "a", StructType((field(2, "b", required=True),))), 2, "optional struct"),
    (field(1, "a", ListType(2, LongType(), True), required=True), 2, "list or map"),
    (field(1, "a", MapType(2, LongType(), 3, LongType(), True), required=True), 2, "list or map"),
]


@pytest.mark.parametrize(("column", "identifier", "message"), IDENTIFIER_CASES)
def test_t5_identifier_fields(column: NestedField, identifier: int, message: str) -> None:
    """T5: identifier fields are primitive, required all the way up, no floats, not in lists and maps."""
    with pytest.raises(ValidationError, match=message):
        Schema((column,), identifier_field_ids=(identifier,))


def test_t5_a_field_in_required_structs_identifies() -> None:
    """T5: nested in required structs is fine; ids are kept sorted, each once."""
    inner = StructType((field(2, "b", required=True),))
    schema = Schema((field(1, "a", inner, required=True), field(3, "c", required=True)), identifier_field_ids=(3, 2, 3))
    assert schema.identifier_field_ids == (2, 3)


NESTED = Schema(
    (
        field(1, "id", required=True, doc="the key"),
        field(2, "point", StructType((field(3, "x", DoubleType()), field(4, "y", DoubleType())))),
        field(5, "tags", ListType(6, StringType(), True)),
        field(7, "by name", MapType(8, StringType(), 9, StructType((field(10, "n"),)))),
        field(11, "rows", ListType(12, StructType((field(13, "v", DateType()),)))),
    ),
    3,
    (1,),
)


def test_schemas_come_back_from_json() -> None:
    """A nested schema survives JSON; keys that we don't know stay."""
    assert Schema.from_dict(NESTED.to_dict()) == NESTED
    obj = NESTED.to_dict()
    assert obj["fields"][2]["type"] == {
        "type": "list",
        "element-id": 6,
        "element": "string",
        "element-required": True,
    }
    obj["later"] = 1
    obj["fields"][0]["later"] = {"a": 1}
    assert Schema.from_dict(obj).to_dict() == obj


def test_names_of_nested_fields() -> None:
    """Fields are found by dotted names, also by Java's short ones, and by any case where asked."""
    assert NESTED.find_field("point.x").field_id == 3
    assert NESTED.find_field("rows.element.v").field_id == NESTED.find_field("rows.v").field_id == 13
    assert NESTED.find_field("by name.value.n").field_id == NESTED.find_field("by name.n").field_id == 10
    assert NESTED.find_field("POINT.X", case_sensitive=False).field_id == 3
    assert NESTED.name_of(13) == "rows.element.v"
    assert NESTED.parent_id(13) == 12 and NESTED.parent_id(1) is None
    assert NESTED.is_in_list_or_map(13) and not NESTED.is_in_list_or_map(3)
    assert NESTED.highest_field_id == 13
    for unknown in ("POINT.X", "nothing", "", "point.z"):
        with pytest.raises(ValidationError, match="no column"):
            NESTED.find_field(unknown)


def test_a_columns_own_name_comes_before_the_path_to_another() -> None:
    """Before Java's short names too, wherever the column stands."""
    inner = StructType((field(1, "x", LongType()),))
    around, dotted = (field(2, "s", inner), field(3, "l", ListType(4, inner))), (field(5, "s.x"), field(6, "l.x"))
    for schema in (Schema((*around[i : i + 1], dotted[i])) for i in range(2)):
        last = schema.fields[1].field_id
        assert schema.find_field(schema.name_of(last)).field_id == last
        assert schema.find_field(schema.name_of(last).upper(), case_sensitive=False).field_id == last
    assert schema.find_field("l.element.x").field_id == 1


def test_projections() -> None:
    """Selecting nested columns cuts structs down, in the order asked for."""
    found = NESTED.select(("rows", "point.y", "id"))
    assert [f.name for f in found.fields] == ["rows", "point", "id"]
    assert [f.field_id for f in found.find_field("point").field_type.fields] == [4]  # type: ignore[union-attr]
    assert NESTED.select(("*",)) is NESTED
    with pytest.raises(ValidationError, match="twice"):
        NESTED.select(("id", "id"))
    with pytest.raises(ValidationError, match="no column"):
        NESTED.select(("ID",))
    assert [f.name for f in NESTED.select(("ID",), case_sensitive=False).fields] == ["id"]


@pytest.mark.parametrize("kind", [TimestampNanoType(), UnknownType(), VariantType(), GeometryType(), GeographyType()])
def test_t1_types_of_v3(kind: Type) -> None:
    """T1: v3's types are refused below v3, at any depth."""
    for schema in (Schema((field(1, "a", kind),)), Schema((field(1, "a", ListType(2, kind)),))):
        check_format_version(schema, 3)
        for version in (1, 2):
            with pytest.raises(ValidationError, match="is not supported until v3"):
                check_format_version(schema, version)


def test_t9_defaults_need_v3() -> None:
    """T9: an initial default is refused below v3."""
    schema = Schema((field(1, "a", initial_default=5, write_default=5),))
    check_format_version(schema, 3)
    with pytest.raises(ValidationError, match="default"):
        check_format_version(schema, 2)
    assert Schema.from_dict(schema.to_dict()) == schema


BROKEN: list[Any] = [
    None,
    [],
    "struct",
    {},
    {"type": "list"},
    {"type": "struct"},
    {"type": "struct", "fields": {}},
    {"type": "struct", "fields": [1]},
    {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True}]},
    {"type": "struct", "fields": [{"id": "1", "name": "a", "required": True, "type": "int"}]},
    {"type": "struct", "fields": [{"id": 1, "name": 2, "required": True, "type": "int"}]},
    {"type": "struct", "fields": [{"id": 1, "name": "a", "required": "yes", "type": "int"}]},
    {"type": "struct", "fields": [{"id": True, "name": "a", "required": True, "type": "int"}]},
    {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "integer"}]},
    {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": {"type": "set"}}]},
    {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": {"type": "list"}}]},
    {"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "int", "initial-default": "x"}]},
    {"type": "struct", "fields": [], "identifier-field-ids": [1]},
    {"type": "struct", "fields": [], "identifier-field-ids": ["1"]},
    {"type": "struct", "fields": [], "schema-id": "0"},
    {"type": "struct", "fields": [{"id": 1, "name": "m", "required": True, "type": {"type": "map", "key-id": 2}}]},
    {"type": "struct", "fields": [{"id": 1, "name": "l", "required": True, "type": {"type": "list", "element-id": 2,
        "element-required": True, "element": None}}]},
]  # fmt: skip


@pytest.mark.parametrize("obj", BROKEN, ids=range(len(BROKEN)))
def test_json_that_is_no_schema_is_refused(obj: Any) -> None:
    """Broken JSON of schemas never ends in KeyError or TypeError."""
    with pytest.raises(ValidationError):
        Schema.from_dict(obj)


def test_p2_name_mappings() -> None:
    """P2: a mapping of a schema survives JSON; names may be several or none, dots are literal."""
    mapping = NameMapping.of_fields(NESTED.fields)
    assert NameMapping.from_json(mapping.to_json()) == mapping
    text = '[{"field-id": 1, "names": ["a", "a.b"]}, {"names": []}, {"field-id": 2, "names": ["s"], "fields": []}]'
    assert NameMapping.from_json(NameMapping.from_json(text).to_json()) == NameMapping.from_json(text)
    for broken in ("", "{}", "[1]", '[{"field-id": 1}]', '[{"field-id": "1", "names": []}]'):
        with pytest.raises(ValidationError):
            NameMapping.from_json(broken)


def test_integer_is_int_everywhere() -> None:
    """`int` is the type's only name."""
    assert str(IntegerType()) == "int"


@pytest.mark.parametrize(
    "field",
    [
        NestedField(1, "u", UnknownType(), required=True),
        NestedField(1, "s", StructType((NestedField(2, "u", UnknownType(), required=True),))),
        NestedField(1, "l", ListType(2, UnknownType(), element_required=True)),
        NestedField(1, "m", MapType(2, UnknownType(), 3, StringType())),
    ],
    ids=lambda f: f.name,
)
def test_a_required_unknown_is_not_written(field: NestedField) -> None:
    """T2: Iceberg 1.11.0 refuses to read such a schema, and with it the table."""
    with pytest.raises(ValidationError, match="must be optional"):
        check_format_version(Schema((field,)), 3)


def test_only_a_primitive_field_gives_its_type_as_a_primitive_one() -> None:
    assert NestedField(1, "a", LongType()).primitive_type == LongType()
    nested = NestedField(1, "a", ListType(2, LongType()))
    with pytest.raises(ValidationError, match=r"field 1 'a' must be of a primitive type: list<long>"):
        _ = nested.primitive_type
