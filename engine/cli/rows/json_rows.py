"""The rows of a JSON file as lines for Arrow's reader, which knows no maps and no text for NaN and infinities.

The shell prints both in JSON, maps as objects, and what it prints can be loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from icecore.engine.errors import ValidationError

ROWS_OF_JSON = "the rows of a JSON file are objects, one after another or in an array"
KEY, VALUE = "key", "value"
"""The fields of a map's entries, as Arrow's reader gets them."""
_VISIBLE = re.compile(r"\S")
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_NO_NUMBER = re.compile('"(NaN|-?Infinity)"')


def lines(text: str, target: pa.Schema | None) -> bytes:
    """The rows of an array of objects, or of one object after another.

    Numbers stay as they are written there, for Arrow to read by their types. Raises ValidationError for an array of
    something else and a map that is no object, JSONDecodeError.
    """
    row = None if target is None else pa.struct(list(target))
    if text.startswith("["):
        rows: list[Any] = json.loads(text, **_AS_WRITTEN)
        if not all(isinstance(r, dict) for r in rows):
            raise ValidationError(ROWS_OF_JSON)
    elif row is not None and (_has_map(row) or _NO_NUMBER.search(text)):
        rows = list(values(text, **_AS_WRITTEN))
    else:
        return text.encode()
    return b"\n".join(orjson.dumps(_written(r, row)) for r in rows)


def values(text: str, **options: Any) -> Iterator[Any]:
    """The values of JSON that follow one another; `options` are those of a JSONDecoder. Raises JSONDecodeError."""
    decoder, at = json.JSONDecoder(**options), 0
    while found := _VISIBLE.search(text, at):
        value, at = decoder.raw_decode(text, found.start())
        yield value


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(i).type) for i in range(kind.num_fields))


def _written(value: Any, kind: pa.DataType | None) -> Any:
    """A value as Arrow's reader takes it for a type. Raises ValidationError for a map that is no object."""
    if kind is None or value is None:
        return value
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            found = "an array" if isinstance(value, list) else "a single value"
            raise ValidationError(f"a map is an object in JSON, found {found}")
        return [{KEY: _key(k, kind.key_type), VALUE: _written(v, kind.item_type)} for k, v in value.items()]
    if isinstance(value, dict) and pa.types.is_struct(kind):
        kinds = {f.name: f.type for f in kind}
        return {k: _written(v, kinds.get(k)) for k, v in value.items()}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_written(v, kind.value_type) for v in value]
    return orjson.Fragment(value) if value in _NO_NUMBERS and pa.types.is_floating(kind) else value


def _key(text: str, kind: pa.DataType) -> Any:
    """A key of a map, which is text in JSON whatever it is."""
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return text
    try:
        is_none = json.loads(text) is None
    except json.JSONDecodeError:
        is_none = True
    # Of what is none Arrow's reader says it.
    return _written(text, kind) if is_none else orjson.Fragment(text)


_AS_WRITTEN: dict[str, Any] = dict.fromkeys(("parse_float", "parse_int", "parse_constant"), orjson.Fragment)
