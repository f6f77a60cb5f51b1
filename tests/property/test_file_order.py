"""The order of a plan's files depends on the snapshot alone, not on what a process loaded before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

import icecore
from icecore.projections.plan.planning import Planning

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64())])


def batch(start: int) -> pa.Table:
    return pa.table({"id": range(start, start + 8), "p": [start % 3] * 4 + [3 + start % 2] * 4}, schema=SCHEMA)


def filled(folder: Path, properties: dict[str, str]) -> None:
    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", SCHEMA, partition_spec=["p"], properties=properties)
        for i in range(14):
            table.append(batch(i * 8))
            if i % 5 == 4:
                table.delete(f"id IN ({i * 8}, {i * 4}, {i * 8 - 7})")


def warm(table: icecore.Table, history: str) -> None:
    """What a process may have asked before."""
    snapshots = [s.snapshot_id for s in table.metadata.snapshots]
    match history:
        case "oldest first":
            for i in snapshots:
                table.scan(snapshot_id=i).plan_files()
        case "newest first":
            for i in reversed(snapshots):
                table.scan(snapshot_id=i).plan_files()
        case "some":
            for i in random.Random(1).sample(snapshots, 6):
                table.scan("p = 1", snapshot_id=i).plan_files()
        case "filters":
            for p in (4, 0, 2):
                table.scan(f"p = {p}").plan_files()
        case _:
            pass


def listed_order(table: icecore.Table) -> list[str]:
    """The live data files as the manifest list and the manifests have them, read by PyIceberg."""
    from pyiceberg.table import StaticTable

    location = table.metadata_location
    assert location is not None
    peer = StaticTable.from_metadata(location)
    snapshot = peer.current_snapshot()
    assert snapshot is not None
    return [
        e.data_file.file_path
        for m in snapshot.manifests(peer.io)
        if m.content == 0
        for e in m.fetch_manifest_entry(peer.io, discard_deleted=True)
    ]


@pytest.mark.parametrize(
    "properties",
    [
        {"write.delete.mode": "copy-on-write"},
        {"write.delete.mode": "merge-on-read"},
        {"commit.manifest.min-count-to-merge": "3"},
    ],
    ids=["copy-on-write", "merge-on-read", "merged"],
)
def test_the_order_of_files_is_that_of_the_manifest_list(tmp_path: Path, properties: dict[str, str]) -> None:
    """Catalogs that loaded manifests in other orders, with a cache and without, plan and limit alike."""
    filled(tmp_path, properties)
    seen: dict[str, Any] = {}
    for number, history in enumerate(("none", "oldest first", "newest first", "some", "filters")):
        with icecore.open(tmp_path) as catalog:
            planning = Planning(catalog._warehouse.repository, tmp_path / f"cache{number}" if number % 2 else None)
            catalog._warehouse = evolve(catalog._warehouse, planning=planning)
            table = catalog.load_table("ns.t")
            warm(table, history)
            planned = table.scan().plan_files()
            paths = [t.file.file_path for t in planned]
            seen[history] = (
                paths,
                [[d.file_path for d in t.delete_files] for t in planned],
                [t.file.file_path for t in table.scan("p IN (0, 4)").plan_files()],
                table.scan(limit=11).to_arrow().to_pylist(),
                table.scan("id > 5", limit=3).to_arrow().to_pylist(),
                table.scan().to_arrow()["id"].to_pylist(),
            )
            assert paths == listed_order(table), history
    assert all(found == seen["none"] for found in seen.values())
