"""Partition statistics counted once more, in plain Python."""

from __future__ import annotations

import datetime as dt
import struct
from collections import defaultdict
from typing import Any

import icecore
from icecore.engine.formats.entry_arrow import decode_partition
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import (
    Transform,
)
from icecore.projections.inspect.partition_statistics import (
    unified_partition_type,
)

COUNTS = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
    "dv_count",
)


def spec(*fields: tuple[int, Transform, str], spec_id: int = 0) -> PartitionSpec:
    return PartitionSpec(
        tuple(PartitionField((source,), 1000 + i, t, name) for i, (source, t, name) in enumerate(fields)), spec_id
    )


def computed(table: icecore.Table) -> list[dict[str, Any]]:
    """The rows of the file that is computed and committed now."""
    assert table.compute_partition_statistics() is not None
    found = table.partition_statistics()
    assert found is not None
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def recount(table: icecore.Table) -> dict[tuple[int, tuple[Any, ...]], dict[str, int]]:
    """The counts of live files by spec and partition tuple, in plain Python."""
    counts: dict[tuple[int, tuple[Any, ...]], dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for entries in table.live_entries():
        for row in entries.to_pylist():
            partition = decode_partition(table.specs()[row["spec_id"]], table.metadata.all_fields, row["partition"])
            of = counts[row["spec_id"], tuple(comparable(v) for v in partition)]
            match row["content"], row["file_format"]:
                case 0, _:
                    of["data_record_count"] += row["record_count"]
                    of["data_file_count"] += 1
                    of["total_data_file_size_in_bytes"] += row["file_size_in_bytes"]
                case 1, file_format:
                    of["position_delete_record_count"] += row["record_count"]
                    of["dv_count" if file_format == "PUFFIN" else "position_delete_file_count"] += 1
                case _:
                    of["equality_delete_record_count"] += row["record_count"]
                    of["equality_delete_file_count"] += 1
    return dict(counts)


def comparable(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def internal(value: Any) -> Any:
    """A value as Arrow gives it in the form in which partition tuples hold it."""
    match value:
        case dt.datetime():
            return int((value - dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)) / dt.timedelta(microseconds=1))
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
        case _:
            return comparable(value)


def check_counts(table: icecore.Table, rows: list[dict[str, Any]]) -> None:
    """The rows that have live files are those of the recount; others have nothing."""
    expected = recount(table)
    unified = unified_partition_type(table.metadata).fields
    for row in rows:
        of_spec = table.specs()[row["spec_id"]]
        values = {f.field_id: row["partition"][f.name] for f in unified}
        assert all(values[i] is None for i in values.keys() - {f.field_id for f in of_spec.fields})
        key = (row["spec_id"], tuple(internal(values[f.field_id]) for f in of_spec.fields))
        found = {name: row[name] or 0 for name in COUNTS}
        assert found == expected.pop(key, dict.fromkeys(COUNTS, 0)), key
    assert not expected
