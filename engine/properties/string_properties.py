"""Checks of the properties that callers give: of namespaces, tables, views and snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from icecore.engine.errors import ValidationError
from icecore.engine.properties.table_properties import check_values


def string_properties(properties: Mapping[str, str] | None, what: str = "properties") -> dict[str, str]:
    """A copy of the properties.

    Raises ValidationError, which calls them `what`, for a key or value that is no string.
    """
    if properties is not None and not isinstance(properties, Mapping):
        raise ValidationError(f"{what} must be a mapping, found {type(properties).__name__}")
    for key, value in (properties or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValidationError(f"{what} map strings to strings, found {key!r}: {value!r}")
    return dict(properties or {})


FORMAT_VERSION = "format-version"
"""Given as a property of a table, it is the table's format version, as in Java and PyIceberg."""

RESERVED = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""What other engines show as a property of a table although it follows from the metadata."""


def table_properties(properties: Mapping[str, str] | None, *, is_new: bool = True) -> tuple[dict[str, str], int | None]:
    """The properties without `format-version`, and the version that it names. Raises ValidationError.

    None of them may be reserved: it would stay as it is when what it tells changes. Where somebody gives them anew,
    those that this engine knows must have one of their values.
    """
    given = string_properties(properties)
    if is_new:
        check_values(given)
    if reserved := sorted(RESERVED & given.keys()):
        raise ValidationError(f"the properties {reserved} follow from a table's metadata and can't be set")
    version = given.pop(FORMAT_VERSION, None)
    if version is not None and not (version.isascii() and version.isdecimal() and len(version) < 4):
        raise ValidationError(f"the property {FORMAT_VERSION} must be a number, found {version[:60]!r}")
    return given, None if version is None else int(version)
