"""Schemas as text (T1, T2)."""

from __future__ import annotations

import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_text import parse_schema


@pytest.mark.parametrize(
    "text",
    [
        "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
        "timestamptz_ns", "string", "uuid", "binary", "unknown", "variant", "geometry", "geography", "fixed[16]",
        "decimal(9, 2)", "geography(OGC:CRS84, karney)", "geometry(srid:4326)", "geography(srid:4326, vincenty)",
    ],
)  # fmt: skip
def test_every_primitive_type_by_its_own_name(text: str) -> None:
    """T6: at the top, in a list and in a struct; a reference system may stand in quotes."""
    for written in (text, text.replace("OGC:CRS84", "'OGC:CRS84'").replace("karney", "'karney'")):
        schema = parse_schema(f"a {written}, b list<{written}>, c struct<x: {written}>")
        assert str(schema.find_field("a").field_type) == text
        assert str(schema.find_field("b.element").field_type) == text
        assert str(schema.find_field("c.x").field_type) == text


def test_a_reference_system_in_quotes_of_others_stays() -> None:
    """In a comment, or in a column's name."""
    schema = parse_schema("g geometry(srid:1) comment 'not geometry(srid:2)', \"geometry(srid:3\" long")
    assert [(f.name, f.doc) for f in schema.fields] == [("g", "not geometry(srid:2)"), ("geometry(srid:3", None)]


@pytest.mark.parametrize(
    ("sql", "iceberg"),
    [
        ("BIGINT", "long"), ("INTEGER", "int"), ("TEXT", "string"), ("VARCHAR", "string"), ("BOOL", "boolean"),
        ("TIMESTAMP WITH TIME ZONE", "timestamptz"), ("VARBINARY", "binary"), ("fixed(4)", "fixed[4]"),
        ("decimal(5)", "decimal(5, 0)"), ("array<int>", "list<int>"),
    ],
)  # fmt: skip
def test_names_that_sql_has(sql: str, iceberg: str) -> None:
    """The usual names of the same types."""
    assert str(parse_schema(f"x {sql}").fields[0].field_type) == iceberg


def test_ids_names_and_constraints() -> None:
    """Ids count from 1, columns first; quoted names are as written."""
    schema = parse_schema("""
        "order" long not null comment 'it''s the key', `a b` map<string, list<int>>, year int -- words of SQL are names
    """)
    assert str(schema.fields[1].field_type) == "map<string, list<int>>"
    assert [(f.field_id, f.name, f.required, f.doc) for f in schema.fields] == [
        (1, "order", True, "it's the key"),
        (2, "a b", False, None),
        (3, "year", False, None),
    ]
    assert len(schema.field_ids) == 6


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "x foo", "x int y", "x int, x int", "x int); DROP TABLE t (y int", "x int default 3",
        "x int primary key", "x list<int", "x list", "x map<int>", "x int[3]", "x decimal", "x decimal(50, 2)",
        "x fixed", "x fixed[0.5]", f"x fixed[{'9' * 5000}]",
        "x struct<int>", "x varchar(3)", "(", "x int not null default 1", "x int; y int", "LIKE t",
    ],
)  # fmt: skip
def test_what_is_no_schema(text: str) -> None:
    """A ValidationError, whatever the text."""
    with pytest.raises(ValidationError):
        parse_schema(text)
