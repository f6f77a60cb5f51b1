"""The content of events: content files as canonical entries in compressed Arrow IPC bytes.

The schema's metadata has random bytes, a salt. An event keeps the hash of its content for ever, and without a salt
forgotten bounds could be guessed from this hash. The salt is forgotten together with them.

Files that a client wrote for its commit follow, whole, in a second frame that zstd decoders skip.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.ipc

from icecore.engine.errors import CorruptLogError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SALT = b"icecore.salt"
_ZSTD = pa.Codec("zstd", 1)
_SKIPPED = b"\x5e\x2a\x4d\x18"
_FILES_END = b"\x00files\x01\x00"
_FILES = pa.schema([pa.field("location", pa.string(), nullable=False), pa.field("data", pa.large_binary())])


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


def encode_parts(entries: pa.Table | None, files: Mapping[str, bytes | None], salt: bytes) -> bytes | None:
    """The content of an event that adds or removes entries, keeps files, or both; None where it does neither."""
    if entries is None and not files:
        return None
    encoded = encode_content(ENTRY_SCHEMA.empty_table() if entries is None else entries, salt)
    return with_files(encoded, files) if files else encoded


def with_files(entries: bytes, files: Mapping[str, bytes | None]) -> bytes:
    """Content with whole files behind its entries, by location; None stands for one that was forgotten."""
    columns = {"location": list(files), "data": list(files.values())}
    frame = encode_table(pa.table(columns, schema=_FILES))
    body = frame + len(frame).to_bytes(8, "little") + _FILES_END
    return entries_part(entries) + _SKIPPED + len(body).to_bytes(4, "little") + body


def entries_part(data: bytes) -> bytes:
    """Content without the files behind its entries."""
    return data[: _files_at(data)]


def files_part(data: bytes, position: int) -> dict[str, bytes | None]:
    """The files behind the entries of content, by location; None for a forgotten one. Raises CorruptLogError."""
    at = _files_at(data)
    if at == len(data):
        return {}
    table = decode_table(data[at + 8 : -16], position, _FILES)
    return dict(zip(table["location"].to_pylist(), table["data"].to_pylist(), strict=True))


def _files_at(data: bytes) -> int:
    """The place where the files begin: the end, where there are none."""
    if not data.endswith(_FILES_END):
        return len(data)
    at = len(data) - 24 - int.from_bytes(data[-16:-8], "little")
    return at if at >= 0 and data[at : at + 4] == _SKIPPED else len(data)


def decode_content(data: bytes, position: int) -> pa.Table:
    """The canonical entries of an event's content; also of early logs, which compress buffers one by one.

    Raises CorruptLogError naming the position.
    """
    return decode_table(data, position, ENTRY_SCHEMA)


def decode_table(data: bytes, position: int, expected: pa.Schema | None = None) -> pa.Table:
    """The rows of an event's content, with the expected schema's columns where one is given.

    Raises CorruptLogError naming the position.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(_stream(entries_part(data)))) as reader:
            table = reader.read_all().replace_schema_metadata(None)
        # Damaged bytes may still be a stream, with texts that are not UTF-8 or lists whose elements are missing.
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
