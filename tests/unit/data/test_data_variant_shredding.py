"""Shredded variants of Parquet files are read whole. Spec: T1, Appendix A Parquet; parquet-format, VariantShredding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import icecore.engine.data.read.file_sources as sources_module
from icecore.engine.data.variant.variant_shredding import read_variants
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    VariantType,
)

from .reading import content_file, rows
from .test_data_v3_types import local, write
from .variant_columns import AB, EMPTY, NULL, OBJECT, group, one, read, variant, with_id
from .variants import Shape, Value, decode, decode_metadata, decoded, encode, metadata, shredded


def test_value_shredding_of_the_specs_measurements(tmp_path: Path) -> None:
    """`34, null, "n/a", 100`, and a group of neither value, where a value is required: a variant null."""
    array = pa.array(
        [
            {"metadata": EMPTY, "typed_value": 34},
            {"metadata": EMPTY, "value": b"\x00"},
            {"metadata": EMPTY, "value": b"\x0dn/a"},
            {"metadata": EMPTY, "typed_value": 100},
            {"metadata": EMPTY},
            None,
        ],
        variant(pa.int64()),
    )
    found = read(array.fill_null({"metadata": EMPTY}), tmp_path)
    assert found[0] == {"metadata": EMPTY, "value": b"\x18\x22\x00\x00\x00\x00\x00\x00\x00"}
    assert [decoded(v) for v in found[1:]] == [NULL, ("string", "n/a"), ("int64", 100), NULL, NULL]


def test_a_row_without_a_variant_is_no_variant_null(tmp_path: Path) -> None:
    values: list[Value | None] = [("int64", 5), None, NULL]
    column = shredded(values, Shape("int64"))
    assert [decoded(v) for v in read(column, tmp_path)] == values
    made = read_variants(column, "v")
    assert [made.field(i).null_count for i in range(2)] == [0, 0], "the fields are required, Arrow could write no nulls"


def test_a_value_that_is_missing_without_shredding_is_a_variant_null(tmp_path: Path) -> None:
    array = pa.array([{"metadata": EMPTY, "value": None}, {"metadata": EMPTY, "value": b"\x04"}], variant(None))
    assert [decoded(v) for v in read(array, tmp_path)] == [NULL, ("boolean", True)]


def test_arrays_of_the_specs_tags(tmp_path: Path) -> None:
    tags: list[Value | None] = [
        ("array", [("string", "comedy"), ("string", "drama")]),
        ("array", [("string", "horror"), NULL]),
        ("array", [("string", "comedy"), ("string", "drama"), ("string", "romance")]),
        NULL,
        ("array", []),
    ]
    array = shredded(tags, Shape("array", element=Shape("string")))
    assert array.field("typed_value").to_pylist()[1][1] == {"value": b"\x00", "typed_value": None}
    found = read(array, tmp_path)
    assert [decoded(v) for v in found] == tags
    assert found[4] == {"metadata": metadata([], width=4), "value": b"\x03\x00\x00"}


def test_objects_of_the_specs_events(tmp_path: Path) -> None:
    """Each valid row of the table, whole, partly shredded, of other types, missing and null."""
    text, at = ("string", "noop"), ("timestamptz", 1729794114937)
    events: list[Value | None] = [
        ("object", {"event_type": text, "event_ts": at}),
        ("object", {"event_type": text, "event_ts": at, "email": ("string", "user@example.com")}),
        ("object", {"error_msg": ("string", "malformed: ...")}),
        ("string", "malformed: not an object"),
        ("object", {"event_ts": at, "click": ("string", "_button")}),
        ("object", {"event_type": NULL, "event_ts": at}),
        ("object", {"event_type": text, "event_ts": ("string", "2024-10-24")}),
        ("object", {}),
        NULL,
        None,
    ]
    shape = Shape("object", {"event_type": Shape("string"), "event_ts": Shape("timestamptz")})
    found = read(shredded(events, shape), tmp_path)
    assert [decoded(v) for v in found] == events
    assert found[7] is not None
    assert found[7]["value"] == b"\x02\x00\x00"


def test_nested_shredding(tmp_path: Path) -> None:
    """An object in an object, an array in an object, objects in an array, arrays in an array."""
    place = ("object", {"latitude": ("double", 1.5), "longitude": ("double", -2.0)})
    values: list[Value | None] = [
        ("object", {"location": place, "tags": ("array", [("string", "a"), ("int8", 1)])}),
        ("object", {"location": ("object", {"latitude": ("double", 0.0), "name": ("string", "x")}), "other": place}),
        ("object", {"location": ("string", "nowhere"), "tags": ("array", [])}),
        ("object", {"list": ("array", [("array", [("int64", 1), place]), ("array", []), NULL])}),
        ("object", {"list": ("array", [place, ("array", [place, ("object", {})])])}),
    ]
    location = Shape("object", {"latitude": Shape("double"), "longitude": Shape("double")})
    inner = Shape("array", element=Shape("object", {"latitude": Shape("double")}))
    fields = {"tags": Shape("array", element=Shape("string")), "location": location}
    shape = Shape("object", {**fields, "list": Shape("array", element=inner)})
    assert [decoded(v) for v in read(shredded(values, shape), tmp_path)] == values


def test_other_forms_of_arrow_that_a_file_may_ask_for(tmp_path: Path) -> None:
    """Arrow's own schema in the footer can make dictionaries and large types of the same columns."""
    heads = pa.array([EMPTY] * 3, pa.large_binary())
    typed = pa.array(["a", None, "b"], pa.large_string()).dictionary_encode()
    elements = pa.array([[{"typed_value": "a"}], None, []], pa.large_list(group(pa.large_string(), False)))
    values = pa.array([None, b"\x00", None], pa.large_binary())
    for column, want in (
        (typed, [("string", "a"), NULL, ("string", "b")]),
        (elements, [("array", [("string", "a")]), NULL, ("array", [])]),
    ):
        array = pa.StructArray.from_arrays([heads, values, column], names=["metadata", "value", "typed_value"])
        assert [decoded(v) for v in read(array, tmp_path, store_schema=True)] == want


