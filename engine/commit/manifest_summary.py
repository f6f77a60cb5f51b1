"""The manifest list's row of a manifest, from its entries. Spec: Manifest Lists (L1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.formats import arrays
from icecore.engine.formats.binary_columns import list_positions, select
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import FieldSummary, ManifestContent, ManifestEntryStatus, ManifestFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FLOATING_TYPES, PrimitiveType


def summarize(
    entries: pa.Table,
    *,
    manifest_path: str,
    spec: PartitionSpec,
    schema: Schema,
    content: ManifestContent,
    sequence_number: int,
    snapshot_id: int,
) -> ManifestFile:
    """The manifest file record of canonical entries; its length is 0 until the bytes are there.

    `sequence_number` is the one that new entries inherit.
    """
    counts = _count_by_status(entries)
    is_live = pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED))
    live = pc.fill_null(entries["sequence_number"].filter(is_live), sequence_number)
    lowest = pc.min(live).as_py() if len(live) else sequence_number
    added, existing, deleted = (counts[s] for s in (1, 0, 2))
    return ManifestFile(
        manifest_path=manifest_path,
        manifest_length=0,
        partition_spec_id=spec.spec_id,
        content=content,
        sequence_number=sequence_number,
        min_sequence_number=lowest,
        added_snapshot_id=snapshot_id,
        added_files_count=added[0],
        existing_files_count=existing[0],
        deleted_files_count=deleted[0],
        added_rows_count=added[1],
        existing_rows_count=existing[1],
        deleted_rows_count=deleted[1],
        partitions=field_summaries(entries["partition"], spec, schema),
    )


def _count_by_status(entries: pa.Table) -> dict[int, tuple[int, int]]:
    """Files and rows for each status."""
    statuses, records = arrays.to_numbers(entries["status"]), arrays.to_numbers(entries["record_count"])
    of_status = {int(s): records[statuses == int(s)] for s in ManifestEntryStatus}
    return {status: (len(found), int(found.sum())) for status, found in of_status.items()}


def field_summaries(partitions: pa.ChunkedArray, spec: PartitionSpec, schema: Schema) -> tuple[FieldSummary, ...]:
    """For each field of the spec: whether there are nulls and NaNs, and the bounds of the rest."""
    column = partitions.combine_chunks()
    _, positions = list_positions(column)
    keys, items = arrays.to_numbers(select(column.keys, positions)), select(column.items, positions)
    out = []
    for f in spec.fields:
        result = f.result_type(schema)
        present = items.filter(arrays.booleans(keys == f.field_id)).drop_null()
        values = [single_value.from_bytes(result, v) for v in present.unique().to_pylist()]
        out.append(_field_summary(result, values, contains_null=len(present) < len(column)))
    return tuple(out)


def _field_summary(result: PrimitiveType, present: Sequence[Any], *, contains_null: bool) -> FieldSummary:
    if isinstance(result, FLOATING_TYPES):
        numbers = [v for v in present if not math.isnan(v)]
        contains_nan = len(numbers) != len(present)
        # -0.0 before +0.0, so that neither zero lies outside of the bounds (L1).
        lower = min(numbers, key=lambda v: (v, math.copysign(1, v)), default=None)
        upper = max(numbers, key=lambda v: (v, math.copysign(1, v)), default=None)
    else:
        contains_nan = False
        lower, upper = min(present, default=None), max(present, default=None)
    return FieldSummary(
        contains_null,
        contains_nan,
        None if lower is None else single_value.partition_to_bytes(result, lower),
        None if upper is None else single_value.partition_to_bytes(result, upper),
    )
