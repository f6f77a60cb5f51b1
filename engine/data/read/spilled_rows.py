"""Rows spilled to files of a folder, by name, because they are too many for memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pyarrow as pa
from attrs import define, field

from icecore.engine.storage.file_io import translated

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@define
class SpilledRows:
    """Tables of one schema by name, in files of a folder."""

    folder: str
    _writers: dict[str, pa.RecordBatchStreamWriter] = field(factory=dict)

    @classmethod
    @contextmanager
    def in_folder(cls, folder: str) -> Iterator[SpilledRows]:
        """Files that take rows until the end of the context. Raises StorageError where there is no room for them."""
        made = cls(folder)
        try:
            yield made
        finally:
            with translated(folder, "write rows to"), ExitStack() as closing:
                for writer in made._writers.values():
                    closing.callback(writer.close)

    def add(self, name: str, rows: pa.Table) -> None:
        """Adds rows to those of that name. Raises StorageError."""
        with translated(self.folder, "write rows to"):
            if name not in self._writers:
                self._writers[name] = pa.ipc.new_stream(_path(self.folder, name), rows.schema, options=_OPTIONS)
            self._writers[name].write_table(rows)


def spilled_rows(folder: str, name: str, empty: pa.Table) -> pa.Table:
    """The rows of that name, all of which must be written by now; `empty` if there are none."""
    if not os.path.exists(_path(folder, name)):
        return empty
    with pa.OSFile(_path(folder, name)) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_all()


def spilled_batches(folder: str, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of that name, or some columns of them. All must be written by now, and there must be rows."""
    with pa.OSFile(_path(folder, name)) as file, pa.ipc.open_stream(file) as reader:
        if columns is None:
            yield from reader
            return
        numbers = [reader.schema.get_field_index(c) for c in columns]
    with pa.OSFile(_path(folder, name)) as file:
        options = pa.ipc.IpcReadOptions(included_fields=numbers)
        with pa.ipc.open_stream(file, options=options) as reader:
            yield from reader


def _path(folder: str, name: str) -> str:
    return os.path.join(folder, name)
