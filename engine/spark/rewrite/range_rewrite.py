"""Data files of large groups written again in an order: a task writes each range of the order as a file.

A sample of the keys cuts the order into ranges. Rows then go to their ranges as Arrow data, which Spark carries without
looking into it, so that no value goes through Spark's types, and the engine itself orders the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias
from zlib import crc32

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.sorting import RowOrder
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.group_rewrite import GroupRewrite
from icecore.engine.data.write.row_ranges import PIECE_BYTES, SAMPLES, RowRanges, SampledKeys, key_columns, pieces
from icecore.engine.spark.progress import ProgressCallback
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.rewrite.chunk_rewrite import (
    WRITTEN,
    RewriteChunk,
    WrittenGroups,
    collected,
    together,
    written_batch,
)
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import Batches, file_prefix_of_task, made_in_tasks, mapped
from icecore.engine.spec.schema import Schema

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
        """The tasks of all chunks."""
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
        rows, ranges = self._ranges(groups)
        written = self._written(groups, ranges)
        found = dict.fromkeys(rows, 0)
        for number, files in written:
            found[number] += sum(f.record_count for f in files)
        assert found == rows, "a rewrite keeps every row"
        return written

    def _ranges(self, groups: Sequence[RangedGroup]) -> tuple[Mapping[int, int], Mapping[int, RowRanges]]:
        """The number of rows of each group, and the ranges of its parts."""
        rows, found = dict.fromkeys((g.number for g in groups), 0), {g.number: list[pa.Table]() for g in groups}
        chunks = together(self.session, [c for g in groups for c in g.chunks])
        with translated_spark_errors():
            answers = mapped(self.session, chunks, self._sampler(groups), _SAMPLE).collect()
        for answer in answers:
            rows[answer.group] += answer.rows
            found[answer.group] += [] if answer["keys"] is None else [_table(answer["keys"])]
        schema = self.rewrite.table_schema
        return rows, {g.number: RowRanges.of(self.orders, schema, found[g.number], g.files * g.parts) for g in groups}

    def _sampler(self, groups: Sequence[RangedGroup]) -> _Sampler:
        rates = {}
        for g in groups:
            records = sum(t.file.record_count * t.length / max(1, t.file.file_size_in_bytes) for t in g.tasks)
            rates[g.number] = SAMPLES * g.files * g.parts / max(1.0, records)
        return _Sampler(self.rewrite, self.orders, rates)

    def _written(self, groups: Sequence[RangedGroup], ranges: Mapping[int, RowRanges]) -> WrittenGroups:
        firsts, total = {}, 0
        for g in groups:
            firsts[g.number] = total
            total += g.files
        schemas = {g.number: self.rewrite.schema(g.tasks) for g in groups}
        parts = {g.number: g.parts for g in groups}
        cutter = _Cutter(self.rewrite, schemas, ranges, firsts, parts)
        of_file = [(g.number, g.file_size) for g in groups for _ in range(g.files)]
        writer = _Writer(self.rewrite, schemas, ranges, of_file, str(uuid.uuid4()))
        chunks = together(self.session, [c for g in groups for c in g.chunks])
        rows = mapped(self.session, chunks, cutter, _PIECE).repartitionById(total, F.col("file"))
        frame = made_in_tasks(rows.sortWithinPartitions("file", "part"), writer, WRITTEN)
        return collected(frame, self.rewrite, self.on_progress)


@frozen
class _Sampler:
    """The task that takes a random sample of keys, the same one each time that it runs."""

    rewrite: GroupRewrite
    orders: tuple[RowOrder, ...]
    rates: Mapping[int, float]

    def __call__(self, chunks: list[RewriteChunk]) -> Batches:
        columns = key_columns(self.orders, self.rewrite.table_schema)
        for chunk in chunks:
            rows = self.rewrite.rows(chunk.tasks, columns)
            sample = SampledKeys.of(rows, self.orders, columns, self.rates[chunk.group], _place(chunk))
            keys = _bytes(pa.concat_tables(sample.keys)) if sample.keys else None
            answer = {"group": chunk.group, "rows": sample.rows, "keys": keys}
            yield pa.RecordBatch.from_pylist([answer], _SAMPLE_ARROW)


@frozen
class _Cutter:
    """The task that sends rows to their part of a file."""

    rewrite: GroupRewrite
    schemas: Mapping[int, Schema]
    ranges: Mapping[int, RowRanges]
    firsts: Mapping[int, int]
    parts: Mapping[int, int]

    def __call__(self, chunks: list[RewriteChunk]) -> Batches:
        for chunk in chunks:
            place = _place(chunk)
            for table in pieces(self.rewrite.rows(chunk.tasks, self.schemas[chunk.group]), PIECE_BYTES):
                for number, rows in self.ranges[chunk.group].cut(table, place):
                    file, part = divmod(number, self.parts[chunk.group])
                    piece = {"file": self.firsts[chunk.group] + file, "part": part, "rows": _bytes(rows)}
                    yield pa.RecordBatch.from_pylist([piece], _PIECE_ARROW)
                place += table.num_rows


def _place(chunk: RewriteChunk) -> int:
    """The place of the first row of a chunk, among those of other chunks."""
    return crc32("".join(f"{t.file.file_path} {t.start}" for t in chunk.tasks).encode()) << 31


@frozen
class _Writer:
    """The task that writes files from pieces, which come in the order of files and parts."""

    rewrite: GroupRewrite
    schemas: Mapping[int, Schema]
    ranges: Mapping[int, RowRanges]
    of_file: Sequence[tuple[int, int]]
    prefix: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Batches:
        name = file_prefix_of_task(self.prefix)
        for file, found in groupby(_pieces(batches), key=itemgetter(0)):
            group, size = self.of_file[file]
            rows, schema = self._sorted(found, self.ranges[group]), self.schemas[group]
            files = self.rewrite.write(rows, schema, size=size, prefix=f"{name}-{file}", presorted=True)
            yield written_batch(group, files)

    def _sorted(self, found: Iterable[_Piece], ranges: RowRanges) -> Iterator[pa.RecordBatch]:
        for _, of_part in groupby(found, key=itemgetter(1)):
            yield from ranges.sort(pa.concat_tables([_table(rows) for _, _, rows in of_part])).to_batches()


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[_Piece]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield batch["file"][row].as_py(), batch["part"][row].as_py(), batch["rows"][row].as_py()


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


_SAMPLE_ARROW = pa.schema([("group", pa.int32()), ("rows", pa.int64()), ("keys", pa.binary())])
_PIECE_ARROW = pa.schema([("file", pa.int32()), ("part", pa.int32()), ("rows", pa.binary())])
