"""Defaults of columns as a person types them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from icecore.engine.errors import ValidationError
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    ListType,
    MapType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    Type,
    UUIDType,
)

_TIMES = (DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_TEXTS = (*_TIMES, DecimalType, UUIDType)


def given_default(text: str | None, kind: Type) -> object:
    """The default that a text says, for `default_value` to check: what JSON reads of it, with decimals as typed.

    Types that Iceberg's JSON has as text need no quotes; bytes are hexadecimal. Raises ValidationError where a number
    stands for a time, and for what is not hexadecimal.
    """
    if text is None or isinstance(kind, StringType):
        return text
    if isinstance(kind, BinaryType | FixedType):
        return None if text == "null" else _from_hex(text)
    try:
        value = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return text
    if isinstance(kind, _TEXTS) and isinstance(value, int | float | Decimal):
        return text
    return _typed(value, kind)


def _typed(value: Any, kind: Type) -> Any:
    match kind:
        case ListType(element=element) if isinstance(value, list):
            return [_typed(v, element) for v in value]
        case MapType(value=item) if isinstance(value, dict):
            return {k: _typed(v, item) for k, v in value.items()}
        case MapType(key=key, value=item) if isinstance(value, list) and all(map(_is_pair, value)):
            return [(_typed(k, key), _typed(v, item)) for k, v in value]
        case FloatType() | DoubleType() if isinstance(value, Decimal):
            return float(value)
        case BinaryType() | FixedType() if isinstance(value, str):
            return _from_hex(value)
        case _ if isinstance(kind, _TIMES) and isinstance(value, int):
            # As an internal value it would be days or microseconds since 1970.
            raise ValidationError(f"{value!r} is not a default of type {kind}: write it as text, in ISO 8601")
        case _:
            return value


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as e:
        raise ValidationError(f"{text!r} is no default of bytes: write them in hexadecimal, as 00ff") from e


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2
