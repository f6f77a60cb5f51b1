"""Small tables built by hand: metadata, files written by the engine, delete files, scan tasks."""

from __future__ import annotations

import datetime as dt
import itertools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import evolve

from icecore.engine.data.arrow.arrow_schema import FIELD_ID_KEY, schema_to_arrow
from icecore.engine.data.read.deletion_vector import encode_deletion_vector
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import NestedField, Type
from icecore.engine.storage.file_io import Storage

STORAGE = Storage(durable=False)
_numbers = itertools.count()


def schema_of(*fields: tuple[int, str, Type], schema_id: int = 0) -> Schema:
    return Schema(tuple(NestedField(*f) for f in fields), schema_id)


def spec_of(*fields: tuple[int, str, str]) -> PartitionSpec:
    """A spec of (source id, transform, name)."""
    return PartitionSpec(
        tuple(PartitionField((i,), 1000 + n, parse_transform(t), name) for n, (i, t, name) in enumerate(fields))
    )


def metadata_of(
    *schemas: Schema, spec: PartitionSpec = UNPARTITIONED, properties: Mapping[str, str] | None = None
) -> TableMetadata:
    """Metadata with the schemas in the order of their ids, the last one current."""
    return TableMetadata(
        format_version=3,
        table_uuid="00000000-0000-0000-0000-000000000001",
        location="file:///nowhere",
        last_updated_ms=0,
        last_column_id=max(s.highest_field_id for s in schemas),
        schemas=schemas,
        current_schema_id=schemas[-1].schema_id,
        partition_specs=(spec,),
        default_spec_id=spec.spec_id,
        properties=dict(properties or {}),
        next_row_id=0,
    )


def write(
    folder: Path | str,
    schema: Schema,
    data: pa.Table | Mapping[str, Any],
    spec: PartitionSpec = UNPARTITIONED,
    properties: Mapping[str, str] | None = None,
) -> list[ContentFile]:
    """Data files of Arrow data, or of Python values by column, which take the schema's types."""
    if not isinstance(data, pa.Table):
        fields = [f.with_type(_plain(f.type)) for f in schema_to_arrow(schema)]
        data = pa.table([pa.array(data[f.name], f.type) for f in fields], schema=pa.schema(fields))
    return write_data_files(
        data,
        schema=schema,
        spec=spec,
        location=str(folder),
        storage=STORAGE,
        properties=properties or {},
        file_prefix=f"f{next(_numbers)}",
    )


def _plain(t: pa.DataType) -> pa.DataType:
    """The type with uuids as 16 bytes, which pyarrow makes from Python values at any depth."""
    if isinstance(t, pa.UuidType):
        return pa.binary(16)
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(_plain(f.type)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_plain(t.key_type), _plain(t.item_type))
    return pa.list_(_plain(t.value_type)) if pa.types.is_list(t) else t


def tasks_of(
    files: Sequence[ContentFile], deletes: Sequence[ContentFile] = (), *, residual: Expression = TRUE, sequence: int = 1
) -> list[FileScanTask]:
    return [FileScanTask(f, tuple(deletes), residual, 0, f.file_size_in_bytes, sequence) for f in files]


def position_deletes(folder: Path, rows: Sequence[tuple[str, int]]) -> ContentFile:
    """A position delete file of (data file, position)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"pos{next(_numbers)}.parquet"
    fields = [
        pa.field("file_path", pa.string(), False, {FIELD_ID_KEY: b"2147483546"}),
        pa.field("pos", pa.int64(), False, {FIELD_ID_KEY: b"2147483545"}),
    ]
    ordered = sorted(rows)
    pq.write_table(pa.table([[r[0] for r in ordered], [r[1] for r in ordered]], schema=pa.schema(fields)), path)
    return _delete_file(path, DataFileContent.POSITION_DELETES, len(rows))


def deletion_vector(folder: Path, data_file: str, positions: Sequence[int]) -> ContentFile:
    """A deletion vector in a file of its own, at an offset, as in Puffin."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"dv{next(_numbers)}.puffin"
    blob = encode_deletion_vector(np.array(positions, dtype=np.int64))
    path.write_bytes(b"PFA1" + blob + b"PFA1")
    made = _delete_file(path, DataFileContent.POSITION_DELETES, len(positions))
    return evolve(
        made,
        file_format=FileFormat.PUFFIN,
        referenced_data_file=data_file,
        content_offset=4,
        content_size_in_bytes=len(blob),
    )


def equality_deletes(folder: Path, schema: Schema, data: Mapping[str, Any]) -> ContentFile:
    """An equality delete file whose key is all columns of the schema."""
    file = write(folder, schema, data)[0]
    ids = tuple(f.field_id for f in schema.fields)
    return evolve(file, content=DataFileContent.EQUALITY_DELETES, equality_ids=ids)


def hidden_copy(file: ContentFile) -> ContentFile:
    """A copy of a file under a name that Spark can't open, so that it is read by Python."""
    source = Path(file.file_path)
    target = source.with_name("x:" + source.name)
    shutil.copy(source, target)
    return evolve(file, file_path=str(target))


def plain_values(value: Any) -> Any:
    """Instants in UTC and lists of pairs for maps, so that values can be compared as text."""
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case dict():
            return {k: plain_values(v) for k, v in value.items()}
        case list() | tuple():
            return [plain_values(v) for v in value]
        case _:
            return value


def _delete_file(path: Path, content: DataFileContent, rows: int) -> ContentFile:
    return ContentFile(content, str(path), FileFormat.PARQUET, 0, (), rows, path.stat().st_size)
