"""Reserved columns, which every table has though its schema lacks them.

Spec: Reserved Field IDs (T4), Row Lineage (RL5).
"""

from __future__ import annotations

from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import IntegerType, LongType, NestedField, StringType

# The columns of position delete files (D3).
DELETE_PATH_ID = 2147483546
DELETE_POS_ID = 2147483545

FILE = NestedField(2147483646, "_file", StringType(), required=True)
POS = NestedField(2147483645, "_pos", LongType(), required=True)
SPEC_ID = NestedField(2147483643, "_spec_id", IntegerType(), required=True)
ROW_ID = NestedField(2147483540, "_row_id", LongType())
LAST_UPDATED_SEQUENCE_NUMBER = NestedField(2147483539, "_last_updated_sequence_number", LongType())

CHANGE_TYPE = NestedField(2147483543, "_change_type", StringType(), required=True)
CHANGE_ORDINAL = NestedField(2147483542, "_change_ordinal", IntegerType())
COMMIT_SNAPSHOT_ID = NestedField(2147483541, "_commit_snapshot_id", LongType())
CHANGELOG = (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID)

LINEAGE = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)
METADATA_COLUMNS = {f.name: f for f in (FILE, POS, SPEC_ID, *LINEAGE)}


def with_columns(schema: Schema, *columns: NestedField) -> Schema:
    """A schema with reserved columns after its own."""
    return Schema((*schema.fields, *columns), schema.schema_id)


def select(schema: Schema, names: tuple[str, ...], case_sensitive: bool = True) -> Schema:
    """The schema of the named columns in that order; metadata columns may be among them, unless a column has the name.

    Raises ValidationError for an unknown column, or one that is named twice.
    """
    special = [n for n in names if n in METADATA_COLUMNS and not schema.has_name(n, case_sensitive)]
    if not special:
        return schema.select(names, case_sensitive)
    if len(set(special)) != len(special):
        raise ValidationError(f"a column is selected twice: {list(names)}")
    plain = schema.select([n for n in names if n not in special], case_sensitive)
    if "*" in names:
        return with_columns(plain, *(METADATA_COLUMNS[n] for n in special))
    order = {_root(schema, n, case_sensitive): i for i, n in reversed(list(enumerate(names))) if n not in special}
    placed = [(order[f.field_id], f) for f in plain.fields]
    placed += [(names.index(n), METADATA_COLUMNS[n]) for n in special]
    return Schema(tuple(f for _, f in sorted(placed, key=lambda p: p[0])), schema.schema_id)


def _root(schema: Schema, name: str, case_sensitive: bool) -> int:
    field_id = schema.find_field(name, case_sensitive).field_id
    while (parent := schema.parent_id(field_id)) is not None:
        field_id = parent
    return field_id
