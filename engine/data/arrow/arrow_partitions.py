"""Tables split by partition. Spec: Partitioning (PT1, PT3), partition equality (SP5)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_transforms import apply_transform
from icecore.engine.data.arrow.arrow_values import from_array
from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import Transform, VoidTransform
from icecore.engine.spec.types import PrimitiveType, StringType


def partition_batches(table: pa.Table, spec: PartitionSpec, schema: Schema) -> list[tuple[tuple[Any, ...], pa.Table]]:
    """The table's rows by partition tuple (internal values in the spec's order), in the order of their first rows.

    `table` has the columns of `schema` by name, as `conform` gives them. Rows keep their order. All NaN are one
    partition, -0.0 and +0.0 are two (SP5). Raises ValidationError where a transform can't be applied.
    """
    if not table.num_rows:
        return []
    if not spec.fields:
        return [((), table)]
    columns = [transformed_column(table, schema, f.source_id, f.transform) for f in spec.fields]
    groups = _group([c for _, c in columns])
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    heads = pa.array(order[starts])
    values = [[_one_nan(v) for v in from_array(t, c.take(heads))] for t, c in columns]
    tuples = list(zip(*values, strict=True))
    if len(tuples) == 1:
        return [(tuples[0], table)]
    clustered = table if np.array_equal(order, np.arange(len(order))) else table.take(pa.array(order))
    ends = [*starts[1:].tolist(), len(order)]
    return [
        (values_, clustered.slice(start, end - start))
        for values_, start, end in zip(tuples, starts.tolist(), ends, strict=True)
    ]


def transformed_column(
    table: pa.Table, schema: Schema, source_id: int, transform: Transform, *, for_order: bool = False
) -> tuple[PrimitiveType, pa.Array]:
    """One source column of a table under a transform, with the type of the result; see `apply_transform`.

    Raises ValidationError naming the column where the transform can't be applied to it or to one of its values.
    """
    source = schema.get_field(source_id)
    if source is None:
        if isinstance(transform, VoidTransform):
            return StringType(), pa.nulls(table.num_rows, pa.string())
        raise ValidationError(f"{transform}: no column with id {source_id} in the schema")
    if not source.field_type.is_primitive or schema.is_in_list_or_map(source_id):
        raise ValidationError(f"{transform} needs a primitive column outside of lists and maps, found {source.name!r}")
    array = nested_column(table, schema.path(source_id))
    source_type = source.primitive_type
    try:
        return transform.result_type(source_type), apply_transform(transform, source_type, array, for_order=for_order)
    except ValidationError as e:
        raise ValidationError(f"column {schema.name_of(source_id)!r}: {e}") from e


def nested_column(table: pa.Table, path: tuple[str, ...]) -> pa.Array:
    """The column at a path of struct fields, null where a struct on the way is null."""
    column = table.column(path[0])
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    for name in path[1:]:
        array = pc.struct_field(array, [array.type.get_field_index(name)])
    return array


def _one_nan(value: Any) -> Any:
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def _group(columns: list[pa.Array]) -> npt.NDArray[np.int64]:
    """A number for each row, equal for rows with equal columns, counted in the order of first rows."""
    groups = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        codes = np.asarray(comparable(column).dictionary_encode(null_encoding="encode").indices).astype(np.int64)
        groups = groups * (codes.max() + 1) + codes
        groups = np.asarray(pa.array(groups).dictionary_encode().indices).astype(np.int64)
    return groups


def comparable(array: pa.Array) -> pa.Array:
    """The array in a form whose equality in Arrow is the spec's: floats compare by bits, and all NaN are one (SP5)."""
    if isinstance(array, pa.ExtensionArray):
        return array.storage
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.int8())
    if pa.types.is_floating(array.type):
        nan = pa.scalar(float("nan"), array.type)
        return pc.if_else(pc.is_nan(array), nan, array).view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    return array
