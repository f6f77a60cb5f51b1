"""Content files that a commit adds, as the entries of its manifests, checked before anything is stored.

Other engines read the manifests that an event becomes, so files that a manifest can't hold are refused here, whether a
caller described them or this process wrote them. Spec: Manifests (M2, M4, M5), Delete Formats (D1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, assert_never
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.common.location import path_fault
from icecore.engine.common.text import is_unicode
from icecore.engine.errors import ValidationError
from icecore.engine.formats.binary_columns import list_positions, select
from icecore.engine.formats.entry_arrow import BOUNDS, COUNTS_OF_FIELDS, ENTRY_SCHEMA, files_to_arrow
from icecore.engine.formats.typed_values import typed_values
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import decimal_to_unscaled, partition_to_bytes, to_bytes
from icecore.engine.spec.transform import BucketTransform, TruncateTransform, VoidTransform
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

UNKNOWN_COUNT = -1
"""The count that some writers give where they don't know it."""
_INT64 = range(-(2**63), 2**63)
_INT32 = range(-(2**31), 2**31)
_COUNTS = range(UNKNOWN_COUNT, 2**63)
_NUMBERS = (int, np.integer)
_BYTES = (bytes, bytearray, memoryview)
_OF_DELETES = ("equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes")
_FIRST_ROW_ID = ENTRY_SCHEMA.get_field_index("first_row_id")


def added_entries(files: Iterable[ContentFile], metadata: TableMetadata) -> pa.Table:
    """Content files as entries to be added to a table.

    Their first row ids are left out, as Java does: rows get new ones with the commit, and those of the table that the
    files may come from mean nothing here (RL3). Raises ValidationError, naming the file and what was found, where one
    can't be in the table's manifests or would mislead those who read them.
    """
    added = list(files)
    for f in added:
        _check_file(f, metadata)
    try:
        entries = files_to_arrow(added, metadata.specs, metadata.all_fields, status=ManifestEntryStatus.ADDED)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as e:
        if isinstance(e, ValidationError):
            raise
        raise ValidationError(f"files that can't be described in a manifest: {e}") from e
    _check_bounds(entries, metadata)
    nothing = pa.nulls(entries.num_rows, pa.int64())
    return entries.set_column(_FIRST_ROW_ID, ENTRY_SCHEMA.field(_FIRST_ROW_ID), nothing)


def check_data_files(files: Iterable[Any]) -> tuple[ContentFile, ...]:
    """The files, all of them data files. Raises ValidationError."""
    found = tuple(files)
    for f in found:
        if not isinstance(f, ContentFile):
            raise ValidationError(f"files are described by ContentFile, found {f!r:.100}")
        if f.content != DataFileContent.DATA:
            raise ValidationError(f"{f.file_path!r}: expected a data file, found {f.content!r}")
    return found


def _check_file(f: ContentFile, metadata: TableMetadata) -> None:
    if not isinstance(f, ContentFile):
        raise ValidationError(f"files are described by ContentFile, found {f!r:.100}")
    wrong = next(_faults(f, metadata), None)
    if wrong is not None:
        raise ValidationError(f"{f.file_path!r}: {wrong}")


def _faults(f: ContentFile, metadata: TableMetadata) -> Iterator[str]:
    """The faults of a file, one sentence each."""
    if text := path_fault(f.file_path):
        yield f"the file_path {text}"
    if f.content not in DataFileContent.__members__.values():
        yield f"the content must be one of {[int(c) for c in DataFileContent]}, found {f.content!r}"
    if f.file_format not in FileFormat.__members__.values():
        yield f"the file_format must be one of {', '.join(FileFormat)}, found {f.file_format!r}"
    for name in ("record_count", "file_size_in_bytes"):
        if not _is_number(getattr(f, name), _INT64) or getattr(f, name) < 0:
            yield f"the {name} must be a number of 64 bits from 0, found {getattr(f, name)!r}"
    yield from _optional_faults(f)
    yield from _kind_faults(f, metadata)
    if not _is_number(f.spec_id, _INT32) or f.spec_id not in metadata.specs:
        yield f"there is no partition spec {f.spec_id!r}"
    else:
        yield from _partition_faults(f.partition, metadata.specs[f.spec_id], metadata.all_fields)


