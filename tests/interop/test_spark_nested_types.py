"""What `to_spark` shows of types that Spark lacks, `append` takes back, at any depth."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow, storage_type  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    FixedType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    Type,
    UUIDType,
)

ROWS = 40
_ids = itertools.count(1)
_random = random.Random(7)
# ORC holds no parts of seconds before 1970.
_AT = dt.datetime(1970, 1, 1, 0, 59, 59, 999999)

LEAVES: dict[str, tuple[Type, Callable[[], Any]]] = {
    "uuid": (UUIDType(), lambda: uuid.UUID(int=_random.getrandbits(128)).bytes),
    "fixed": (FixedType(3), lambda: _random.randbytes(3)),
    "time": (TimeType(), lambda: dt.time(_random.randrange(24), 59, 59, _random.randrange(10**6))),
    "nano": (TimestampNanoType(), lambda: _AT + dt.timedelta(hours=_random.randrange(9))),
    "nanotz": (TimestamptzNanoType(), lambda: (_AT + dt.timedelta(hours=_random.randrange(9))).replace(tzinfo=dt.UTC)),
}


def a_list(of: Type) -> Type:
    return ListType(next(_ids), of)


def a_map(of: Type) -> Type:
    return MapType(next(_ids), StringType(), next(_ids), of)


def keyed(of: Type) -> Type:
    return MapType(next(_ids), of, next(_ids), StringType())


def a_struct(of: Type) -> Type:
    return StructType((NestedField(next(_ids), "in.ner", of),))


SHAPES = [
    (),
    (a_list,),
    (a_map,),
    (keyed,),
    (a_struct,),
    (a_list, a_list),
    (a_list, a_struct),
    (a_map, a_list),
    (a_struct, a_map),
    (a_map, keyed),
    (a_list, a_map, a_struct, a_list),
]


def value(shape: tuple[Any, ...], leaf: Callable[[], Any], *, is_key: bool = False) -> Any:
    """A random value, with nulls and empty ones at every depth."""
    if not is_key and _random.random() < 0.25:
        return None
    if not shape:
        return leaf()
    outer, *inner = shape
    count = _random.randrange(3)
    if outer is a_struct:
        return {"in.ner": value(tuple(inner), leaf)}
    if outer is a_list:
        return [value(tuple(inner), leaf) for _ in range(count)]
    if outer is a_map:
        return [(f"k{i}", value(tuple(inner), leaf)) for i in range(count)]
    return [(value(tuple(inner), leaf, is_key=True), f"v{i}") for i in range(min(count, 1))]


@pytest.mark.parametrize(("zone", "file_format"), [("America/Los_Angeles", "parquet"), ("UTC", "avro"), ("UTC", "orc")])
def test_what_spark_is_shown_can_be_appended(spark: Any, catalog: icecore.Catalog, zone: str, file_format: str) -> None:
    """Each type in each shape, partitioned and sorted: the rows come back as they were."""
    columns = []
    arrays: list[list[Any]] = []
    # What Spark is shown is made of rows, whatever file they came from.
    shapes = SHAPES if file_format == "parquet" else SHAPES[:: len(SHAPES) // 3]
    for shape, (name, (of, leaf)) in itertools.product(shapes, LEAVES.items()):
        made = of
        for outer in reversed(shape):
            made = outer(made)
        columns.append(NestedField(next(_ids), "_".join([*(s.__name__ for s in shape), name]), made))
        arrays.append([value(shape, leaf) for _ in range(ROWS)])
    schema = Schema((NestedField(next(_ids), "id", LongType()), *columns))
    table = catalog.create_table(
        "ns.t",
        schema,
        format_version=3,
        partition_spec=["bucket(2, id)"],
        sort_order=["id DESC"],
        properties={"write.format.default": file_format},
    )
    target = schema_to_arrow(table.schema(), with_ids=False)
    storage = [pa.array(range(ROWS), pa.int64())]
    storage += [pa.array(a, storage_type(f.type)) for a, f in zip(arrays, list(target)[1:], strict=True)]
    table.append(pa.table([a.cast(f.type) for a, f in zip(storage, target, strict=True)], names=target.names))
    before = sorted(map(repr, table.scan().to_arrow().to_pylist()))
    assert len(before) == ROWS
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        table.append(table.scan().to_spark(spark))
        # A task whose rows are null in all columns.
        table.append(table.scan("id = 3").to_spark(spark).selectExpr("id", *(f"NULL AS {f.name}" for f in columns)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    after = table.scan().to_arrow().to_pylist()
    nothing = repr({"id": 3, **{f.name: None for f in columns}})
    assert sorted(map(repr, after)) == sorted([*before, *before, nothing, nothing])
