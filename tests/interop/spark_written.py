"""Files as Spark writes them for the engine, and their rows as the engine reads them."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from spark_tables import STORAGE, tasks_of

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.spark.spark_write import write_frame_files
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import UNPARTITIONED, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import LongType, StringType

LONG, STRING = LongType(), StringType()


def spark_write(
    df: Any, schema: Schema, folder: Path, spec: PartitionSpec = UNPARTITIONED, **more: Any
) -> list[ContentFile]:
    prefix = uuid.uuid4().hex
    arguments = {"properties": {}, "file_prefix": prefix, **more}
    files = write_frame_files(df, schema=schema, spec=spec, location=str(folder), storage=STORAGE, **arguments)
    assert all(Path(f.file_path).name.startswith(prefix) for f in files)
    return files


def read_back(files: list[ContentFile], schema: Schema, spec: PartitionSpec = UNPARTITIONED) -> pa.Table:
    """The rows of all files, by the engine's own reader."""
    arrow = schema_to_arrow(schema, with_ids=False)
    batches = [
        b
        for t in tasks_of(files)
        for b in read_task(t, projection=schema, table_schema=schema, specs={spec.spec_id: spec}, storage=STORAGE)
    ]
    return pa.Table.from_batches(batches, arrow)
