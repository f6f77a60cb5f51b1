"""Counts, minima and maxima of a scan: from metadata where it tells them exactly, else by reading.

Metadata is exact only for a file all of whose rows are rows of the scan. Its counts of values and nulls are then exact,
and so are bounds of numbers, dates and times; bounds of strings and binaries may be truncated. All rows of an identity
partition have its value. NaN is in no bounds and greater than all numbers. Other files are read, unless their bounds
show that they can't change a minimum or maximum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.data.arrow.arrow_partitions import nested_column
from icecore.engine.data.arrow.arrow_values import from_array, to_array
from icecore.engine.data.read.read_ahead import READ_AHEAD
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.scan.file_metrics import FileMetrics
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    GeographyType,
    GeometryType,
    LongType,
    NestedField,
    PrimitiveType,
    UnknownType,
    VariantType,
)
from icecore.projections.plan.planner import PlannedFiles

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*", re.DOTALL)
_COUNTS = ("count", "null_count")
_UNORDERED = (GeometryType, GeographyType, VariantType, UnknownType)

Read = Callable[[FileScanTask, Schema], Iterator[pa.RecordBatch]]


class RowsNeededError(Exception):
    """Metadata alone does not tell an answer."""


@frozen
class Aggregate:
    """One function of a column; `count` without a column counts rows."""

    text: str
    function: str
    column: NestedField | None = None

    @classmethod
    def parse(cls, text: str, schema: Schema, case_sensitive: bool) -> Aggregate:
        """`count(*)`, `count(x)`, `null_count(x)`, `min(x)` or `max(x)`. Raises ValidationError for anything else."""
        m = _CALL.fullmatch(text) if isinstance(text, str) else None
        function, name = (m[1].lower(), m[2]) if m else ("", "")
        if function not in (*_COUNTS, "min", "max"):
            raise ValidationError(f"an aggregate is count, null_count, min or max of a column, found {text!r}")
        if name == "*" and function == "count":
            return cls(text, function)
        if len(name) > 1 and name[0] == name[-1] == '"':
            name = name[1:-1].replace('""', '"')
        found = schema.find_field(name, case_sensitive)
        if schema.is_in_list_or_map(found.field_id):
            raise ValidationError(f"{text}: the column {name!r} lies in a list or map")
        if function in ("min", "max") and (
            not found.field_type.is_primitive or isinstance(found.field_type, _UNORDERED)
        ):
            raise ValidationError(f"{text}: values of type {found.field_type} have no order")
        return cls(text, function, found)

    @property
    def type(self) -> PrimitiveType:
        """The type of the answer."""
        if self.function in _COUNTS or self.column is None:
            return LongType()
        return self.column.primitive_type


@frozen
class Aggregates:
    """The answers, by the text of each aggregate. `files_read` of the `files_planned` data files had to be read."""

    aggregates: tuple[Aggregate, ...]
    answers: tuple[Any, ...]
    files_planned: int
    files_read: int

    def to_arrow(self) -> pa.Table:
        """One row, a column for each aggregate."""
        arrays = [to_array(a.type, [v], with_ids=False) for a, v in zip(self.aggregates, self.answers, strict=True)]
        return pa.Table.from_arrays(arrays, names=[a.text for a in self.aggregates])

    @property
    def values(self) -> dict[str, Any]:
        """The answers as Python values, as Arrow gives them; a minimum or maximum of no values is None."""
        table = self.to_arrow()
        return {a.text: table.column(i)[0].as_py() for i, a in enumerate(self.aggregates)}

    def __getitem__(self, text: str) -> Any:
        """The answer to one aggregate, by its text."""
        return self.values[text]


@define
class _State:
    """An aggregate while it is computed: its `value` so far, and a mask of files whose metadata leaves it `open`."""

    aggregate: Aggregate
    value: Any = None
    open: list[bool] = field(factory=list)

    def take(self, value: Any) -> None:
        if self.aggregate.function in _COUNTS:
            self.value = (self.value or 0) + value
        elif value is not None and (self.value is None or self._better(value)):
            self.value = value

    def _better(self, value: Any) -> bool:
        smaller = self.aggregate.function == "min"
        return bool(_key(value) < _key(self.value) if smaller else _key(value) > _key(self.value))

    def take_rows(self, rows: pa.Table, schema: Schema) -> None:
        """Adds rows that were read."""
        column = self.aggregate.column
        if column is None:
            self.take(rows.num_rows)
            return
        array = nested_column(rows, schema.path(column.field_id))
        match self.aggregate.function:
            case "count":
                self.take(len(array) - array.null_count)
            case "null_count":
                self.take(array.null_count)
            case function:
                self.take(_extreme(self.aggregate.type, array, function))

    def may_change(self, bounds: tuple[Any, Any]) -> bool:
        """Whether a file with these bounds, None where unknown, may have a better value than the best so far."""
        if self.aggregate.function in _COUNTS or self.value is None:
            return True
        bound = bounds[0] if self.aggregate.function == "min" else bounds[1]
        return bound is None or self._better(bound)


def aggregate(
    aggregates: Sequence[Aggregate],
    planned: PlannedFiles,
    columns: pa.Table,
    schema: Schema,
    read: Read | None,
) -> Aggregates:
    """Computes the aggregates. `columns` are the metrics and partition values of the planned files, in their order.

    `read` gives the rows of a task that the scan selects, with at least the columns of a projection. Without `read`,
    raises RowsNeededError where any file would have to be read.
    """
    metrics = FileMetrics(planned, columns, planned.are_exactly_counted.tolist())
    states = [_State(a) for a in aggregates]
    for state in states:
        answered = metrics.answers(state.aggregate.function, state.aggregate.column)
        state.open = [not known for known in answered.known]
        for value in answered.values:
            state.take(value)
        if state.aggregate.function in _COUNTS:
            state.take(0)
    files_read = _read_open(states, planned, metrics, schema, read)
    answers = tuple(_plain_zero(s.value) for s in states)
    return Aggregates(tuple(aggregates), answers, planned.files.num_rows, files_read)


@define
class _OpenFiles:
    """The files whose metadata is not enough for some aggregate. Each is read at most once."""

    states: Sequence[_State]
    bounds: Mapping[int, list[tuple[Any, Any]]]
    """The bounds of each file's values, by the index of a minimum or maximum in `states`."""

    def in_order(self) -> list[int]:
        """The files that must be read in any case, then the others, in turn by each aggregate's best bound."""
        certain = [
            i for i in self._all() if any(s.open[i] and self._is_certain(k, i) for k, s in enumerate(self.states))
        ]
        orders = [self._by_promise(k) for k in self.bounds]
        in_turn = (i for row in zip_longest(*orders) for i in row if i is not None)
        return list(dict.fromkeys((*certain, *in_turn)))

    def _all(self) -> range:
        return range(len(self.states[0].open))

    def _is_certain(self, state: int, file: int) -> bool:
        return state not in self.bounds or self.bounds[state][file][self._end(state)] is None

    def _end(self, state: int) -> int:
        return 0 if self.states[state].aggregate.function == "min" else 1

    def _by_promise(self, state: int) -> list[int]:
        end = self._end(state)
        known = [
            (b[end], i) for i, b in enumerate(self.bounds[state]) if b[end] is not None and self.states[state].open[i]
        ]
        return [i for _, i in sorted(known, key=lambda each: _key(each[0]), reverse=end == 1)]

    def needed_by(self, file: int) -> list[_State]:
        """The aggregates that the rows of a file may still change."""
        return [
            s
            for k, s in enumerate(self.states)
            if s.open[file] and s.may_change(self.bounds[k][file] if k in self.bounds else (None, None))
        ]


