"""Reserved columns, which can be read from every table although its schema lacks them.

Spec: Reserved Field IDs (T4), Row Lineage (RL5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import BooleanType, IntegerType, LongType, NestedField, StringType, StructType

# The columns of position delete files (D3).
DELETE_PATH_ID = 2147483546
DELETE_POS_ID = 2147483545

FILE = NestedField(2147483646, "_file", StringType(), required=True)
POS = NestedField(2147483645, "_pos", LongType(), required=True)
DELETED = NestedField(2147483644, "_deleted", BooleanType(), required=True)
SPEC_ID = NestedField(2147483643, "_spec_id", IntegerType(), required=True)
PARTITION_ID, PARTITION = 2147483642, "_partition"
ROW_ID = NestedField(2147483540, "_row_id", LongType())
LAST_UPDATED_SEQUENCE_NUMBER = NestedField(2147483539, "_last_updated_sequence_number", LongType())

CHANGE_TYPE = NestedField(2147483543, "_change_type", StringType(), required=True)
CHANGE_ORDINAL = NestedField(2147483542, "_change_ordinal", IntegerType())
COMMIT_SNAPSHOT_ID = NestedField(2147483541, "_commit_snapshot_id", LongType())
CHANGELOG = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)

# Ids of the fields of `_partition` begin here, because partition fields may have ids that columns have too.
_PARTITION_FIELDS = 2147400000

LINEAGE = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)
METADATA_COLUMNS = {f.name: f for f in (FILE, POS, DELETED, SPEC_ID, *LINEAGE)}


def partition_column(unified: StructType) -> NestedField:
    """The column `_partition` of a table; `unified` has the partition fields of all its specs, under their own ids."""
    fields = (evolve(f, field_id=_PARTITION_FIELDS + f.field_id, required=False) for f in unified.fields)
    return NestedField(PARTITION_ID, PARTITION, StructType(tuple(fields)), required=True)


def partition_struct(spec: PartitionSpec, partition: Sequence[Any]) -> dict[int, Any]:
    """A file's partition as the value of `_partition`; fields that its spec lacks are missing, and so are null."""
    return {_PARTITION_FIELDS + f.field_id: value for f, value in zip(spec.fields, partition, strict=True)}


def with_columns(schema: Schema, *columns: NestedField) -> Schema:
    """A schema with reserved columns after its own. Raises ValidationError where its own has the name of one."""
    own = {f.name for f in schema.fields}
    for c in columns:
        if c.name in own:
            raise ValidationError(
                f"the column {c.name!r} has the name of a metadata column that is needed beside it: rename it first, "
                "as by update_schema().rename_column"
            )
    return Schema((*schema.fields, *columns), schema.schema_id)


def select(
    schema: Schema,
    names: tuple[str, ...],
    case_sensitive: bool = True,
    partition_type: Callable[[], StructType] | None = None,
) -> Schema:
    """The schema of the named columns in that order; a name that the schema lacks may be a metadata column's.

    `_partition` is one of these if `partition_type` is given. Raises ValidationError for an unknown column, or one that
    is named twice.
    """
    known = METADATA_COLUMNS
    if partition_type is not None and PARTITION in names and not schema.has_name(PARTITION, case_sensitive):
        known = {**known, PARTITION: partition_column(partition_type())}
    special = [n for n in names if n in known and not schema.has_name(n, case_sensitive)]
    if not special:
        return schema.select(names, case_sensitive)
    if len(set(special)) != len(special):
        raise ValidationError(f"a column is selected twice: {list(names)}")
    plain = schema.select([n for n in names if n not in special], case_sensitive)
    if "*" in names:
        return with_columns(plain, *(known[n] for n in special))
    order = {_root(schema, n, case_sensitive): i for i, n in reversed(list(enumerate(names))) if n not in special}
    placed = [(order[f.field_id], f) for f in plain.fields]
    placed += [(names.index(n), known[n]) for n in special]
    return Schema(tuple(f for _, f in sorted(placed, key=lambda p: p[0])), schema.schema_id)


def _root(schema: Schema, name: str, case_sensitive: bool) -> int:
    return schema.id_path(schema.find_field(name, case_sensitive).field_id)[0]
