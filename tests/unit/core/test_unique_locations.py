"""Locations under rules are in nobody else's: no table or view is inside of another's place, or around it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from attrs import evolve
from client_writes import ClientCatalog
from core_tables import SCHEMA, ids_of, local, rows
from ruled_locations import MANUAL, commit_updates, ruled

import icecore
from icecore.engine.errors import ForbiddenLocationError
from icecore.engine.formats.manifest_list_avro import read_manifest_list, write_manifest_list
from icecore.engine.spec.updates.metadata_update import SetLocation, SetProperties
from icecore.engine.spec.updates.table_update import AddSnapshot

__all__ = ["ruled"]


def test_two_tables_are_never_in_one_place(ruled: icecore.Catalog) -> None:
    """Nor one inside of another, in any spelling, as long as the other is there."""
    at = ruled.path / "place"
    ruled.create_table("ns.one", SCHEMA, location=str(at / "t")).append(rows(1))
    spelled = ["t", "t/", "t/inner", "t/inner/deep", "", "t/../t", "%74", "t/.", "x/%2e%2e/t"]
    texts = [f"{at}/{text}" for text in spelled] + [f"file:{at}/t", f"file://{at}/t", f"file:///{at}/t/data"]

    def none_is_accepted() -> None:
        for text in texts:
            for make in (
                lambda text=text: ruled.create_table("ns.two", SCHEMA, location=text),
                lambda text=text: ruled.create_view("ns.two", "SELECT 1 AS one", location=text),
                lambda text=text: commit_updates(ruled, SetLocation(text)),
                lambda text=text: commit_updates(ruled, SetProperties({"write.data.path": text})),
            ):
                with pytest.raises(ForbiddenLocationError, match="where files of"):
                    make()
                    pytest.fail(f"{text} was accepted")

    ruled.create_table("ns.t", SCHEMA, properties=MANUAL)
    none_is_accepted()
    ruled.drop_table("ns.one")
    ruled.create_table("ns.two", SCHEMA, location=f"{at}/t/inner")
    with pytest.raises(ForbiddenLocationError, match=r"ns\.two"):
        ruled.undrop_table("ns.one")
    ruled.drop_table("ns.two", purge=True)
    assert ids_of(ruled.undrop_table("ns.one")) == [1]
    ruled.rebuild()
    none_is_accepted()
    ruled.create_table("ns.beside", SCHEMA, location=f"{at}/t2")
    ruled.create_table("ns.other_case", SCHEMA, location=f"{at}/T")
    ruled.drop_table("ns.one", purge=True)
    ruled.create_table("ns.two", SCHEMA, location=f"{at}/t")
    assert ruled.verify().problems == ()


def test_a_table_keeps_its_own_place(ruled: icecore.Catalog) -> None:
    """Its data may be inside of it, it may be replaced and registered again, and its commits are as ever."""
    table = ruled.create_table("ns.t", SCHEMA, properties={"write.data.path": str(ruled.path / "ns" / "t" / "rows")})
    table.append(rows(1))
    table.set_properties({"write.metadata.path": f"{table.location()}/logs"})
    table = ruled.replace_table("ns.t", SCHEMA, location=table.location())
    table.append(rows(2))
    file = ruled.load_table("ns.t").metadata_location
    assert file is not None
    ruled.drop_table("ns.t")
    again = ruled.register_table("ns.again", file)
    assert ids_of(again) == [2] and again.location() == table.location()
    with pytest.raises(ForbiddenLocationError, match=r"ns\.again"):
        ruled.undrop_table("ns.t")
    with pytest.raises(ForbiddenLocationError, match=r"ns\.again"):
        ruled.register_table("ns.third", file)


def test_default_locations_stay_apart(ruled: icecore.Catalog) -> None:
    """Of a table in a namespace that has another table's name, and the reverse."""
    ruled.create_table("ns.t", SCHEMA)
    ruled.create_namespace("ns.t")
    inner = ruled.create_table("ns.t.x", SCHEMA)
    inner.append(rows(1))
    assert local(inner.location()).parent == ruled.path and ids_of(ruled.load_table("ns.t.x")) == [1]
    ruled.create_namespace("a.b")
    ruled.create_table("a.b.t", SCHEMA)
    assert ruled.create_table(("a", "b"), SCHEMA).location().startswith(f"file://{ruled.path}/a/b-")


