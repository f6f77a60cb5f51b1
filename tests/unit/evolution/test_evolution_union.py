"""Union by name: what another schema adds, widens and makes optional, and what it leaves alone (T7)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_evolution import evolve_schema
from icecore.engine.evolution.schema_ops import DeleteColumn, UnionByName
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import IntegerType, ListType, NestedField, StringType, StructType, parse_primitive


def arrow(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def base(**types: pa.DataType) -> Schema:
    return union(Schema(()), arrow(**types))


def union(schema: Schema, new: Schema | pa.Schema, *, version: int = 2, case_sensitive: bool = True) -> Schema:
    ops = UpdateSchema(lambda _: None).union_by_name(new).ops
    highest = schema.highest_field_id
    return evolve_schema(schema, ops, last_column_id=highest, format_version=version, case_sensitive=case_sensitive)[0]


def ids(schema: Schema) -> dict[str, int]:
    return {schema.name_of(i): i for i in sorted(schema.field_ids)}


def test_t7_new_columns_come_last_and_ids_are_given_from_the_inside_out() -> None:
    old = base(a=pa.struct([("x", pa.int32())]), l=pa.list_(pa.struct([("p", pa.int32())])))
    new = arrow(
        z=pa.string(),
        l=pa.list_(pa.struct([("p", pa.int32()), ("q", pa.int32())])),
        a=pa.struct([("y", pa.int32()), ("x", pa.int32())]),
    )
    assert ids(old) == {"a": 1, "a.x": 2, "l": 3, "l.element": 4, "l.element.p": 5}
    grown = ids(union(old, new))
    last = old.highest_field_id
    assert {n: grown[n] for n in ("l.element.q", "a.y", "z")} == {
        "l.element.q": last + 1,
        "a.y": last + 2,
        "z": last + 3,
    }
    assert {n: i for n, i in grown.items() if i <= last} == ids(old)
    assert [f.name for f in union(old, new).fields] == ["a", "l", "z"]


def test_t7_types_widen_and_never_narrow() -> None:
    old = base(a=pa.int32(), b=pa.int64(), c=pa.float32(), d=pa.decimal128(5, 2), l=pa.list_(pa.int32()))
    new = arrow(a=pa.int64(), b=pa.int32(), c=pa.float64(), d=pa.decimal128(9, 2), l=pa.list_(pa.int64()))
    grown = union(old, new)
    assert [str(grown.find_field(n).field_type) for n in ("a", "b", "c", "d", "l.element")] == [
        *("long", "long", "double", "decimal(9, 2)", "long")
    ]


def test_t7_a_schema_united_with_itself_stays_as_it_is() -> None:
    old = base(a=pa.int32(), m=pa.map_(pa.string(), pa.struct([("v", pa.int32())])), l=pa.list_(pa.int32()))
    assert union(old, old) == old


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int32(), pa.string()),
        (pa.int32(), pa.struct([("x", pa.int32())])),
        (pa.struct([("x", pa.int32())]), pa.int32()),
        (pa.struct([("x", pa.int32())]), pa.list_(pa.int32())),
        (pa.map_(pa.int32(), pa.int32()), pa.map_(pa.int64(), pa.int32())),
        (
            pa.map_(pa.struct([("k", pa.int32())]), pa.int32()),
            pa.map_(pa.struct([("k", pa.int32()), ("j", pa.int32())]), pa.int32()),
        ),
    ],
)
def test_t7_schemas_that_do_not_unite(old: pa.DataType, new: pa.DataType) -> None:
    with pytest.raises(ValidationError, match="'c"):
        union(base(c=old), arrow(c=new))


def test_required_columns_of_the_other_schema_arrive_as_optional_ones() -> None:
    grown = union(base(a=pa.int32()), pa.schema([pa.field("b", pa.int32(), nullable=False)]))
    assert grown.find_field("b").optional


def test_columns_that_are_optional_there_become_optional_here() -> None:
    old = Schema((NestedField(1, "a", IntegerType(), True), NestedField(2, "l", ListType(3, IntegerType(), True))))
    grown = union(old, arrow(a=pa.int32(), l=pa.list_(pa.int32())))
    assert grown.find_field("a").optional and grown.find_field("l.element").optional
    missing = union(old, arrow(z=pa.int32()))
    assert missing.find_field("a").required


def test_docs_and_write_defaults_of_the_other_schema_are_taken_over() -> None:
    old = Schema((NestedField(1, "a", StringType(), doc="old"), NestedField(2, "b", IntegerType())))
    new = Schema(
        (
            NestedField(1, "a", StringType(), doc="new", write_default="w"),
            NestedField(2, "b", IntegerType()),
            NestedField(3, "c", IntegerType(), initial_default=1, write_default=2),
            NestedField(4, "d", IntegerType(), write_default=2),
        )
    )
    grown = union(old, new, version=3)
    a, c, d = (grown.find_field(n) for n in "acd")
    assert (a.doc, a.initial_default, a.write_default) == ("new", None, "w")
    assert (c.initial_default, c.write_default, d.initial_default, d.write_default) == (1, 2, None, 2)


def test_a_column_of_nulls_changes_no_column_that_is_there() -> None:
    assert union(base(a=pa.int32()), arrow(a=pa.null())) == base(a=pa.int32())
    with pytest.raises(ValidationError, match="Invalid type for b: unknown is not supported until v3"):
        union(base(a=pa.int32()), arrow(b=pa.null()))
    assert union(base(a=pa.int32()), arrow(b=pa.null()), version=3).find_field("b").field_type == parse_primitive(
        "unknown"
    )
    unknown = Schema((NestedField(1, "a", parse_primitive("unknown")),))
    assert union(unknown, arrow(a=pa.int32()), version=3).find_field("a").field_type == IntegerType()


def test_names_match_without_case_where_asked_for() -> None:
    old = base(a=pa.struct([("x", pa.int32())]))
    new = arrow(A=pa.struct([("X", pa.int64()), ("y", pa.int32())]))
    grown = union(old, new, case_sensitive=False)
    assert [grown.name_of(f) for f in sorted(grown.field_ids)] == ["a", "a.x", "a.y"]
    assert str(grown.find_field("a.x").field_type) == "long"
    assert [f.name for f in union(old, new).fields] == ["a", "A"]


def test_a_column_deleted_before_the_union_is_a_new_one_after_it() -> None:
    old = Schema(
        (NestedField(1, "a", IntegerType()), NestedField(2, "s", StructType((NestedField(3, "b", IntegerType()),))))
    )
    ops = (DeleteColumn("a"), UnionByName(Schema((NestedField(1, "a", StringType()),))))
    grown, last = evolve_schema(old, ops, last_column_id=3, format_version=2)
    assert (grown.find_field("a"), last) == (NestedField(4, "a", StringType()), 4)
