"""The writer of data files from Arrow data: one call, one or more files for each partition.

Spec: Writer Requirements (G3: all columns are written, identity partition columns too).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from icecore.engine.data.arrow.arrow_partitions import partition_batches
from icecore.engine.data.arrow.nested import with_offsets
from icecore.engine.data.arrow.sorting import RowOrder, sort_table
from icecore.engine.data.file.metrics_mode import metrics_modes
from icecore.engine.data.file.schema_mark import schema_mark
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.data_file_writer import FileKind, RollingWriter, file_kind
from icecore.engine.data.write.file_options import data_file_options
from icecore.engine.data.write.row_ranges import partition_order, sorted_rows
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.table_properties import MIB
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.storage.file_io import Storage

MAX_OPEN_FILES = 64
_STREAM_PIECE_BYTES = 64 * MIB
_TABLE_PIECE_BYTES = 1024 * MIB
_PENDING_BYTES = 512 * MIB
_SORTED_BYTES = 512 * MIB

_Key: TypeAlias = tuple[bytes | None, ...]


def write_data_files(
    data: pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch],
    *,
    schema: Schema,
    spec: PartitionSpec,
    location: str | DataLocations,
    storage: Storage,
    properties: Mapping[str, str],
    file_prefix: str,
    sort_order: RowOrder | None = None,
    presorted: bool = False,
) -> list[ContentFile]:
    """Writes Arrow data as data files of a table and describes them, ready to be committed.

    The format is that of the property `write.format.default`: parquet, orc or avro. The data is made to fit the schema
    by name (see `conform`). Files are named `<location>/<partition path>/<file_prefix>-<number>-<mark>.<format>`, or as
    the table's locations say; the prefix must be new there, the mark tells the columns (see `schema_mark`). Files are
    durable when the call returns; an error deletes what the call has written.

    With a sort order the rows of each partition are sorted by it as a whole; what is over 512 MiB goes by way of a
    temporary folder. `presorted` says that the rows of each partition come sorted already, so nothing is sorted and
    only the order's id is recorded.

    Raises ValidationError where data, spec, order or a property doesn't fit, StorageError where writing fails.
    """
    order = None if isinstance(sort_order, SortOrder) and sort_order.is_unsorted else sort_order
    noted = order if isinstance(order, SortOrder) else None
    spec.check_known()
    if noted is not None:
        noted.check_known()
    spec.check(schema)
    if order is not None:
        order.check(schema)
    modes = metrics_modes(schema, properties, noted)
    options = data_file_options(properties)
    kind = file_kind(schema, storage, options, modes, spec.spec_id, None if noted is None else noted.order_id)
    writers = _Writers(kind, spec, DataLocations.at(location), file_prefix)
    try:
        tables = (_joined(conform(piece, schema)) for piece in _pieces(data))
        for table in tables if order is None or presorted else _in_order(tables, order, spec, schema):
            for partition, rows in partition_batches(table, spec, schema):
                writers.add(partition, rows)
        writers.finish_all()
    except BaseException:
        writers.delete_all()
        raise
    return writers.files()


class _Writers:
    """The open writers by partition, those with a file in the order of their use, and every file that was begun."""

    def __init__(self, kind: FileKind, spec: PartitionSpec, locations: DataLocations, file_prefix: str) -> None:
        self.kind = kind
        self.spec = spec
        self.locations = locations
        self.file_prefix = file_prefix
        self.mark = schema_mark(kind.schema)
        self.begun: list[str] = []
        self.finished: list[ContentFile] = []
        self.held_bytes = 0
        self.pending_bytes = 0
        self.open: dict[_Key, RollingWriter] = {}
        self.with_file: dict[_Key, None] = {}

    def add(self, partition: tuple[Any, ...], rows: pa.Table) -> None:
        key = self.spec.key(partition, self.kind.schema)
        writer = self.open.get(key)
        if writer is None:
            writer = self.open[key] = RollingWriter(self.kind, partition, lambda: self.next_location(partition))
        self._written(key, lambda: writer.add(rows))
        self.held_bytes += rows.nbytes
        if self.held_bytes > _PENDING_BYTES // 4:
            self.held_bytes = 0
            for w in self.open.values():
                w.let_go()
        if self.pending_bytes > _PENDING_BYTES:
            largest = max(self.open, key=lambda k: self.open[k].pending_bytes)
            self._written(largest, self.open[largest].flush)
        while len(self.with_file) > MAX_OPEN_FILES:
            self._finish(next(iter(self.with_file)))

    def _written(self, key: _Key, write: Callable[[], None]) -> None:
        """Lets a writer write, and updates the sums over all writers: asking each of many every time takes long."""
        writer = self.open[key]
        self.pending_bytes -= writer.pending_bytes
        write()
        self.pending_bytes += writer.pending_bytes
        self.with_file.pop(key, None)
        if writer.has_file:
            self.with_file[key] = None

    def next_location(self, partition: tuple[Any, ...]) -> str:
        name = f"{self.file_prefix}-{len(self.begun):05d}-{self.mark}.{self.kind.extension}"
        folder = self.spec.partition_to_path(partition, self.kind.schema)
        self.begun.append(self.locations.new(name, folder))
        return self.begun[-1]

    def finish_all(self) -> None:
        for key in list(self.open):
            self._finish(key)

    def _finish(self, key: _Key) -> None:
        writer = self.open[key]
        self._written(key, lambda: self.finished.extend(writer.finish()))
        del self.open[key]

    def files(self) -> list[ContentFile]:
        """The finished files in the order of their names' numbers."""
        place = {location: i for i, location in enumerate(self.begun)}
        return sorted(self.finished, key=lambda f: place[f.file_path])

    def delete_all(self) -> None:
        for writer in self.open.values():
            writer.abort()
        for location in self.begun:
            with contextlib.suppress(IcecoreError):
                self.kind.storage.unwrite(location)


