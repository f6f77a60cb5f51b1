"""Tables sorted by a sort order. Spec: Sorting (SO1)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_partitions import transformed_column
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import NullOrder, SortDirection, SortOrder


def sort_table(table: pa.Table, order: SortOrder, schema: Schema) -> pa.Table:
    """The table in the given order, stable; floats by -NaN < -Inf < -0 < 0 < Inf < NaN.

    `table` has the columns of `schema`. Raises ValidationError where a transform can't be applied.
    """
    if order.is_unsorted or table.num_rows < 2:
        return table
    columns: dict[str, pa.Array] = {}
    keys: list[tuple[str, str]] = []
    for i, f in enumerate(order.fields):
        _, column = transformed_column(table, schema, f.source_id, f.transform, for_order=True)
        if pa.types.is_null(column.type):
            continue
        if column.null_count:
            # Arrow has one place for all nulls; a key of its own gives each column its place.
            columns[f"null{i}"] = column.is_null().cast(pa.int8())
            keys.append((f"null{i}", "descending" if f.null_order is NullOrder.NULLS_FIRST else "ascending"))
        columns[f"value{i}"] = _sortable(column)
        keys.append((f"value{i}", "ascending" if f.direction is SortDirection.ASC else "descending"))
    if not keys:
        return table
    indices = pc.sort_indices(pa.table(columns), sort_keys=keys)
    if pc.all(pc.equal(indices, pa.array(np.arange(len(indices), dtype=np.uint64)))).as_py():
        return table
    return table.take(indices)


def _sortable(array: pa.Array) -> pa.Array:
    """The array in a form that Arrow sorts as the spec does: floats as integers of the same total order."""
    if isinstance(array, pa.ExtensionArray):
        return array.storage
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int8())
    if not pa.types.is_floating(array.type):
        return array
    wide = array.type.bit_width == 64
    bits = array.view(pa.int64() if wide else pa.int32())
    flipped = pc.bit_wise_xor(bits, pa.scalar(2**63 - 1 if wide else 2**31 - 1, bits.type))
    return pc.if_else(pc.less(bits, 0), flipped, bits)
