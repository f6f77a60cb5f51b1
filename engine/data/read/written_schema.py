"""The schema that a Parquet file was written with, against the columns that its footer has now.

Parquet's checksums cover pages only. A bit that flips in a footer may give a column another field id: it would be read
as nulls, or as another column. Iceberg's writers put the schema into the footer a second time, as JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from icecore.engine.data.file.file_field import FileField, walk_file
from icecore.engine.errors import CorruptFileError
from icecore.engine.spec.schema import MAX_FIELD_ID

SCHEMA_KEY = b"iceberg.schema"


def check_written(
    fields: Iterable[FileField], schema: bytes | None, where: str, wanted: frozenset[int] | None = None
) -> None:
    """Raises CorruptFileError if a field id is in the file's columns and not in its written schema, or the reverse.

    `schema` is the value of `iceberg.schema`, `wanted` the ids to look at (None for all), `where` names the file. Files
    without a schema or without ids pass, and so do files that only have fewer columns: programs such as Arrow keep the
    text when they write a part of the columns again, and a flipped bit takes no column away.
    """
    written = _ids(schema) if schema is not None else None
    found = [f.field_id for f in walk_file(fields)]
    file_ids = {i for i in found if i is not None}
    if written is None or not file_ids or (len(file_ids) == len(found) and file_ids <= written):
        return
    asked = written | file_ids if wanted is None else wanted
    for i in sorted(i for i in asked if i <= MAX_FIELD_ID):
        if i in written and i not in file_ids:
            raise CorruptFileError(f"{where} was written with a column of field id {i}, and has none")
        if i in file_ids and i not in written:
            raise CorruptFileError(f"{where} has a column of field id {i}, and was written without one")


@functools.lru_cache(maxsize=64)
def _ids(schema: bytes) -> frozenset[int] | None:
    """The ids of a schema's fields that are stored, or None where the text is no schema."""
    try:
        written = orjson.loads(schema)
        ids = frozenset(_stored_ids({"type": "struct", "fields": written["fields"]}))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ids if all(type(i) is int for i in ids) else None


def _stored_ids(kind: Any) -> Iterator[int]:
    """Ids below a type in JSON (Spec: Appendix C). Columns of type unknown are not stored, and variants have parts."""
    if not isinstance(kind, dict):
        return
    match kind["type"]:
        case "struct":
            for f in kind["fields"]:
                if f["type"] != "unknown":
                    yield f["id"]
                    yield from _stored_ids(f["type"])
        case "list":
            yield kind["element-id"]
            yield from _stored_ids(kind["element"])
        case "map":
            yield from (kind["key-id"], kind["value-id"])
            yield from _stored_ids(kind["key"])
            yield from _stored_ids(kind["value"])
