"""Columns that every table has without their being in its schema. Spec: Reserved Field IDs (T4), Row Lineage (RL5)."""

from __future__ import annotations

from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import LongType, NestedField, StringType

FILE = NestedField(2147483646, "_file", StringType(), required=True)
POS = NestedField(2147483645, "_pos", LongType(), required=True)
ROW_ID = NestedField(2147483540, "_row_id", LongType())
LAST_UPDATED_SEQUENCE_NUMBER = NestedField(2147483539, "_last_updated_sequence_number", LongType())

LINEAGE = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)


def with_columns(schema: Schema, *columns: NestedField) -> Schema:
    """A schema with reserved columns after its own."""
    return Schema((*schema.fields, *columns), schema.schema_id)
