"""Content files and file scan tasks as JSON.

Spec: Appendix C, Content File and File Scan Task. Two spellings are in use and both are read: the spec's (`content`
as `POSITION_DELETES`, the partition as an object by partition field id) and the one of REST catalogs and of Java since
1.11 (`position-deletes`, the partition as a list in the order of the spec).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from icecore.engine.common.json_reader import get, get_list
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.expression.json import expression_json
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FLOATING_TYPES, PrimitiveType

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_NUMBERS = ("sort_order_id", "first_row_id")
_DELETE_NUMBERS = ("content_offset", "content_size_in_bytes")


def content_file_to_json(
    file: ContentFile, *, spec: PartitionSpec, schema: Schema, rest: bool = False
) -> dict[str, Any]:
    """The JSON object of a content file, key metadata included; `rest` is the spelling of REST catalogs.

    `spec` is the file's, `schema` has its source columns. Raises ValidationError where the file is of another spec.
    """
    if file.spec_id != spec.spec_id or len(file.partition) != len(spec.fields):
        raise ValidationError(
            f"{file.file_path}: a file of spec {file.spec_id} with {len(file.partition)} partition values does not fit "
            f"spec {spec.spec_id} with {len(spec.fields)} fields"
        )
    out: dict[str, Any] = {
        "spec-id": file.spec_id,
        "content": file.content.name.lower().replace("_", "-") if rest else file.content.name,
        "file-path": file.file_path,
        "file-format": str(file.file_format).lower() if rest else str(file.file_format),
        "partition": _partition_to_json(file, spec, schema, rest),
        "file-size-in-bytes": file.file_size_in_bytes,
        "record-count": file.record_count,
    }
    optional: dict[str, Any] = {
        **{name: _map_to_json(getattr(file, name), int) for name in _COUNTS},
        **{name: _map_to_json(getattr(file, name), _hex) for name in _BOUNDS},
        "key_metadata": None if file.key_metadata is None else _hex(file.key_metadata),
        "split_offsets": None if file.split_offsets is None else list(file.split_offsets),
        "equality_ids": None if file.equality_ids is None else list(file.equality_ids),
        **{name: getattr(file, name) for name in (*_NUMBERS, "referenced_data_file", *_DELETE_NUMBERS)},
    }
    return out | {_key(name): value for name, value in optional.items() if value is not None}


def content_file_from_json(obj: Any, *, specs: Mapping[int, PartitionSpec], schema: Schema) -> ContentFile:
    """The content file of a JSON object in either spelling. Raises ValidationError where the object is none."""
    path = get(obj, "file-path", str, "content file")
    where = f"content file {path}"
    spec_id = get(obj, "spec-id", int, where)
    spec = specs.get(spec_id)
    if spec is None:
        raise ValidationError(f"{where}: there is no partition spec {spec_id}")
    optional: dict[str, Any] = {
        **{name: _map_from_json(obj, name, _count, where) for name in _COUNTS},
        **{name: _map_from_json(obj, name, _bytes, where) for name in _BOUNDS},
        **{name: get(obj, _key(name), int, where, None) for name in (*_NUMBERS, *_DELETE_NUMBERS)},
    }
    return ContentFile(
        _content(get(obj, "content", str, where), where),
        path,
        _file_format(get(obj, "file-format", str, where), where),
        spec_id,
        _partition_from_json(obj.get("partition"), spec, schema, where),
        get(obj, "record-count", int, where),
        get(obj, "file-size-in-bytes", int, where),
        key_metadata=_bytes_or_none(obj, "key-metadata", where),
        split_offsets=_ints(obj, "split-offsets", where),
        equality_ids=_ints(obj, "equality-ids", where),
        referenced_data_file=get(obj, "referenced-data-file", str, where, None),
        **optional,
    )


def scan_task_to_json(task: FileScanTask, *, specs: Mapping[int, PartitionSpec], schema: Schema) -> dict[str, Any]:
    """The JSON object of a file scan task: with its schema and spec, so that it can be read alone.

    `schema` has the columns of the residual filter and the sources of the specs. Raises ValidationError where a file
    is of a spec that is not there, ExpressionError where the residual has no JSON form.
    """

    def to_json(file: ContentFile) -> dict[str, Any]:
        if file.spec_id not in specs:
            raise ValidationError(f"{file.file_path}: there is no partition spec {file.spec_id}")
        return content_file_to_json(file, spec=specs[file.spec_id], schema=schema)

    return {
        "task-type": "file-scan-task",
        "schema": schema.to_dict(),
        "spec": specs[task.file.spec_id].to_dict(),
        "data-file": to_json(task.file),
        "start": task.start,
        "length": task.length,
        "delete-files": [to_json(d) for d in task.delete_files],
        "residual-filter": expression_json.to_json(task.residual),
    }


def partition_to_json(values: Iterable[Any], types: Iterable[PrimitiveType]) -> list[Any]:
    """A partition tuple as the list of REST catalogs, null where a value is null."""
    return [_value_to_json(t, v) for t, v in zip(types, values, strict=True)]


def with_partition_sources(schema: Schema, metadata: TableMetadata) -> Schema:
    """The schema with the columns that a spec partitions by and that it lacks, as they were when they were dropped."""
    sources = {f.source_id for s in metadata.partition_specs for f in s.fields}
    dropped = [f for f in metadata.all_fields.fields if f.field_id in sources - schema.field_ids]
    return Schema((*schema.fields, *dropped), schema.schema_id)


def _key(name: str) -> str:
    return name.replace("_", "-")


def _hex(data: bytes) -> str:
    # Upper case as Java writes it; it is read in either case.
    return data.hex().upper()


def _map_to_json(values: Mapping[int, Any] | None, convert: Callable[[Any], Any]) -> dict[str, Any] | None:
    if values is None:
        return None
    return {"keys": list(values), "values": [convert(v) for v in values.values()]}


def _map_from_json(obj: Any, name: str, convert: Callable[[Any, str], Any], where: str) -> dict[int, Any] | None:
    key = _key(name)
    if obj.get(key) is None:
        return None
    inner = get(obj, key, dict, where)
    keys, values = get_list(inner, "keys", f"{where}: {key}"), get_list(inner, "values", f"{where}: {key}")
    if len(keys) != len(values):
        raise ValidationError(f"{where}: {key} has {len(keys)} keys and {len(values)} values")
    return {_count(k, f"{where}: {key}"): convert(v, f"{where}: {key}") for k, v in zip(keys, values, strict=True)}


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValidationError(f"{where}: expected a whole number, found {value!r}")
    return value


def _bytes(value: Any, where: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError) as e:
        raise ValidationError(f"{where}: expected bytes in hexadecimal: {e}") from e


def _bytes_or_none(obj: Any, key: str, where: str) -> bytes | None:
    return None if obj.get(key) is None else _bytes(obj[key], f"{where}: {key}")


def _ints(obj: Any, key: str, where: str) -> tuple[int, ...] | None:
    values = get_list(obj, key, where, None)
    return None if values is None else tuple(_count(v, f"{where}: {key}") for v in values)


def _content(text: str, where: str) -> DataFileContent:
    try:
        return DataFileContent[text.upper().replace("-", "_")]
    except KeyError:
        raise ValidationError(
            f"{where}: content must be DATA, POSITION_DELETES or EQUALITY_DELETES, found {text!r}"
        ) from None


def _file_format(text: str, where: str) -> FileFormat:
    try:
        return FileFormat(text.upper())
    except ValueError:
        raise ValidationError(f"{where}: {text!r} is no known file format") from None


def _partition_to_json(file: ContentFile, spec: PartitionSpec, schema: Schema, rest: bool) -> Any:
    values = partition_to_json(file.partition, [f.result_type(schema) for f in spec.fields])
    if rest:
        return values
    return {str(f.field_id): v for f, v in zip(spec.fields, values, strict=True) if v is not None}


def _partition_from_json(obj: Any, spec: PartitionSpec, schema: Schema, where: str) -> tuple[Any, ...]:
    match obj:
        case None if not spec.fields:
            return ()
        case list():
            if len(obj) != len(spec.fields):
                raise ValidationError(
                    f"{where}: spec {spec.spec_id} has {len(spec.fields)} partition fields, found {len(obj)} values"
                )
            values = obj
        case dict():
            ids = {str(f.field_id) for f in spec.fields}
            if strange := sorted(obj.keys() - ids):
                raise ValidationError(f"{where}: spec {spec.spec_id} has no partition fields {strange}")
            values = [obj.get(str(f.field_id)) for f in spec.fields]
        case _:
            raise ValidationError(f"{where}: the partition must be an object or a list, found {obj!r}")
    try:
        return tuple(_value_from_json(f.result_type(schema), v) for f, v in zip(spec.fields, values, strict=True))
    except ValidationError as e:
        raise ValidationError(f"{where}: partition: {e}") from e


def _value_to_json(iceberg_type: PrimitiveType, value: Any) -> Any:
    # JSON has no such numbers; Java's generator quotes them.
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return _hex(value)
    return single_value.to_json(iceberg_type, value)


def _value_from_json(iceberg_type: PrimitiveType, value: Any) -> Any:
    if isinstance(iceberg_type, FLOATING_TYPES) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    return single_value.from_json(iceberg_type, value)
