"""Values of table properties, read and checked."""

from __future__ import annotations

from collections.abc import Mapping

from icecore.engine.errors import ValidationError

MIB = 1024 * 1024


def positive(properties: Mapping[str, str], key: str, default: int) -> int:
    """A whole number above zero. Raises ValidationError naming the property."""
    text = properties.get(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValidationError(f"property {key}: expected a positive whole number, found {text!r}")
    return int(text)


def choice(properties: Mapping[str, str], key: str, allowed: Mapping[str, str], default: str) -> str:
    """What `allowed` has for the property's value, in any case of letters. Raises ValidationError naming both."""
    text = properties.get(key, default).strip().lower()
    if text not in allowed:
        raise ValidationError(f"property {key}: expected one of {', '.join(allowed)}, found {text!r}")
    return allowed[text]


def level(properties: Mapping[str, str], key: str, least: int, most: int) -> int | None:
    """A compression level, None where the property is not set. Raises ValidationError naming the property."""
    text = properties.get(key)
    if text is None:
        return None
    try:
        found = int(text)
    except ValueError as e:
        raise ValidationError(f"property {key}: expected a whole number, found {text!r}") from e
    if not least <= found <= most:
        raise ValidationError(f"property {key}: expected a level from {least} to {most}, found {found}")
    return found
