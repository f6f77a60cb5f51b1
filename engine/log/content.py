"""Content files beside events: canonical entries as compressed Arrow IPC bytes."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.ipc

from icecore.engine.errors import CorruptLogError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA


def encode_content(entries: pa.Table) -> bytes:
    """Canonical entries as bytes: an Arrow IPC stream whose buffers are compressed with zstd."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, ENTRY_SCHEMA, options=options) as writer:
        writer.write_table(entries.cast(ENTRY_SCHEMA).combine_chunks())
    return sink.getvalue()


def decode_content(data: bytes, position: int) -> pa.Table:
    """The canonical entries of bytes. Raises CorruptLogError naming the position."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError) as e:
        raise CorruptLogError(f"position {position}: its content files can't be decoded: {e}") from e
    if table.schema.names != ENTRY_SCHEMA.names:
        raise CorruptLogError(f"position {position}: its content files have columns {table.schema.names}")
    return table
