"""Tables that end their writing by hand, that come from clocks ahead of ours, and logs that move house."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import orjson
import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows

import icecore
from icecore.engine.common.location import LocationMapping
from icecore.engine.errors import ValidationError

MANUAL = {"icecore.materialize": "manual"}


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
@pytest.mark.parametrize("how", ["set", "removed"])
def test_the_commit_that_ends_writing_by_hand_writes_all(
    catalog: icecore.Catalog, warehouse: Path, scheme: str, how: str
) -> None:
    table = make_table(catalog, properties={**MANUAL, "icecore.commit-scheme": scheme})
    table.append(rows(1))
    table.append(rows(2))
    assert table.state.pending and peer_ids(warehouse) == []
    if how == "set":
        table.set_properties({"icecore.materialize": "commit"})
    else:
        table.remove_properties("icecore.materialize")
    assert not table.state.pending
    assert peer_ids(warehouse) == [1, 2]
    table.set_properties(MANUAL)
    assert not table.state.pending
    table.append(rows(3))
    assert table.state.pending
    before = {p: p.read_bytes() for p in local(f"{table.location()}/metadata").iterdir()}
    catalog.rebuild()
    assert {p: p.read_bytes() for p in before} == before and catalog.verify().ok


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_from_a_clock_ahead_is_never_set_back(
    catalog: icecore.Catalog, warehouse: Path, tmp_path: Path, version: int
) -> None:
    """Java refuses metadata that is older, by more than a minute, than what its logs say (MD2, MD3)."""
    with icecore.open(tmp_path / "ahead") as ahead:
        ahead.create_namespace("ns")
        origin = make_table(ahead, format_version=version)
        origin.append(rows(1))
        found = orjson.loads(local(origin.metadata_location).read_bytes())
    later = int(time.time() * 1000) + 3_600_000
    found["last-updated-ms"] = later
    for entry in (*found["snapshots"], *found["snapshot-log"]):
        entry["timestamp-ms"] = later - 1
    path = tmp_path / "00007-x.metadata.json"
    path.write_bytes(orjson.dumps(found))
    table = catalog.register_table("ns.r", str(path))
    table.append(rows(2))
    table.set_properties({"k": "v"})
    table.append(rows(3))
    metadata = table.metadata
    for log in (
        [s.timestamp_ms for s in metadata.snapshots],
        [e.timestamp_ms for e in metadata.snapshot_log],
        [e.timestamp_ms for e in metadata.metadata_log],
    ):
        assert log == sorted(log) and log[-1] <= metadata.last_updated_ms
    assert metadata.last_updated_ms >= later
    assert ids_of(table) == [1, 2, 3] == peer_ids(warehouse, "ns.r")
    recorded = catalog.log().to_pylist()[-1]
    assert table.state.position == catalog.position and recorded["position"] == catalog.position
    other = make_table(catalog, "other")
    assert other.metadata.last_updated_ms < later
    catalog.rebuild()
    assert catalog.verify().ok


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
@pytest.mark.parametrize("materialize", [True, False])
def test_a_log_that_moves_house_reads_its_files_where_they_lie(
    catalog: icecore.Catalog, warehouse: Path, tmp_path: Path, scheme: str, materialize: bool
) -> None:
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1, 2))
    table.delete("id = 1")
    catalog.create_view("ns.v", "SELECT id FROM t")
    catalog.export_log(tmp_path / "log.jsonl")
    new = tmp_path / "new"
    shutil.copytree(warehouse / "ns", new / "ns")
    os.rename(warehouse / "ns", warehouse / "gone")
    mapping = {str(warehouse): str(new)}
    icecore.import_log(tmp_path / "log.jsonl", new, materialize=materialize, location_mapping=mapping)
    with icecore.open(new) as moved:
        found = moved.load_table("ns.t")
        assert found.state.metadata == table.state.metadata
        assert ids_of(found) == [2]
        found.append(rows(3))
        assert ids_of(found) == [2, 3] and moved.load_view("ns.v").to_arrow().num_rows == 2
        assert local(found.metadata_location).is_relative_to(warehouse)
        fresh = make_table(moved, "fresh")
        fresh.append(rows(4))
        assert local(fresh.location()).is_relative_to(new)
        moved.rebuild()
        report = moved.verify()
        assert report.ok, report
    with icecore.open(new) as again:
        assert ids_of(again.load_table("ns.t")) == [2, 3] and ids_of(again.load_table("ns.fresh")) == [4]
    assert not (warehouse / "ns").exists()


@pytest.mark.parametrize("below", ["", "/copy"])
def test_a_mapping_below_itself_is_refused(catalog: icecore.Catalog, tmp_path: Path, below: str) -> None:
    make_table(catalog)
    catalog.export_log(tmp_path / "log.jsonl")
    with pytest.raises(ValidationError, match="below"):
        icecore.import_log(tmp_path / "log.jsonl", tmp_path / "new", location_mapping={"/old": f"/old{below}"})
    assert not (tmp_path / "new" / "icecore.db").exists()
    with pytest.raises(ValidationError, match="not empty"):
        icecore.import_log(tmp_path / "log.jsonl", catalog.path, location_mapping={"/old": "/new"})


def test_mappings_one_after_another() -> None:
    first, then = (
        LocationMapping.of({"s3://a": "file:///x"}),
        LocationMapping.of({"file:///x": "file:///y", "/o": "/p"}),
    )
    assert first.then(then).resolve("s3://a/f") == "file:///y/f"
    assert first.then(then).resolve("/o/f") == "/p/f"
    assert LocationMapping().then(then) == then
