"""Random tables written here and read by PyIceberg with equal rows, and the reverse. Spec: Appendix A, v2."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.data.arrow_schema import assign_fresh_ids, schema_to_arrow
from icecore.engine.data.conform import conform
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BooleanType,
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

from .test_data_round_trip import arrow, tables

PEERS = settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)  # fmt: skip
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


@st.composite
def v2_tables(draw: st.DrawFn) -> tuple[Schema, pa.Table]:
    """A schema and rows of it, with a column that tells the rows apart."""
    schema, rows = draw(tables())
    whole = without_nanoseconds(schema.as_struct())
    assert isinstance(whole, StructType)
    place = schema.highest_field_id + 1
    schema = Schema((*whole.fields, NestedField(place, "place", without_nanoseconds(TimestampType()))))
    table = arrow(schema, [{**r, place: i} for i, r in enumerate(rows)], with_ids=False)
    return schema, table


def in_order(table: pa.Table, schema: Schema) -> pa.Table:
    """The rows in the form that conform gives them, in the order in which they were made."""
    return conform(table, schema).sort_by("place").combine_chunks()


def bucketed(schema: Schema) -> str | None:
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


NUMBERS = itertools.count()


@PEERS
@given(case=v2_tables(), partitioned=st.booleans(), file_format=st.sampled_from(["parquet", "parquet", "orc"]))
def test_what_we_write_pyiceberg_reads(
    ours: tuple[icecore.Catalog, Path], case: tuple[Schema, pa.Table], partitioned: bool, file_format: str
) -> None:
    """Any types at any depth, partitioned or not; PyIceberg reads Parquet and ORC."""
    catalog, warehouse = ours
    schema, rows = case
    name = f"ns.t{next(NUMBERS)}"
    spec = [bucketed(schema)] if partitioned else None
    table = catalog.create_table(
        name, schema, partition_spec=spec, properties={"write.format.default": file_format}  # type: ignore[arg-type]
    )  # fmt: skip
    table.append(rows.slice(0, 3))
    table.append(rows.slice(3))
    expected = in_order(rows, table.schema())
    assert in_order(table.scan().to_arrow(), table.schema()).equals(expected)
    peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))
    try:
        found = peer.load_table(name).scan().to_arrow()
    finally:
        peer.close()
    assert in_order(found, table.schema()).equals(expected)


@PEERS
@given(case=v2_tables())
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
