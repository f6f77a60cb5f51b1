"""JSON of filters, which may be nested more deeply than the fast writer allows."""

from __future__ import annotations

import json
from typing import Any

import orjson

from icecore.engine.errors import ValidationError


def any_depth(value: Any) -> bytes:
    """A value as JSON. Raises ValidationError where it is nested too deeply for Python."""
    try:
        return orjson.dumps(value)
    except TypeError:
        try:
            return json.dumps(value, separators=(",", ":")).encode()
        except RecursionError as e:
            raise ValidationError("a filter is nested too deeply to be told again") from e
