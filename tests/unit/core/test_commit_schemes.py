"""How files are named and moved: both commit schemes, materializing by hand, and properties that say where and how."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from core_tables import adopted_copy, ids_of, local, make_table, metadata_files, peer_ids, rows, store_of

import icecore
from icecore.engine.errors import CommitConflictError, StorageError, TableAlreadyExistsError, ValidationError
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.table import pending_commit

FILE_SYSTEM = {"icecore.commit-scheme": "filesystem"}


def hint(table: icecore.Table) -> str:
    return (local(table.metadata_location).parent / "version-hint.text").read_text()


def versions(table: icecore.Table) -> list[str]:
    return sorted(n for n in metadata_files(table) if n.endswith(".metadata.json"))


def test_md7_metastore_names(catalog: icecore.Catalog) -> None:
    """MD7: `<V>-<uuid>.metadata.json` with five digits from 0, the uuid being the event's id."""
    table = make_table(catalog)
    table.append(rows(1))
    events = [e.event_id for e in store_of(catalog).stream_events(table.state.stream)]
    assert versions(table) == [f"0000{i}-{e}.metadata.json" for i, e in enumerate(events)]
    assert hint(table) == f"00001-{events[1]}"
    assert local(table.metadata_location).name == versions(table)[-1]


def test_md7_file_system_names(catalog: icecore.Catalog) -> None:
    """MD7: `v<V>.metadata.json` from 1, with the number in version-hint.text."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    table.append(rows(1))
    assert versions(table) == ["v1.metadata.json", "v2.metadata.json"]
    assert hint(table) == "2"
    assert peer_ids(catalog.path) == [1]


@pytest.mark.parametrize(("hinted", "gone", "newest"), [("1", (), 4), ("3", (), 4), ("1", (3,), 2), ("9", (3,), 4)])
def test_md7_versions_that_the_hint_is_behind_are_commits(
    catalog: icecore.Catalog, tmp_path: Path, hinted: str, gone: tuple[int, ...], newest: int
) -> None:
    """MD7: a version is a commit once its file is there; of a folder the last that follows the hint is registered."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    for number in (1, 2, 3):
        table.append(rows(number))
    folder = local(table.metadata_location).parent
    (folder / "version-hint.text").write_text(hinted)
    for version in gone:
        (folder / f"v{version}.metadata.json").unlink()
    (folder / "v2.metadata.json").rename(folder / "v2.gz.metadata.json")
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        assert ids_of(other.register_table("ns.t", str(folder.parent))) == list(range(1, newest))


def test_registering_changes_nothing_beside_the_metadata_file(catalog: icecore.Catalog, tmp_path: Path) -> None:
    table = make_table(catalog)
    beside = local(table.metadata_location).parent / "version-hint.text"
    beside.write_text("as its owner has it")
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        other.register_table("ns.t", table.metadata_location or "")
    assert beside.read_text() == "as its owner has it"


