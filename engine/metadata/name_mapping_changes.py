"""The name mapping of a table, from its properties."""

from __future__ import annotations

from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping


def table_name_mapping(metadata: TableMetadata) -> NameMapping | None:
    """`schema.name-mapping.default`, parsed; None where the table has none. Raises ValidationError."""
    return NAME_MAPPING.find(metadata.properties)
