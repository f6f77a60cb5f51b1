"""Typed access to parsed JSON: every error names the object, the key, what was expected and what was found."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from attrs import AttrsInstance, fields

from icecore.engine.common.bulk_attrs import gc_paused
from icecore.engine.errors import ValidationError

T = TypeVar("T")

_MISSING = object()
_IDS = {
    *("id", "element-id", "key-id", "value-id", "schema-id", "current-schema-id", "last-column-id", "spec-id"),
    *("field-id", "source-id", "default-spec-id", "last-partition-id", "order-id", "default-sort-order-id"),
    *("version-id", "current-version-id"),
}
"""The keys whose number is an int of 32 bits in every format version; other numbers are longs."""
MOST_INSIDE = 2**20
"""The most lists and objects of what a client sends: Python needs far longer for them than for their text."""
_LEAST_INT, _MOST_INT = -(2**31), 2**31 - 1


def loads(data: bytes | str, what: str) -> dict[str, Any]:
    """The JSON object in `data`; raises ValidationError naming `what` where it is not one.

    A byte order mark before it is left aside, as Java's parser does.
    """
    if not isinstance(data, (bytes, str)):
        raise ValidationError(f"{what} must be JSON as bytes or text, found {type(data).__name__}")
    try:
        value = orjson.loads(data.removeprefix("\ufeff") if isinstance(data, str) else data.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as e:
        raise ValidationError(f"{what} is not valid JSON: {e}") from e
    if not isinstance(value, dict):
        raise ValidationError(f"{what} must be a JSON object, found {type(value).__name__}")
    return value


def loads_sent(data: bytes, what: str) -> dict[str, Any]:
    """The JSON object that a client sent. Raises ValidationError as `loads`, and where too much is in it.

    It is read in one step, during which no other thread of the process does anything: 32 MiB of empty lists take
    seconds, and several times as long where the garbage collector looks at all of them again and again.
    """
    if data.count(b"[") + data.count(b"{") > MOST_INSIDE:
        raise ValidationError(f"{what} can have {MOST_INSIDE:,} lists and objects")
    with gc_paused():
        return loads(data, what)


def get(obj: Any, key: str, kind: type[T] | tuple[type[T], ...], where: str, default: Any = _MISSING) -> Any:
    """`obj[key]`, checked to be of `kind`; null counts as missing. Raises ValidationError."""
    # The check for a dict is quick; the one for any Mapping takes several times as long.
    if type(obj) is not dict and not isinstance(obj, Mapping):
        raise ValidationError(f"{where} must be a JSON object, found {type(obj).__name__}")
    value = obj.get(key)
    if type(value) is kind:
        # Nearly every value ends here, and events are read by the ten thousand.
        return _within_range(value, key, where) if isinstance(value, int) and kind is int else value
    if value is None:
        if default is _MISSING:
            raise ValidationError(f"{where} lacks the required field {key!r}")
        return default
    wrong_bool = isinstance(value, bool) and kind is not bool and not (isinstance(kind, tuple) and bool in kind)
    if wrong_bool or not isinstance(value, kind):
        names = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
        raise ValidationError(
            f"{where}: field {key!r} must be {names}, found {type(value).__name__} {str(value)[:60]!r}"
        )
    return _within_range(value, key, where) if isinstance(value, int) else value


def _within_range(value: int, key: str, where: str) -> int:
    if _LEAST_INT <= value <= _MOST_INT or key.endswith("snapshot-id"):
        # Some tables have snapshot ids of 64 bits without a sign.
        return value
    bits = 31 if key in _IDS else 63
    if not -(2**bits) <= value < 2**bits:
        raise ValidationError(f"{where}: field {key!r} must have {bits + 1} bits at most, found {value}")
    return value


def get_ints(obj: Any, key: str, where: str, default: Any = _MISSING) -> tuple[int, ...]:
    """A JSON array of ids as a tuple. Raises ValidationError."""
    values = get_list(obj, key, where, default)
    for v in values:
        if not isinstance(v, int) or isinstance(v, bool):
            raise ValidationError(f"{where}: {key!r} must hold whole numbers, found {type(v).__name__} {str(v)[:60]!r}")
        _within_range(v, "id", where)
    return tuple(values)


def get_strs(obj: Any, key: str, where: str, default: Any = _MISSING) -> tuple[str, ...]:
    """A JSON array of texts as a tuple. Raises ValidationError."""
    values = get_list(obj, key, where, default)
    for v in values:
        if not isinstance(v, str):
            raise ValidationError(f"{where}: {key!r} must hold text, found {type(v).__name__} {str(v)[:60]!r}")
    return tuple(values)


def get_list(obj: Any, key: str, where: str, default: Any = _MISSING) -> list[Any]:
    """A JSON array. Raises ValidationError."""
    value: list[Any] = get(obj, key, list, where, default)
    return value


def get_str_map(obj: Any, key: str, where: str, default: Any = _MISSING) -> dict[str, str]:
    """A JSON object of strings, numbers and booleans as their text, as Java takes them. Raises ValidationError."""
    value = get(obj, key, dict, where, default)
    out = {}
    for k, v in (value or {}).items():
        if isinstance(v, bool):
            v = "true" if v else "false"
        elif isinstance(v, (int, float)):
            v = str(v)
        if v is None:
            continue
        if not isinstance(v, str):
            raise ValidationError(f"{where}: {key!r} must map to strings, found {type(v).__name__} at {k!r}")
        out[k] = v
    return out


def keys_of(kind: type[AttrsInstance]) -> frozenset[str]:
    """The JSON keys of a class: its field names with hyphens, without `extra`, which holds the unknown keys."""
    return frozenset(f.name.replace("_", "-") for f in fields(kind)) - {"extra"}


def unknown(obj: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """The fields of `obj` that are not `known`, to be kept so that a round trip loses nothing."""
    return {k: v for k, v in obj.items() if k not in known}
