"""The mark in a data file's name that tells which columns it was written with, under which names and of which types.

A plan has many files and opens none: by the mark it knows the names inside of those that the engine wrote, whatever
table they are in now, and knows nothing of all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import orjson

from icecore.engine.spec.schema import MAX_FIELD_ID, Schema
from icecore.engine.spec.types import NestedField, children

MARK = r"-(?P<mark>s[0-9a-f]{14})\.[a-z]+"
"""How a file's name ends that has a mark."""
_MARK = re.compile(MARK + r"\Z")
_BYTES = 7


def schema_mark(schema: Schema) -> str:
    """The mark of files of a schema: of ids, names and types at any depth, but of no reserved columns."""
    text = orjson.dumps(_columns(f for f in schema.fields if f.field_id <= MAX_FIELD_ID))
    return f"s{blake2b(text, digest_size=_BYTES).hexdigest()}"


def mark_of(location: str) -> str | None:
    """The mark in a file's name; None where there is none."""
    found = _MARK.search(location)
    return None if found is None else found[1]


def _columns(fields: Iterable[NestedField]) -> list[Any]:
    return [[f.field_id, f.name, _inside(f)] for f in fields]


def _inside(field: NestedField) -> Any:
    kind = str(field.field_type) if field.field_type.is_primitive else type(field.field_type).__name__
    return [kind, _columns(children(field.field_type))]
