"""Random tables written here and read by PyIceberg with equal rows, and the reverse. Spec: Appendix A, v2."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from typed_rows import arrow, tables

import icecore
from icecore.engine.data.arrow.arrow_schema import assign_fresh_ids, schema_to_arrow
from icecore.engine.data.write.conform import conform
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import US_PER_DAY
from icecore.engine.spec.types import (
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    Type,
)

PEERS = examples(12, new=175)
MODEST_DAYS = 2_000_000
NOT_BUCKETED = (BooleanType, FloatType, DoubleType)


def without_nanoseconds(t: Type) -> Type:
    """The type with microseconds instead, which v2 has."""
    match t:
        case TimestampNanoType():
            return TimestampType()
        case TimestamptzNanoType():
            return TimestamptzType()
        case StructType(fields=fields):
            return StructType(tuple(evolve(f, field_type=without_nanoseconds(f.field_type)) for f in fields))
        case ListType():
            return evolve(t, element=without_nanoseconds(t.element))
        case MapType():
            return evolve(t, key=without_nanoseconds(t.key), value=without_nanoseconds(t.value))
        case _:
            return t


def as_peers_keep_it(t: Type, value: Any, modest: bool) -> Any:
    """The value with empty lists and maps in place of null ones that hold nested values.

    PyIceberg makes null lists and maps of structs empty, in what it reads and in what it writes. It writes only times
    that Python has, which is what `modest` makes of them.
    """
    match t:
        case StructType(fields=fields):
            return value and {f.field_id: as_peers_keep_it(f.field_type, value[f.field_id], modest) for f in fields}
        case ListType(element=element):
            if value is None:
                return None if element.is_primitive else []
            return [as_peers_keep_it(element, v, modest) for v in value]
        case MapType(key=key, value=item):
            if value is None:
                return None if item.is_primitive else []
            pairs = [(as_peers_keep_it(key, k, modest), as_peers_keep_it(item, v, modest)) for k, v in value]
            return list({repr(k): (k, v) for k, v in pairs}.values())
        case DateType() if modest and value is not None:
            return value % MODEST_DAYS
        case TimestampType() | TimestamptzType() if modest and value is not None:
            return value % (MODEST_DAYS * US_PER_DAY)
        case _:
            return value


@st.composite
def v2_tables(draw: st.DrawFn, modest: bool = False) -> tuple[Schema, pa.Table]:
    """A schema and rows of it, with a column that tells the rows apart."""
    schema, rows = draw(tables())
    whole = without_nanoseconds(schema.as_struct())
    assert isinstance(whole, StructType)
    rows = [as_peers_keep_it(whole, r, modest) for r in rows]
    place = schema.highest_field_id + 1
    schema = Schema((*whole.fields, NestedField(place, "place", without_nanoseconds(TimestampType()))))
    table = arrow(schema, [{**r, place: i} for i, r in enumerate(rows)], with_ids=False)
    return schema, table


def in_order(table: pa.Table, schema: Schema) -> pa.Table:
    """The rows in the form that conform gives them, in the order in which they were made."""
    return conform(table, schema).sort_by("place").combine_chunks()


def bucketed(schema: Schema) -> str:
    found = (f for f in schema.fields if f.field_type.is_primitive and not isinstance(f.field_type, NOT_BUCKETED))
    return f"bucket(3, {next(found).name})"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[icecore.Catalog, Path]]:
    warehouse = tmp_path_factory.mktemp("ours") / "warehouse"
    with icecore.open(warehouse) as catalog:
        catalog.create_namespace("ns")
        yield catalog, warehouse


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlCatalog]:
    folder = tmp_path_factory.mktemp("theirs")
    catalog = SqlCatalog("theirs", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("ns")
    yield catalog
    catalog.close()


def read_by_peer(warehouse: Path, name: str) -> pa.Table:
    peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))
    try:
        return peer.load_table(name).scan().to_arrow()
    finally:
        peer.close()


NUMBERS = itertools.count()


@PEERS
@given(case=v2_tables(), partitioned=st.booleans())
def test_what_we_write_pyiceberg_reads(
    ours: tuple[icecore.Catalog, Path], case: tuple[Schema, pa.Table], partitioned: bool
) -> None:
    """Any types at any depth, partitioned or not."""
    catalog, warehouse = ours
    schema, rows = case
    name = f"ns.t{next(NUMBERS)}"
    spec = [bucketed(schema)] if partitioned else None
    table = catalog.create_table(name, schema, partition_spec=spec)
    table.append(rows.slice(0, 3))
    table.append(rows.slice(3))
    expected = in_order(rows, table.schema())
    assert in_order(table.scan().to_arrow(), table.schema()).equals(expected)
    found = read_by_peer(warehouse, name)
    assert in_order(found, table.schema()).equals(expected)


@PEERS
@given(case=v2_tables(modest=True))
def test_what_pyiceberg_writes_we_read(
    ours: tuple[icecore.Catalog, Path], theirs: SqlCatalog, case: tuple[Schema, pa.Table]
) -> None:
    """Tables of another catalog, registered by their metadata file."""
    catalog, _ = ours
    schema, rows = case
    name = f"ns.p{next(NUMBERS)}"
    made = theirs.create_table(name, schema_to_arrow(schema, with_ids=False))
    made.append(rows.slice(0, 3))
    made.append(rows.slice(3))
    table = catalog.register_table(name, made.metadata_location)
    assert table.schema().same_fields(assign_fresh_ids(schema))
    assert in_order(table.scan().to_arrow(), table.schema()).equals(in_order(rows, table.schema()))


def test_pyiceberg_reads_our_orc(ours: tuple[icecore.Catalog, Path]) -> None:
    """What PyIceberg can read of ORC: it knows no time, uuid or fixed there, nor times beyond nanoseconds."""
    catalog, warehouse = ours
    rows = pa.table({
        "place": pa.array([1, 2, 3], pa.timestamp("us")),
        "tz": pa.array([-(10**6), None, 10**15], pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("-1.50"), None, Decimal("9.99")], pa.decimal128(9, 2)),
        "day": pa.array([-1, None, 20_000], pa.int32()).cast(pa.date32()),
        "s": pa.array([{"x": 1, "l": ["a", None]}, None, {"x": None, "l": []}]),
        "m": pa.array([[(1, 0.5), (2, None)], [], [(3, 1.5)]], pa.map_(pa.int32(), pa.float64())),
        "b": [b"\x00", None, b""],
    })  # fmt: skip
    table = catalog.create_table("ns.orc", rows.schema, properties={"write.format.default": "orc"})
    table.append(rows)
    assert in_order(read_by_peer(warehouse, "ns.orc"), table.schema()).equals(in_order(rows, table.schema()))
