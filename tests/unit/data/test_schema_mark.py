"""Marks in names of files, and the names that Spark may push filters under by them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.data.file.schema_mark import mark_of, schema_mark
from icecore.engine.spark.read.frame_names import ReadNames, WrittenSchemas
from icecore.engine.spec.reserved import LINEAGE, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import IntegerType, LongType, NestedField, PrimitiveType, StringType, StructType, Type

NAMES = st.sampled_from(["a", "A", "b", "_row_id"])
PRIMITIVES: st.SearchStrategy[PrimitiveType] = st.sampled_from([IntegerType(), LongType(), StringType()])


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Up to three columns of up to five ids, one of them a struct at times."""
    fields: list[NestedField] = []
    for field_id, name in zip(
        draw(st.permutations(range(1, 6))), draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)), strict=False
    ):
        t: Type = draw(PRIMITIVES)
        if draw(st.booleans()):
            inner = draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
            parts = draw(st.permutations((6, 7, 8)))
            taken = any(isinstance(f.field_type, StructType) for f in fields)
            pairs = zip(parts, inner, strict=False)
            t = t if taken else StructType(tuple(NestedField(i, n, draw(PRIMITIVES)) for i, n in pairs))
        fields.append(NestedField(field_id, name, t))
    return Schema(tuple(fields))


def leaves(schema: Schema) -> Iterator[tuple[tuple[str, ...], NestedField]]:
    for f in schema.fields:
        if isinstance(f.field_type, StructType):
            yield from (((f.name, p.name), p) for p in f.field_type.fields)
        else:
            yield (f.name,), f


@given(written=st.lists(schemas(), min_size=1, max_size=3), read=schemas())
def test_a_filter_under_a_kept_name_meets_no_other_column(written: list[Schema], read: Schema) -> None:
    """What a file calls so, upper and lower case taken as one, is the same column of the same type, or nothing."""
    names = ReadNames(written)
    for path, f in leaves(read):
        roots = [c for c in read.fields if c.name == path[0] and c is not f]
        kept = tuple(names.name(each, path[: i + 1]) for i, each in enumerate((*roots, f)))
        if kept != path:
            continue
        for file in written:
            for other, found in (*leaves(file), *(((c.name,), c) for c in LINEAGE)):
                if [p.lower() for p in other] == [p.lower() for p in path]:
                    assert (found.field_id, found.field_type) == (f.field_id, f.field_type)


@given(schemas())
def test_names_are_kept_where_all_files_have_them(schema: Schema) -> None:
    lower = [f.name.lower() for f in schema.fields]
    names = ReadNames([schema])
    for f in schema.fields:
        assert (names.name(f, (f.name,)) == f.name) == (lower.count(f.name.lower()) == 1 and f.name != "_row_id")
        assert ReadNames(()).name(f, (f.name,)) == f"__icecore_f{f.field_id}"


@given(one=schemas(), other=schemas())
def test_marks_are_equal_where_ids_names_and_types_are(one: Schema, other: Schema) -> None:
    def described(s: Schema) -> list[object]:
        return [(f.field_id, f.name, f.field_type) for f in s.fields]

    assert (schema_mark(one) == schema_mark(other)) == (described(one) == described(other))
    assert schema_mark(evolve(one, schema_id=9)) == schema_mark(one)
    if not any(f.name == "_row_id" for f in one.fields):
        assert schema_mark(with_columns(one, *LINEAGE)) == schema_mark(one)


@pytest.mark.parametrize(
    "location",
    ["data/00000-abc-00000.parquet", "s0123456789abcd.parquet", "x-s0123456789abcg.parquet", "x-s0123456789abcde.orc"],
)
def test_files_of_others_have_no_mark(location: str) -> None:
    assert mark_of(location) is None
    assert mark_of("lake/x-s0123456789abcd.parquet") == "s0123456789abcd"


def test_files_of_a_table_tell_their_schemas(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Appended, changed and compacted files, those with row ids too; none where the schema was another table's."""
    table = catalog.create_table("ns.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]), format_version=3)
    table.append([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    table.update_schema().rename_column("b", "c").commit()
    table.append([{"a": 5, "c": 6}])
    table.delete("a = 1")
    table.refresh()
    written = WrittenSchemas(table.metadata)
    found = [written.of(t.file.file_path) for t in table.scan().plan_files()]
    assert all(s is not None for s in found)
    table.rewrite_data_files(options={"rewrite-all": "true"})
    assert {written.of(t.file.file_path) for t in table.refresh().scan().plan_files()} == {table.metadata.schema()}
    others = catalog.create_table("ns.other", pa.schema([("b", pa.int64()), ("a", pa.int64())]))
    others.append([{"b": 1, "a": 2}])
    assert [written.of(t.file.file_path) for t in others.scan().plan_files()] == [None]
