"""Second names for columns whose names differ in case alone, by which a session that ignores case tells them.

The names of columns that a change adds to rows begin in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from icecore.engine.errors import ValidationError
from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.pyspark_api import functions as F

_OWN = "__icecore_"


def check_names(columns: Sequence[str]) -> None:
    """Raises ValidationError for a name that begins as those of the columns that a merge adds to its rows."""
    taken = next((c for c in columns if c.lower().startswith(_OWN)), None)
    if taken is not None:
        raise ValidationError(
            f"a merge has columns of its own whose names begin with {_OWN!r}: {taken!r} needs another"
        )


def own_names(columns: Sequence[str], *, case_sensitive: bool) -> Mapping[str, str]:
    """The second names of columns that need one, by their first names; a name that is there twice gets none."""
    if case_sensitive:
        return {}
    alike, same = Counter(c.lower() for c in columns), Counter(columns)
    return {c: f"{_OWN}own_{i}" for i, c in enumerate(columns) if alike[c.lower()] > 1 and same[c] == 1}


def with_own_names(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """The frame with those columns a second time, by their second names."""
    if not names:
        return frame
    columns = frame.columns
    placed = [f"c{i}" for i in range(len(columns))]
    first = [F.col(p).alias(c) for p, c in zip(placed, columns, strict=True)]
    second = [F.col(p).alias(names[c]) for p, c in zip(placed, columns, strict=True) if c in names]
    return frame.toDF(*placed).select(*first, *second)
