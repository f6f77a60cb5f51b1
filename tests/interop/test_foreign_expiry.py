"""Another engine lets snapshots expire, and deletes the files that it thinks nobody needs any more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from core_tables import ids_of, local, make_table, peer_ids, pyiceberg_catalog, rows

import icecore


def manifests_of(table: icecore.Table) -> set[Path]:
    return {local(m.manifest.manifest_path) for m in table.manifests()}


@pytest.fixture
def expired(catalog: icecore.Catalog) -> icecore.Catalog:
    """A manifest of ours has entries of PyIceberg's manifests, which are gone with the snapshots that listed them."""
    make_table(catalog, partition_spec=["id"])
    peer = pyiceberg_catalog(catalog.path)
    peer.load_table("ns.t").append(rows(1, 2, 3))
    table = catalog.load_table("ns.t")
    foreign = manifests_of(table)
    table.delete("id = 1")
    assert len(manifests_of(table)) == len(foreign) == 1
    theirs = peer.load_table("ns.t")
    expire = theirs.maintenance.expire_snapshots()
    for snapshot in theirs.snapshots()[:-1]:
        expire = expire.by_id(snapshot.snapshot_id)
    expire.commit()
    peer.close()
    for path in foreign:
        path.unlink()
    return catalog


@pytest.mark.parametrize("step", ["scan", "append", "compact", "orphans", "rebuild", "expire"])
def test_manifests_that_ours_were_made_of_are_deleted(expired: icecore.Catalog, step: str) -> None:
    """Our manifest's own file still has the entries: a process that remembers nothing reads, commits and rebuilds."""
    path = expired.path
    expired.close()
    shutil.rmtree(path / ".icecore", ignore_errors=True)
    with icecore.open(path) as catalog:
        table = catalog.load_table("ns.t")
        expected = [2, 3]
        match step:
            case "append":
                table.append(rows(4))
                table.rewrite_manifests()
                expected = [2, 3, 4]
            case "compact":
                table.rewrite_data_files(options={"rewrite-all": True})
            case "orphans":
                table.maintenance.remove_orphan_files(2**42, allow_recent=True)
            case "rebuild":
                catalog.rebuild()
            case "expire":
                table.append(rows(4))
                table.maintenance.expire_snapshots().older_than(2**42).retain_last(1).commit()
                expected = [2, 3, 4]
        assert ids_of(catalog.load_table("ns.t")) == expected
        assert peer_ids(path) == expected
        assert catalog.verify().problems == ()
