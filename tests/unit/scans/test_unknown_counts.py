"""Files whose writer did not count: Java reads -1 as unknown, so nothing may be reckoned with it (SP1)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import make_table
from pinned_files import vector

import icecore
from icecore.engine.commit import added_files
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat

UNKNOWN = {1: -1, 2: -1}
NAMED = [(1, "id", pa.int64()), (2, "name", pa.string())]


@pytest.fixture
def table(catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> icecore.Table:
    """One file of two rows, an id and a null, about which nothing is known; appending such a one is refused now."""
    monkeypatch.setattr(added_files, "_check_file", lambda *_: None)
    ids = [pa.field(n, t, metadata={"PARQUET:field_id": str(i)}) for i, n, t in NAMED]
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": [None, 5], "name": ["a", None]}, schema=pa.schema(ids)), path)
    file = ContentFile(
        DataFileContent.DATA, f"file://{path}", FileFormat.PARQUET, 0, (), -1, path.stat().st_size,
        value_counts=UNKNOWN, null_value_counts=UNKNOWN, nan_value_counts=UNKNOWN,
    )  # fmt: skip
    made = make_table(catalog)
    with made.transaction() as change:
        change.append_files([file])
    return made


@pytest.mark.parametrize(
    ("row_filter", "count"),
    [
        (None, 2),
        ("id = 5", 1),
        ("id < 7", 1),
        ("id IS NULL", 1),
        ("id IS NOT NULL", 1),
        ("name = 'a'", 1),
        ("id > 9", 0),
    ],
)
def test_no_row_is_lost_or_invented(table: icecore.Table, row_filter: str | None, count: int) -> None:
    """Equal counts of values and nulls would say that all are null, were they counts."""
    assert table.scan(row_filter).count() == table.scan(row_filter).to_arrow().num_rows == count


def test_aggregates_read_the_file(table: icecore.Table) -> None:
    found = table.scan().aggregate("count(*)", "count(id)", "null_count(id)", "max(id)")
    assert found.values == {"count(*)": 2, "count(id)": 1, "null_count(id)": 1, "max(id)": 5}
    assert found.files_read == 1


def test_a_vector_for_such_a_file_is_taken(table: icecore.Table) -> None:
    """Nobody can say that it deletes rows which the file doesn't have."""
    with table.transaction() as change:
        change.upgrade_table_version(3)
    [task] = table.scan().plan_files()
    table.row_delta((), [vector(table, task, 1)])
    assert table.scan().to_arrow()["id"].to_pylist() == [None]
