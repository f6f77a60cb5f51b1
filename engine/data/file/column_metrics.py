"""Column metrics of written data, gathered batch by batch from the Arrow data itself.

Spec: Manifests, data_file fields 108 to 128 (M4, M5, M8). Only column sizes come from the file's footer, so bounds that
a footer truncates or omits do not matter. Fields inside lists and maps have counts and no bounds, as Java writes them;
a variant has no bounds either, since bounds of its parts are optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.data.arrow.arrow_values import from_array
from icecore.engine.data.arrow.nested import list_parts, map_parts, struct_children
from icecore.engine.data.file.metrics_mode import (
    Full,
    MetricsMode,
    NoMetrics,
    Truncate,
    truncated_lower,
    truncated_upper,
)
from icecore.engine.data.file.wkb_box import Box
from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
    VariantType,
    walk,
)


@frozen
class Metrics:
    """Metrics of one file by field id; bounds are binary single values."""

    record_count: int
    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


@define
class _Column:
    """The metrics of one primitive column so far; the bounds are internal values, whole."""

    iceberg_type: PrimitiveType
    mode: MetricsMode
    bounded: bool
    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: Any = None
    upper: Any = None

    def add(self, array: pa.Array) -> None:
        self.values += len(array)
        self.nulls += array.null_count
        if isinstance(self.iceberg_type, FLOATING_TYPES):
            is_nan = pc.is_nan(array)
            nans = pc.sum(is_nan).as_py() or 0
            self.nans += nans
            if nans:
                array = pc.filter(array, pc.invert(is_nan))
        if self.bounded and array.null_count < len(array):
            self._widen(*_extremes(self.iceberg_type, array))

    def _widen(self, low: Any, high: Any) -> None:
        if self.lower is None or low < self.lower:
            self.lower = low
        if self.upper is None or high > self.upper:
            self.upper = high

    def lower_bound(self) -> bytes | None:
        value = truncated_lower(self.lower, self.mode)
        if isinstance(value, float) and value == 0.0:
            value = -0.0
        return None if value is None else single_value.to_bytes(self.iceberg_type, value)

    def upper_bound(self) -> bytes | None:
        value = truncated_upper(self.upper, self.mode)
        if isinstance(value, float) and value == 0.0:
            value = 0.0
        return None if value is None else single_value.to_bytes(self.iceberg_type, value)


def _extremes(iceberg_type: PrimitiveType, array: pa.Array) -> tuple[Any, Any]:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    found = pc.min_max(storage)
    low, high = from_array(iceberg_type, pa.concat_arrays([pa.repeat(found[end], 1) for end in ("min", "max")]))
    return low, high


@define
class _ShapeColumn:
    """The metrics of one column of shapes so far.

    An edge of a geography may bend out of the box around its ends, so a geography column has bounds only if all its
    shapes are points.
    """

    iceberg_type: PrimitiveType
    name: str
    bounded: bool
    values: int = 0
    nulls: int = 0
    nans: int = 0
    box: Box = field(factory=Box)

    def add(self, array: pa.Array) -> None:
        self.values += len(array)
        self.nulls += array.null_count
        if self.bounded:
            try:
                self.box.add(array.drop_null().to_pylist())
            except ValidationError as e:
                raise ValidationError(f"column {self.name!r}: {e}") from e

    @property
    def _has_bounds(self) -> bool:
        is_flat = isinstance(self.iceberg_type, GeometryType) or self.box.only_points
        return self.bounded and is_flat and not self.box.is_empty

    def lower_bound(self) -> bytes | None:
        return self.box.lower_bound() if self._has_bounds else None

    def upper_bound(self) -> bytes | None:
        return self.box.upper_bound() if self._has_bounds else None


@define
class MetricsCollector:
    """The metrics of one file in the making: `add` each batch that goes into it, `finish` with its column sizes."""

    schema: Schema
    modes: Mapping[int, MetricsMode]
    _columns: dict[int, _Column | _ShapeColumn] = field(init=False)
    _rows: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._columns = {}
        for f in walk(self.schema.fields):
            if not f.field_type.is_primitive or isinstance(f.field_type, UnknownType):
                continue
            mode = self.modes[f.field_id]
            if isinstance(mode, NoMetrics):
                continue
            bounded = isinstance(mode, (Truncate, Full)) and not self.schema.is_in_list_or_map(f.field_id)
            bounded &= not isinstance(f.field_type, VariantType)
            if isinstance(f.field_type, (GeometryType, GeographyType)):
                self._columns[f.field_id] = _ShapeColumn(f.field_type, self.schema.name_of(f.field_id), bounded)
                continue
            self._columns[f.field_id] = _Column(f.primitive_type, mode, bounded)

    @property
    def record_count(self) -> int:
        """The number of rows added."""
        return self._rows

    def add(self, table: pa.Table) -> None:
        """Counts a table whose columns are those of the schema, in its order."""
        self._rows += table.num_rows
        for f, column in zip(self.schema.fields, table.columns, strict=True):
            for chunk in column.chunks:
                self._visit(f, chunk)

    def _visit(self, f: NestedField, array: pa.Array) -> None:
        match f.field_type:
            case StructType(fields=fields):
                for child, values in zip(fields, struct_children(array), strict=True):
                    self._visit(child, values)
            case ListType() as t:
                self._visit(t.element_field, list_parts(array)[1])
            case MapType() as t:
                _, keys, values = map_parts(array)
                self._visit(t.key_field, keys)
                self._visit(t.value_field, values)
            case _:
                if column := self._columns.get(f.field_id):
                    column.add(array)

    def finish(self, column_sizes: Mapping[int, int]) -> Metrics:
        """The metrics of all that was added; `column_sizes` are bytes by field id, from the file's footer."""
        columns = self._columns
        floating = {i: c for i, c in columns.items() if isinstance(c.iceberg_type, FLOATING_TYPES)}
        lower = {i: c.lower_bound() for i, c in columns.items()}
        upper = {i: c.upper_bound() for i, c in columns.items()}
        return Metrics(
            record_count=self._rows,
            column_sizes=dict(column_sizes),
            value_counts={i: c.values for i, c in columns.items()},
            null_value_counts={i: c.nulls for i, c in columns.items()},
            nan_value_counts={i: c.nans for i, c in floating.items()},
            lower_bounds={i: b for i, b in lower.items() if b is not None},
            upper_bounds={i: b for i, b in upper.items() if b is not None},
        )
