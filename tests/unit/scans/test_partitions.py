"""Which partitions there are, against PyIceberg's answer where it has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import make_table, pyiceberg_catalog, rows

import icecore
from icecore.projections.inspect import partition_statistics
from icecore.projections.inspect import partitions as partitions_module


@pytest.mark.parametrize("spec", [[], ["name"], ["void(name)"], ["bucket(2, id)", "name"]])
@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_they_equal_pyiceberg_s(
    catalog: icecore.Catalog, warehouse: Path, spec: list[str], format_version: int
) -> None:
    """Counts, sizes and last updates, with position deletes, without partitions, with a void one and one that went."""
    properties = {"write.delete.mode": "merge-on-read"} if format_version == 2 else {}
    table = make_table(catalog, partition_spec=spec, format_version=format_version, properties=properties)
    table.append(rows(1, 2, 3))
    table.append(pa.table({"id": [1, 9], "name": ["n1", None]}))
    table.delete("id = 3")
    table.delete("id = 1 AND name = 'n1'")
    table.append(pa.table({"id": [5, 6, 7], "name": ["a", "a", "b"]}))
    table.delete("id = 5")
    peer = pyiceberg_catalog(warehouse)
    theirs = peer.load_table("ns.t").inspect.partitions()
    peer.close()
    ours = table.partitions()
    names = [n for n in theirs.column_names if not n.startswith("last_updated")]
    assert set(ours.column_names) == set(theirs.column_names)

    def found(rows_: pa.Table) -> list[str]:
        return sorted(repr([r[n] for n in names]) for r in rows_.select(names).to_pylist())

    assert found(ours) == found(theirs)
    assert ours.schema.field("last_updated_at").type == theirs.schema.field("last_updated_at").type


def test_a_filter_leaves_what_a_scan_would_read(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, partition_spec=["name"])
    assert table.partitions().num_rows == 0
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    assert table.partitions().num_rows == 4
    assert [r["name"] for r in table.partitions("id > 3 OR name = 'n1'")["partition"].to_pylist()] == ["n1", "n4"]
    assert table.partitions("id > 90").num_rows == 0
    first = table.snapshots()[0].snapshot_id
    assert table.partitions(snapshot_id=first).num_rows == 3
    assert set(table.partitions()["last_updated_snapshot_id"].to_pylist()) == {s.snapshot_id for s in table.snapshots()}


def test_partitions_are_counted_once_for_a_snapshot(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(catalog, partition_spec=["id"])
    table.append(rows(1, 2))
    counted: list[str] = []
    real = partition_statistics.counted_partitions

    def count(*args: Any) -> pa.Table:
        counted.append("")
        return real(*args)

    monkeypatch.setattr(partitions_module, "counted_partitions", count)
    first = table.inspect.partitions()
    assert catalog.sql("SELECT count(*) AS n FROM partitions")["n"].to_pylist() == [2]
    assert table.inspect.partitions().equals(first) and len(counted) == 1
    table.append(rows(2, 3))
    assert [r["file_count"] for r in table.inspect.partitions().to_pylist()] == [1, 2, 1]
    assert table.inspect.partitions(snapshot_id=table.history()[0].snapshot_id).equals(first)