def test_slices_of_arrays(tmp_path: Path) -> None:
    """Batches of a file may be parts of longer arrays."""
    values: list[Value | None] = [
        (
            "object",
            {"i": ("int64", i), "d": ("decimal4", (i, 2)), "l": ("array", [("string", str(i))] * (i % 3)), "x": NULL},
        )
        for i in range(20)
    ]
    element = Shape("string")
    fields = {"i": Shape("int64"), "d": Shape("decimal4"), "l": Shape("array", element=element), "u": Shape("uuid")}
    column = shredded(values, Shape("object", fields))
    for start, length in ((0, 20), (3, 9), (7, 1), (19, 1), (20, 0)):
        part = read_variants(column.slice(start, length), "v")
        part.validate(full=True)
        assert [decoded(v) for v in part.to_pylist()] == values[start : start + length]


@pytest.mark.parametrize(
    "leftover, typed, expected",
    [
        ({"b": ("int8", 9)}, {"a": {"typed_value": 1}, "b": {"typed_value": "x"}}, {"a": 1, "b": "x"}),
        ({"b": ("int8", 9), "c": ("int32", 3)}, {"a": {"typed_value": 1}, "b": {}}, {"a": 1, "c": 3}),
    ],
)
def test_shredded_columns_win_over_the_same_field_in_the_value(
    tmp_path: Path, leftover: dict[str, Value], typed: dict[str, Any], expected: dict[str, Any]
) -> None:
    """No writer may do it; a reader of one column would see the shredded one, missing or not."""
    names = ["a", "b", "c"]
    row = {"metadata": metadata(names), "value": encode(("object", leftover), names), "typed_value": typed}
    (found,) = read(pa.array([row], variant(OBJECT)), tmp_path)
    kind, fields = decoded(found) or NULL
    assert (kind, {k: v for k, (_, v) in fields.items()}) == ("object", expected)


def test_groups_of_fields_that_are_optional(tmp_path: Path) -> None:
    """Against the spec, but what it means is plain: there is no such field."""
    typed = pa.struct([pa.field("a", group(pa.int32())), pa.field("b", group(pa.string()))])
    array = pa.array([{"metadata": AB, "typed_value": {"a": {"typed_value": 34}, "b": None}}], variant(typed))
    assert [decoded(v) for v in read(array, tmp_path)] == [("object", {"a": ("int32", 34)})]


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    fields = [pa.field("typed_value", pa.int32()), pa.field("x", pa.int64()), *reversed(list(variant(None)))]
    array = pa.array([{"metadata": EMPTY, "typed_value": 1, "x": 7}], pa.struct(fields))
    assert [decoded(v) for v in read(array, tmp_path)] == [("int32", 1)]


