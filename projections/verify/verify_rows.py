"""The check of data files by their rows: that counts, bounds and partitions in manifests are those of the rows.

A plan leaves out files by what is noted of them, so a note that is wrong loses rows, and no error says so. Spec: M4,
M5, SP1. What no plan makes use of is not compared: bounds of UUIDs, which Java orders otherwise, and those that can't
be read; counts of fields in structs and lists, of which writers have different notions; partitions by transforms that
are unknown here, or of columns that were dropped.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.data.arrow.arrow_partitions import transformed_column
from icecore.engine.data.arrow.arrow_schema import storage_type
from icecore.engine.data.arrow.arrow_values import from_array
from icecore.engine.data.file.column_metrics import MetricsCollector
from icecore.engine.data.file.metrics_mode import Full
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import IcecoreError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import is_comparable
from icecore.engine.expression.nodes import TRUE
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, files_to_arrow, row_to_file
from icecore.engine.metadata.fold import TableState
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestEntryStatus
from icecore.engine.spec.partition import PartitionField
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import (
    DayTransform,
    HourTransform,
    MonthTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
    human_string,
)
from icecore.engine.spec.types import DateType, UUIDType, walk
from icecore.projections.entries.carried_entries import live_entries
from icecore.projections.entries.wide_entries import widen
from icecore.projections.verify.verify_contents import guarded, in_threads
from icecore.projections.verify.verify_needed import KINDS
from icecore.projections.verify.verify_tally import Fault

DATA_KIND = 0
"""The kind of data files in `contents`."""
_AT_ONCE = 64
_READ_HERE = (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO)
_NOTED = ("partition", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
_COUNTED = {"values": "values", "nulls": "nulls", "nans": "NaNs"}


@frozen(eq=False)
class RowCheck:
    """The check of a table's data files by their rows, as its current schema has them."""

    repository: Repository
    state: TableState

    def faults(self, manifests: Sequence[ListedManifest], wanted: pa.Array) -> Iterator[tuple[int, list[Fault]]]:
        """The faults of the wanted data files in manifests, in parts, each with the number of files looked at.

        A file is read again only for a manifest that notes something else of it, as one that was rewritten wrong.
        """
        seen = set[int]()
        for listed in manifests:
            entries = self._entries(listed, wanted)
            for at in range(0, entries.num_rows, _AT_ONCE):
                rows = {_note(row): row for row in entries.slice(at, _AT_ONCE).to_pylist()}
                part = [row for note, row in rows.items() if note not in seen]
                seen.update(rows)
                yield len(part), in_threads(self._of_file, part)

    def _entries(self, listed: ListedManifest, wanted: pa.Array) -> pa.Table:
        """The entries of data files to look at; none of a manifest that can't be read, which is a fault of its own."""
        storage = self.repository.storage_of(self.state)
        try:
            entries = live_entries(self.repository.entries.canonical(self.state.stream, listed, storage))
        except IcecoreError:
            return ENTRY_SCHEMA.empty_table()
        chosen = pc.and_(
            pc.equal(entries["content"], int(DataFileContent.DATA)), pc.is_in(entries["file_path"], wanted)
        )
        formats = pc.is_in(pc.utf8_upper(entries["file_format"]), pa.array([str(f) for f in _READ_HERE]))
        return entries.filter(pc.and_(pc.and_(chosen, formats), pc.is_null(entries["key_metadata"])))

    def _of_file(self, row: Mapping[str, Any]) -> list[Fault]:
        return guarded(
            self.repository.storage_of(self.state), KINDS[DATA_KIND], row["file_path"], lambda: self._difference(row)
        )

    def _difference(self, row: Mapping[str, Any]) -> str | None:
        """The first difference between what is noted of a file and its rows. Raises as `read_task`."""
        metadata = self.state.metadata
        file = row_to_file(row, metadata.spec_by_id(row["spec_id"]), metadata.all_fields)
        metrics, partition = self._read(file)
        return partition or next(self._differences(file, metrics), None)

    def _read(self, file: ContentFile) -> tuple[MetricsCollector, str | None]:
        """The metrics of a file's rows, and what is wrong with its partition."""
        metadata = self.state.metadata
        schema = metadata.schema()
        metrics = MetricsCollector(schema, {f.field_id: Full() for f in walk(schema.fields)})
        noted = [
            (f, value)
            for f, value in zip(metadata.spec_by_id(file.spec_id).fields, file.partition, strict=True)
            if schema.get_field(f.source_id) is not None
            and not isinstance(f.transform, (VoidTransform, UnknownTransform))
        ]
        wrong: str | None = None
        batches = read_task(
            FileScanTask(file, (), TRUE, 0, file.file_size_in_bytes, 0),
            projection=schema,
            table_schema=schema,
            specs=metadata.specs,
            storage=self.repository.storage_of(self.state),
            name_mapping=NAME_MAPPING.find(metadata.properties),
            table_schemas=metadata.schemas,
        )
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            metrics.add(rows)
            wrong = wrong or next((t for f, value in noted if (t := _elsewhere(rows, schema, f, value))), None)
        return metrics, wrong

    def _differences(self, file: ContentFile, metrics: MetricsCollector) -> Iterator[str]:
        """The differences of the noted metrics from those of the rows, in the types that plans compare."""
        metadata, found = self.state.metadata, metrics.finish({})
        schema = metadata.schema()
        of_rows = ContentFile(
            file.content,
            file.file_path,
            file.file_format,
            file.spec_id,
            file.partition,
            found.record_count,
            file.file_size_in_bytes,
            value_counts=found.value_counts,
            null_value_counts=found.null_value_counts,
            nan_value_counts=found.nan_value_counts,
            lower_bounds=found.lower_bounds,
            upper_bounds=found.upper_bounds,
        )
        status = int(ManifestEntryStatus.EXISTING)
        both = files_to_arrow((file, of_rows), metadata.specs, metadata.all_fields, status=status)
        wide = widen(both, schema=schema, specs=metadata.specs).table.to_pydict()
        for f in walk(schema.fields):
            if is_comparable(f.field_type):
                name = schema.name_of(f.field_id)
                yield from () if isinstance(f.field_type, UUIDType) else _beyond(wide, name, f.field_id)
                yield from _counted(wide, name, f.field_id) if schema.parent_id(f.field_id) is None else ()


