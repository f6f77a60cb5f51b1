"""Rows written by the writer of each file format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc

from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import UNPARTITIONED
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icecore.engine.storage.file_io import Storage

SCHEMA = Schema((
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "score", DoubleType()),
))  # fmt: skip
EVERY = Schema((
    NestedField(1, "bo", BooleanType(), True), NestedField(2, "i", IntegerType()), NestedField(3, "l", LongType()),
    NestedField(4, "f", FloatType()), NestedField(5, "d", DoubleType()), NestedField(6, "dec", DecimalType(9, 2)),
    NestedField(7, "day", DateType()), NestedField(8, "t", TimeType()), NestedField(9, "ts", TimestampType()),
    NestedField(10, "tz", TimestamptzType()), NestedField(11, "ns", TimestampNanoType()),
    NestedField(12, "nz", TimestamptzNanoType()), NestedField(13, "s", StringType(), doc="text"),
    NestedField(14, "u", UUIDType()), NestedField(15, "fx", FixedType(3)), NestedField(16, "bi", BinaryType()),
    NestedField(17, "st", StructType((NestedField(18, "a-b", IntegerType(), True),))),
    NestedField(19, "li", ListType(20, StringType(), True)),
    NestedField(21, "ms", MapType(22, StringType(), 23, LongType())),
    NestedField(
        24, "mi", MapType(25, IntegerType(), 26, StructType((NestedField(27, "x", DecimalType(38, 0)),)), True)
    ),
))  # fmt: skip


def numbered(n: int) -> pa.Table:
    names = [None if i % 10 == 0 else f"n{i % 7}" for i in range(n)]
    return pa.table({"id": np.arange(n), "name": pa.array(names, pa.string()), "score": np.arange(n) / 3})


def write(
    data: Any, folder: Path, file_format: str, schema: Schema = SCHEMA, properties: dict[str, str] | None = None,
    **more: Any,
) -> list[ContentFile]:  # fmt: skip
    return write_data_files(
        data,
        schema=schema,
        spec=more.pop("spec", UNPARTITIONED),
        location=f"file://{folder}/data",
        storage=Storage(durable=False),
        properties={"write.format.default": file_format, **(properties or {})},
        file_prefix="00000-abc",
        **more,
    )


def local(file: ContentFile) -> Path:
    return Path(file.file_path.removeprefix("file://"))
