"""What users hand in as rows, as Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from icecore.engine.errors import ValidationError


def to_arrow(data: Any) -> pa.Table | pa.RecordBatch | pa.RecordBatchReader:
    """Arrow, DuckDB relations, polars and pandas frames, and lists of dicts, as Arrow. Raises ValidationError."""
    if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return data
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if type(data).__module__.startswith("pandas"):
            return pa.Table.from_pandas(data, preserve_index=False)
        if isinstance(data, Sequence) and not isinstance(data, str) and all(isinstance(r, Mapping) for r in data):
            return pa.Table.from_pylist(list(data))
    except (pa.ArrowException, TypeError, ValueError) as e:
        raise ValidationError(f"the data can't be made into Arrow: {e}") from e
    raise ValidationError(
        f"rows must be Arrow, pandas, polars, a DuckDB relation, a Spark DataFrame or a list of dicts, "
        f"found {type(data).__name__}"
    )
