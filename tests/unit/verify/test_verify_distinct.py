"""Rows about files are kept once each, however they come and whatever their paths hash to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from icecore.projections.verify import verify_distinct
from icecore.projections.verify.verify_distinct import DistinctFiles

SCHEMA = pa.schema([("file_path", pa.string()), ("size", pa.int64()), ("name", pa.string())])


def table(*found: tuple[str, int, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in found], schema=SCHEMA)


@pytest.mark.parametrize("collide", [False, True])
def test_each_row_is_kept_once(monkeypatch: pytest.MonkeyPatch, collide: bool) -> None:
    """A path with two sizes is two rows; what comes again, in one table or a later one, is none; nulls are equal."""
    monkeypatch.setattr(verify_distinct, "LEAST_ROWS", 3)
    if collide:
        monkeypatch.setattr(verify_distinct, "_hashes", lambda paths: np.zeros(len(paths), np.int64))
    files = DistinctFiles(SCHEMA)
    files.add(table(("a", 1, None), ("b", 1, "x"), ("a", 1, None)))
    for n in range(5):
        files.add(table(("a", 2, None), ("b", 1, "x"), (f"c{n % 2}", n, "y"), ("a", 1, None)))
    found = sorted(map(str, files.table().to_pylist()))
    expected = table(("a", 1, None), ("b", 1, "x"), ("a", 2, None), *((f"c{n % 2}", n, "y") for n in range(5)))
    assert found == sorted(map(str, expected.to_pylist()))
    assert DistinctFiles(SCHEMA).table().num_rows == 0


def test_files_that_come_at_once_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a table with a few manifests are such."""
    looked: list[int] = []
    distinct = verify_distinct.distinct

    def counting(rows: pa.Table) -> pa.Table:
        looked.append(rows.num_rows)
        return distinct(rows)

    monkeypatch.setattr(verify_distinct, "distinct", counting)
    files = DistinctFiles(SCHEMA)
    files.add(table(("a", 1, None), ("b", 1, "x"), ("a", 1, None)))
    assert (files.table().num_rows, looked) == (2, [3])
