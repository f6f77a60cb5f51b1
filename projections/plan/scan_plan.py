"""The plan of a scan as a value: Arrow, splits, counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
import pyarrow as pa
from attrs import define

from icecore.engine.common.bulk_attrs import gc_paused
from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.common.text import rows_html, short_repr
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.json.expression_json import to_json
from icecore.engine.expression.nodes import Expression
from icecore.engine.formats import arrays
from icecore.projections.plan.planned_files import Codes, PlanCounts, PlannedFiles
from icecore.projections.plan.splits import CombinedTask, combine, split_tasks, splitting_of

DELETE_TYPE = pa.struct(
    [
        ("file_path", pa.string()),
        ("content", pa.int32()),
        ("file_format", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("equality_ids", pa.list_(pa.int32())),
    ]
)
PLAN_SCHEMA = pa.schema(
    [
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("spec_id", pa.int32()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("data_sequence_number", pa.int64()),
        ("first_row_id", pa.int64()),
        ("residual", pa.string()),
        ("delete_files", pa.list_(DELETE_TYPE)),
    ]
)


@define(slots=False)
class ScanPlan:
    """The plan of a scan."""

    __repr__ = short_repr

    planned: PlannedFiles
    _properties: Mapping[str, str]

    def _repr_html_(self) -> str:
        """The plan in a notebook: its sums, and the first files."""
        files = self.planned.files
        names = ("file_path", "record_count", "file_size_in_bytes")
        rows = zip(*(files[n].to_pylist() for n in names), strict=True)
        return rows_html((f"{files.num_rows:,} of {self.counts.files_total:,} files", *names[1:]), rows)

    @property
    def counts(self) -> PlanCounts:
        """The number of files in all, of those left out by each test, and of planned ones."""
        return self.planned.counts

    @lazy_property
    def tasks(self) -> list[FileScanTask]:
        """One task for each file, whole."""
        return self.planned.tasks()

    def to_arrow(self) -> pa.Table:
        """One row for each data file (see PLAN_SCHEMA).

        `residual` is an Iceberg expression as JSON text; of LIKE and infinities, which have none, it selects more rows.
        """
        files = self.planned.files
        columns = {n: files[n] for n in ("file_path", "file_format", "spec_id", "record_count", "file_size_in_bytes")}
        columns["data_sequence_number"] = files["sequence_number"]
        columns["first_row_id"] = files["first_row_id"]
        columns["residual"] = residual_texts(*self.planned.coded_residuals)
        columns["delete_files"] = self._deletes()
        return pa.table([columns[n] for n in PLAN_SCHEMA.names], names=PLAN_SCHEMA.names).cast(PLAN_SCHEMA)

    def _deletes(self) -> pa.Array:
        offsets, places = self.planned.deletes_by_file()
        deletes = self.planned.deletes
        if not len(places):
            values = pa.nulls(0, DELETE_TYPE)
        else:
            fields = [_taken(deletes[f.name], f.type, places) for f in DELETE_TYPE]
            values = pa.StructArray.from_arrays(fields, fields=list(DELETE_TYPE))
        return pa.ListArray.from_arrays(offsets, values)

    def splits(self) -> list[CombinedTask]:
        """The tasks cut at `read.split.target-size` and packed into bins of about that size, in order."""
        splitting = splitting_of(self._properties)
        with gc_paused():
            return combine(split_tasks(self.tasks, splitting), splitting)


def residual_texts(codes: Codes, distinct: Iterable[Expression]) -> pa.Array:
    """Residuals as JSON text, given as places among the distinct ones; what has no JSON form selects more rows."""
    return arrays.texts(orjson.dumps(to_json(r, inclusive=True)).decode() for r in distinct).take(arrays.numbers(codes))


def _taken(column: pa.ChunkedArray, kind: pa.DataType, places: pa.Array) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(places), kind)
    return column.combine_chunks().cast(kind).take(places)
