"""The metrics and partition values of planned files, file by file, as answers about a column."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, frozen

from icecore.engine.formats.typed_values import arrow_type
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    NestedField,
    PrimitiveType,
    StringType,
    UUIDType,
)
from icecore.projections.plan.deletes.lost_values import telling_specs
from icecore.projections.plan.planner import PlannedFiles
from icecore.projections.segments.entry_typing import METRIC_PREFIXES

# Strings and binaries may be cut short; UUIDs are ordered in two ways.
_INEXACT = (StringType, BinaryType, FixedType, UUIDType)


def metric_columns(columns: Sequence[NestedField], specs: Mapping[int, PartitionSpec]) -> list[str]:
    """The names of the wide columns from which `FileMetrics` answers about the given columns."""
    ids = {c.field_id for c in columns}
    parts = {f.field_id for spec in specs.values() for f in spec.fields if f.source_id in ids}
    return [*(f"{p}_{i}" for i in sorted(ids) for p in METRIC_PREFIXES), *(f"part_{i}" for i in sorted(parts))]


@frozen
class Answered:
    """A mask of the files that metadata answered, and the answers."""

    known: list[bool]
    values: list[Any]


@define
class FileMetrics:
    """The metrics of planned files. `exact` is a mask of the files all of whose rows count."""

    planned: PlannedFiles
    columns: pa.Table
    exact: list[bool]

    def answers(self, function: str, column: NestedField | None) -> Answered:
        """Each file's part of an aggregate, as far as it is exact; None for a file without any value."""
        rows = self.planned.files["record_count"].to_pylist()
        if column is None:
            return self._answered(list(rows))
        partition = self._partition_values(column)
        found: list[Any] = []
        if function in ("count", "null_count"):
            nulls = self._nulls(column)
            for total, null, (is_partition, value) in zip(rows, nulls, partition, strict=True):
                if is_partition:
                    null = total if value is None else 0
                found.append(_UNKNOWN if null is None else null if function == "null_count" else total - null)
            return self._answered(found)
        extremes = self._extremes(function, column)
        for extreme, (is_partition, value) in zip(extremes, partition, strict=True):
            found.append(value if is_partition else extreme)
        return self._answered(found)

    def bounds(self, column: NestedField | None) -> list[tuple[Any, Any]]:
        """The bounds of each file's values, None where unknown; a file that may have NaN has no upper bound."""
        assert column is not None, "a minimum or maximum is of a column"
        kind = column.primitive_type
        if isinstance(kind, UUIDType):
            return [(None, None)] * self.planned.files.num_rows
        lower, upper = self._bound("lower", column), self._bound("upper", column)
        if isinstance(kind, FLOATING_TYPES):
            nans = self._metric("nans", column)
            upper = [u if n == 0 else None for u, n in zip(upper, nans, strict=True)]
        return list(zip(lower, upper, strict=True))

    def _answered(self, found: list[Any]) -> Answered:
        known = [e and f is not _UNKNOWN for e, f in zip(self.exact, found, strict=True)]
        return Answered(known, [f for k, f in zip(known, found, strict=True) if k])

    def _metric(self, prefix: str, column: NestedField) -> list[Any]:
        name = f"{prefix}_{column.field_id}"
        if name not in self.columns.column_names:
            return [None] * self.planned.files.num_rows
        values: list[Any] = self.columns[name].to_pylist()
        return values

    def _bound(self, prefix: str, column: NestedField) -> list[Any]:
        kind = column.primitive_type
        return self._typed(f"{prefix}_{column.field_id}", kind)

    def _typed(self, name: str, kind: PrimitiveType) -> list[Any]:
        """A column of typed raw values as internal values; unknown where it has another type than it should."""
        if name not in self.columns.column_names or not _same_values(self.columns[name].type, kind):
            return [None] * self.planned.files.num_rows
        values: list[Any] = self.columns[name].to_pylist()
        if isinstance(kind, FLOATING_TYPES):
            return [None if v is None else float(v) for v in values]
        return [uuid.UUID(bytes=v) if v is not None else None for v in values] if isinstance(kind, UUIDType) else values

    def _nulls(self, column: NestedField) -> list[int | None]:
        """The nulls in each file, None where unknown: counts of fields in structs may leave out nulls of the struct."""
        schema = self.planned.schema
        top = schema.parent_id(column.field_id) is None
        if top and column.required:
            return [0] * self.planned.files.num_rows
        if not top or not column.field_type.is_primitive:
            return [None] * self.planned.files.num_rows
        counts = zip(
            self._metric("values", column),
            self._metric("nulls", column),
            self.planned.files["record_count"].to_pylist(),
            strict=True,
        )
        return [n if v == rows and n is not None and 0 <= n <= rows else None for v, n, rows in counts]

    def _extremes(self, function: str, column: NestedField) -> list[Any]:
        """The least or greatest value of each file; None where it has none, _UNKNOWN where it is not known."""
        kind = column.primitive_type
        bound = self._bound("lower" if function == "min" else "upper", column)
        nulls, values = self._metric("nulls", column), self._metric("values", column)
        rows = self.planned.files["record_count"].to_pylist()
        nans = self._metric("nans", column) if isinstance(kind, FLOATING_TYPES) else [0] * len(rows)
        out: list[Any] = []
        for b, null, value, nan, total in zip(bound, nulls, values, nans, rows, strict=True):
            there = None if null is None or value is None else value - null
            if total == 0 or there == 0:
                out.append(None)
            elif isinstance(kind, _INEXACT):
                out.append(_UNKNOWN)
            elif isinstance(kind, FLOATING_TYPES):
                out.append(_float_extreme(function, b, nan, there))
            else:
                out.append(_UNKNOWN if b is None else b)
        return out

    def _partition_values(self, column: NestedField) -> list[tuple[bool, Any]]:
        """For each file, whether it is in an identity partition of the column, and that partition's value."""
        specs, files = telling_specs(self.planned.state.metadata), self.planned.files
        by_spec = {
            i: f.field_id
            for i, spec in specs.items()
            for f in spec.fields
            if f.source_id == column.field_id and isinstance(f.transform, IdentityTransform)
        }
        if not by_spec or not column.field_type.is_primitive:
            return [(False, None)] * files.num_rows
        kind = column.primitive_type
        names = {field_id: f"part_{field_id}" for field_id in by_spec.values()}
        usable = {
            i
            for i, name in names.items()
            if name in self.columns.column_names and _same_values(self.columns[name].type, kind)
        }
        values = {i: self._typed(names[i], kind) for i in usable}
        out: list[tuple[bool, Any]] = []
        for row, spec_id in enumerate(files["spec_id"].to_pylist()):
            field_id = by_spec.get(spec_id)
            is_partition = field_id in usable
            out.append((is_partition, values[field_id][row] if is_partition and field_id is not None else None))
        return out


class _Unknown:
    """The mark for an answer that metadata does not give."""


_UNKNOWN = _Unknown()


def _float_extreme(function: str, bound: float | None, nans: int | None, there: int | None) -> Any:
    """The extreme of numbers and NaNs. Some writers put NaN into bounds: such a bound is read as none."""
    if function == "min":
        if bound is not None:
            return bound
        return math.nan if there is not None and nans == there else _UNKNOWN
    if nans is None:
        return _UNKNOWN
    return math.nan if nans > 0 else _UNKNOWN if bound is None else bound


def _same_values(found: pa.DataType, kind: PrimitiveType) -> bool:
    """Whether a wide column has the values of a type: promotions between numbers keep them, others don't."""
    wanted = arrow_type(kind)
    if found.equals(wanted):
        return True
    if isinstance(kind, DecimalType):
        return bool(pa.types.is_decimal(found)) and found.scale == kind.scale
    integers = pa.types.is_integer(found) and str(kind) in ("int", "long") and not isinstance(kind, DateType)
    return bool(integers or (pa.types.is_floating(found) and isinstance(kind, FLOATING_TYPES)))
