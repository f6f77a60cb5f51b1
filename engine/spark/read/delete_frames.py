"""Deleted rows as DataFrames to anti join with: delete files are read in Spark's tasks, by the engine's own readers.

Spec: Row-level Deletes (D3 to D5). Which delete files apply to a data file is the plan's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.data.file.file_field import walk_file
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.file_sources import BATCH_ROWS, open_source
from icecore.engine.data.read.table_columns import ColumnReader, Identification
from icecore.engine.errors import CorruptFileError
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.stored_arrow import stored_array
from icecore.engine.spark.spark_types import stored_type
from icecore.engine.spark.task_frames import Batches, chunked, mapped
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.storage.file_io import Storage

POSITION_BITS = 40
MAX_BROADCAST_ROWS = 20_000_000
_DELETES_PER_TASK = 16


@frozen
class PositionDeletes:
    """The position delete files and deletion vectors of one data file, given by its number."""

    number: int
    location: str
    deletes: tuple[ContentFile, ...]


def position_keys(session: SparkSession, files: Sequence[PositionDeletes], storage: Storage) -> DataFrame:
    """One BIGINT for each deleted row, in the column `key`: the file's number, then 40 bits of the row's position."""
    ordered = sorted(files, key=lambda f: [d.file_path for d in f.deletes])

    def read(chunk: list[PositionDeletes]) -> Batches:
        cache = DeleteCache()
        for f in chunk:
            positions = cache.deleted_positions(storage, f.location, f.deletes)
            keys = (np.int64(f.number) << POSITION_BITS) | positions
            for start in range(0, len(keys), BATCH_ROWS):
                yield pa.RecordBatch.from_arrays([pa.array(keys[start : start + BATCH_ROWS])], names=["key"])

    out = mapped(
        session,
        chunked(session, ordered, per_chunk=_DELETES_PER_TASK),
        read,
        T.StructType([T.StructField("key", T.LongType())]),
    )
    return _small(out, _distinct_rows([d for f in files for d in f.deletes]))


@frozen
class EqualityDeletes:
    """Equality delete files with the same key columns, each with the numbers of the sets of files it is in."""

    readers: tuple[ColumnReader, ...]
    files: tuple[tuple[ContentFile, tuple[int, ...]], ...]


def equality_rows(
    session: SparkSession, deletes: EqualityDeletes, identification: Identification, storage: Storage
) -> DataFrame:
    """The delete rows: key columns `k0`, `k1` and so on in their stored form, and `sets`, an array of numbers."""
    fields = [T.StructField(f"k{i}", stored_type(r.leaf.field_type)) for i, r in enumerate(deletes.readers)]
    struct = T.StructType([*fields, T.StructField("sets", T.ArrayType(T.IntegerType()))])
    readers = deletes.readers

    def read(chunk: list[tuple[ContentFile, tuple[int, ...]]]) -> Batches:
        for file, sets in chunk:
            for keys in _key_columns(file, readers, identification, storage):
                columns = [stored_array(k, r.leaf.field_type) for k, r in zip(keys, readers, strict=True)]
                one = pa.array([list(sets)], pa.list_(pa.int32()))
                columns.append(one.take(pa.array(np.zeros(len(keys[0]), dtype=np.int64))))
                yield pa.RecordBatch.from_arrays(columns, names=struct.names)

    out = mapped(session, chunked(session, deletes.files, per_chunk=_DELETES_PER_TASK), read, struct)
    return _small(out, _distinct_rows([d for d, _ in deletes.files]))


def _key_columns(
    file: ContentFile, readers: tuple[ColumnReader, ...], identification: Identification, storage: Storage
) -> Iterator[list[pa.Array]]:
    source = open_source(storage, file.file_path, file.file_format)
    fields = identification.identified(source.fields, file)
    there = {f.field_id for f in walk_file(fields)}
    for r in readers:
        if r.leaf.field_id not in there:
            name, field_id = r.leaf.name, r.leaf.field_id
            raise CorruptFileError(f"{file.file_path}: the file lacks its key column {name!r} (id {field_id})")
    resolved = [r.resolved(evolve(file, first_row_id=None), fields, {}) for r in readers]
    leaves = frozenset(leaf for r in resolved for leaf in r.leaves)
    for batch in source.batches(leaves, 0, 2**62, BATCH_ROWS):
        yield [r.values(batch.columns, batch.first_position, batch.length) for r in resolved]


def _distinct_rows(deletes: Sequence[ContentFile]) -> int:
    rows: Mapping[tuple[str, int | None], int] = {(d.file_path, d.content_offset): d.record_count for d in deletes}
    return sum(rows.values())


def _small(frame: DataFrame, rows: int) -> DataFrame:
    """The frame, broadcast where it fits: Spark can't know how many rows come out of a Python task."""
    return F.broadcast(frame) if rows <= MAX_BROADCAST_ROWS else frame
