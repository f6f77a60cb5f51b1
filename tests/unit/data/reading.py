"""Files and tasks for the tests of reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.deletion_vector import encode_deletion_vector
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.partition import UNPARTITIONED, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage

PATH_FIELD = pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"})
POS_FIELD = pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"})


def content_file(path: Path, content: DataFileContent = DataFileContent.DATA, **more: Any) -> ContentFile:
    """The description of a file that lies at a local path."""
    size = path.stat().st_size if path.exists() else 0
    file_format = FileFormat(more.pop("file_format", "PARQUET"))
    location = more.pop("location", f"file://{path}")
    return ContentFile(
        content, location, file_format, 0, more.pop("partition", ()), more.pop("record_count", 0), size, **more
    )


def data_file(path: Path, table: pa.Table, *, rows_per_group: int = 1000, **more: Any) -> ContentFile:
    """A Parquet data file with the rows, and whatever field ids the table's schema has."""
    pq.write_table(table, path, row_group_size=rows_per_group)
    return content_file(path, **more)


def with_schema(rows: list[dict[str, Any]], schema: Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema_to_arrow(schema))


def position_deletes(path: Path, pairs: Iterable[tuple[str, int]]) -> ContentFile:
    pairs = list(pairs)
    columns = [pa.array([p for p, _ in pairs], pa.string()), pa.array([i for _, i in pairs], pa.int64())]
    pq.write_table(pa.table(columns, schema=pa.schema([PATH_FIELD, POS_FIELD])), path)
    return content_file(path, DataFileContent.POSITION_DELETES)


def deletion_vector(path: Path, positions: Sequence[int], before: bytes = b"PFA1") -> ContentFile:
    """A deletion vector that lies somewhere in a file, as in a Puffin file of several blobs."""
    blob = encode_deletion_vector(np.array(positions, dtype=np.int64))
    path.write_bytes(before + blob + b"the rest of the file")
    return content_file(
        path,
        DataFileContent.POSITION_DELETES,
        file_format="PUFFIN",
        record_count=len(positions),
        content_offset=len(before),
        content_size_in_bytes=len(blob),
    )


def equality_deletes(path: Path, table: pa.Table, ids: Sequence[int]) -> ContentFile:
    pq.write_table(table, path)
    return content_file(path, DataFileContent.EQUALITY_DELETES, equality_ids=tuple(ids))


def rows(
    file: ContentFile,
    schema: Schema,
    *,
    deletes: Sequence[ContentFile] = (),
    projection: Schema | None = None,
    spec: PartitionSpec = UNPARTITIONED,
    span: tuple[int, int] | None = None,
    storage: Storage | None = None,
    sequence_number: int = 7,
    cache: DeleteCache | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """The rows that a task over a file gives, after a check that batches have the promised schema."""
    start, length = span or (0, file.file_size_in_bytes)
    task = FileScanTask(file, tuple(deletes), TRUE, start, length, sequence_number)
    wanted = projection or schema
    out: list[dict[str, Any]] = []
    for batch in read_task(
        task,
        projection=wanted,
        table_schema=schema,
        specs={0: spec},
        storage=storage or Storage(),
        deletes=cache,
        **more,
    ):
        batch.validate(full=True)
        assert batch.num_rows
        assert batch.schema.equals(schema_to_arrow(wanted, with_ids=False), check_metadata=True) or not wanted.fields
        out.extend(batch.to_pylist())
    return out