def _optional_faults(f: ContentFile) -> Iterator[str]:
    for name in COUNTS_OF_FIELDS:
        counts = getattr(f, name)
        if counts is not None and not (_is_map(counts) and _are_numbers(counts.values(), _COUNTS)):
            yield f"{name} must map field ids to numbers, found {counts!r:.200}"
    for name in BOUNDS:
        bounds = getattr(f, name)
        if bounds is not None and not (_is_map(bounds) and all(isinstance(v, _BYTES) for v in bounds.values())):
            yield f"{name} must map field ids to bytes, found {bounds!r:.200}"
    if f.key_metadata is not None and not isinstance(f.key_metadata, _BYTES):
        yield f"the key_metadata must be bytes, found {f.key_metadata!r:.100}"
    for name, allowed in (("split_offsets", _INT64), ("equality_ids", _INT32)):
        values = getattr(f, name)
        if values is None:
            continue
        if not isinstance(values, (tuple, list)) or not _are_numbers(values, range(allowed.stop)):
            yield f"{name} must be numbers from 0, found {values!r:.200}"
    for name, allowed in (("sort_order_id", _INT32), ("content_offset", _INT64), ("content_size_in_bytes", _INT64)):
        value = getattr(f, name)
        if value is not None and not (_is_number(value, allowed) and value >= 0):
            yield f"the {name} must be a number from 0, found {value!r}"
    if f.referenced_data_file is not None and (text := path_fault(f.referenced_data_file)):
        yield f"the referenced_data_file {text}"


def _kind_faults(f: ContentFile, metadata: TableMetadata) -> Iterator[str]:
    """The fields that a file of its content and format lacks or must not have, in a table of that version."""
    if f.file_format == FileFormat.PUFFIN and f.content != DataFileContent.POSITION_DELETES:
        yield f"a Puffin file holds deletion vectors, found {f.content!r}"
    if f.content == DataFileContent.DATA:
        for name in _OF_DELETES:
            if getattr(f, name) is not None:
                yield f"only a delete file has {name}, found {getattr(f, name)!r}"
        return
    if metadata.format_version < 2:
        yield "a v1 table has no delete files (D1)"
    if f.content == DataFileContent.EQUALITY_DELETES and not f.equality_ids:
        yield f"an equality delete file needs equality_ids, found {f.equality_ids!r}"


def _partition_faults(partition: Any, spec: PartitionSpec, schema: Schema) -> Iterator[str]:
    if not isinstance(partition, (tuple, list)) or len(partition) != len(spec.fields):
        yield f"the partition must have the {len(spec.fields)} values of spec {spec.spec_id}, found {partition!r:.200}"
        return
    if spec.has_unknown_values:
        yield f"partition spec {spec.spec_id} has an unknown transform, so nothing is written with it"
    for f, value in zip(spec.fields, partition, strict=True):
        kind = f.result_type(schema)
        if value is not None and not (_is_value(kind, value) and _is_result(f, kind, value)):
            yield f"{value!r:.100} is no value of the partition field {f.name!r}, {f.transform} of type {kind}"