def test_shredded_variants_inside_other_types(tmp_path: Path) -> None:
    """In structs, lists and maps, also where these are null or empty."""
    shape = Shape("object", {"a": Shape("int64"), "b": Shape("array", element=Shape("string"))})
    inner: list[Value | None] = [("object", {"a": ("int64", 1), "c": NULL}), ("string", "x"), None, ("object", {})]
    column = shredded(inner, shape)
    field_ = pa.field("v", column.type, metadata={"PARQUET:field_id": "2"})
    number = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "3"})
    nulls = pa.array([False, False, False, True])
    in_struct = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4]), column], fields=[number, field_], mask=nulls)
    offsets = pa.array([0, 2, 2, 3, 4], pa.int32())
    in_list = pa.ListArray.from_arrays(offsets, column, mask=pa.array([False, True, False, False]))
    in_list = in_list.cast(pa.list_(pa.field("element", column.type, metadata={"PARQUET:field_id": "2"})))
    keys = pa.array(["k", "l", "m", "n"])
    in_map = pa.MapArray.from_arrays(offsets, keys, column)
    in_map = in_map.cast(pa.map_(
        pa.field("key", pa.string(), False, {"PARQUET:field_id": "3"}), field_.with_name("value")
    ))  # fmt: skip
    path = tmp_path / "f.parquet"

    def found(array: pa.Array, t: Type) -> list[Any]:
        pq.write_table(with_id(array), path, row_group_size=3)
        return [r["v"] for r in rows(content_file(path), one(t))]

    struct_type = StructType((NestedField(2, "v", VariantType()), NestedField(3, "n", LongType())))
    structs = found(in_struct, struct_type)
    assert [s and (decoded(s["v"]), s["n"]) for s in structs] == [(inner[0], 1), (inner[1], 2), (None, 3), None]
    lists = found(in_list, ListType(2, VariantType()))
    assert [x and [decoded(v) for v in x] for x in lists] == [inner[:2], None, inner[2:3], inner[3:]]
    maps = found(in_map, MapType(3, StringType(), 2, VariantType()))
    assert [[(k, decoded(v)) for k, v in m] for m in maps] == [
        [("k", inner[0]), ("l", inner[1])], [], [("m", inner[2])], [("n", inner[3])],
    ]  # fmt: skip


def test_only_the_columns_of_the_variant_asked_for_are_read(tmp_path: Path) -> None:
    """Beside another variant whose columns are damaged in name only: it is not looked at."""
    good = shredded([("int64", 5)], Shape("int64"))
    bad = pa.array([{"metadata": EMPTY, "typed_value": 5}], variant(pa.uint64()))
    fields = [pa.field(n, a.type, metadata={"PARQUET:field_id": str(i)}) for i, n, a in ((1, "v", good), (2, "w", bad))]
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([good, bad], schema=pa.schema(fields)), path)
    schema = Schema((NestedField(1, "v", VariantType()), NestedField(2, "w", VariantType())))
    (row,) = rows(content_file(path), schema, projection=one(VariantType()))
    assert decoded(row["v"]) == ("int64", 5)
    with pytest.raises(CorruptFileError, match="'w' has a typed value of type uint64"):
        rows(content_file(path), schema)


DUCKDB_ROWS = [
    "{'a': 1, 'b': 'x', 'c': {'d': 1.5, 'e': [1, 2, 3]}, 't': TIMESTAMP '2024-01-02 03:04:05'}",
    "{'a': 2, 'b': 'y', 'c': {'d': 2.5, 'e': []}, 't': TIMESTAMP '1969-01-02 03:04:05'}",
    "{'a': 'text', 'c': {'d': NULL, 'f': true}}",
    "[1, 2, 3]",
    "'only text'",
    "DATE '2020-02-02'",
]