def _in_order(tables: Iterator[pa.Table], order: RowOrder, spec: PartitionSpec, schema: Schema) -> Iterator[pa.Table]:
    """The tables' rows, those of each partition in order."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(t.nbytes for t in held) > _SORTED_BYTES:
            # From here on only the chain holds the tables, so that each is freed once it is taken.
            tables, held = chain(held, tables), []
            yield from sorted_rows(tables, (*partition_order(spec), order), schema)
            return
    if held:
        for _, rows in partition_batches(pa.concat_tables(held), spec, schema):
            yield sort_table(rows, order, schema)


def _pieces(data: pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The data as tables of bounded size, so that sorting and splitting by partition need bounded memory."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        data = with_offsets(data)
        rows = max(1, int(_TABLE_PIECE_BYTES * data.num_rows / max(1, data.nbytes)))
        for start in range(0, max(1, data.num_rows), rows):
            # The slice of a table without columns is not cut off at the table's end.
            yield data.slice(start, min(rows, data.num_rows - start))
        return
    if isinstance(data, pa.RecordBatchReader):
        yield pa.Table.from_batches([], schema=data.schema)
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in map(with_offsets, data):
        batches.append(batch)
        size += batch.nbytes
        if size >= _STREAM_PIECE_BYTES:
            yield _table(batches)
            batches, size = [], 0
    if batches:
        yield _table(batches)


def _table(batches: list[pa.RecordBatch]) -> pa.Table:
    try:
        return pa.Table.from_batches(batches)
    except pa.ArrowException as e:
        raise ValidationError(f"the batches of one stream must have one schema: {e}") from e


def _joined(table: pa.Table) -> pa.Table:
    """The table, in one chunk if it is small: one copy costs less than many chunks in each later step."""
    return table.combine_chunks() if table.nbytes <= 2 * _STREAM_PIECE_BYTES else table
