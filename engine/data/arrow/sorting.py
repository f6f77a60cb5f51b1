"""Tables sorted by a sort order, or a z-order. Spec: Sorting (SO1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.data.arrow.arrow_partitions import transformed_column
from icecore.engine.data.arrow.z_order import ZOrder, z_order_words
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import NullOrder, SortDirection, SortOrder

RowOrder: TypeAlias = SortOrder | ZOrder
"""The orders that rows can be sorted by."""


@frozen
class SortKeys:
    """The columns that rows are sorted by, each with its direction."""

    columns: pa.Table
    directions: tuple[tuple[str, str], ...]

    def indices(self) -> pa.Array:
        """The row numbers in sorted order; equal rows keep their order."""
        return pc.sort_indices(self.columns, sort_keys=list(self.directions))


def sort_table(table: pa.Table, order: RowOrder, schema: Schema) -> pa.Table:
    """The table in the given order, stable; floats by -NaN < -Inf < -0 < 0 < Inf < NaN.

    `table` has the columns of `schema`. Raises ValidationError where a transform can't be applied.
    """
    if table.num_rows < 2:
        return table
    keys = sort_keys(table, [order], schema)
    if not keys.directions:
        return table
    indices = keys.indices()
    if pc.all(pc.equal(indices, pa.array(np.arange(len(indices), dtype=np.uint64)))).as_py():
        return table
    return table.take(indices)


def sort_keys(table: pa.Table, orders: Sequence[RowOrder], schema: Schema, *, whatever_rows: bool = False) -> SortKeys:
    """The keys to sort a table's rows by the first order, then the next.

    With `whatever_rows` the keys have the same columns for any rows, with nulls or without. Raises ValidationError as
    `sort_table` does.
    """
    columns: dict[str, pa.Array] = {}
    directions: list[tuple[str, str]] = []
    for number, order in enumerate(orders):
        found = (
            _z_keys(table, order, schema)
            if isinstance(order, ZOrder)
            else _field_keys(table, order, schema, whatever_rows)
        )
        for name, column, direction in found:
            columns[f"{name}_{number}"] = column
            directions.append((f"{name}_{number}", direction))
    return SortKeys(pa.table(columns), tuple(directions))


def _z_keys(table: pa.Table, order: ZOrder, schema: Schema) -> Iterator[tuple[str, pa.Array, str]]:
    for i, word in enumerate(z_order_words(table, order, schema)):
        yield f"word{i}", word, "ascending"


def _field_keys(
    table: pa.Table, order: SortOrder, schema: Schema, whatever_rows: bool
) -> Iterator[tuple[str, pa.Array, str]]:
    for i, f in enumerate(order.fields):
        _, column = transformed_column(table, schema, f.source_id, f.transform, for_order=True)
        if pa.types.is_null(column.type):
            continue
        if column.null_count or whatever_rows:
            # Arrow has one null order for all keys; a key of its own gives each column its null order.
            nulls_first = f.null_order is NullOrder.NULLS_FIRST
            yield f"null{i}", column.is_null().cast(pa.int8()), "descending" if nulls_first else "ascending"
        yield f"value{i}", _sortable(column), "ascending" if f.direction is SortDirection.ASC else "descending"


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