@pytest.mark.parametrize("count", [2, 6])
def test_duckdb_shreds_and_reads_back_what_we_read(tmp_path: Path, count: int) -> None:
    """What DuckDB shredded by its own choice; our rows, unshredded, say the same to DuckDB as its own file."""
    db = duckdb.connect()
    union = " UNION ALL ".join(f"SELECT {i} AS i, {sql}::VARIANT AS v" for i, sql in enumerate(DUCKDB_ROWS[:count]))
    path = tmp_path / "theirs.parquet"
    db.execute(f"COPY ({union} ORDER BY i) TO '{path}' (FORMAT parquet, FIELD_IDS {{i: 2, v: 1}})")
    assert "typed_value" in str(pq.ParquetFile(path).schema)
    found = [r["v"] for r in rows(content_file(path), one(VariantType()))]
    kinds = [decode(v["value"], decode_metadata(v["metadata"]))[0] for v in found]
    assert kinds == ["object", "object", "object", "array", "string", "date"][:count]
    own = tmp_path / "ours.parquet"
    table = pa.table(
        {"i": range(count), "metadata": [v["metadata"] for v in found], "value": [v["value"] for v in found]}
    )
    _write_as_variant(table, own)
    sql = "SELECT i, v::VARCHAR, variant_typeof(v) FROM '{}' ORDER BY i"
    assert db.execute(sql.format(own)).fetchall() == db.execute(sql.format(path)).fetchall()


def test_files_that_arrow_refuses_may_have_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB, which reads those, puts shredded variants together itself."""
    path = tmp_path / "f.parquet"
    sql = "SELECT CASE i WHEN 3 THEN NULL ELSE {'a': i, 'b': ['x']}::VARIANT END AS v, [i] AS l FROM range(5) t(i)"
    duckdb.sql(
        f"COPY ({sql}) TO '{path}' (FORMAT parquet, FIELD_IDS {{v: 1, l: {{__duckdb_field_id: 2, element: 3}}}})"
    )
    assert "typed_value" in str(pq.ParquetFile(path).schema)
    schema = Schema((NestedField(2, "l", ListType(3, LongType())), NestedField(1, "v", VariantType())))
    expected = [(r["l"], decoded(r["v"])) for r in rows(content_file(path), schema)]
    assert expected[4] == ([4], ("object", {"a": ("int64", 4), "b": ("array", [("string", "x")])}))
    assert [v for _, v in expected if v is None] == [None]

    def refuse(*_: object) -> None:
        raise CorruptFileError("refused")

    monkeypatch.setattr(sources_module, "ParquetSource", refuse)
    assert [(r["l"], decoded(r["v"])) for r in rows(content_file(path), schema)] == expected


def _write_as_variant(table: pa.Table, path: Path) -> None:
    """A file with the VARIANT annotation, which pyarrow can't write: by our own writer."""
    fields = [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
    column = pa.StructArray.from_arrays(
        [table.column(n).combine_chunks() for n in ("metadata", "value")], fields=fields
    )
    schema = Schema((NestedField(2, "i", LongType()), NestedField(1, "v", VariantType())))
    file = write(pa.table({"i": table.column("i"), "v": column}), path.parent / "written", schema)
    Path(local(file)).rename(path)


def test_shredded_data_can_be_written(tmp_path: Path) -> None:
    """As an Arrow table that was read of another's file: it is stored whole. What is no variant is refused."""
    schema = one(VariantType())
    values: list[Value | None] = [("object", {"a": ("int64", 1), "b": NULL}), None, ("string", "x")]
    column = shredded(values, Shape("object", {"a": Shape("int64")}))
    file = write(pa.table({"v": column}), tmp_path, schema)
    assert [decoded(r["v"]) for r in rows(file, schema)] == values
    assert "typed_value" not in str(pq.ParquetFile(local(file)).schema)
    conflict = pa.array([{"metadata": EMPTY, "value": b"\x00", "typed_value": 1}], variant(pa.int64()))
    for wrong, message in (
        (conflict, "both a value and a typed value"),
        (pa.array([{"metadata": EMPTY, "typed_value": 1}], variant(pa.uint8(), False)), "typed value of type uint8"),
        (pa.array([{"value": b"\x00", "typed_value": 1}], group(pa.int64())), "has metadata"),
    ):
        with pytest.raises(ValidationError, match=f"column 'v'.*{message}"):
            write(pa.table({"v": wrong}), tmp_path, schema)
