"""Data files of large groups written again in an order: each range of it by a task, as a file.

A sample of the keys cuts the order into ranges. Rows then go to their ranges as Arrow data, which Spark carries without
looking at, so that no value goes through Spark's types, and rows are ordered as the engine does.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.data.arrow.sorting import RowOrder, SortKeys, sort_keys
from icecore.engine.data.arrow.z_order import ZOrder
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.group_rewrite import GroupRewrite
from icecore.engine.properties.table_properties import MIB
from icecore.engine.spark.progress import ProgressCallback
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.rewrite.chunk_rewrite import (
    WRITTEN,
    RewriteChunk,
    WrittenGroups,
    collected,
    pieces,
    together,
    written_batch,
)
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import Batches, file_prefix_of_task, made_in_tasks, mapped
from icecore.engine.spec.schema import Schema

_PIECE_BYTES = 32 * MIB
_SAMPLES = 100
_SAMPLE = T.StructType(
    [
        T.StructField("group", T.IntegerType()),
        T.StructField("rows", T.LongType()),
        T.StructField("keys", T.BinaryType()),
    ]
)
_PIECE = T.StructType(
    [
        T.StructField("file", T.IntegerType()),
        T.StructField("part", T.IntegerType()),
        T.StructField("rows", T.BinaryType()),
    ]
)
_Piece: TypeAlias = tuple[int, int, bytes]


@frozen
class RangedGroup:
    """A group to be written as `files` files of a range each, which are sorted in `parts` parts one after another."""

    number: int
    chunks: tuple[RewriteChunk, ...]
    files: int
    parts: int
    file_size: int

    @property
    def tasks(self) -> list[FileScanTask]:
        """All that is read."""
        return [t for c in self.chunks for t in c.tasks]


@frozen
class RangeRewrite:
    """A rewrite of groups by one order inside of another, of which the last may be noted in the files."""

    session: SparkSession
    rewrite: GroupRewrite
    orders: tuple[RowOrder, ...]
    on_progress: ProgressCallback | None

    def write(self, groups: Sequence[RangedGroup]) -> WrittenGroups:
        """Writes the live rows of the groups: a job that takes the sample, and one that writes.

        Raises ValidationError, MissingFileError, CorruptFileError, StorageError; what tasks wrote then stays behind.
        """
        if not groups:
            return []
        rows, bounds = self._bounds(groups)
        written = self._written(groups, bounds)
        found = dict.fromkeys(rows, 0)
        for number, files in written:
            found[number] += sum(f.record_count for f in files)
        assert found == rows, "a rewrite keeps every row"
        return written

    def _bounds(self, groups: Sequence[RangedGroup]) -> tuple[Mapping[int, int], Mapping[int, pa.Table | None]]:
        """Of each group the number of its rows, and the keys that its parts begin with, but for the first."""
        rows, found = dict.fromkeys((g.number for g in groups), 0), {g.number: list[pa.Table]() for g in groups}
        chunks = together(self.session, [c for g in groups for c in g.chunks])
        with translated_spark_errors():
            answers = mapped(self.session, chunks, self._sampler(groups), _SAMPLE).collect()
        for answer in answers:
            rows[answer.group] += answer.rows
            found[answer.group].append(_table(answer["keys"]))
        return rows, {g.number: _cut(found[g.number], self._directions, g.files * g.parts) for g in groups}

    def _sampler(self, groups: Sequence[RangedGroup]) -> _Sampler:
        rates = {}
        for g in groups:
            records = sum(t.file.record_count * t.length / max(1, t.file.file_size_in_bytes) for t in g.tasks)
            rates[g.number] = min(1.0, _SAMPLES * g.files * g.parts / max(1.0, records))
        return _Sampler(self.rewrite, self.orders, rates)

    @property
    def _directions(self) -> tuple[tuple[str, str], ...]:
        schema = self.rewrite.table_schema
        nothing = no_rows(schema_to_arrow(schema, with_ids=False))
        return sort_keys(nothing, self.orders, schema, whatever_rows=True).directions

    def _written(self, groups: Sequence[RangedGroup], bounds: Mapping[int, pa.Table | None]) -> WrittenGroups:
        firsts, total = {}, 0
        for g in groups:
            firsts[g.number] = total
            total += g.files
        schemas = {g.number: self.rewrite.schema(g.tasks) for g in groups}
        parts = {g.number: g.parts for g in groups}
        cutter = _Cutter(self.rewrite, self.orders, schemas, bounds, firsts, parts)
        of_file = [(g.number, g.file_size) for g in groups for _ in range(g.files)]
        writer = _Writer(self.rewrite, self.orders, schemas, of_file, str(uuid.uuid4()))
        chunks = together(self.session, [c for g in groups for c in g.chunks])
        rows = mapped(self.session, chunks, cutter, _PIECE).repartitionById(total, F.col("file"))
        frame = made_in_tasks(rows.sortWithinPartitions("file", "part"), writer, WRITTEN)
        return collected(frame, self.rewrite, self.on_progress)


@frozen
class _Sampler:
    """The task that takes keys by chance, the same ones each time."""

    rewrite: GroupRewrite
    orders: tuple[RowOrder, ...]
    rates: Mapping[int, float]

    def __call__(self, chunks: list[RewriteChunk]) -> Batches:
        columns = _key_columns(self.orders, self.rewrite.table_schema)
        for chunk in chunks:
            chance = np.random.default_rng([crc32(t.file.file_path.encode()) for t in chunk.tasks])
            rows, found = 0, []
            for batch in self.rewrite.rows(chunk.tasks, columns):
                rows += batch.num_rows
                taken = pa.array(chance.random(batch.num_rows) < self.rates[chunk.group])
                found.append(_keys(pa.Table.from_batches([batch.filter(taken)]), self.orders, columns).columns)
            if found:
                keys = _bytes(pa.concat_tables(found))
                yield pa.RecordBatch.from_pylist([{"group": chunk.group, "rows": rows, "keys": keys}], _SAMPLE_ARROW)


@frozen
class _Cutter:
    """The task that sends rows to their part of a file."""

    rewrite: GroupRewrite
    orders: tuple[RowOrder, ...]
    schemas: Mapping[int, Schema]
    bounds: Mapping[int, pa.Table | None]
    firsts: Mapping[int, int]
    parts: Mapping[int, int]

    def __call__(self, chunks: list[RewriteChunk]) -> Batches:
        for chunk in chunks:
            for table in pieces(self.rewrite.rows(chunk.tasks, self.schemas[chunk.group]), _PIECE_BYTES):
                yield from self._cut(chunk.group, table)

    def _cut(self, group: int, table: pa.Table) -> Batches:
        keys, bounds = _keys(table, self.orders, self.rewrite.table_schema), self.bounds[group]
        count = 0 if bounds is None else bounds.num_rows
        both = keys.columns if bounds is None else pa.concat_tables([bounds, keys.columns])
        # Of equal keys the bound comes first, so that they begin its part.
        order = SortKeys(both, keys.directions).indices().to_numpy()
        for number, places in enumerate(np.split(order, np.flatnonzero(order < count))):
            rows = places[places >= count]
            if len(rows):
                file, part = divmod(number, self.parts[group])
                data = _bytes(table.take(pa.array(rows - np.uint64(count))))
                piece = {"file": self.firsts[group] + file, "part": part, "rows": data}
                yield pa.RecordBatch.from_pylist([piece], _PIECE_ARROW)


@frozen
class _Writer:
    """The task that writes files, of pieces in the order of files and parts."""

    rewrite: GroupRewrite
    orders: tuple[RowOrder, ...]
    schemas: Mapping[int, Schema]
    of_file: Sequence[tuple[int, int]]
    prefix: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Batches:
        name = file_prefix_of_task(self.prefix)
        for file, found in groupby(_pieces(batches), key=itemgetter(0)):
            group, size = self.of_file[file]
            rows, schema = self._sorted(found), self.schemas[group]
            files = self.rewrite.write(rows, schema, size=size, prefix=f"{name}-{file}", presorted=True)
            yield written_batch(group, files)

    def _sorted(self, found: Iterable[_Piece]) -> Iterator[pa.RecordBatch]:
        for _, of_part in groupby(found, key=itemgetter(1)):
            table = pa.concat_tables([_table(rows) for _, _, rows in of_part])
            order = _keys(table, self.orders, self.rewrite.table_schema).indices()
            yield from table.take(order).to_batches()


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[_Piece]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield batch["file"][row].as_py(), batch["part"][row].as_py(), batch["rows"][row].as_py()


def _keys(table: pa.Table, orders: Sequence[RowOrder], schema: Schema) -> SortKeys:
    return sort_keys(table, orders, schema, whatever_rows=True)


def _key_columns(orders: Sequence[RowOrder], schema: Schema) -> Schema:
    """The columns that the keys are made of."""
    ids = {i for o in orders for i in (o.source_ids if isinstance(o, ZOrder) else [f.source_id for f in o.fields])}
    names = {schema.path(i)[0] for i in ids if schema.get_field(i) is not None}
    return Schema(tuple(f for f in schema.fields if f.name in names), schema.schema_id)


def _cut(found: Sequence[pa.Table], directions: tuple[tuple[str, str], ...], parts: int) -> pa.Table | None:
    """The keys at which each part but the first begins, of a sample."""
    if parts == 1 or not found:
        return None
    keys = pa.concat_tables(found)
    order = SortKeys(keys, directions).indices()
    return keys.take(order.take(pa.array([len(order) * i // parts for i in range(1, parts)]))) if len(order) else None


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


_SAMPLE_ARROW = pa.schema([("group", pa.int32()), ("rows", pa.int64()), ("keys", pa.binary())])
_PIECE_ARROW = pa.schema([("file", pa.int32()), ("part", pa.int32()), ("rows", pa.binary())])
