"""Position deletes are of the partitions of the files that they are for. Spec: partition equality (SP5), SP7."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import icecore

KINDS = [(2, "file"), (2, "partition"), (3, "file")]


@pytest.mark.parametrize(("version", "granularity"), KINDS)
def test_sp5_deletes_of_both_zeros_are_of_two_partitions(
    catalog: icecore.Catalog, version: int, granularity: str
) -> None:
    """0.0 and -0.0 are equal to Python: of one partition for both the rows of one would come back, or be unreadable."""
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": granularity}
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64())])
    table = catalog.create_table("ns.t", schema, partition_spec=["x"], format_version=version, properties=properties)
    table.append([{"id": i, "x": x} for x in (0.0, -0.0, math.nan) for i in range(4)])
    table.delete("id = 1")
    table.delete("id = 2")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 0, 0, 3, 3, 3]
    table.rewrite_position_delete_files()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 0, 0, 3, 3, 3]
    assert catalog.verify(deep=True).ok
