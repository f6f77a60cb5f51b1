"""Sorting of rows that are too many for memory: they are cut into ranges of the order, each sorted by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.data.arrow.sorting import RowOrder, SortKeys, sort_keys
from icecore.engine.data.arrow.z_order import ZOrder
from icecore.engine.data.read.spilled_rows import SpilledRows, spilled_batches, spilled_rows
from icecore.engine.properties.table_properties import MIB
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.transform import VoidTransform

SAMPLES = 100
"""The number of sampled keys for each range."""
PIECE_BYTES = 32 * MIB
"""The bytes of rows that are cut at a time."""
RANGE_BYTES = 256 * MIB
"""The bytes of rows that are sorted at a time, unless that would make too many ranges."""
_MOST_RANGES = 128
"""Each range has an open file, and some systems allow a process 256 of them."""


@frozen
class RowRanges:
    """Ranges of rows sorted by the first of `orders`, then the next; each but the first begins at a row of `bounds`.

    The last key is the row's place, a number that differs for each row, so that many equal rows make no range large.
    """

    orders: tuple[RowOrder, ...]
    schema: Schema
    bounds: pa.Table

    @classmethod
    def of(cls, orders: tuple[RowOrder, ...], schema: Schema, sample: Sequence[pa.Table], count: int) -> RowRanges:
        """`count` ranges with about equally many rows each, as far as a sample of keys tells."""
        nothing = _keys(no_rows(schema_to_arrow(schema, with_ids=False)), orders, schema, 0)
        keys = SortKeys(pa.concat_tables([nothing.columns, *sample]), nothing.directions)
        order = keys.indices()
        if count == 1 or not len(order):
            return cls(orders, schema, nothing.columns)
        firsts = order.take(pa.array([len(order) * i // count for i in range(1, count)]))
        return cls(orders, schema, keys.columns.take(firsts))

    def cut(self, rows: pa.Table, place: int) -> Iterator[tuple[int, pa.Table]]:
        """The number of each range and its rows, sorted; `place` is the first row's place, from which others count."""
        keys = _keys(rows, self.orders, self.schema, place)
        count = self.bounds.num_rows
        # A bound sorts before rows with equal keys, so these belong to the range that it begins.
        order = SortKeys(pa.concat_tables([self.bounds, keys.columns]), keys.directions).indices().to_numpy()
        for number, places in enumerate(np.split(order, np.flatnonzero(order < count))):
            inside = places[places >= count]
            if len(inside):
                yield number, rows.take(pa.array(inside - np.uint64(count)))

    def sort(self, rows: pa.Table) -> pa.Table:
        """The rows of a range, sorted; equal ones keep their order."""
        keys = sort_keys(rows, self.orders, self.schema)
        return rows.take(keys.indices()) if keys.directions else rows


@frozen
class SampledKeys:
    """The number of some rows, and the keys of a random sample of them."""

    rows: int
    keys: tuple[pa.Table, ...]

    @classmethod
    def of(
        cls, batches: Iterable[pa.RecordBatch], orders: Sequence[RowOrder], columns: Schema, rate: float, place: int
    ) -> SampledKeys:
        """Keys sampled at a rate, the same each time. `columns` is the rows' schema, `place` the first row's place."""
        chance = np.random.default_rng(place)
        rows, found = 0, []
        for batch in batches:
            taken = np.flatnonzero(chance.random(batch.num_rows) < rate)
            if len(taken):
                some = pa.Table.from_batches([batch.take(pa.array(taken))])
                found.append(_keys(some, orders, columns, place + rows + taken).columns)
            rows += batch.num_rows
        return cls(rows, tuple(found))


def key_columns(orders: Iterable[RowOrder], schema: Schema) -> Schema:
    """The columns that the keys are made of."""
    ids = {i for o in orders for i in (o.source_ids if isinstance(o, ZOrder) else [f.source_id for f in o.fields])}
    names = {schema.path(i)[0] for i in ids if schema.get_field(i) is not None}
    return Schema(tuple(f for f in schema.fields if f.name in names), schema.schema_id)


def partition_order(spec: PartitionSpec) -> tuple[SortOrder, ...]:
    """The order that brings rows of one partition together, if there are partitions."""
    fields = tuple(SortField((f.source_id,), f.transform) for f in spec.fields if f.transform != VoidTransform())
    return (SortOrder(fields, order_id=1),) if fields else ()


def sorted_rows(tables: Iterable[pa.Table], orders: tuple[RowOrder, ...], schema: Schema) -> Iterator[pa.Table]:
    """Rows in order, by way of a temporary folder; about RANGE_BYTES of them are in memory.

    `tables` have the columns of `schema`. Raises StorageError where the folder has no room for them.
    """
    empty = no_rows(schema_to_arrow(schema, with_ids=False))
    of_keys = key_columns(orders, schema)
    with tempfile.TemporaryDirectory(prefix="icecore-") as folder:
        with SpilledRows.in_folder(folder) as spilled:
            size, records = 0, 0
            for table in tables:
                spilled.add("all", table)
                size, records = size + table.nbytes, records + table.num_rows
        count = min(_MOST_RANGES, -(-size // RANGE_BYTES))
        keys = spilled_batches(folder, "all", [f.name for f in of_keys.fields])
        sample = SampledKeys.of(keys, orders, of_keys, SAMPLES * count / records, 0)
        ranges = RowRanges.of(orders, schema, sample.keys, count)
        with SpilledRows.in_folder(folder) as spilled:
            place = 0
            for piece in pieces(spilled_batches(folder, "all"), PIECE_BYTES):
                for number, some in ranges.cut(piece, place):
                    spilled.add(str(number), some)
                place += piece.num_rows
        for number in range(count):
            yield ranges.sort(spilled_rows(folder, str(number), empty))


def pieces(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """The batches as tables of about `size` bytes, the last one smaller."""
    found: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        found.append(batch)
        held += batch.nbytes
        if held >= size:
            yield pa.Table.from_batches(found)
            found, held = [], 0
    if found:
        yield pa.Table.from_batches(found)


def _keys(table: pa.Table, orders: Sequence[RowOrder], schema: Schema, place: int | npt.NDArray[np.int64]) -> SortKeys:
    """The keys of rows, with their places as the last key: an array of them, or the first row's place to count from."""
    places = place + np.arange(table.num_rows) if isinstance(place, int) else place
    keys = sort_keys(table, orders, schema, whatever_rows=True)
    columns = dict(zip(keys.columns.column_names, keys.columns.columns, strict=True))
    # An order of void transforms alone has no key columns, so their table has no length.
    return SortKeys(pa.table({**columns, "place": places}), (*keys.directions, ("place", "ascending")))
