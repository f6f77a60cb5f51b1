"""A schema with all kinds of nesting, and changes of it as a table would get them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from icecore.engine.evolution.schema_evolution import evolve_schema
from icecore.engine.evolution.schema_ops import SchemaOp
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.spec.types import (
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    parse_primitive,
)

LAST_ID = 20
Change = Callable[[UpdateSchema], object]


def primitive(field_id: int, name: str, type_name: str, required: bool = False, **more: Any) -> NestedField:
    return NestedField(field_id, name, parse_primitive(type_name), required, **more)


SCHEMA = Schema(
    (
        primitive(1, "id", "int", True),
        primitive(2, "name", "string", doc="who"),
        primitive(3, "day", "date"),
        NestedField(4, "place", StructType((primitive(5, "lat", "float"), primitive(6, "lon", "float")))),
        NestedField(
            7, "points", ListType(8, StructType((primitive(9, "x", "int", True), primitive(10, "y", "int"))), True)
        ),
        NestedField(
            11,
            "props",
            MapType(12, StructType((primitive(13, "k", "string"),)), 14, StructType((primitive(15, "v", "int"),))),
        ),
        NestedField(16, "tags", ListType(17, IntegerType(), True)),
        NestedField(18, "counts", MapType(19, StringType(), 20, IntegerType(), True)),
    ),
    schema_id=5,
    identifier_field_ids=(1,),
)


def change(
    *changes: Change,
    schema: Schema = SCHEMA,
    version: int = 2,
    specs: tuple[PartitionSpec, ...] = (),
    order: SortOrder | None = None,
    **options: Any,
) -> Schema:
    """The schema after the changes, as a table of that version would get it."""
    return change_with_last_id(*changes, schema=schema, version=version, specs=specs, order=order, **options)[0]


def change_with_last_id(
    *changes: Change,
    schema: Schema = SCHEMA,
    version: int = 2,
    specs: tuple[PartitionSpec, ...] = (),
    order: SortOrder | None = None,
    last_id: int = LAST_ID,
    **options: Any,
) -> tuple[Schema, int]:
    committed: list[tuple[SchemaOp, ...]] = []
    with UpdateSchema(committed.append) as update:
        for c in changes:
            c(update)
    return evolve_schema(
        schema, committed[0], last_column_id=last_id, format_version=version, specs=specs, sort_order=order, **options
    )


def names(schema: Schema) -> list[str]:
    return [f.name for f in schema.fields]


def names_in(schema: Schema, path: str) -> list[str]:
    struct = schema.find_field(path).field_type
    assert isinstance(struct, StructType)
    return [f.name for f in struct.fields]
