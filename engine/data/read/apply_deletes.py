"""Delete files read once and applied to the rows of many data files.

Spec: Row-level Deletes (D2 to D5). The plan decides which delete files apply to a data file.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen

from icecore.engine.common.fork_safety import Lock
from icecore.engine.data.arrow.equality import EqualityKeys
from icecore.engine.data.file.file_field import FileField
from icecore.engine.data.read.column_resolution import Leaf, make
from icecore.engine.data.read.deletion_vector import Positions, read_deletion_vector
from icecore.engine.data.read.file_sources import BATCH_ROWS, TO_THE_END, Source, open_source
from icecore.engine.data.read.table_columns import ColumnReader, Identification, column_readers
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import CorruptFileError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.reserved import DELETE_PATH_ID, DELETE_POS_ID
from icecore.engine.spec.types import LongType, StringType
from icecore.engine.storage.file_io import Storage

MAX_COMBINED_KEYS = 16
_POSITION_DELETES = DataFileContent.POSITION_DELETES
_NONE: Positions = np.zeros(0, dtype=np.int64)


@frozen
class _EqualityFile:
    """The rows of one equality delete file, as key columns in the order of its ids."""

    readers: tuple[ColumnReader, ...]
    columns: tuple[pa.Array, ...]


@define
class DeleteCache:
    """A cache of the delete files of one table in one storage. Threads may share it."""

    _positions: dict[str, Mapping[str, Positions]] = field(factory=dict, repr=False)
    _vectors: dict[tuple[str, int | None], Positions] = field(factory=dict, repr=False)
    _equality: dict[tuple[str, tuple[int, ...]], _EqualityFile] = field(factory=dict, repr=False)
    _keys: OrderedDict[tuple[str, ...], EqualityKeys] = field(factory=OrderedDict, repr=False)
    _lock: Lock = field(factory=Lock, repr=False)

    def deleted_positions(self, storage: Storage, data_file: str, deletes: Sequence[ContentFile]) -> Positions:
        """The positions of a data file that deletion vectors and position delete files name, ascending.

        Raises MissingFileError or CorruptFileError naming the delete file.
        """
        path = storage.path_key(data_file)
        if len(vectors := [d for d in deletes if d.is_deletion_vector]) > 1:
            raise CorruptFileError(f"{data_file} has {len(vectors)} deletion vectors, of which there can be one (D2)")
        with self._lock:
            parts = [self._of_file(storage, d, path) for d in deletes if d.content is _POSITION_DELETES]
        parts = [f for f in parts if len(f)]
        if len(parts) == 1:
            return parts[0]
        return np.unique(np.concatenate(parts)) if parts else _NONE

    def counted_rows(self, storage: Storage, tasks: Sequence[FileScanTask]) -> tuple[int, list[FileScanTask]]:
        """The number of live rows in the files of some tasks, and the other tasks, whose rows have to be read to count.

        Those have a residual, equality deletes or an unknown number of records. Raises MissingFileError or
        CorruptFileError naming the delete file.
        """
        rows = [self._live_rows(storage, t.file, t.delete_files) if t.residual == TRUE else None for t in tasks]
        left = [t for t, n in zip(tasks, rows, strict=True) if n is None]
        return sum(n for n in rows if n is not None), left

    def _live_rows(self, storage: Storage, file: ContentFile, deletes: Sequence[ContentFile]) -> int | None:
        # -1 stands in files of writers that did not know the number of records.
        if file.record_count < 0 or any(d.content is DataFileContent.EQUALITY_DELETES for d in deletes):
            return None
        if not deletes:
            return file.record_count
        positions = self.deleted_positions(storage, file.file_path, deletes)
        first, last = np.searchsorted(positions, (0, file.record_count))
        return file.record_count - int(last - first)

    def _of_file(self, storage: Storage, d: ContentFile, path: str) -> Positions:
        if d.is_deletion_vector:
            return self._vector(storage, d)
        return self._position_file(storage, d).get(path, _NONE)

    def _vector(self, storage: Storage, d: ContentFile) -> Positions:
        key = (d.file_path, d.content_offset)
        if key not in self._vectors:
            self._vectors[key] = read_deletion_vector(storage, d)
        return self._vectors[key]

    def _position_file(self, storage: Storage, d: ContentFile) -> Mapping[str, Positions]:
        if d.file_path not in self._positions:
            self._positions[d.file_path] = read_position_deletes(storage, d)
        return self._positions[d.file_path]

    def equality_keys(
        self, storage: Storage, deletes: Sequence[ContentFile], identification: Identification
    ) -> list[tuple[tuple[ColumnReader, ...], EqualityKeys]]:
        """The keys of equality delete files, together for those with the same equality ids, and their columns' readers.

        Raises MissingFileError or CorruptFileError naming the delete file.
        """
        groups: dict[tuple[int, ...], list[ContentFile]] = {}
        for d in deletes:
            if d.content is DataFileContent.EQUALITY_DELETES:
                groups.setdefault(tuple(sorted(d.equality_ids or ())), []).append(d)
        with self._lock:
            return [self._group(storage, ids, files, identification) for ids, files in groups.items()]

    def _group(
        self, storage: Storage, ids: tuple[int, ...], files: list[ContentFile], identification: Identification
    ) -> tuple[tuple[ColumnReader, ...], EqualityKeys]:
        parts = [self._equality_file(storage, ids, d, identification) for d in files]
        key = tuple(sorted(d.file_path for d in files))
        keys = self._keys.get(key)
        if keys is None:
            try:
                columns = [
                    pa.concat_arrays([p.columns[i].cast(parts[0].columns[i].type) for p in parts])
                    for i in range(len(ids))
                ]
            except pa.ArrowException as e:
                raise CorruptFileError(f"{key}: the key columns of equality deletes differ in type: {e}") from e
            keys = self._keys[key] = EqualityKeys.of(columns)
            if len(self._keys) > MAX_COMBINED_KEYS:
                self._keys.popitem(last=False)
        self._keys.move_to_end(key)
        return parts[0].readers, keys

    def _equality_file(
        self, storage: Storage, ids: tuple[int, ...], d: ContentFile, identification: Identification
    ) -> _EqualityFile:
        if not ids:
            raise CorruptFileError(f"{d.file_path}: an equality delete file must have equality ids")
        key = (d.file_path, ids)
        if key not in self._equality:
            source = open_source(storage, d.file_path, d.file_format)
            fields = identification.identified(source.fields, d)
            readers = column_readers(ids, identification, fields, d.file_path)
            resolved = [r.resolved(evolve(d, first_row_id=None), fields, {}) for r in readers]
            leaves = frozenset(leaf for r in resolved for leaf in r.leaves)
            parts = []
            for batch in source.batches(leaves, 0, TO_THE_END, BATCH_ROWS):
                parts.append([r.values(batch.columns, batch.first_position, batch.length) for r in resolved])
            columns = tuple(
                pa.concat_arrays([p[i] for p in parts]) if parts else r.empty() for i, r in enumerate(readers)
            )
            self._equality[key] = _EqualityFile(readers, columns)
        return self._equality[key]


def read_position_deletes(storage: Storage, d: ContentFile) -> dict[str, Positions]:
    """The deleted positions by the `path_key` of each data file. Raises MissingFileError, CorruptFileError."""
    found: dict[str, list[Positions]] = {}
    for paths, positions in position_delete_rows(storage, d):
        _split_by_path(storage, paths, np.asarray(positions), found)
    return {location: np.unique(np.concatenate(parts)) for location, parts in found.items()}


def position_delete_rows(storage: Storage, d: ContentFile) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The paths and positions that a position delete file holds, in its order, batch by batch.

    Raises MissingFileError, CorruptFileError.
    """
    source = open_source(storage, d.file_path, d.file_format)
    path = _delete_column(source, d, DELETE_PATH_ID, "file_path")
    pos = _delete_column(source, d, DELETE_POS_ID, "pos")
    nodes = (
        Leaf(path.name, path.first_leaf, StringType(), f"{d.file_path}: column 'file_path'"),
        Leaf(pos.name, pos.first_leaf, LongType(), f"{d.file_path}: column 'pos'"),
    )
    for batch in source.batches(frozenset(n.leaf for n in nodes), 0, TO_THE_END, BATCH_ROWS):
        paths, positions = (make(n, batch.columns, batch.first_position, batch.length) for n in nodes)
        if paths.null_count or positions.null_count:
            # The spec allows no nulls here, but such rows name no row, and Impala skips them too.
            named = pc.and_(paths.is_valid(), positions.is_valid())
            paths, positions = paths.filter(named), positions.filter(named)
        yield paths, positions


def _split_by_path(storage: Storage, paths: pa.Array, positions: Positions, found: dict[str, list[Positions]]) -> None:
    if not len(paths):
        return
    encoded = paths.dictionary_encode()
    codes = np.asarray(encoded.indices)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(encoded.dictionary)))
    for location, part in zip(encoded.dictionary.to_pylist(), np.split(positions[order], ends[:-1]), strict=True):
        found.setdefault(storage.path_key(location), []).append(part)


def _delete_column(source: Source, d: ContentFile, field_id: int, name: str) -> FileField:
    by_id = next((f for f in source.fields if f.field_id == field_id), None)
    found = by_id or next((f for f in source.fields if f.name == name), None)
    if found is None:
        names = ", ".join(f.name for f in source.fields)
        raise CorruptFileError(f"{d.file_path}: a position delete file must have the column {name!r}, found {names}")
    return found
