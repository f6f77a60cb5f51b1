"""The name mapping of a table, from its properties."""

from __future__ import annotations

from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import DEFAULT_NAME_MAPPING, NameMapping


def table_name_mapping(metadata: TableMetadata) -> NameMapping | None:
    """`schema.name-mapping.default`, parsed; None where the table has none. Raises ValidationError."""
    text = metadata.properties.get(DEFAULT_NAME_MAPPING)
    return None if text is None else NameMapping.from_json(text)
