"""Which manifest an entry of a plan is of, where one path was loaded more than once: as ours, and as others list it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from broken_tables import edit, list_of, register
from core_tables import ids_of, local, make_table, peer_ids, pyiceberg_catalog, rows

import icecore
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.segments import segment_merging


def written(table: icecore.Table, snapshot: Snapshot) -> list[tuple[str, str]]:
    """The live data files of a snapshot, each with its manifest, in the order of list and manifests, as written."""
    metadata = json.loads(local(table.metadata_location).read_bytes())
    found = next(s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot.snapshot_id)
    return [
        (manifest["manifest_path"], entry["data_file"]["file_path"])
        for manifest in avro(found["manifest-list"])
        if not manifest["content"]
        for entry in avro(manifest["manifest_path"])
        if entry["status"] != 2
    ]


def avro(location: str) -> list[dict[str, Any]]:
    with local(location).open("rb") as f:
        return list(fastavro.reader(f))


def of_two_hands(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, *, ours_on_disk: bool, **options: Any
) -> icecore.Table:
    """A table of whose manifests three are loaded twice: as ours, and as PyIceberg's list has them.

    One kind is in a segment on disk and the other in memory.
    """
    table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"}, **options)
    for i in range(3):
        table.append(rows(i))
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 2 if ours_on_disk else 16)
    assert len(table.scan().plan_files()) == 3
    peer = pyiceberg_catalog(catalog.path)
    peer.load_table("ns.t").append(rows(3))
    peer.close()
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 16 if ours_on_disk else 2)
    table = catalog.load_table("ns.t")
    table.scan().planned  # noqa: B018 - what it loads matters
    assert list((Path(catalog.path) / ".icecore" / "segments").rglob("*.segment"))
    return table


@pytest.mark.parametrize("ours_on_disk", [True, False])
def test_plans_of_what_two_engines_list(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, ours_on_disk: bool
) -> None:
    """Files come in the order of the list, and an explanation says of each the manifest that it is in."""
    table = of_two_hands(catalog, monkeypatch, ours_on_disk=ours_on_disk)
    for snapshot in table.snapshots():
        scan = table.scan(snapshot_id=snapshot.snapshot_id)
        expected = written(table, snapshot)
        assert [t.file.file_path for t in scan.plan_files()] == [path for _, path in expected]
        explained = scan.explain().files
        assert list(zip(*(explained[n].to_pylist() for n in ("manifest_path", "file_path")), strict=True)) == expected
        assert table.files(snapshot_id=snapshot.snapshot_id)["file_path"].to_pylist() == [p for _, p in expected]
    assert ids_of(table) == peer_ids(Path(catalog.path))


@pytest.mark.parametrize("ours_on_disk", [True, False])
def test_what_manifests_say_is_said_of_their_own_files(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, ours_on_disk: bool
) -> None:
    """The sums of an explanation are those of the plan: no file is laid at the door of another manifest's summary."""
    table = of_two_hands(catalog, monkeypatch, ours_on_disk=ours_on_disk, partition_spec=["id"])
    for snapshot in table.snapshots():
        explanation = table.scan("id = 0", snapshot_id=snapshot.snapshot_id).explain()
        planned = explanation.files.filter(explanation.files["partition"].to_numpy() == "id=0")["reason"].to_pylist()
        assert planned == ["planned"]
        sums = {r["reason"]: r["files"] for r in explanation.summary.to_pylist()}
        counts = explanation.counts
        assert sums.get("planned", 0) == counts.files_planned == 1
        assert sums.get("manifest", 0) == counts.pruned_by_manifest


def test_a_named_plan_of_what_two_engines_list(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named plan goes from a list of the other engine's back to one of ours."""
    table = of_two_hands(catalog, monkeypatch, ours_on_disk=True)
    for snapshot in reversed(table.snapshots()):
        table.manage_snapshots().set_current_snapshot(snapshot.snapshot_id).commit()
        table.refresh()
        plan = table.prefetch("id >= 0", name="p")
        assert sorted(t.file.file_path for t in plan.plan_files()) == sorted(
            path for _, path in written(table, snapshot)
        )


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_added_entries_name_their_snapshot(catalog: icecore.Catalog, format_version: int) -> None:
    """Though they could inherit it: PyIceberg 0.10 takes an inherited id for the status, and loses deletes."""
    mode = {"write.delete.mode": "merge-on-read"} if format_version > 1 else {}
    table = make_table(catalog, format_version=format_version, properties=mode)
    table.append(rows(1, 2))
    table.delete("id = 1")
    snapshots = json.loads(local(table.metadata_location).read_bytes())["snapshots"]
    for manifest in (m for s in snapshots for m in avro(s["manifest-list"])):
        told = {entry["snapshot_id"] for entry in avro(manifest["manifest_path"]) if entry["status"] == 1}
        assert told <= {manifest["added_snapshot_id"]}


@pytest.mark.parametrize(("without", "row_ids"), [((1,), [None, None, 4]), ((0, 1), [None, None, None])])
def test_RL3_files_of_a_manifest_without_a_first_row_id_have_none(
    catalog: icecore.Catalog, tmp_path: Path, without: tuple[int, ...], row_ids: list[int | None]
) -> None:
    """Whatever they say themselves, as Java reads them: in plans as in what commits carry over."""
    theirs = make_table(catalog, format_version=3)
    theirs.append(rows(1))
    theirs.append(rows(2))
    theirs.rewrite_manifests()
    theirs.refresh().append(rows(3))
    edit(list_of(theirs), lambda listed: [listed[i].update(first_row_id=None) for i in without])
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        table = register(ours, theirs, "t")
        found = table.scan(selected_fields=("id", "_row_id")).to_arrow().sort_by("id")
        assert found["_row_id"].to_pylist() == row_ids
        told = table.inspect.files()["first_row_id"].to_pylist()
        assert sorted(told, key=str) == sorted(row_ids, key=str)
