"""The rows that users hand in, as Arrow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from icecore.engine.data.arrow.python_rows import check_times, rows_to_arrow
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.spec.schema import Schema

_UNNAMED_LEVEL = re.compile(r"__index_level_[0-9]+__")


def to_arrow(data: Any, schema: Schema) -> pa.Table | pa.RecordBatch | pa.RecordBatchReader:
    """Arrow, DuckDB relations, polars and pandas frames, and lists of dicts, as Arrow.

    The schema is still the data's own. Raises ValidationError for anything else.
    """
    if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return data
    try:
        if type(data).__module__.startswith("pandas") and hasattr(data, "columns"):
            return _pandas_to_arrow(data)
        if hasattr(data, "__arrow_c_stream__"):
            return _stream_to_arrow(data)
        if isinstance(data, Sequence) and not isinstance(data, str) and all(isinstance(r, Mapping) for r in data):
            return rows_to_arrow(data, schema)
    except IcecoreError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise ValidationError(f"the data can't be made into Arrow: {e}") from e
    raise _no_rows(data)


def _no_rows(data: Any) -> ValidationError:
    kinds = "Arrow, pandas, polars, a DuckDB relation, a Spark DataFrame or a list of dicts"
    return ValidationError(f"rows must be {kinds}, found {type(data).__name__}")


def _stream_to_arrow(data: Any) -> pa.RecordBatchReader:
    """The rows of an object that gives Arrow's C stream. A single column, such as a Series, may too, but is refused."""
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as e:
        if hasattr(data, "columns"):
            raise
        raise _no_rows(data) from e


def _pandas_to_arrow(frame: Any) -> pa.RecordBatchReader:
    """A pandas frame as Arrow, with the named levels of its index as columns, whatever kind of index it is.

    Levels without a name are dropped: they only number rows.
    """
    table = pa.Table.from_pandas(frame, preserve_index=any(name is not None for name in frame.index.names))
    for (name, column), f in zip(frame.items(), table.schema, strict=False):
        if column.dtype == object:
            check_times(column, f.type, str(name))
    return table.drop_columns([n for n in table.column_names if _UNNAMED_LEVEL.fullmatch(n)]).to_reader()