def test_a_client_commits_no_metadata_of_another_table(ruled: icecore.Catalog) -> None:
    """Neither its manifest list, in any spelling, nor a manifest; else who plans the one reads of the other's files."""
    ruled.create_table("ns.other", SCHEMA).append(rows(1))
    table = ruled.create_table("ns.t", SCHEMA)
    snapshot = ruled.load_table("ns.other").snapshots()[0]
    assert snapshot.manifest_list is not None
    home, name = table.location(), snapshot.manifest_list.rpartition("/")[2]
    Path(local(home), "metadata").mkdir(exist_ok=True)
    listed = read_manifest_list(local(snapshot.manifest_list).read_bytes(), snapshot.manifest_list)
    own, encrypted = f"{home}/metadata/{name}", f"{home}/metadata/encrypted-{name}"
    # What is said to be encrypted is not looked into, but read all the same.
    for place, manifests in ((own, listed), (encrypted, [evolve(m, key_metadata=b"k") for m in listed])):
        data = write_manifest_list(
            manifests,
            format_version=2,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=None,
            sequence_number=1,
            sync_marker=bytes(16),
        )
        local(place).write_bytes(data)
    theirs = f"{home}/../other/metadata/{name}"
    for place in (snapshot.manifest_list, theirs, theirs.replace("/..", "/%2e%2e"), own, encrypted):
        with pytest.raises(ForbiddenLocationError, match=r"in a place of another table or view: .* ns\.other are"):
            commit_updates(ruled, AddSnapshot(evolve(snapshot, manifest_list=place)))
            pytest.fail(f"{place} was accepted")
    assert not ruled.load_table("ns.t").snapshots()


def test_a_table_is_not_registered_with_metadata_of_another(ruled: icecore.Catalog) -> None:
    """A client may have written the metadata file."""
    table = ruled.create_table("ns.other", SCHEMA)
    table.append(rows(1))
    file = ruled.load_table("ns.other").metadata_location
    assert file is not None
    mine = ruled.path / "ns" / "mine" / "metadata" / "00001-x.metadata.json"
    mine.parent.mkdir(parents=True)
    text = local(file).read_text()
    mine.write_text(text.replace(f'"location":"{table.location()}"', f'"location":"file://{mine.parents[1]}"'))
    with pytest.raises(ForbiddenLocationError, match=r"the manifest list .* in a place of another table"):
        ruled.register_table("ns.mine", str(mine))
    ruled.drop_table("ns.other")
    ruled.register_table("ns.mine", str(mine))


def test_a_table_of_version_1_is_not_registered_with_manifests_of_another(ruled: icecore.Catalog) -> None:
    """Its snapshots may name them without a list."""
    other = ruled.create_table("ns.other", SCHEMA, format_version=1)
    other.append(rows(1))
    (manifest,) = (m["path"] for m in ruled.load_table("ns.other").inspect.manifests().to_pylist())
    file = ruled.load_table("ns.other").metadata_location
    assert file is not None
    mine = ruled.path / "ns" / "mine" / "metadata" / "00001-x.metadata.json"
    mine.parent.mkdir(parents=True)
    metadata = json.loads(local(file).read_text()) | {"location": f"file://{mine.parents[1]}"}
    for snapshot in metadata["snapshots"]:
        del snapshot["manifest-list"]
        snapshot["manifests"] = [manifest]
    mine.write_text(json.dumps(metadata))
    with pytest.raises(ForbiddenLocationError, match=r"the manifest .* in a place of another table"):
        ruled.register_table("ns.mine", str(mine))
    ruled.drop_table("ns.other")
    assert ids_of(ruled.register_table("ns.mine", str(mine))) == [1]


def test_a_folder_of_metadata_that_tables_share_from_before_may_stay(tmp_path: Path) -> None:
    """It was theirs before the rules were there: their clients write on in it."""
    shared = {"write.metadata.path": f"{tmp_path}/wh/shared"}
    with icecore.open(tmp_path / "wh") as free:
        free.create_namespace("ns")
        for name in ("t", "other"):
            free.create_table(f"ns.{name}", SCHEMA, properties=shared).append(rows(1))
    with icecore.open(tmp_path / "wh", location_roots=[], unique_locations=True) as ruled:
        table = ClientCatalog(ruled).load_table("ns.t")
        table.append(pa.table({"id": [2]}))
        assert table.metadata.snapshots[-1].manifest_list.startswith(shared["write.metadata.path"])
        assert sorted(ids_of(ruled.load_table("ns.t"))) == [1, 2]