def _read_open(
    states: Sequence[_State], planned: PlannedFiles, metrics: FileMetrics, schema: Schema, read: Read | None
) -> int:
    """Reads the files that some aggregate needs, only the columns needed of each; returns the number of files."""
    if not any(any(s.open) for s in states):
        return 0
    extremes = {k: s for k, s in enumerate(states) if s.aggregate.function not in _COUNTS}
    files = _OpenFiles(states, {k: metrics.bounds(s.aggregate.column) for k, s in extremes.items()})
    waiting = iter(files.in_order())
    if read is None:
        if any(files.needed_by(i) for i in waiting):
            raise RowsNeededError
        return 0
    tasks = planned.tasks()

    def rows_of(chosen: tuple[int, list[_State]]) -> list[pa.RecordBatch]:
        return list(read(tasks[chosen[0]], _projection(chosen[1], schema)))

    files_read = 0
    with ThreadPoolExecutor(READ_AHEAD) as pool:
        # The rows read so far decide which files are still needed.
        while chosen := list(islice(((i, needed) for i in waiting if (needed := files.needed_by(i))), READ_AHEAD)):
            files_read += len(chosen)
            for (_, needed), batches in zip(chosen, pool.map(rows_of, chosen), strict=True):
                for batch in batches:
                    rows = pa.Table.from_batches([batch])
                    for s in needed:
                        s.take_rows(rows, schema)
    return files_read


def _projection(states: Iterable[_State], schema: Schema) -> Schema:
    """The columns of some aggregates. Where only rows are counted, any one column will do."""
    roots = {schema.path(s.aggregate.column.field_id)[0] for s in states if s.aggregate.column is not None}
    fields = tuple(f for f in schema.fields if f.name in roots)
    return Schema(fields or schema.fields[:1], schema.schema_id)


def _extreme(kind: PrimitiveType, array: pa.Array, function: str) -> Any:
    """The least or greatest internal value of an array; None where it has none."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    array = array.drop_null()
    if isinstance(kind, FLOATING_TYPES):
        nans = pc.is_nan(array)
        numbers = array.filter(pc.invert(nans))
        if len(numbers) < len(array) and (function == "max" or not len(numbers)):
            return math.nan
        array = numbers
    if not len(array):
        return None
    found = pc.min_max(array)[function]
    return from_array(kind, pa.array([found.as_py()], array.type) if _is_plain(array.type) else pa.repeat(found, 1))[0]


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _key(value: Any) -> Any:
    """A value in the order of SQL: NaN after all numbers."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def _plain_zero(value: Any) -> Any:
    """The value, 0.0 instead of -0.0: bounds don't tell the two apart."""
    return 0.0 if isinstance(value, float) and value == 0 else value
