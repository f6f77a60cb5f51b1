"""Summaries count what Java's SnapshotSummary counts (Iceberg 1.11.0)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from icecore.engine.commit.snapshot_summary import summary_of
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestEntryStatus
from icecore.engine.spec.partition import UNPARTITIONED
from icecore.engine.spec.schema import Schema


def file(content: DataFileContent, path: str, kind: FileFormat, size: int, **more: Any) -> ContentFile:
    return ContentFile(content, path, kind, 0, (), 5, size, **more)


def entries(*files: ContentFile) -> pa.Table:
    return files_to_arrow(files, {0: UNPARTITIONED}, Schema(()), status=ManifestEntryStatus.ADDED)


def vector(of: str, size: int) -> ContentFile:
    where: dict[str, Any] = {"referenced_data_file": of, "content_offset": 4, "content_size_in_bytes": size}
    return file(DataFileContent.POSITION_DELETES, "v.puffin", FileFormat.PUFFIN, 200, **where)


def summary(operation: str, added: pa.Table | None, removed: pa.Table | None, parent: Any) -> dict[str, str]:
    return summary_of(operation, added, removed, parent, {0: UNPARTITIONED}, Schema(()))


def test_of_a_deletion_vector_only_its_part_of_the_file_is_counted() -> None:
    """L5: two vectors in one Puffin file of 200 bytes, as Java's row delta summed them up."""
    added = entries(
        file(DataFileContent.DATA, "a.parquet", FileFormat.PARQUET, 108),
        file(DataFileContent.POSITION_DELETES, "p.parquet", FileFormat.PARQUET, 50),
        vector("b.parquet", 30),
        vector("c.parquet", 40),
    )
    found = summary("overwrite", added, None, None)
    assert (found["added-files-size"], found["total-files-size"]) == ("228", "228")
    assert (found["added-delete-files"], found["added-dvs"], found["added-position-delete-files"]) == ("3", "2", "1")
    after = summary("delete", None, entries(vector("b.parquet", 30)), found)
    assert (after["removed-files-size"], after["total-files-size"], after["removed-dvs"]) == ("30", "198", "1")


def test_a_total_of_more_digits_than_any_number_is_none() -> None:
    """As no other text is: every later commit failed on what one client had written."""
    added = entries(file(DataFileContent.DATA, "a.parquet", FileFormat.PARQUET, 108))
    found = summary("append", added, None, {"total-records": "9" * 5000, "total-data-files": "1"})
    assert "total-records" not in found and found["total-data-files"] == "2"
