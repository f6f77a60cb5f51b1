"""Rows given as dicts: none of their values is lost, whichever row has it."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from core_tables import ids_of, make_table

import icecore
from icecore.engine.errors import ValidationError

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("tags", pa.map_(pa.string(), pa.float64())),
        ("deep", pa.list_(pa.struct([("at", pa.map_(pa.string(), pa.int32())), ("x", pa.int32())]))),
    ]
)


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.dicts", SCHEMA)


def test_keys_that_the_first_row_lacks_are_columns_too(table: icecore.Table) -> None:
    """Arrow by itself goes by the first row, and leaves out what others have beside."""
    table.append([{"id": 1}, {"name": "b", "id": 2}, {}])
    found = table.scan(selected_fields=("id", "name")).to_arrow().to_pylist()
    assert found == [{"id": 1, "name": None}, {"id": 2, "name": "b"}, {"id": None, "name": None}]


def test_an_unknown_key_of_a_later_row_is_an_error(table: icecore.Table) -> None:
    with pytest.raises(ValidationError, match="no column 'nmae'"):
        table.append([{"id": 1}, {"id": 2, "nmae": "b"}])
    assert table.scan().count() == 0


def test_rows_without_any_value_are_rows(table: icecore.Table) -> None:
    """As dicts, and as an Arrow table that has no columns."""
    table.append([{}, {}])
    table.append(pa.table({"x": pa.nulls(3)}).select([]))
    assert table.scan().count() == 5


def test_maps_are_dicts_or_pairs_at_any_depth(table: icecore.Table) -> None:
    tags = [{"a": 1.5, "b": None}, [("a", 1.5), ("b", None)], [{"key": "a", "value": 1.5}, ("b", None)]]
    table.append([{"tags": t, "deep": [{"at": {"k": 1}}, None, {"x": 2}]} for t in tags] + [{"id": 4}])
    found = table.scan().to_arrow().to_pylist()
    assert [r["tags"] for r in found] == [[("a", 1.5), ("b", None)]] * 3 + [None]
    assert found[0]["deep"] == [{"at": [("k", 1)], "x": None}, None, {"at": None, "x": 2}]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"tags": [("a",)]}, "column 'tags': a map is a dict or a list of pairs"),
        ({"tags": 5}, "can't be made into Arrow"),
        ({"tags": {"a": "much"}}, "can't be made into Arrow"),
        ({"deep": [{"at": {}, "y": 1}]}, "no column 'deep.element.y' in the schema"),
        ({"id": 10**30}, "can't be made into Arrow"),
        ({5: 1}, "a column is named by text, found 5"),
    ],
)
def test_what_does_not_fit_is_named(table: icecore.Table, row: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        table.append([{"id": 1}, row])
    assert table.scan().count() == 0


def test_upserts_and_deletes_by_key_take_such_rows(catalog: icecore.Catalog) -> None:
    """A name given alone is one column, not one for each of its letters."""
    other = make_table(catalog)
    other.append([{"id": 1}, {"id": 2, "name": "b"}])
    other.upsert([{"id": 2}, {"id": 3, "name": "c"}], "id")
    other.delete_keys([{"id": 1}], "id")
    assert ids_of(other) == [2, 3]
    assert other.scan("id = 3", selected_fields="name").to_arrow().to_pylist() == [{"name": "c"}]


def test_uuids(catalog: icecore.Catalog) -> None:
    """Columns without maps go by their values, as before."""
    made = catalog.create_table("ns.u", pa.schema([("u", pa.uuid())]))
    value = uuid.uuid4()
    made.append([{}, {"u": value}])
    assert made.scan().to_arrow()["u"].to_pylist() == [None, value]


def test_uuids_inside_of_others(catalog: icecore.Catalog) -> None:
    """As uuids, text or bytes, which Arrow itself takes at the top alone."""
    uuids = pa.list_(pa.uuid())
    inner = pa.struct([("u", pa.uuid()), ("n", pa.int64())])
    made = catalog.create_table("ns.u", pa.schema([("l", uuids), ("s", inner), ("m", pa.map_(pa.string(), pa.uuid()))]))
    value = uuid.uuid4()
    made.append([{}, {"l": [value, None, str(value), value.bytes], "s": {"u": value, "n": 1}, "m": {"k": value}}])
    _, found = made.scan().to_arrow().to_pylist()
    assert found == {"l": [value, None, value, value], "s": {"u": value, "n": 1}, "m": [("k", value)]}
    with pytest.raises(ValidationError, match="can't be made into Arrow"):
        made.append([{"l": ["no uuid"]}])


def test_numbers_are_rounded_to_floats_of_32_bits(catalog: icecore.Catalog) -> None:
    """At any depth, as Arrow does with a type; what none of them is near to is an error."""
    nested = pa.struct([("f", pa.float32())])
    kind = pa.schema([("f", pa.float32()), ("l", pa.list_(pa.float32())), ("s", nested)])
    table = catalog.create_table("ns.floats", kind)
    table.append([{"f": 0.1, "l": [0.1, None, 2], "s": {"f": 0.1}}, {"f": 3}, {"f": float("inf")}])
    near = pa.scalar(0.1, pa.float32()).as_py()
    found = table.scan().to_arrow().to_pylist()
    assert found[0] == {"f": near, "l": [near, None, 2.0], "s": {"f": near}}
    assert [r["f"] for r in found[1:]] == [3.0, float("inf")]
    with pytest.raises(ValidationError, match=r"column 's.f': 1e\+300 is too large for a float of 32 bits"):
        table.append([{"s": {"f": 1e300}}])


@pytest.mark.parametrize("value", [{"f": 0.5, "v": 1.5}, {"f": True, "v": 1}])
def test_what_stands_beside_a_float_is_not_cast(catalog: icecore.Catalog, value: dict[str, object]) -> None:
    """Nor is a truth value a number."""
    kind = pa.struct([("f", pa.float32()), ("v", pa.int32())])
    table = catalog.create_table("ns.beside", pa.schema([("s", kind)]))
    with pytest.raises(ValidationError, match="column 's"):
        table.append([{"s": value}])


def test_nanoseconds_of_pandas_timestamps_are_kept_or_refused(catalog: icecore.Catalog) -> None:
    """Arrow by itself makes microseconds of them, and says nothing."""
    fine = pd.Timestamp("2024-01-05 10:00:00.123456789")
    nanos, zoned = pa.timestamp("ns"), pa.timestamp("ns", "UTC")
    schema = pa.schema(
        [("at", nanos), ("deep", pa.list_(pa.struct([("at", zoned)]))), ("named", pa.map_(pa.string(), nanos))]
    )
    table = catalog.create_table("ns.fine", schema, format_version=3)
    row = {"at": fine, "deep": [{"at": fine.tz_localize("Europe/Oslo")}], "named": {"a": fine}}
    table.append([row, {"at": None}, {"at": dt.datetime(2024, 1, 5)}])
    found = table.scan("at IS NOT NULL AND deep IS NOT NULL").to_arrow().to_pylist()
    assert found == [row | {"named": [("a", fine)]}]

    coarse = catalog.create_table("ns.coarse", pa.schema([("at", pa.timestamp("us"))]))
    with pytest.raises(ValidationError, match=r"'at': .* without loss"):
        coarse.append([{"at": fine}])
    coarse.append([{"at": fine.floor("us")}, {"at": dt.datetime(9999, 1, 1)}])
    with pytest.raises(ValidationError, match="timestamp_ns is not supported until v3"):
        coarse.append([{"new": fine}], merge_schema=True)


def test_nulls_of_pandas_are_null(catalog: icecore.Catalog) -> None:
    """As of `DataFrame.to_dict("records")`."""
    table = catalog.create_table("ns.nulls", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]))
    frame = pd.DataFrame({"id": pd.array([1, None], "Int64"), "at": [pd.Timestamp("2024-01-01"), pd.NaT]})
    table.append(frame.to_dict("records"))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "at": dt.datetime(2024, 1, 1)}, {"id": None, "at": None}]


DAY, HOUR, ZONED = dt.date(2024, 1, 5), dt.datetime(2024, 1, 5, 5), dt.datetime(2024, 1, 5, 5, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "kind, first, other",
    [
        (pa.timestamp("us"), DAY, HOUR),
        (pa.date32(), DAY, HOUR),
        (pa.date32(), DAY, pd.Timestamp(HOUR)),
        (pa.date32(), DAY, 1),
        (pa.timestamp("us", "UTC"), ZONED, HOUR),
        (pa.timestamp("us"), HOUR, ZONED),
        (pa.timestamp("us"), HOUR, 2.5),
        (pa.time64("us"), dt.time(5), dt.time(5, tzinfo=dt.UTC)),
        (pa.time64("us"), dt.time(5), Decimal("1.5")),
    ],
)
def test_times_that_would_become_others_are_refused(
    catalog: icecore.Catalog, kind: pa.DataType, first: object, other: object
) -> None:
    """Arrow by itself takes the type of the first and makes it of the other, at any depth, in pandas' objects too."""
    deep = pa.list_(pa.struct([("x", kind)]))
    schema = pa.schema([("at", kind), ("deep", deep), ("named", pa.map_(pa.string(), kind))])
    table = catalog.create_table("ns.times", schema)
    forms: dict[str, list[Any]] = {
        "at": [first, None, other],
        "deep": [[{"x": first}, None], [{}, {"x": other}]],
        "named": [{"a": first}, {"a": None, "b": other}],
    }
    for name, values in forms.items():
        said = rf"column '{name}.*': .* would become another|can't be made into Arrow"
        with pytest.raises(ValidationError, match=said):
            table.append([{name: v} for v in values])
    with pytest.raises(ValidationError, match=r"column 'at': .* would become another"):
        table.append(pd.DataFrame({"at": pd.Series(forms["at"], dtype=object)}))
