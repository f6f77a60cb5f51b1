"""Writers of one data or delete file, and of a series of them, each ended at a target size.

Spec: Appendix A; Manifests, data_file (M4).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import numpy as np
import orjson
import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.data.avro.avro_options import AvroOptions
from icecore.engine.data.avro.avro_writer import AvroEncoder
from icecore.engine.data.file.column_metrics import MetricsCollector
from icecore.engine.data.file.encoder import Encoder
from icecore.engine.data.file.metrics_mode import MetricsMode
from icecore.engine.data.file.stored_column import stored_schema, stored_table
from icecore.engine.data.orc.orc_options import OrcOptions
from icecore.engine.data.orc.orc_writer import OrcEncoder
from icecore.engine.data.parquet.parquet_options import ParquetOptions
from icecore.engine.data.parquet.parquet_writer import ParquetEncoder
from icecore.engine.data.write.file_options import FileOptions
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage, translated


@frozen
class FileKind:
    """The settings that all files of one write share.

    `key_values` goes into the files' own metadata, where the writer can store it (not ORC). `equality_ids` is for
    equality delete files only.
    """

    schema: Schema
    stored: Schema
    storage: Storage
    options: FileOptions
    modes: Mapping[int, MetricsMode]
    spec_id: int
    sort_order_id: int | None
    content: DataFileContent = DataFileContent.DATA
    equality_ids: tuple[int, ...] | None = None
    key_values: Mapping[str, str] = field(factory=dict)

    @property
    def extension(self) -> str:
        """The extension of the files' names, without the point."""
        return self.options.file_format.value.lower()


def file_kind(
    schema: Schema,
    storage: Storage,
    options: FileOptions,
    modes: Mapping[int, MetricsMode],
    spec_id: int,
    sort_order_id: int | None,
    content: DataFileContent = DataFileContent.DATA,
    equality_ids: tuple[int, ...] | None = None,
    key_values: Mapping[str, str] | None = None,
) -> FileKind:
    """The settings of a write. Raises ValidationError where the schema holds what files can't store."""
    stored = stored_schema(schema)
    return FileKind(
        schema, stored, storage, options, modes, spec_id, sort_order_id, content, equality_ids, key_values or {}
    )


class DataFileWriter:
    """The writer of one file, a row group at a time; `close` makes it durable and describes it."""

    def __init__(self, kind: FileKind, location: str, partition: tuple[Any, ...]) -> None:
        self.kind = kind
        self.location = location
        self.partition = partition
        self._metrics = MetricsCollector(kind.schema, kind.modes)
        self._encoder: Encoder | None = None
        self._sink = kind.storage.open_output(location)
        try:
            with translated(location, "write"):
                self._encoder = _encoder(kind, self._sink, location)
        except BaseException:
            self.abort()
            raise

    def write_group(self, table: pa.Table) -> None:
        """Writes rows; in Parquet they are one row group."""
        assert self._encoder is not None
        self._metrics.add(table)
        with translated(self.location, "write"):
            self._encoder.write(stored_table(table, self.kind.schema, self.kind.stored))

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return int(self._sink.tell())

    def close(self) -> ContentFile:
        """Ends the file and syncs it."""
        assert self._encoder is not None
        with translated(self.location, "write"):
            self._encoder.end()
            size = self.size
            self._sink.close()
        self.kind.storage.sync(self.location)
        layout = self._encoder.layout()
        metrics = self._metrics.finish(layout.column_sizes or {})
        return ContentFile(
            self.kind.content,
            self.location,
            self.kind.options.file_format,
            self.kind.spec_id,
            self.partition,
            metrics.record_count,
            size,
            column_sizes=None if layout.column_sizes is None else metrics.column_sizes,
            value_counts=metrics.value_counts,
            null_value_counts=metrics.null_value_counts,
            nan_value_counts=metrics.nan_value_counts,
            lower_bounds=metrics.lower_bounds,
            upper_bounds=metrics.upper_bounds,
            split_offsets=layout.split_offsets,
            equality_ids=self.kind.equality_ids,
            sort_order_id=self.kind.sort_order_id,
        )

    def abort(self) -> None:
        """Closes the file unfinished; the caller deletes what is on disk."""
        if self._encoder is not None:
            self._encoder.abandon()
        with contextlib.suppress(Exception):
            self._sink.close()


