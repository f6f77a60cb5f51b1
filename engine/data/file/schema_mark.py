"""The mark in a data file's name: a hash of the ids, names and types of the columns that it was written with.

A plan has many files and opens none. From the mark it knows the column names inside a file that the engine wrote,
whatever table the file is in now; it knows nothing of files without a mark.
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
"""The end of a file's name that has a mark."""
_MARK = re.compile(MARK + r"\Z")
_BYTES = 7


def schema_mark(schema: Schema) -> str:
    """The mark of files with this schema: a hash of ids, names and types at any depth, without reserved columns."""
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
