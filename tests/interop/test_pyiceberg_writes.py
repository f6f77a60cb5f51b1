"""Tables that PyIceberg wrote elsewhere are registered, read and written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import ids_of, local, peer_ids, repository_of, rows
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from pyiceberg.types import StringType

import icecore
from icecore.engine.errors import CorruptFileError, MissingFileError, StorageError, UnsupportedFormatVersionError


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[SqlCatalog]:
    """A catalog of PyIceberg's own, in another folder."""
    folder = tmp_path / "peer"
    folder.mkdir()
    made = SqlCatalog("peer", uri=f"sqlite:///{folder}/peer.db", warehouse=str(folder))
    made.create_namespace("their")
    yield made
    made.close()


def table_of(peer: SqlCatalog, version: int = 2, partitioned: bool = False) -> Any:
    """A table of PyIceberg's with three appends, an evolution, a delete and a branch."""
    table = peer.create_table("their.t", rows().schema, properties={"format-version": str(version)})
    if partitioned:
        with table.update_spec() as spec:
            spec.add_identity("name")
    table.append(rows(1, 2))
    table.append(rows(3))
    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.append(rows(4).append_column("note", pa.array(["four"])))
    table.delete("id = 1")
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "dev").commit()
    return table


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_a_table_of_pyiceberg_is_adopted(
    catalog: icecore.Catalog, peer: SqlCatalog, version: int, partitioned: bool
) -> None:
    """Registered as it is, it reads equal, at every snapshot; appended and deleted here, PyIceberg reads it again."""
    theirs = table_of(peer, version, partitioned)
    table = catalog.register_table("ns.t", theirs.metadata_location)
    assert table.metadata_location == "file://" + theirs.metadata_location.removeprefix("file://")
    assert table.scan().to_arrow().sort_by("id").to_pylist() == theirs.scan().to_arrow().sort_by("id").to_pylist()
    for snapshot in theirs.snapshots():
        expected = sorted(theirs.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist())
        assert ids_of(table, snapshot_id=snapshot.snapshot_id) == expected
    before = {p: p.read_bytes() for p in local(theirs.metadata_location).parent.iterdir()}
    table.append(rows(5))
    table.delete("id = 2 OR id = 5")
    table.append(rows(6), branch="dev")
    assert ids_of(table) == [3, 4]
    again = StaticTable.from_metadata(table.metadata_location or "")
    assert sorted(again.scan().to_arrow()["id"].to_pylist()) == [3, 4]
    dev = again.snapshot_by_name("dev")
    assert dev is not None
    assert sorted(again.scan(snapshot_id=dev.snapshot_id).to_arrow()["id"].to_pylist()) == [2, 3, 4, 6]
    assert {p: p.read_bytes() for p in before} == before, "nothing of theirs was changed"
    assert peer_ids(catalog.path) == [3, 4]
    assert catalog.verify().problems == ()


