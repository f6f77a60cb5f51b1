"""Properties that callers give: of namespaces, tables, views and snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from icecore.engine.errors import ValidationError


def string_properties(properties: Mapping[str, str] | None, what: str = "properties") -> dict[str, str]:
    """A copy. Raises ValidationError, in which they are called `what`, where a key or value is no string."""
    if properties is not None and not isinstance(properties, Mapping):
        raise ValidationError(f"{what} must be a mapping, found {type(properties).__name__}")
    for key, value in (properties or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValidationError(f"{what} map strings to strings, found {key!r}: {value!r}")
    return dict(properties or {})
