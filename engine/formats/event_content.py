"""The content of events: content files as canonical entries in compressed Arrow IPC bytes.

Random bytes stand in them too, as metadata of the schema: an event has the hash of its content for ever, by which
bounds that were forgotten could be guessed else. They go with what is forgotten.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.ipc

from icecore.engine.errors import CorruptLogError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SALT = b"icecore.salt"
_ZSTD = pa.Codec("zstd", 1)


def encode_content(entries: pa.Table, salt: bytes) -> bytes:
    """Canonical entries as bytes: an Arrow IPC stream in one zstd frame. `salt` is random bytes, never used before.

    One frame, not one for each buffer: a commit of a few files has a hundred tiny buffers, and compressing each of
    them takes ten times as long and four times the space.
    """
    return encode_table(entries.cast(ENTRY_SCHEMA).replace_schema_metadata({SALT: salt.hex()}))


def encode_table(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream in one zstd frame."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.combine_chunks().to_batches():
            writer.write_batch(batch)
    compressed: bytes = _ZSTD.compress(sink.getvalue(), asbytes=True)
    return compressed


def decode_content(data: bytes, position: int) -> pa.Table:
    """The canonical entries of bytes, also where buffers are compressed one by one, as early logs have them.

    Raises CorruptLogError naming the position.
    """
    return decode_table(data, position, ENTRY_SCHEMA)


def decode_table(data: bytes, position: int, expected: pa.Schema | None = None) -> pa.Table:
    """The rows of an event's content, with the expected schema's columns where one is given.

    Raises CorruptLogError naming the position.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(_stream(data))) as reader:
            table = reader.read_all().replace_schema_metadata(None)
        # Damaged bytes may still be a stream, of texts that are none or lists without their elements.
        table.validate(full=True)
        names = table.schema.names
    except (pa.ArrowException, OSError, ValueError) as e:
        raise CorruptLogError(f"position {position}: its content files can't be decoded: {e}") from e
    if expected is not None and names != expected.names:
        raise CorruptLogError(f"position {position}: its content files have columns {names}")
    return table


def _stream(data: bytes) -> bytes:
    if not data.startswith(ZSTD_MAGIC):
        return data
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as source:
        stream: bytes = source.read()
    return stream