@pytest.mark.parametrize("commit", ["append", "delete", "properties", "schema"])
def test_md7_a_version_that_another_writer_made_is_a_conflict(catalog: icecore.Catalog, commit: str) -> None:
    """The atomic create of V+1 fails where it exists: nothing is in the log, and the other's file stays."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    table.append(rows(1))
    other = local(table.metadata_location).with_name("v3.metadata.json")
    other.write_bytes(b'{"made by": "another engine"}')
    position, before = catalog.position, table.state
    with pytest.raises(CommitConflictError, match=r"v3\.metadata\.json"):
        match commit:
            case "append":
                table.append(rows(2))
            case "delete":
                table.delete("id = 1")
            case "properties":
                table.set_properties({"a": "b"})
            case _:
                table.update_schema().add_column("x", "long").commit()
    assert catalog.position == position
    assert other.read_bytes() == b'{"made by": "another engine"}'
    with pytest.warns(ForeignCommitWarning, match=r"v3\.metadata\.json"):
        assert table.refresh().state == before
    assert hint(table) == "2"
    (problem,) = catalog.verify().problems
    assert "v3.metadata.json is ahead of the log" in problem
    other.unlink()
    table.append(rows(3))
    assert ids_of(table) == [1, 3], "what was refused before must not show up"
    assert peer_ids(catalog.path) == [1, 3]
    assert catalog.verify().problems == ()


def test_md7_a_new_file_system_table_does_not_take_the_place_of_another(catalog: icecore.Catalog) -> None:
    """Where v1 exists at the location, creating the table is a conflict, and the log has no table."""
    first = make_table(catalog, "first", properties=FILE_SYSTEM)
    position = catalog.position
    with pytest.raises(CommitConflictError, match=r"v1\.metadata\.json"):
        make_table(catalog, "second", properties=FILE_SYSTEM, location=first.location())
    assert catalog.position == position
    assert not catalog.table_exists("ns.second")


def test_md7_gzip(catalog: icecore.Catalog) -> None:
    """MD7: gzip metadata is called `.gz.metadata.json`, PyIceberg reads it, and its bytes are the same each time."""
    for name, properties in (("a", {}), ("b", FILE_SYSTEM)):
        table = make_table(catalog, name, properties={"write.metadata.compression-codec": "gzip", **properties})
        table.append(rows(1))
        path = local(table.metadata_location)
        assert path.name.endswith(".gz.metadata.json")
        assert json.loads(gzip.decompress(path.read_bytes()))["table-uuid"] == table.metadata.table_uuid
        assert peer_ids(catalog.path, f"ns.{name}") == [1]
    before = metadata_files(table)
    catalog.rebuild()
    assert metadata_files(table) == before


def test_compression_can_change(catalog: icecore.Catalog) -> None:
    """The codec counts for the version that it is set in, and for those after it."""
    table = make_table(catalog)
    table.set_properties({"write.metadata.compression-codec": "gzip"})
    table.set_properties({"write.metadata.compression-codec": "none"})
    assert [".gz." in n for n in versions(table)] == [False, True, False]
    assert peer_ids(catalog.path) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.metadata.compression-codec", "zip"),
        ("write.metadata.compression-codec", ""),
        ("icecore.commit-scheme", "hadoop"),
        ("icecore.materialize", "later"),
    ],
)
def test_a_property_that_keeps_files_from_being_written_is_refused(
    catalog: icecore.Catalog, key: str, value: str
) -> None:
    """Such a value is refused before anything is in the log, at creation and later."""
    table = make_table(catalog)
    position = catalog.position
    with pytest.raises(ValidationError, match=key):
        table.set_properties({key: value})
    with pytest.raises(ValidationError, match=key):
        make_table(catalog, "u", properties={key: value})
    assert catalog.position == position
    table.append(rows(1))
    assert peer_ids(catalog.path) == [1]


@pytest.mark.parametrize("value", ["²", "-1", "", "many", "1.5", "٣"])
@pytest.mark.parametrize("key", ["write.metadata.previous-versions-max", "commit.manifest.target-size-bytes"])
def test_a_number_that_is_none_falls_back(catalog: icecore.Catalog, key: str, value: str) -> None:
    """An odd number in a property of an adopted table never ends in a ValueError; the default counts."""
    table = adopted_copy(catalog, make_table(catalog), {key: value})
    table.append(rows(1))
    table.append(rows(2))
    assert ids_of(table) == [1, 2]


@pytest.mark.parametrize("where", ["absolute", "relative"])
def test_md7_paths_for_metadata_and_data(catalog: icecore.Catalog, where: str) -> None:
    """MD7: `write.metadata.path` and `write.data.path` are taken absolute or relative to the location."""
    table = make_table(catalog)
    base = str(catalog.path / "elsewhere") if where == "absolute" else "elsewhere"
    expected = catalog.path / "elsewhere" if where == "absolute" else local(table.location()) / "elsewhere"
    table.set_properties({"write.metadata.path": f"{base}/meta", "write.data.path": f"{base}/rows/"})
    table.append(rows(1))
    table.delete("id = 5")
    folder = local(table.metadata_location).parent
    assert folder == expected / "meta"
    assert any(n.startswith("snap-") for n in metadata_files(table))
    data = [local(t.file.file_path) for t in table.scan().plan_files()]
    assert [p.parent for p in data] == [expected / "rows"]
    assert peer_ids(catalog.path) == [1]
    before = metadata_files(table)
    catalog.rebuild()
    assert metadata_files(table) == before
    assert catalog.verify().problems == ()


def test_another_location_is_where_new_files_go(catalog: icecore.Catalog) -> None:
    """Rows of the same transaction too; the files that are there stay where they are, and are read."""
    table = make_table(catalog)
    table.append(rows(1))
    with table.transaction() as transaction:
        transaction.update_location(str(catalog.path / "elsewhere"))
        transaction.append(rows(2))
    catalog.rebuild()
    table = catalog.load_table("ns.t")
    assert local(table.metadata_location).parent == catalog.path / "elsewhere" / "metadata"
    data = [local(t.file.file_path).parent.parent.name for t in table.scan().plan_files()]
    assert sorted(data) == ["elsewhere", "t"]
    assert ids_of(table) == peer_ids(catalog.path) == [1, 2]
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("key", ["write.metadata.path", "write.data.path"])
def test_a_path_on_no_file_system_is_refused(catalog: icecore.Catalog, key: str) -> None:
    """A folder of a scheme that nobody knows is refused before a commit relies on it."""
    table = make_table(catalog)
    position = catalog.position
    with pytest.raises(StorageError, match="nosuch"):
        table.set_properties({key: "nosuch://bucket/x"})
        table.append(rows(1))
    assert ids_of(table.refresh()) == []
    if key == "write.metadata.path":
        assert catalog.position == position
    with pytest.raises(StorageError, match="nosuch"):
        make_table(catalog, "u", location="nosuch://bucket/u")
    assert not catalog.table_exists("ns.u")


@pytest.mark.parametrize("keep", [1, 3])
def test_md2_previous_versions_max(catalog: icecore.Catalog, keep: int) -> None:
    """MD2: the metadata log holds the files before, oldest first, at most as many as the property says."""
    table = make_table(catalog, properties={"write.metadata.previous-versions-max": str(keep)})
    locations, times = [], []
    for i in range(5):
        locations.append(table.metadata_location)
        times.append(table.metadata.last_updated_ms)
        table.append(rows(i))
    log = table.metadata.metadata_log
    assert [e.metadata_file for e in log] == locations[-keep:]
    assert [e.timestamp_ms for e in log] == times[-keep:]


# What is in the metadata


def test_summaries_and_totals(catalog: icecore.Catalog) -> None:
    """L4, L5: operations and totals of appends, deletes and overwrites."""
    table = make_table(catalog)
    table.append(rows(1, 2), snapshot_properties={"job": "a"})
    table.append(rows(3))
    table.delete("id = 3")
    table.delete("id = 1")
    table.overwrite(rows(7, 8, 9))
    found = [dict(s.summary or {}) for s in table.snapshots()]
    assert [s["operation"] for s in found] == ["append", "append", "delete", "overwrite", "overwrite"]
    assert [s["total-records"] for s in found] == ["2", "3", "2", "1", "3"]
    assert [s["total-data-files"] for s in found] == ["1", "2", "1", "1", "1"]
    assert found[0]["job"] == "a" and "job" not in found[1]
    assert found[4]["deleted-records"] == "1" and found[4]["added-records"] == "3"
    assert all(isinstance(v, str) for s in found for v in s.values())


def test_a_transaction_is_one_event(catalog: icecore.Catalog) -> None:
    """Schema, properties, rows and a tag in one transaction are one event and one metadata file."""
    table = make_table(catalog)
    position = catalog.position
    with table.transaction(message="all") as transaction:
        transaction.update_schema().add_column("x", "long").commit()
        transaction.set_properties({"a": "b"})
        transaction.append(rows(1))
        transaction.append(rows(2))
    assert catalog.position == position + 1
    assert len(versions(table)) == 2
    assert ids_of(table) == [1, 2]
    assert [s.sequence_number for s in table.snapshots()] == [1, 2]
    assert [e.snapshot_id for e in table.history()] == [table.snapshots()[1].snapshot_id]
    assert peer_ids(catalog.path) == [1, 2]


@pytest.mark.parametrize("ids", [(9, 10, 11), (11, 10, 9), (10, 9, 100)])
def test_snapshots_of_one_event_follow_each_other_whatever_their_ids(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, ids: tuple[int, ...]
) -> None:
    """Several snapshots of one transaction build on each other in order, however their ids sort."""
    table = make_table(catalog)
    numbers = iter(ids)
    monkeypatch.setattr(pending_commit, "new_snapshot_id", lambda taken: next(numbers))
    with table.transaction() as transaction:
        for i in range(3):
            transaction.append(rows(i))
    assert [s.snapshot_id for s in table.snapshots()] == list(ids)
    assert [ids_of(table, snapshot_id=i) for i in ids] == [[0], [0, 1], [0, 1, 2]]
    assert peer_ids(catalog.path) == [0, 1, 2]
    before = metadata_files(table)
    catalog.rebuild()
    assert metadata_files(table) == before
    assert catalog.verify().problems == ()


def test_a_transaction_that_fails_changes_nothing(catalog: icecore.Catalog) -> None:
    """An error inside of the block, or in the last step, leaves no event."""
    table = make_table(catalog)
    position = catalog.position
    with pytest.raises(RuntimeError), table.transaction() as transaction:
        transaction.append(rows(1))
        raise RuntimeError("changed my mind")
    with pytest.raises(ValidationError), table.transaction() as transaction:
        transaction.append(rows(1))
        transaction.update_schema().add_column("id", "long").commit()
    assert catalog.position == position
    assert ids_of(table.refresh()) == []


def test_a_delete_in_a_transaction_sees_its_schema(catalog: icecore.Catalog) -> None:
    """A delete after a rename in the same transaction filters by the new name, and keeps the values."""
    table = make_table(catalog)
    table.append(rows(1, 2, 3))
    with table.transaction() as transaction:
        transaction.update_schema().rename_column("name", "label").add_column("x", "long").commit()
        transaction.delete("label = 'n1'")
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 2, "label": "n2", "x": None}, {"id": 3, "label": "n3", "x": None}]
    assert peer_ids(catalog.path) == [2, 3]


def test_a_location_is_not_shared_by_accident(catalog: icecore.Catalog) -> None:
    """A table made again under a dropped table's name gets a folder of its own."""
    first = make_table(catalog)
    first.append(rows(1))
    catalog.drop_table("ns.t")
    second = make_table(catalog)
    assert second.location() != first.location()
    assert ids_of(second) == []
    assert re.fullmatch(r".*/ns/t-[0-9a-f]{8}", second.location())
    assert catalog.verify().problems == ()


def test_names_are_unique_in_a_namespace(catalog: icecore.Catalog) -> None:
    """A table can't be created or renamed over another."""
    make_table(catalog)
    make_table(catalog, "u")
    with pytest.raises(TableAlreadyExistsError, match=r"ns\.t"):
        make_table(catalog)
    with pytest.raises(TableAlreadyExistsError, match=r"ns\.t"):
        catalog.rename_table("ns.u", "ns.t")


def test_history_of_metadata_is_read_by_the_bytes(catalog: icecore.Catalog) -> None:
    """Every metadata file in the log says the state of its own version."""
    table = make_table(catalog, format_version=2)
    states: list[Any] = [table.metadata]
    for i in range(3):
        table.append(rows(i))
        states.append(table.metadata)
    files = metadata_files(table)
    assert [icecore.TableMetadata.from_json(files[n]) for n in versions(table)] == states
