"""The rewrite of a group of data files with deletes applied: rows keep their values, row ids and sequence numbers.

`GroupRewrite` holds what a process needs of the table to do it, and can be sent to one. Spec: Row Lineage (RL6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.data.arrow.sorting import RowOrder
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.read.table_columns import Identification
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.row_ranges import partition_order
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.table_properties import NAME_MAPPING, TARGET_FILE_SIZE
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.reserved import LINEAGE, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.storage.file_io import Storage


@frozen
class GroupRewrite:
    """A rewrite of data files into new ones of one partition spec, sorted by an order or not.

    `is_noted` tells that `order` is one of the table's, so that the files get its id.
    """

    identification: Identification
    specs: Mapping[int, PartitionSpec]
    spec: PartitionSpec
    locations: DataLocations
    properties: Mapping[str, str]
    storage: Storage
    order: RowOrder | None
    is_noted: bool
    format_version: int

    @classmethod
    def of(cls, metadata: TableMetadata, storage: Storage, spec_id: int, order: RowOrder | None) -> GroupRewrite:
        """The rewrite of files of a table."""
        return cls(
            Identification(metadata.schema(), NAME_MAPPING.find(metadata.properties), metadata.schemas),
            dict(metadata.specs),
            metadata.spec_by_id(spec_id),
            DataLocations.of(metadata.location, metadata.properties),
            dict(metadata.properties),
            storage,
            order,
            any(o == order for o in metadata.sort_orders),
            metadata.format_version,
        )

    @property
    def table_schema(self) -> Schema:
        """The table's schema."""
        return self.identification.table_schema

    def schema(self, tasks: Iterable[FileScanTask]) -> Schema:
        """The columns of the files' rows; with the lineage columns if any of the files has a first row id (RL5)."""
        has_lineage = self.format_version >= 3 and any(t.file.first_row_id is not None for t in tasks)
        return with_columns(self.table_schema, *LINEAGE) if has_lineage else self.table_schema

    def rows(self, tasks: Iterable[FileScanTask], columns: Schema) -> Iterator[pa.RecordBatch]:
        """The live rows of the files, with the columns. Raises MissingFileError, CorruptFileError, StorageError."""
        deletes = DeleteCache()
        lineage = [c for c in LINEAGE if columns.get_field(c.field_id) is not None]
        without = Schema(tuple(f for f in columns.fields if f not in lineage), columns.schema_id)
        for task in tasks:
            has_lineage = bool(lineage) and task.file.first_row_id is not None
            for batch in read_task(
                task,
                projection=columns if has_lineage else without,
                table_schema=self.table_schema,
                specs=self.specs,
                storage=self.storage,
                name_mapping=self.identification.name_mapping,
                table_schemas=self.identification.table_schemas,
                deletes=deletes,
            ):
                if not has_lineage:
                    for column in lineage:
                        batch = batch.append_column(pa.field(column.name, pa.int64()), pa.nulls(len(batch), pa.int64()))
                yield batch

    def write(
        self,
        rows: Iterable[pa.RecordBatch],
        schema: Schema,
        *,
        size: int,
        prefix: str,
        presorted: bool = False,
    ) -> tuple[ContentFile, ...]:
        """New files of the rows, each of about `size` bytes at most. Raises ValidationError, StorageError."""
        files = write_data_files(
            rows,
            schema=schema,
            spec=self.spec,
            location=self.locations,
            storage=self.storage,
            properties={**self.properties, TARGET_FILE_SIZE.name: str(size)},
            file_prefix=prefix,
            sort_order=self.order,
            presorted=presorted,
        )
        if not isinstance(self.order, SortOrder) or self.is_noted:
            return tuple(files)
        return tuple(evolve(f, sort_order_id=None) for f in files)

    def orders(self, tasks: Iterable[FileScanTask]) -> tuple[RowOrder, ...]:
        """The orders to sort the files' rows by: first by partition, if a file has another spec, then `order`."""
        moved = any(t.file.spec_id != self.spec.spec_id for t in tasks)
        return (*(partition_order(self.spec) if moved else ()), *(() if self.order is None else (self.order,)))

    def write_again(self, tasks: Sequence[FileScanTask], *, size: int, prefix: str) -> tuple[ContentFile, ...]:
        """New files of the files' live rows, sorted where there is an order.

        Raises ValidationError, MissingFileError, CorruptFileError, StorageError.
        """
        schema = self.schema(tasks)
        counted = Counted(self.rows(tasks, schema))
        files = self.write(counted, schema, size=size, prefix=prefix)
        assert sum(f.record_count for f in files) == counted.rows, "a rewrite keeps every row"
        return files


class Counted:
    """Batches, and the number of their rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch
