"""Deletes of rows from data files inside of Spark's tasks: files are written again, or get deletes by position.

Rows that stay are read and written by the engine, not by Spark, so that no value changes on the way.
Spec: Row-level Deletes (D1 to D3), Row Lineage (RL6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from attrs import define, field, frozen
from pyroaring import BitMap64

from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.deletion_vector import Positions, bitmap_of
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.read.table_columns import Identification
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.deletion_vector_writer import DeletedRows, write_deletion_vectors
from icecore.engine.data.write.position_delete_writer import by_partition, write_position_deletes
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.table_properties import DELETE_GRANULARITY, NAME_MAPPING
from icecore.engine.spark.change.written_rows import WrittenRows
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.reserved import LINEAGE, POS, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.storage.file_io import Storage

Found: TypeAlias = list[tuple[ContentFile, BitMap64]]


@frozen
class TouchedFile:
    """A data file, the positions of the rows that it loses, and how many of them are updated."""

    task: FileScanTask
    positions: Positions
    updates: int


@frozen
class FileRewrite:
    """The table as tasks need it, and the way in which they delete rows: `by_position`, or by writing files again.

    `file_prefix` must be new for each change.
    """

    by_position: bool
    format_version: int
    identification: Identification
    specs: Mapping[int, PartitionSpec]
    spec: PartitionSpec
    sort_order: SortOrder
    all_fields: Schema
    locations: DataLocations
    properties: Mapping[str, str]
    storage: Storage
    file_prefix: str

    @classmethod
    def of(cls, metadata: TableMetadata, storage: Storage, file_prefix: str, *, by_position: bool) -> FileRewrite:
        """The rewrite of files of a table. Raises ValidationError where its properties let nothing be written."""
        return cls(
            by_position,
            metadata.format_version,
            Identification(metadata.schema(), NAME_MAPPING.find(metadata.properties), metadata.schemas),
            dict(metadata.specs),
            metadata.spec(),
            metadata.sort_order(),
            metadata.all_fields,
            DataLocations.of(metadata.location, metadata.properties),
            dict(metadata.properties),
            storage,
            file_prefix,
        )

    def write(self, files: Iterable[TouchedFile], name: str) -> WrittenRows:
        """Writes the changes of one task; `name` tells its files from those of other tasks. Raises StorageError."""
        return _Deletes(self, name).write(files) if self.by_position else _Survivors(self, name).write(files)

    def merge_deletes(self, tasks: Iterable[FileScanTask], name: str) -> list[ContentFile]:
        """Writes the deleted positions of files anew: as deletion vectors from v3 on, else as position delete files.

        Raises MissingFileError, CorruptFileError, StorageError.
        """
        return _Deletes(self, name).merge(tasks)


@define
class _Counts:
    gone: list[str] = field(factory=list)
    marked: list[str] = field(factory=list)
    updated: int = 0
    deleted: int = 0

    def add(self, file: TouchedFile) -> None:
        self.updated += file.updates
        self.deleted += len(file.positions) - file.updates

    def written(self, added: Iterable[ContentFile]) -> WrittenRows:
        return WrittenRows(tuple(self.gone), tuple(self.marked), tuple(added), self.updated, self.deleted)


@define
class _Survivors:
    """The rows that files keep, written again; small files of one partition come together in one."""

    rewrite: FileRewrite
    name: str
    counts: _Counts = field(factory=_Counts)
    cache: DeleteCache = field(factory=DeleteCache)

    def write(self, files: Iterable[TouchedFile]) -> WrittenRows:
        rewrite = self.rewrite
        added = write_data_files(
            (batch for file in files for batch in self.kept(file)),
            schema=self.schema,
            spec=rewrite.spec,
            location=rewrite.locations,
            storage=rewrite.storage,
            properties=rewrite.properties,
            file_prefix=f"{rewrite.file_prefix}-{self.name}",
            sort_order=rewrite.sort_order,
        )
        return self.counts.written(added)

    @property
    def schema(self) -> Schema:
        """The columns to write: from v3 on rows keep their ids and sequence numbers, as far as they have any."""
        schema = self.rewrite.identification.table_schema
        return with_columns(schema, *LINEAGE) if self.rewrite.format_version >= 3 else schema

    def kept(self, file: TouchedFile) -> Iterator[pa.RecordBatch]:
        self.counts.add(file)
        self.counts.gone.append(file.task.file.file_path)
        known = self.rewrite.identification
        for batch in read_task(
            file.task,
            projection=with_columns(self.schema, POS),
            table_schema=known.table_schema,
            specs=self.rewrite.specs,
            storage=self.rewrite.storage,
            name_mapping=known.name_mapping,
            table_schemas=known.table_schemas,
            deletes=self.cache,
        ):
            stays = ~np.isin(batch.column(POS.name).to_numpy(), file.positions)
            left = batch.drop_columns([POS.name]).filter(pa.array(stays))
            if left.num_rows:
                yield left


@define
class _Deletes:
    """The deletes of files by position: vectors from v3 on, before that position delete files."""

    rewrite: FileRewrite
    name: str
    counts: _Counts = field(factory=_Counts)
    cache: DeleteCache = field(factory=DeleteCache)

    def write(self, files: Iterable[TouchedFile]) -> WrittenRows:
        """Writes the deletes; a file without any row left is removed as a whole."""
        is_vector = self.rewrite.format_version >= 3
        found: Found = []
        for file in files:
            self.counts.add(file)
            data = file.task.file
            before = self.cache.deleted_positions(self.rewrite.storage, data.file_path, file.task.delete_files)
            merged = np.union1d(before, file.positions)
            if len(merged) == data.record_count:
                self.counts.gone.append(data.file_path)
                continue
            self.counts.marked.append(data.file_path)
            # A vector has all earlier deletes of its file, too (D2).
            found.append((data, bitmap_of(merged if is_vector else file.positions)))
        return self.counts.written(self.vectors(found) if is_vector else self.position_files(found))

    def merge(self, tasks: Iterable[FileScanTask]) -> list[ContentFile]:
        """Writes the positions that are deleted already, those of each file in one place."""
        found: Found = []
        for task in tasks:
            data = task.file
            positions = self.cache.deleted_positions(self.rewrite.storage, data.file_path, task.delete_files)
            if len(positions):
                found.append((data, bitmap_of(positions)))
        return self.vectors(found) if self.rewrite.format_version >= 3 else self.position_files(found)

    def vectors(self, found: Found) -> list[ContentFile]:
        deletes = {f.file_path: DeletedRows(positions, f.spec_id, f.partition) for f, positions in found}
        location = self.rewrite.locations.new(f"{self.rewrite.file_prefix}-{self.name}-deletes.puffin")
        return write_deletion_vectors(self.rewrite.storage, location, deletes)

    def position_files(self, found: Found) -> list[ContentFile]:
        rewrite = self.rewrite
        out: list[ContentFile] = []
        groups = by_partition(found, rewrite.specs, rewrite.all_fields)
        for number, (spec, partition, group) in enumerate(groups):
            out += write_position_deletes(
                rewrite.storage,
                rewrite.locations,
                group,
                spec=spec,
                partition=partition,
                schema=rewrite.all_fields,
                properties=rewrite.properties,
                file_prefix=f"{rewrite.file_prefix}-{self.name}-{number}",
                format_version=rewrite.format_version,
                granularity="partition" if DELETE_GRANULARITY.or_default(rewrite.properties) == "partition" else "file",
            )
        return out
