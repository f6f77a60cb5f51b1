"""V1: the names and types of a view's columns are those of its schema, whatever its query gives."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

import icecore
from icecore.engine.data.arrow.arrow_schema import storage_type
from icecore.engine.errors import ValidationError


def test_v1_columns_have_the_names_of_the_schema_by_position(catalog: icecore.Catalog, events: icecore.Table) -> None:
    schema = pa.schema([("what", pa.string()), ("id", pa.int64())])
    view = catalog.create_view("ns.v", "SELECT name, id FROM events WHERE id = 1", schema=schema)
    assert view.to_arrow().to_pydict() == {"what": ["n1"], "id": [1]}
    swapped = pa.schema([("name", pa.string()), ("id", pa.string())])
    view.replace("SELECT upper(name) AS id, name FROM events WHERE id = 1", schema=swapped)
    assert view.to_arrow().to_pydict() == {"name": ["N1"], "id": ["n1"]}


def test_a_star_finds_its_columns_by_name_when_the_table_changes(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    view = catalog.create_view("ns.v", "SELECT * FROM events WHERE id = 1")
    with events.update_schema() as update:
        update.add_column("more", "long")
        update.move_first("name")
    assert view.to_arrow().to_pydict() == {"id": [1], "name": ["n1"]}
    with events.update_schema() as update:
        update.delete_column("name")
        update.delete_column("more")
    with pytest.raises(ValidationError, match=r"gives the columns \['id'\], its schema has \['id', 'name'\]"):
        view.to_arrow()


def test_values_that_do_not_fit_the_schema_any_more_are_an_error(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    whole = pa.schema([("x", pa.int64())])
    fits = catalog.create_view("ns.fits", "SELECT 2.0 AS x", schema=whole)
    assert fits.to_arrow().schema == whole
    for sql, schema in (
        ("SELECT 1.5::DOUBLE AS x", whole),
        ("SELECT 'one' AS x", whole),
        ("SELECT {'a': 1} AS x", pa.schema([("x", pa.struct([("b", pa.int32())]))])),
    ):
        with pytest.raises(ValidationError, match="replace the view"):
            catalog.create_view("ns.v", sql, schema=schema, replace=True).to_arrow()


def test_types_come_out_as_the_schema_says(catalog: icecore.Catalog) -> None:
    key = uuid.UUID(int=7)
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("u", pa.uuid()),
            ("at", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("s", pa.struct([("a", pa.int32())])),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("raw", pa.binary(3)),
            ("ok", pa.bool_()),
            ("oks", pa.list_(pa.struct([("u", pa.uuid()), ("ok", pa.bool_())]))),
        ]
    )
    row = {"id": 1, "u": key.bytes, "at": 5, "tags": ["x", None], "s": {"a": 1}, "m": [("k", 2)], "raw": b"abc"}
    row |= {"ok": True, "oks": [{"u": key.bytes, "ok": False}]}
    catalog.create_table("ns.t", schema).append(
        pa.table({f.name: pa.array([row[f.name]], storage_type(f.type)).cast(f.type) for f in schema})
    )
    view = catalog.create_view("ns.v", "SELECT *, s.a AS sa FROM t")
    found = view.to_arrow()
    expected = catalog.load_table("ns.t").scan().to_arrow()
    assert found.drop_columns(["sa", "raw"]).equals(expected.drop_columns(["raw"]))
    assert (found["raw"].to_pylist(), found["sa"].to_pylist()) == ([b"abc"], [1])
    assert view.to_duckdb().sql("SELECT u FROM v").fetchall() == [(key,)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT sum(id) AS x FROM events", Decimal(6)),
        ("SELECT -170141183460469231731687303715884::HUGEINT AS x", Decimal(-170141183460469231731687303715884)),
        ("SELECT CAST(NULL AS HUGEINT) AS x", None),
        ("SELECT 18446744073709551615::UBIGINT AS x", Decimal(2**64 - 1)),
        ("SELECT '{\"a\": 1}'::JSON AS x", '{"a": 1}'),
        ("SELECT 'b'::ENUM('a', 'b') AS x", "b"),
        ("SELECT 3::UTINYINT AS x", 3),
    ],
)
def test_numbers_and_texts_that_only_duckdb_has(
    catalog: icecore.Catalog, events: icecore.Table, sql: str, expected: object
) -> None:
    view = catalog.create_view("ns.v", sql)
    assert view.to_arrow().column(0).to_pylist() == [expected]


def test_a_number_beyond_38_digits_is_an_error(catalog: icecore.Catalog) -> None:
    with pytest.raises(ValidationError, match="more than 38 digits"):
        catalog.create_view("ns.v", "SELECT 170141183460469231731687303715884105727::HUGEINT AS x").to_arrow()


ONE_TENTH = Decimal("0.1")


@pytest.mark.parametrize(
    ("value", "kind", "equal"),
    [
        ("0.1::DOUBLE", pa.float32(), None),
        ("0.5::DOUBLE", pa.float32(), 0.5),
        ("[NULL, 'NaN'::DOUBLE, 'inf'::DOUBLE, 0.5]", pa.list_(pa.float32()), "[None, nan, inf, 0.5]"),
        ("[0.5, 1e300]", pa.list_(pa.float32()), None),
        ("{'a': 0.1::DOUBLE}", pa.struct([("a", pa.float32())]), None),
        ("MAP {'k': [{'a': 0.1::DOUBLE}]}", pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.float32())]))), None),
        ("'1e300'", pa.float32(), None),
        ("0.126::DOUBLE", pa.decimal128(9, 2), None),
        ("0.1::DOUBLE", pa.decimal128(9, 2), ONE_TENTH),
        ("1234567890123456789.12::DECIMAL(38, 10)", pa.float64(), None),
        ("123456789012.123::DECIMAL(38, 10)", pa.float64(), 123456789012.123),
        ("16777217.01::DECIMAL(18, 2)", pa.float32(), None),
        ("7", pa.bool_(), None),
        ("1", pa.bool_(), True),
        ("1::BIGINT", pa.timestamp("us"), None),
        ("TIMESTAMP '2024-01-01 05:00:00'", pa.date32(), None),
        ("TIMESTAMP '2024-01-01 05:00:00'", pa.time64("us"), None),
        ("TIMESTAMP '2024-01-01 00:00:00'", pa.date32(), dt.date(2024, 1, 1)),
        ("1.00::DECIMAL(9, 2)", pa.int32(), 1),
        ("TIME '05:00:00'", pa.string(), "05:00:00.000000"),
    ],
)
def test_a_value_without_an_equal_in_the_schema_is_refused_at_any_depth(
    catalog: icecore.Catalog, value: str, kind: pa.DataType, equal: object
) -> None:
    view = catalog.create_view("ns.v", f"SELECT {value} AS x", schema=pa.schema([("x", kind)]))
    if equal is None:
        with pytest.raises(ValidationError, match="doesn't fit its schema"):
            view.to_arrow()
    else:
        found = view.to_arrow()["x"][0].as_py()
        assert found == equal or repr(found) == equal
