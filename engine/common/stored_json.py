"""JSON that the log's database keeps beside the events."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson

from icecore.engine.errors import CorruptLogError

T = TypeVar("T", dict[str, Any], list[Any])


def stored_json(text: str, kind: type[T], what: str) -> T:
    """The object or array in a row. Raises CorruptLogError naming `what` the row is where the text is none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as e:
        raise CorruptLogError(f"{what} can't be decoded: {e}; rebuild the warehouse") from e
    if not isinstance(value, kind):
        raise CorruptLogError(f"{what} is no JSON {kind.__name__}; rebuild the warehouse")
    return value
