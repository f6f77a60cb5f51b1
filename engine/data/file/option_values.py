"""Values of table properties that depend on other properties."""

from __future__ import annotations

from collections.abc import Mapping

from icecore.engine.errors import ValidationError
from icecore.engine.properties.table_properties import KnownProperty


def level(level_property: KnownProperty[int], properties: Mapping[str, str], least: int, most: int) -> int | None:
    """A compression level, None where the property is not set. Raises ValidationError naming the property."""
    value = level_property.find(properties)
    if value is not None and not least <= value <= most:
        raise ValidationError(f"property {level_property.name}: expected a level from {least} to {most}, found {value}")
    return value
