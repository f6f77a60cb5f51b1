"""The rows that users hand in, as Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from icecore.engine.data.arrow.python_rows import rows_to_arrow
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.spec.schema import Schema


def to_arrow(data: Any, schema: Schema) -> pa.Table | pa.RecordBatch | pa.RecordBatchReader:
    """Arrow, DuckDB relations, polars and pandas frames, and lists of dicts, as Arrow.

    The schema is still the data's own. Raises ValidationError for anything else.
    """
    if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return data
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if type(data).__module__.startswith("pandas"):
            return pa.Table.from_pandas(data, preserve_index=False)
        if isinstance(data, Sequence) and not isinstance(data, str) and all(isinstance(r, Mapping) for r in data):
            return rows_to_arrow(data, schema)
    except IcecoreError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise ValidationError(f"the data can't be made into Arrow: {e}") from e
    raise ValidationError(
        f"rows must be Arrow, pandas, polars, a DuckDB relation, a Spark DataFrame or a list of dicts, "
        f"found {type(data).__name__}"
    )
