"""The summary of a snapshot: counts of added and removed files and rows, and totals. Spec: Appendix F (L5)."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.common.text import number_in
from icecore.engine.formats.entry_arrow import partition_keys
from icecore.engine.spec.content_file import DataFileContent, FileFormat
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema

_COUNTED = ("file_format", "record_count", "file_size_in_bytes", "content_size_in_bytes")
_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


def summary_of(
    operation: str,
    added: pa.Table | None,
    removed: pa.Table | None,
    parent: Mapping[str, str] | None,
    specs: Mapping[int, PartitionSpec],
    fields: Schema,
) -> dict[str, str]:
    """The summary of a snapshot from canonical entries; counts of zero are left out, as Java does.

    `specs` and `fields`, the specs and all fields of the table, tell which partitions are the same.
    `parent` is the parent's summary, an empty map where there is no parent. Totals are given only where the parent has
    them, because a wrong total is worse than none.
    """
    changes = {**_counted(added, "added"), **_counted(removed, "removed")}
    partitions = {key for e in (added, removed) if e is not None for key in partition_keys(e, specs, fields)}
    out = {"operation": operation}
    out |= {name: str(count) for name, count in changes.items() if count}
    if partitions:
        out["changed-partition-count"] = str(len(partitions))
    return out | _totals(changes, {} if parent is None else parent, fresh=parent is None)


def _counted(entries: pa.Table | None, verb: str) -> dict[str, int]:
    if entries is None or entries.num_rows == 0:
        return {}
    added = verb == "added"
    # Only these columns: each filter copies the maps of metrics too.
    entries, content = entries.select(_COUNTED), entries["content"]
    if pc.all(pc.equal(content, int(DataFileContent.DATA))).as_py():
        return {
            f"{'added' if added else 'deleted'}-data-files": entries.num_rows,
            f"{'added' if added else 'deleted'}-records": _sum(entries, "record_count"),
            f"{verb}-files-size": _sum(entries, "file_size_in_bytes"),
        }
    data = entries.filter(pc.equal(content, int(DataFileContent.DATA)))
    positions = entries.filter(pc.equal(content, int(DataFileContent.POSITION_DELETES)))
    equality = entries.filter(pc.equal(content, int(DataFileContent.EQUALITY_DELETES)))
    are_vectors = pc.equal(pc.utf8_upper(positions["file_format"]), str(FileFormat.PUFFIN))
    vectors, files = positions.filter(are_vectors), positions.filter(pc.invert(are_vectors))
    return {
        f"{'added' if added else 'deleted'}-data-files": data.num_rows,
        f"{'added' if added else 'deleted'}-records": _sum(data, "record_count"),
        f"{verb}-delete-files": positions.num_rows + equality.num_rows,
        f"{verb}-position-delete-files": files.num_rows,
        f"{verb}-dvs": vectors.num_rows,
        f"{verb}-position-deletes": _sum(positions, "record_count"),
        f"{verb}-equality-delete-files": equality.num_rows,
        f"{verb}-equality-deletes": _sum(equality, "record_count"),
        # Of a deletion vector only its part of the Puffin file, which may have those of other data files too.
        f"{verb}-files-size": _sum(vectors, "content_size_in_bytes")
        + sum(_sum(e, "file_size_in_bytes") for e in (data, files, equality)),
    }


def _sum(entries: pa.Table, column: str) -> int:
    return pc.sum(entries[column]).as_py() or 0


def _totals(changes: Mapping[str, int], parent: Mapping[str, str], *, fresh: bool) -> dict[str, str]:
    out = {}
    for total, plus, minus in _TOTALS:
        before = 0 if fresh else number_in(parent.get(total, ""))
        if before is not None:
            after = before + changes.get(plus, 0) - changes.get(minus, 0)
            if after >= 0:
                out[total] = str(after)
    return out