def _is_value(kind: PrimitiveType, value: Any) -> bool:
    """Whether an internal value is of a type; see `single_value`."""
    match kind:
        case BooleanType():
            return isinstance(value, (bool, np.bool_))
        case IntegerType() | DateType():
            return _is_number(value, _INT32)
        case (
            LongType() | TimeType() | TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType()
        ):
            return _is_number(value, _INT64)
        case FloatType() | DoubleType():
            return isinstance(value, (float, np.floating)) or _is_number(value, _INT64)
        case DecimalType():
            return isinstance(value, Decimal) and value.is_finite()
        case StringType():
            return isinstance(value, str) and is_unicode(value)
        case UUIDType():
            return isinstance(value, UUID)
        case FixedType(length=length):
            return isinstance(value, _BYTES) and len(value) == length
        case BinaryType() | GeometryType() | GeographyType() | VariantType():
            return isinstance(value, _BYTES)
        case UnknownType():
            return False
        case _:
            assert_never(kind)


def _is_result(f: PartitionField, kind: PrimitiveType, value: Any) -> bool:
    """Whether the field's transform can give a value: under any other value a plan would miss rows."""
    match f.transform:
        case VoidTransform():
            return False
        case BucketTransform(num_buckets=buckets):
            return 0 <= int(value) < buckets
        case TruncateTransform(width=width) if isinstance(kind, (StringType, BinaryType)):
            return len(value) <= width
        case TruncateTransform(width=width) if isinstance(kind, (IntegerType, LongType)):
            return int(value) % width == 0 or (int(value) + 2 * kind.min) % width == 0
        case TruncateTransform(width=width) if isinstance(kind, DecimalType):
            return _fits(partition_to_bytes, kind, value) and decimal_to_unscaled(value, kind.scale) % width == 0
        case _ if isinstance(kind, DecimalType):
            return _fits(to_bytes, kind, value)
        case _:
            return True


def _fits(encode: Callable[[PrimitiveType, Any], bytes], kind: PrimitiveType, value: Any) -> bool:
    try:
        encode(kind, value)
    except ValidationError:
        return False
    return True


def _check_bounds(entries: pa.Table, metadata: TableMetadata) -> None:
    """Raises ValidationError where a bound is no value of its column's type: readers fail on it, or are misled."""
    found = [_items(entries[name].combine_chunks()) for name in BOUNDS]
    keys, rows = (np.concatenate([f[i] for f in found]) for i in (0, 2))
    items = pa.concat_arrays([f[1] for f in found])
    ids_of: dict[PrimitiveType, list[int]] = {}
    for field_id in np.unique(keys).tolist():
        field = metadata.all_fields.get_field(field_id)
        if field is not None and field.field_type.is_primitive and not isinstance(field.field_type, UnknownType):
            ids_of.setdefault(field.primitive_type, []).append(field_id)
    for kind, ids in ids_of.items():
        chosen = np.flatnonzero(np.isin(keys, ids))
        wrong = chosen[np.asarray(pc.is_null(typed_values(kind, items.take(pa.array(chosen)))))]
        if len(wrong):
            at, newest_first = int(wrong[0]), (metadata.schema(), *reversed(metadata.schemas))
            column = next(s.name_of(int(keys[at])) for s in newest_first if s.get_field(int(keys[at])))
            name, path = BOUNDS[at >= len(found[0][0])], entries["file_path"][int(rows[at])]
            raise ValidationError(
                f"{path.as_py()!r}: in {name} {items[at].as_py()!r:.100} is no binary value of column {column!r}, "
                f"of type {kind}"
            )


def _items(column: pa.MapArray) -> tuple[Any, pa.BinaryArray, Any]:
    """The keys and values of a column of maps, and the row that each is of."""
    counts, where = list_positions(column)
    return (
        np.asarray(select(column.keys, where)),
        select(column.items, where),
        np.repeat(np.arange(len(column)), counts),
    )


def _is_number(value: Any, allowed: range) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool) and int(value) in allowed


def _is_map(found: Any) -> bool:
    return isinstance(found, Mapping) and _are_numbers(found.keys(), _INT32)


def _are_numbers(values: Collection[Any], allowed: range) -> bool:
    if not all(issubclass(t, _NUMBERS) and t is not bool for t in set(map(type, values))):
        return False
    return not values or (min(values) in allowed and max(values) in allowed)
