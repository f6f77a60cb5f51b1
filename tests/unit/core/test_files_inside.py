"""Files that clients, registrations and other engines name are where the rules allow, or are not read or deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from attrs import evolve
from client_writes import ClientCatalog, Updates
from core_tables import SCHEMA, ids_of, local, peer_ids, pyiceberg_catalog, repository_of, rows
from ruled_locations import commit_updates, ruled

import icecore
from icecore.engine.errors import ForbiddenLocationError, ForeignCommitError
from icecore.engine.formats.manifest_list_avro import read_manifest_list, write_manifest_list
from icecore.engine.spec.snapshot import StatisticsFile
from icecore.engine.spec.updates.table_update import SetStatistics
from icecore.engine.storage.file_io import Storage

__all__ = ["ruled"]


def with_list_at(path: Path) -> Callable[[Updates], Updates]:
    """Has a client's commit name a list in another folder."""

    def change(updates: Updates) -> Updates:
        snapshot = next(u["snapshot"] for u in updates if u["action"] == "add-snapshot")
        path.write_bytes(local(snapshot["manifest-list"]).read_bytes())
        snapshot["manifest-list"] = f"file://{path}"
        return updates

    return change


def test_files_of_clients_are_inside(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """Their lists and statistics: else the engine would read and delete what is elsewhere."""
    ruled.create_table("ns.t", SCHEMA)
    position, client = ruled.position, ClientCatalog(ruled)
    client.change = with_list_at(tmp_path / "outside" / "list.avro")
    with pytest.raises(ForbiddenLocationError):
        client.load_table("ns.t").append(rows(1))
    with pytest.raises(ForbiddenLocationError):
        commit_updates(ruled, SetStatistics(StatisticsFile(1, "/etc/passwd", 1, 1, ())))
    assert ruled.position == position
    client.change = with_list_at(tmp_path / "allowed" / "list.avro")
    client.load_table("ns.t").append(rows(1))
    assert ruled.position == position + 1 and ids_of(ruled.load_table("ns.t")) == [1]


def without_list(manifest: Path) -> Callable[[Updates], Updates]:
    """Has a client's commit name a manifest alone, as version 1 allows."""

    def change(updates: Updates) -> Updates:
        snapshot = next(u["snapshot"] for u in updates if u["action"] == "add-snapshot")
        del snapshot["manifest-list"]
        snapshot["manifests"] = [f"file://{manifest}"]
        return updates

    return change


def test_manifests_of_version_1_are_inside(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """What snapshots name without a list is not opened before that is known: an error would tell what is there."""
    ruled.create_table("ns.t", SCHEMA, format_version=1)
    position, client = ruled.position, ClientCatalog(ruled)
    there = tmp_path / "outside" / "m.avro"
    there.write_bytes(b"no Avro")
    for path in (there, there.with_name("none.avro")):
        client.change = without_list(path)
        with pytest.raises(ForbiddenLocationError):
            client.load_table("ns.t").append(rows(1))
    assert ruled.position == position


def test_what_clients_name_elsewhere_is_never_deleted(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """Nor are the warehouse's own files: neither by expiry nor by purge."""
    elsewhere = [tmp_path / "outside" / "f.parquet", ruled.path / ".icecore" / "f.parquet", ruled.path / "icecore.db2"]
    inside = tmp_path / "allowed" / "f.parquet"
    for path in (*elsewhere, inside):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows(1), path)
    table = ruled.create_table("ns.t", SCHEMA)
    table.add_files([str(p) for p in (*elsewhere, inside)])
    table.delete("true")
    table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()
    assert not inside.exists() and all(p.exists() for p in elsewhere)
    table.add_files([str(p) for p in elsewhere])
    ruled.drop_table("ns.t")
    assert ruled.purge_table("ns.t").deleted_files and all(p.exists() for p in elsewhere)


def test_registered_files_are_inside(ruled: icecore.Catalog, tmp_path: Path) -> None:
    """Of a table that is elsewhere neither the file nor what it names is taken, nor a link to it, nor a mapping."""
    with icecore.open(tmp_path / "wh2") as other:
        other.create_namespace("ns")
        table = other.create_table("ns.t", SCHEMA)
        table.append(rows(1))
        file = other.load_table("ns.t").metadata_location
        assert file is not None
    copied = ruled.path / "copied.metadata.json"
    copied.write_bytes(local(file).read_bytes())
    linked = ruled.path / "linked.metadata.json"
    linked.symlink_to(local(file))
    for wanted in (file, str(local(table.location())), str(linked), str(copied)):
        with pytest.raises(ForbiddenLocationError):
            ruled.register_table("ns.t", wanted)
    mapping = {f"file://{ruled.path}": f"file://{tmp_path}/wh2"}
    with pytest.raises(ForbiddenLocationError):
        ruled.register_table("ns.t", file.replace("/wh2/", "/wh/"), location_mapping=mapping)
    assert ruled.list_tables("ns") == []


def _listed_elsewhere(data: bytes, place: Path) -> bytes:
    """A manifest list whose manifests are copied to another folder, as it names them then."""
    place.mkdir(exist_ok=True)
    found = [
        evolve(m, manifest_path=f"file://{shutil.copy(local(m.manifest_path), place)}")
        for m in read_manifest_list(data, "list")
    ]
    return write_manifest_list(
        found, format_version=2, snapshot_id=1, parent_snapshot_id=None, sequence_number=9, sync_marker=b"m" * 16
    )


@pytest.mark.filterwarnings("ignore::icecore.engine.foreign.adopter.ForeignCommitWarning")
@pytest.mark.parametrize("where", ["file", "log", "location", "property", "list", "manifest", "new", "view"])
def test_commits_of_others_name_nothing_elsewhere(
    ruled: icecore.Catalog, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of `iceberg_tables` are a problem then: no file elsewhere is read, and the log's own state goes on."""
    outside = tmp_path / "outside"
    ruled.create_table("ns.t", SCHEMA).append(rows(1))
    ruled.create_view("ns.v", "SELECT 1 AS one")
    peer = pyiceberg_catalog(ruled.path)
    peer.load_table("ns.t").append(rows(2))
    theirs = local(peer.load_table("ns.t").metadata_location)
    metadata = json.loads(theirs.read_bytes())
    snapshot, log, place = metadata["snapshots"][-1], metadata["metadata-log"], theirs.with_name("9-x.metadata.json")
    match where:
        case "file" | "new" | "view":
            place = outside / place.name
        case "log":
            log.append({**log[-1], "metadata-file": f"file://{outside}/between.metadata.json"})
        case "location":
            metadata["location"] = f"file://{outside}/t"
        case "property":
            metadata["properties"]["write.metadata.path"] = f"file://{outside}/m"
        case "list":
            snapshot["manifest-list"] = f"file://{shutil.copy(local(snapshot['manifest-list']), outside)}"
        case _:
            listed = local(snapshot["manifest-list"])
            listed.write_bytes(_listed_elsewhere(listed.read_bytes(), outside))
    (outside / "between.metadata.json").write_bytes(theirs.read_bytes())
    place.write_text(json.dumps(metadata))
    name = {"new": "u", "view": "v"}.get(where, "t")
    with peer.engine.begin() as rows_of_all:
        if where == "new":
            rows_of_all.exec_driver_sql(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type) "
                "SELECT catalog_name, table_namespace, 'u', 'TABLE' FROM iceberg_tables LIMIT 1"
            )
        rows_of_all.exec_driver_sql(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", (f"file://{place}", name)
        )
    peer.close()
    if name != "t":
        assert ids_of(ruled.load_table("ns.t")) == [1, 2], "what is no problem is taken in"
    position, read = ruled.position, list[str]()
    original = Storage.read_bytes

    def noted(self: Storage, location: str, *most: int | None) -> bytes:
        data = original(self, location, *most)
        read.append(location)
        return data

    monkeypatch.setattr(Storage, "read_bytes", noted)
    problems = [p.text for p in repository_of(ruled).foreign.adopt_all()]
    assert len(problems) == 1 and problems[0].startswith(f"ns.{name}: what another engine committed is not taken in")
    assert ruled.position == position
    if name == "t":
        assert ids_of(ruled.load_table("ns.t")) == [1]
        with pytest.raises(ForeignCommitError, match="not inside of"):
            ruled.load_table("ns.t").append(rows(3))
        with pytest.raises(ForeignCommitError, match="not inside of"):
            ruled.resolve("ns.t", "foreign")
        table = ruled.resolve("ns.t", "log")
        table.append(rows(3))
        assert ids_of(ruled.load_table("ns.t")) == peer_ids(ruled.path) == [1, 3]
        assert ruled.verify().problems == ()
    assert not [at for at in read if str(outside) in at]
