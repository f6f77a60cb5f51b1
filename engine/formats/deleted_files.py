"""The content of a `table.files-deleted` or `table.purged` event: a row for each deleted file.

`size_in_bytes` is null if it was not known. `modified_ms` is the time at which the file was last written, known only of
files that were found by listing a folder; a file written later at the same location is another file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa
from attrs import frozen

from icecore.engine.formats.event_content import decode_table, encode_table

SCHEMA = pa.schema(
    [
        pa.field("location", pa.string(), nullable=False),
        ("size_in_bytes", pa.int64()),
        ("modified_ms", pa.int64()),
    ]
)


class DeletedBy(StrEnum):
    """The operation that deleted the files."""

    EXPIRE_SNAPSHOTS = "expire-snapshots"
    REMOVE_ORPHAN_FILES = "remove-orphan-files"
    PURGE = "purge"


@frozen
class DeletedFile:
    """A deleted file, as the log names it."""

    location: str
    size_in_bytes: int | None = None
    modified_ms: int | None = None


def deletion_payload(operation: DeletedBy, files: Sequence[DeletedFile]) -> dict[str, Any]:
    """The payload of the event: the number of files, and their total size if that of every file is known."""
    sizes = [f.size_in_bytes for f in files]
    known = [s for s in sizes if s is not None]
    payload: dict[str, Any] = {"operation": str(operation), "count": len(files)}
    return {**payload, "bytes": sum(known)} if len(known) == len(sizes) else payload


def encode_files(files: Iterable[DeletedFile]) -> bytes:
    """The content of the event."""
    rows = list(files)
    columns = {name: [getattr(f, name) for f in rows] for name in SCHEMA.names}
    return encode_table(pa.table(columns, schema=SCHEMA))


def decode_files(data: bytes, position: int) -> list[DeletedFile]:
    """The files of an event's content. Raises CorruptLogError naming the position."""
    table = decode_table(data, position, SCHEMA)
    return [DeletedFile(*row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
