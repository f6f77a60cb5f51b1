"""PyIceberg plans and reads the files that we write, by the metrics that we give. Spec: Manifests (M4, M5), P1."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema, schema_to_arrow
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import UNPARTITIONED
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage

DATA = pa.table(
    {
        "id": pa.array([1, 2, 3]),
        "u": pa.array([str(uuid.UUID(int=7)), None, str(uuid.UUID(int=2**127))]),
        "s": [{"x": 1, "y": ["a"]}, None, {"x": None, "y": []}],
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "tz": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("1.23"), None, Decimal("-5.00")], pa.decimal128(9, 2)),
        "f": pa.array([b"abc", None, b"xyz"], pa.binary(3)),
        "t": pa.array([1, 2, None], pa.time64("us")),
        "long_text": ["x" * 40, "\U0010ffff" * 20, None],
        "number": [float("nan"), -0.0, 1.5],
    }
)
SCHEMA = arrow_to_schema(DATA.schema.set(1, pa.field("u", pa.uuid())))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("n")
    return catalog.create_table("n.t", schema=schema_to_arrow(SCHEMA, with_ids=False))


def append(table: Table, file: ContentFile) -> None:
    theirs = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.file_path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        column_sizes=dict(file.column_sizes or {}),
        value_counts=dict(file.value_counts or {}),
        null_value_counts=dict(file.null_value_counts or {}),
        nan_value_counts=dict(file.nan_value_counts or {}),
        lower_bounds=dict(file.lower_bounds or {}),
        upper_bounds=dict(file.upper_bounds or {}),
        split_offsets=list(file.split_offsets or ()),
    )
    theirs.spec_id = 0
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(theirs)


def test_fresh_ids_are_those_that_pyiceberg_assigns(table: Table) -> None:
    assert Schema.from_dict(json.loads(table.schema().model_dump_json(by_alias=True))).same_fields(SCHEMA)


def test_pyiceberg_reads_and_prunes_our_file(table: Table, tmp_path: Path) -> None:
    """All rows come back; filters that bounds decide keep or drop the file as its rows say."""
    (file,) = write_data_files(
        DATA,
        schema=SCHEMA,
        spec=UNPARTITIONED,
        location=f"file://{tmp_path}/data",
        storage=Storage(durable=False),
        properties={},
        file_prefix="x",
    )
    append(table, file)
    assert repr(table.scan().to_arrow().to_pylist()) == repr(conform(DATA, SCHEMA).to_pylist())
    for row_filter, kept in [
        ("id >= 3", 1),
        ("id > 3", 0),
        ("s.x = 1", 1),
        ("s.x > 1", 0),
        ("d < -5.00", 0),
        ("d <= -5.00", 1),
        ("long_text >= 'x'", 1),
        ("long_text < 'x'", 0),
        ("number = 0.0", 1),
        ("number > 1.5", 0),
        ("t > '00:00:00.000002'", 0),
        ("tz >= '1970-01-01T00:00:00.000001+00:00'", 1),
    ]:
        assert len(list(table.scan(row_filter=row_filter).plan_files())) == kept, row_filter