def _encoder(kind: FileKind, sink: pa.NativeFile, location: str) -> Encoder:
    key_values = {"iceberg.schema": orjson.dumps(kind.schema.to_dict()).decode(), **kind.key_values}
    match kind.options:
        case ParquetOptions() as options:
            return ParquetEncoder(kind.stored, options, key_values, sink)
        case OrcOptions() as options:
            return OrcEncoder(kind.stored, options, sink, kind.storage, location)
        case AvroOptions() as options:
            return AvroEncoder(kind.stored, options, key_values, sink, location)
        case _:
            assert_never(kind.options)


@define
class RollingWriter:
    """The writer of one partition's rows to one file after another; a new one starts at the target size."""

    kind: FileKind
    partition: tuple[Any, ...]
    next_location: Callable[[], str]
    done: list[ContentFile] = field(factory=list)
    pending_bytes: int = 0
    _pending: list[pa.Table] = field(factory=list)
    _own: int = 0
    _pending_rows: int = 0
    _file: DataFileWriter | None = None

    @property
    def has_file(self) -> bool:
        """Whether a file is open; rows wait in memory until they fill a row group."""
        return self._file is not None

    def add(self, table: pa.Table) -> None:
        """Takes rows; whole row groups are written at once, the rest when more come or at the end."""
        self._pending.append(table)
        self._pending_rows += table.num_rows
        self.pending_bytes += table.nbytes
        options = self.kind.options
        if self._pending_rows >= options.row_group_rows or self.pending_bytes >= self._group_bytes:
            self._write(keep_rest=True)

    @property
    def _group_bytes(self) -> int:
        return min(self.kind.options.row_group_size, self.kind.options.target_file_size)

    def let_go(self) -> None:
        """Copies the rows added since the last call, so that they do not keep the larger tables they are cut from."""
        if shared := self._pending[self._own :]:
            table = pa.concat_tables(shared)
            self._pending[self._own :] = [table.take(pa.array(np.arange(table.num_rows)))]
            self._own = len(self._pending)

    def flush(self) -> None:
        """Writes what is pending, as a smaller row group."""
        self._write(keep_rest=False)

    def finish(self) -> list[ContentFile]:
        """Ends the last file and returns all files, in the order in which they were begun."""
        self.flush()
        self._roll()
        return self.done

    def abort(self) -> None:
        """Closes the file that is being written; the caller deletes it."""
        if self._file is not None:
            self._file.abort()

    def _write(self, *, keep_rest: bool) -> None:
        if not self._pending_rows:
            return
        table = pa.concat_tables(self._pending)
        rows, width = table.num_rows, max(1.0, self.pending_bytes / table.num_rows)
        per_group = max(1, min(self.kind.options.row_group_rows, int(self._group_bytes / width)))
        start = 0
        while start < rows and not (keep_rest and rows - start < per_group):
            self._write_group(table.slice(start, per_group))
            start += per_group
        rest = table.slice(start)
        self._pending, self._own = [rest] if rest.num_rows else [], 0
        self._pending_rows, self.pending_bytes = rest.num_rows, rest.nbytes if rest.num_rows else 0

    def _write_group(self, group: pa.Table) -> None:
        if self._file is None:
            self._file = DataFileWriter(self.kind, self.next_location(), self.partition)
        self._file.write_group(group)
        if self._file.size >= self.kind.options.target_file_size:
            self._roll()

    def _roll(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            try:
                self.done.append(file.close())
            except BaseException:
                file.abort()
                raise
