"""The rows that a commit removed and added, in files of a temporary folder if they are too many for memory.

Equal rows are in the same bucket, so each bucket is compared by itself: memory holds one bucket, and the changes found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.row_filter import connection
from icecore.engine.data.read.row_diff import RowDiff
from icecore.engine.data.read.spilled_rows import SpilledRows, spilled_rows
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query

MOST_BYTES = 8 << 20
"""Up to so many bytes of data files are compared in memory; with more, buckets are also faster."""
MOST_BUCKETS = 64
"""Each bucket is an open file."""
_ROWS = "bucket_rows"
_ROWS_AT_ONCE = 1 << 17
_DELETED, _INSERTED = "deleted", "inserted"


def net_rows(
    gone: Iterable[pa.Table], come: Iterable[pa.Table], empty: pa.Table, *, columns: Sequence[str], size: int
) -> RowDiff:
    """The difference without the rows that are on both sides, see `RowDiff.without_carried_over`.

    `size` is the number of bytes of the files that the tables are read from, `empty` a table of theirs without rows.
    Raises StorageError where the temporary folder has no room.
    """
    hashed = [n for n in columns if _is_hashed(empty.schema.field(n).type)]
    if size <= MOST_BYTES or not hashed:
        return RowDiff(*(pa.concat_tables([empty, *rows]) for rows in (gone, come))).without_carried_over(columns)
    count = min(MOST_BUCKETS, 2 + 2 * size // MOST_BYTES)
    with tempfile.TemporaryDirectory(prefix="icecore-") as folder:
        buckets = RowBuckets(folder, count, hashed)
        for side, tables in ((_DELETED, gone), (_INSERTED, come)):
            buckets.put(side, tables)
        found = [diff.without_carried_over(columns) for diff in buckets.compared(empty)]
    return RowDiff(
        pa.concat_tables([empty, *(d.deleted for d in found)]), pa.concat_tables([empty, *(d.inserted for d in found)])
    )


def _is_hashed(t: pa.DataType) -> bool:
    """Whether equal values of a type have one hash in DuckDB: equal floats may have several."""
    types = pa.types
    known = types.is_integer, types.is_string, types.is_binary, types.is_boolean, types.is_decimal, types.is_temporal
    return any(is_one(t) for is_one in known)


@frozen
class RowBuckets:
    """Files of rows, by side and by the number of their bucket, of which there are `count`."""

    folder: str
    count: int
    hashed: Sequence[str]

    def put(self, side: str, tables: Iterable[pa.Table]) -> None:
        """Writes all rows of a side; to be called once for each. Raises StorageError where there is no room."""
        with SpilledRows.in_folder(self.folder) as spilled:
            for rows in tables:
                for bucket, part in self._parts(rows):
                    spilled.add(f"{side}-{bucket}", part)

    def compared(self, empty: pa.Table) -> Iterator[RowDiff]:
        """Both sides of each bucket."""
        for bucket in range(self.count):
            yield RowDiff(*(spilled_rows(self.folder, f"{side}-{bucket}", empty) for side in (_DELETED, _INSERTED)))

    def _parts(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        names = [f"c{i}" for i in range(len(self.hashed))]
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            some = rows.slice(start, _ROWS_AT_ONCE)
            hashed = some.select(self.hashed).rename_columns(names)
            con = connection()
            with duck.registered(con, _ROWS, hashed):
                sql = query("data/row_buckets.sql", "buckets", columns=", ".join(names), rows=_ROWS)
                numbers = duck.arrow(con, sql, {"count": self.count})["bucket"].to_numpy()
            order = np.argsort(numbers, kind="stable")
            ends = np.searchsorted(numbers[order], np.arange(self.count + 1))
            ordered = some.take(pa.array(order))
            for bucket in range(self.count):
                if ends[bucket] < ends[bucket + 1]:
                    yield bucket, ordered.slice(ends[bucket], ends[bucket + 1] - ends[bucket])
