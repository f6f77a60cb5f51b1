"""Data files without rows: with a filter they are left out, as in Java and PyIceberg; without one they are listed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import SCHEMA, make_table, rows

import icecore
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat

Make = Callable[[], tuple[icecore.Table, str]]


@pytest.fixture
def made(catalog: icecore.Catalog, tmp_path: Path) -> Make:
    """A table of one row, partitioned by id, and a file without rows in the partition of id 7; and that file's path."""

    def make() -> tuple[icecore.Table, str]:
        ids = [f.with_metadata({"PARQUET:field_id": str(i)}) for i, f in enumerate(SCHEMA, 1)]
        path = tmp_path / "empty.parquet"
        pq.write_table(pa.schema(ids).empty_table(), path)
        table = make_table(catalog, partition_spec=["id"])
        table.append(rows(1))
        file = ContentFile(DataFileContent.DATA, f"file://{path}", FileFormat.PARQUET, 0, (7,), 0, path.stat().st_size)
        with table.transaction() as change:
            change.append_files([file])
        return table, file.file_path

    return make


def planned(table: icecore.Table, row_filter: str | None) -> list[str]:
    return [t.file.file_path for t in table.scan(row_filter).plan_files()]


@pytest.mark.parametrize("row_filter", ["id = 7", "id > 3", "name IS NULL OR id = 7", "name = 'x'"])
def test_a_filter_leaves_files_without_rows_out(made: Make, row_filter: str) -> None:
    """No row of such a file can satisfy it; the explanation says so, and its sums are the plan's."""
    table, path = made()
    scan = table.scan(row_filter)
    assert path not in planned(table, row_filter) and path in planned(table, None)
    assert path not in [t.file.file_path for t in table.prefetch(row_filter, name="p").plan_files()]
    explanation = scan.explain()
    (found,) = [f for f in explanation.files.to_pylist() if f["file_path"] == path]
    assert (found["reason"], found["field"], found["known"]) == ("metrics", None, "no rows")
    reasons, counts = explanation.files["reason"].to_pylist(), scan.plan().counts
    assert reasons.count("metrics") == counts.pruned_by_metrics
    assert reasons.count("planned") == counts.files_planned
    assert len(reasons) == counts.files_total == 2 and "left out by column metrics" in str(explanation)


@pytest.mark.parametrize("row_filter", ["id = 7", "id > 0", "TRUE"])
def test_a_delete_takes_files_without_rows_along(made: Make, row_filter: str) -> None:
    """Where a partition goes, what is in it goes, with rows or without."""
    table, path = made()
    table.delete(row_filter)
    assert path not in planned(table, None)