def test_an_adopted_table_needs_its_old_files_no_more_for_the_log(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """The state replays from the log alone; the version continues from the file's name."""
    theirs = table_of(peer)
    table = catalog.register_table("ns.t", theirs.metadata_location)
    number = int(theirs.metadata_location.rsplit("/", 1)[1].split("-")[0])
    assert table.state.metadata_version == number
    table.append(rows(9))
    assert table.state.metadata_version == number + 1
    local(theirs.metadata_location).unlink()
    with icecore.open(catalog.path) as again:
        assert again.load_table("ns.t").state == table.state
        assert ids_of(again.load_table("ns.t")) == [2, 3, 4, 9]


def test_a_copied_table_is_read_and_written_through_a_mapping(
    catalog: icecore.Catalog, peer: SqlCatalog, tmp_path: Path
) -> None:
    """A location mapping reads a copy where it lies, writes only there, and so does a rebuild."""
    theirs = table_of(peer)
    origin = local(theirs.location())
    copy = tmp_path / "copy"
    shutil.copytree(origin, copy)
    hidden = tmp_path / "hidden"
    origin.rename(hidden)
    name = theirs.metadata_location.rsplit("/", 1)[1]
    mapping = {theirs.location(): str(copy)}
    table = catalog.register_table("ns.t", str(copy / "metadata" / name), location_mapping=mapping)
    table.append(rows(7))
    table.delete("id = 3")
    assert ids_of(table) == [2, 4, 7]
    assert not origin.exists(), "nothing was written where the table once was"
    files = {p: p.read_bytes() for p in (copy / "metadata").iterdir()}
    catalog.rebuild()
    assert not origin.exists()
    assert {p: p.read_bytes() for p in (copy / "metadata").iterdir()} == files
    with icecore.open(catalog.path) as again:
        assert ids_of(again.load_table("ns.t")) == [2, 4, 7]
        assert again.verify().problems == ()


def test_a_table_registered_twice_has_two_histories(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """One metadata file under two names: each name has a stream of its own."""
    theirs = table_of(peer)
    first = catalog.register_table("ns.a", theirs.metadata_location)
    second = catalog.register_table("ns.b", theirs.metadata_location)
    first.append(rows(8))
    assert ids_of(first) == [2, 3, 4, 8]
    assert ids_of(second.refresh()) == [2, 3, 4]
    assert repository_of(catalog).state(first.state.stream) != repository_of(catalog).state(second.state.stream)
    assert catalog.verify().problems == ()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", CorruptFileError),
        (b"{", CorruptFileError),
        (b"[]", CorruptFileError),
        (b"{}", CorruptFileError),
        (b"\xff\xfe", CorruptFileError),
        (b"\x1f\x8b broken gzip", CorruptFileError),
        (b'{"format-version": 4}', UnsupportedFormatVersionError),
        (b'{"format-version": "2"}', CorruptFileError),
        (None, MissingFileError),
    ],
)
def test_a_bad_metadata_file_is_named(
    catalog: icecore.Catalog, tmp_path: Path, content: bytes | None, error: type[Exception]
) -> None:
    """Registering what is no table metadata names the file, and leaves no trace."""
    path = tmp_path / "00000-bad.metadata.json"
    if content is not None:
        path.write_bytes(content)
    position = catalog.position
    with pytest.raises(error, match=r"00000-bad\.metadata\.json"):
        catalog.register_table("ns.bad", str(path))
    assert catalog.position == position
    assert not catalog.table_exists("ns.bad")


def test_every_truncation_of_a_metadata_file_is_an_error_of_ours(
    catalog: icecore.Catalog, peer: SqlCatalog, tmp_path: Path
) -> None:
    """A metadata file that was cut anywhere is corrupt, never half a table."""
    data = local(table_of(peer).metadata_location).read_bytes()
    path = tmp_path / "00001-cut.metadata.json"
    for kept in range(0, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:kept])
        with pytest.raises(CorruptFileError, match="00001-cut"):
            catalog.register_table("ns.cut", str(path))


DAMAGE = ("cut", "empty", "noise", "lost", "text")


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["list", "manifest", "data"])
def test_a_damaged_file_of_an_adopted_table_is_named(
    catalog: icecore.Catalog, peer: SqlCatalog, kind: str, damage: str
) -> None:
    """Reading over a damaged manifest list, manifest or data file names the file, in an error of ours."""
    theirs = table_of(peer)
    snapshot = theirs.current_snapshot()
    manifest = snapshot.manifests(theirs.io)[0]
    location = {
        "list": snapshot.manifest_list,
        "manifest": manifest.manifest_path,
        "data": manifest.fetch_manifest_entry(theirs.io)[0].data_file.file_path,
    }[kind]
    path = local(location)
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "empty":
            path.write_bytes(b"")
        case "noise":
            path.write_bytes(bytes((b * 7 + 13) % 256 for b in data))
        case "lost":
            path.unlink()
        case _:
            path.write_text("what was here is gone")
    table = catalog.register_table("ns.t", theirs.metadata_location)
    expected = MissingFileError if damage == "lost" else (CorruptFileError, StorageError)
    with pytest.raises(expected, match=path.name):
        table.scan().to_arrow()
    if kind != "data":
        with pytest.raises(expected, match=path.name):
            table.delete("id = 3")
        with pytest.raises(expected, match=path.name):
            table.scan().plan_files()