def _note(row: Mapping[str, Any]) -> int:
    """A number that tells apart what entries note of files, in whatever order."""
    return hash((row["file_path"], row["spec_id"], *(frozenset(row[name] or ()) for name in _NOTED)))


def _beyond(wide: Mapping[str, Any], name: str, field_id: int) -> Iterator[str]:
    """The noted bounds that values lie beyond; `wide` has what is noted, and then what the rows have."""
    for end, where, is_beyond in (("lower", "below", operator.lt), ("upper", "above", operator.gt)):
        noted, found = wide.get(f"{end}_{field_id}", (None, None))
        if noted is not None and found is not None and is_beyond(found, noted):
            sign = "<" if end == "lower" else ">"
            yield f"has values of {name} {where} the {end} bound that is noted: {found!r} {sign} {noted!r}"


def _counted(wide: Mapping[str, Any], name: str, field_id: int) -> Iterator[str]:
    """The noted counts that are not those of the rows."""
    for prefix, what in _COUNTED.items():
        noted, found = wide.get(f"{prefix}_{field_id}", (None, None))
        if noted is not None and found is not None and noted != found:
            yield f"has {found:,} {what} of {name}, expected {noted:,}"


def _elsewhere(rows: pa.Table, schema: Schema, f: PartitionField, noted: Any) -> str | None:
    """The difference of rows from a partition value noted for their file, in words; None where there is none."""
    kind, column = transformed_column(rows, schema, f.source_id, f.transform)
    # Arrow tells no values of extension types apart.
    for value in from_array(kind, pc.unique(column.cast(storage_type(column.type)))):
        # Not equal to itself is NaN.
        if value == noted or (value != value and noted != noted) or _is_rounded_up(schema, f, value, noted):
            continue
        found, expected = (human_string(f.transform, kind, v) for v in (value, noted))
        return f"has rows whose {f.name} is {found}, and is noted for {expected}"
    return None


def _is_rounded_up(schema: Schema, f: PartitionField, value: Any, noted: Any) -> bool:
    """Whether a time before 1970 is in the partition after its own, as writers had it until Iceberg 0.10.

    Plans allow for it, except for days of dates, which were never rounded up.
    """
    is_day = isinstance(f.transform, DayTransform)
    if is_day and isinstance(schema.find_field(f.source_id).field_type, DateType):
        return False
    is_time = is_day or isinstance(f.transform, (YearTransform, MonthTransform, HourTransform))
    return is_time and value is not None and noted is not None and value < 0 and noted == value + 1
