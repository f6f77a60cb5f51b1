"""Copy-on-write: files written again without some of their rows. Spec: Row Lineage (RL6)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from attrs import define

from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.row_ranges import PIECE_BYTES, pieces
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.formats.arrays import Mask
from icecore.engine.operations.merge_on_read import Positions, Selected
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.table_properties import MIB, NAME_MAPPING
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import LINEAGE, POS, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage

KEPT_BYTES = 64 * MIB
"""The most bytes of a file's live rows that are kept in memory instead of being read again."""


@define
class LiveRows:
    """The live rows of a data file with their positions, and with their lineage columns if any.

    Each iteration reads the file, unless its rows are few enough to be kept: a file may hold more than memory should.
    """

    task: FileScanTask
    metadata: TableMetadata
    storage: Storage
    deletes: DeleteCache
    _kept: list[pa.RecordBatch] | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._kept is not None:
            yield from self._kept
            return
        kept, size = list[pa.RecordBatch](), 0
        for batch in self._read():
            size += batch.nbytes
            kept = [*kept, batch] if size <= KEPT_BYTES else []
            yield batch
        self._kept = kept if size <= KEPT_BYTES else None

    def _read(self) -> Iterator[pa.RecordBatch]:
        metadata = self.metadata
        return read_task(
            self.task,
            projection=with_columns(lineage_schema(metadata.schema(), metadata, self.task), POS),
            table_schema=metadata.schema(),
            specs=metadata.specs,
            storage=self.storage,
            name_mapping=NAME_MAPPING.find(metadata.properties),
            table_schemas=metadata.schemas,
            deletes=self.deletes,
        )

    def chosen(self, by: Callable[[pa.Table], Mask]) -> Selected:
        """The rows that a function chooses: it gives a mask of many rows at a time."""
        live, positions = 0, [np.zeros(0, np.int64)]
        for some in pieces(self, PIECE_BYTES):
            live += some.num_rows
            positions.append(some[POS.name].to_numpy()[by(some)].astype(np.int64))
        return Selected(np.concatenate(positions), live)

    def write_without(self, positions: Positions) -> list[ContentFile]:
        """Writes all live rows but those at the positions, which are positions of live rows in order, into new files.

        Raises ValidationError, MissingFileError, CorruptFileError, StorageError.
        """
        schema = lineage_schema(self.metadata.schema(), self.metadata, self.task)
        return _write(self._without(positions, [f.name for f in schema.fields]), schema, self.metadata, self.storage)

    def _without(self, positions: Positions, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in self:
            places = batch[POS.name].to_numpy()
            start, end = np.searchsorted(positions, [places[0], places[-1] + 1])
            kept = np.ones(len(places), dtype=bool)
            kept[np.searchsorted(places, positions[start:end])] = False
            if kept.any():
                yield batch.select(columns).filter(pa.array(kept))


def lineage_schema(schema: Schema, metadata: TableMetadata, task: FileScanTask) -> Schema:
    """The schema, with the lineage columns if rows of the file have any (RL5)."""
    has_lineage = metadata.format_version >= 3 and task.file.first_row_id is not None
    return with_columns(schema, *LINEAGE) if has_lineage else schema


def write_again(rows: pa.Table, metadata: TableMetadata, storage: Storage) -> list[ContentFile]:
    """Writes rows into new files, with the lineage columns that they have."""
    # Before v3 a column of such a name is the table's own.
    lineage = [c for c in LINEAGE if metadata.format_version >= 3 and c.name in rows.column_names]
    return _write(rows, with_columns(metadata.schema(), *lineage), metadata, storage)


def _write(
    rows: pa.Table | Iterable[pa.RecordBatch], schema: Schema, metadata: TableMetadata, storage: Storage
) -> list[ContentFile]:
    return write_data_files(
        rows,
        schema=schema,
        spec=metadata.spec(),
        location=DataLocations.of(metadata.location, metadata.properties),
        storage=storage,
        properties=metadata.properties,
        file_prefix=f"00000-0-{uuid.uuid4()}",
        sort_order=metadata.sort_order(),
    )
