"""Second names for columns whose names differ in case alone: a session that looks over case tells them by these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.pyspark_api import functions as F


def own_names(columns: Sequence[str], *, case_sensitive: bool) -> Mapping[str, str]:
    """The second names of columns that have one, by the first; a name that is twice there has none."""
    if case_sensitive:
        return {}
    alike, same = Counter(c.lower() for c in columns), Counter(columns)
    return {c: f"__icecore_own_{i}" for i, c in enumerate(columns) if alike[c.lower()] > 1 and same[c] == 1}


def with_own_names(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """The frame with those columns a second time, by their second names."""
    if not names:
        return frame
    columns = frame.columns
    placed = [f"c{i}" for i in range(len(columns))]
    first = [F.col(p).alias(c) for p, c in zip(placed, columns, strict=True)]
    second = [F.col(p).alias(names[c]) for p, c in zip(placed, columns, strict=True) if c in names]
    return frame.toDF(*placed).select(*first, *second)
