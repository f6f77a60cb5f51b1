"""Deleted rows: as bits for a broadcast where they are few, else as DataFrames for anti joins.

Delete files are read by the engine's own readers, for the DataFrames in Spark's tasks.

Spec: Row-level Deletes (D3 to D5). Which delete files apply to a data file is the plan's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.data.file.file_field import walk_file
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.deletion_vector import Positions
from icecore.engine.data.read.file_sources import BATCH_ROWS, open_source
from icecore.engine.data.read.table_columns import ColumnReader, Identification
from icecore.engine.errors import CorruptFileError
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.stored_arrow import stored_array
from icecore.engine.spark.relation.plan_bytes import deleted_bits
from icecore.engine.spark.spark_types import stored_type
from icecore.engine.spark.task_frames import Batches, chunked, mapped
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.storage.file_io import Storage

POSITION_BITS = 40
MAX_BROADCAST_ROWS = 20_000_000
MAX_DELETES_IN_DRIVER = 2_000
MAX_BYTES_IN_DRIVER = 64 * 2**20
_DELETES_PER_TASK = 16
_THREADS = 16
_NO_POSITIONS: Positions = np.zeros(0, dtype=np.int64)


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


def position_bits(files: Sequence[PositionDeletes], count: int, storage: Storage) -> bytes | None:
    """The deleted positions of `count` files, by their numbers, in the form of `deleted_bits`.

    The driver reads the delete files; None where they are many or large. Raises MissingFileError or CorruptFileError
    naming the delete file.
    """
    distinct = {(d.file_path, d.content_offset): d for f in files for d in f.deletes}.values()
    size = sum(d.content_size_in_bytes or d.file_size_in_bytes for d in distinct)
    if len(distinct) > MAX_DELETES_IN_DRIVER or size > MAX_BYTES_IN_DRIVER:
        return None
    found = dict(zip((f.number for f in files), _positions(files, storage), strict=True))
    ends = [int(p[-1]) for p in found.values() if len(p)]
    if sum(ends) // 8 > MAX_BYTES_IN_DRIVER or max(ends, default=0) >= 2**31:
        return None
    return deleted_bits([found.get(n, _NO_POSITIONS) for n in range(count)])


def _positions(files: Sequence[PositionDeletes], storage: Storage) -> list[Positions]:
    """The deleted positions of each file. Files that share delete files are mostly read by the same thread."""

    def read(chunk: list[PositionDeletes]) -> list[Positions]:
        cache = DeleteCache()
        return [cache.deleted_positions(storage, f.location, f.deletes) for f in chunk]

    places = sorted(range(len(files)), key=lambda i: [d.file_path for d in files[i].deletes])
    size = -(-len(files) // _THREADS)
    chunks = [[files[i] for i in places[a : a + size]] for a in range(0, len(places), size)]
    with ThreadPoolExecutor(_THREADS) as pool:
        ordered = [p for found in pool.map(read, chunks) for p in found]
    by_place = dict(zip(places, ordered, strict=True))
    return [by_place[i] for i in range(len(files))]


@frozen
class EqualityDeletes:
    """Equality delete files with the same key columns, each with the numbers of the sets of delete files it is in."""

    readers: tuple[ColumnReader, ...]
    files: tuple[tuple[ContentFile, tuple[int, ...]], ...]


def equality_rows(
    session: SparkSession, deletes: EqualityDeletes, identification: Identification, storage: Storage
) -> DataFrame:
    """The deleted keys: columns `k0`, `k1` and so on in stored form, and `sets`, the numbers of the file's sets."""
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
