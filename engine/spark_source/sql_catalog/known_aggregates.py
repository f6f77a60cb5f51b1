"""Counts, minima and maxima that Spark SQL asks for, where metadata tells them: see `LakeAggregates.java`."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.simplify import and_
from icecore.engine.scan.aggregates import Aggregate
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

# Those whose order is that of the Spark types that they are shown as. Spark cuts nanoseconds, and sees uuids as text.
_ORDERED = (IntegerType, LongType, DateType, DecimalType, StringType, TimestampType, TimestamptzType)


def known_aggregates(
    scan: DataScan, filter: Expression, asked: Sequence[tuple[str, str | None]]
) -> list[str | None] | None:
    """The answers as text, null for no value; None where rows have to be read for any.

    `filter` is what rows are kept by, no more and no less, bound to the scan's schema. An aggregate is a function, and
    the column that it is of; `count` of none counts rows.
    """
    columns = {f.name: f for f in scan.schema.fields}
    if any(name is not None and not _is_told(function, columns.get(name)) for function, name in asked):
        return None
    wanted = [Aggregate(f"{f}({n or '*'})", f, None if n is None else columns[n]) for f, n in asked]
    found = evolve(scan, row_filter=and_(scan.row_filter, filter)).aggregate_of_metadata(wanted)
    return None if found is None else [None if v is None else f"{v}" for v in found.answers]


def _is_told(function: str, column: NestedField | None) -> bool:
    return column is not None and (function == "count" or isinstance(column.field_type, _ORDERED))
