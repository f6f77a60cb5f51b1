"""Values as text for people and as JSON has them; no text from a warehouse can steer a terminal."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson

from icecore.engine.common.text import printable

_INT64 = range(-(2**63), 2**63)


def cell(value: Any, null: str = "") -> str:
    """A value as the text in a table's cell."""
    match value:
        case None:
            return null
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            unit = "microseconds" if value.microsecond % 1000 else "milliseconds" if value.microsecond else "seconds"
            return value.isoformat(sep=" ", timespec=unit).replace("+00:00", "Z")
        case str():
            return printable(value)
        case dict() | list() | tuple():
            return orjson.dumps(plain(value), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z).decode()
        case _:
            return printable(str(plain(value)))


def plain(value: Any) -> Any:
    """A value as JSON has it, with the times that orjson knows."""
    match value:
        case Mapping():
            return {k if isinstance(k, str) else cell(k, "null"): plain(v) for k, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case bytes():
            return value.hex()
        case Decimal():
            whole = value == value.to_integral_value() if value.is_finite() else False
            exact = whole and value.as_tuple().exponent == 0 and int(value) in _INT64
            return int(value) if exact else str(value)
        case int() if value not in _INT64:
            return str(value)
        case float() if not math.isfinite(value):
            # JSON has no number for it, and null would say that there is no value.
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dt.timedelta() | uuid.UUID():
            return str(value)
        case _:
            return value


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occurred before: an object can have a key once."""
    out: list[str] = []
    for name in names:
        unused, n = name, 1
        while unused in out:
            n += 1
            unused = f"{name}_{n}"
        out.append(unused)
    return out


def is_number(value: Any) -> bool:
    """Whether a value is a number, which stands to the right."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
