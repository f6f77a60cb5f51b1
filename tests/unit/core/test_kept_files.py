"""The log keeps the manifests and lists that others wrote, byte for byte: losing the metadata folder loses nothing."""

from __future__ import annotations

import datetime as dt
import io
import shutil
import sqlite3
from pathlib import Path

import pytest
from client_writes import ClientCatalog, VersionCatalog
from core_tables import (
    ids_of,
    local,
    lose,
    make_table,
    metadata_files,
    peer_ids,
    pyiceberg_catalog,
    repository_of,
    rows,
    store_of,
)
from pyiceberg.table import Table as PeerTable

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.files_of_others import kept_files
from icecore.engine.repository.manifest_lists import BYTES_A_MANIFEST

WRITERS = ("client", "sql", "versions")


def theirs(catalog: icecore.Catalog, writer: str) -> PeerTable:
    """The table as PyIceberg commits to it: by updates sent to us, as version files, or in the shared SQLite file."""
    if writer == "sql":
        return pyiceberg_catalog(catalog.path).load_table("ns.t")
    catalog.load_table("ns.t")
    kind = ClientCatalog if writer == "client" else VersionCatalog
    return kind(catalog).load_table("ns.t")


def written(catalog: icecore.Catalog, writer: str) -> icecore.Table:
    """A table whose commits are by turns ours and theirs: rows 2, 3, 4, 6 and 7 are left."""
    scheme = {"icecore.commit-scheme": "filesystem"} if writer == "versions" else {}
    table = make_table(catalog, properties=scheme)
    table.append(rows(1, 2))
    theirs(catalog, writer).append(rows(3, 4))
    theirs(catalog, writer).delete("id = 1")
    table.refresh().append(rows(5, 6))
    theirs(catalog, writer).delete("id = 5")
    theirs(catalog, writer).append(rows(7))
    return table.refresh()


@pytest.mark.usefixtures("no_hint_to_come")
@pytest.mark.parametrize("writer", WRITERS)
def test_all_files_come_back_byte_for_byte(catalog: icecore.Catalog, writer: str) -> None:
    """After the loss of the metadata folder a rebuild gives every file, theirs too, to us and to them.

    The log has each once, and verify names which is missing or changed.
    """
    table = written(catalog, writer)
    assert catalog.verify().problems == ()
    assert ids_of(table) == [2, 3, 4, 6, 7]
    before = metadata_files(table)
    lose(local(table.metadata_location).parent)
    assert catalog.verify().findings
    catalog.rebuild()
    assert metadata_files(table) == before
    assert catalog.verify().problems == ()
    assert ids_of(catalog.load_table("ns.t")) == peer_ids(catalog.path) == [2, 3, 4, 6, 7]
    catalog.rebuild("ns.t")
    assert metadata_files(table) == before
    each_file_is_kept_once(catalog)
    what_is_missing_or_changed_is_named(catalog, table)


def each_file_is_kept_once(catalog: icecore.Catalog) -> None:
    """A commit keeps what it brings: lists and manifests of before are in the events before, or follow from them."""
    events = [e for e in store_of(catalog).events() if e.kind in (ev.TABLE_COMMITTED, ev.TABLE_ADOPTED)]
    kept = [[f.location for f in kept_files(e.payload)] for e in events]
    named = [location for of_one in kept for location in of_one]
    assert len(named) == len(set(named))
    assert all(store_of(catalog).content(e.position) for e, files in zip(events, kept, strict=True) if files)
    assert not any("/snap-0-" in location for location in named)


def what_is_missing_or_changed_is_named(catalog: icecore.Catalog, table: icecore.Table) -> None:
    kept = [f for e in store_of(catalog).events() for f in kept_files(e.payload)]
    needed = {s.manifest_list for s in table.metadata.snapshots}
    lists = [f for f in kept if f.location in needed]
    assert {f.kind for f in kept} == {"manifest", "manifest-list"}
    local(lists[0].location).unlink()
    spoiled = bytearray(local(lists[-1].location).read_bytes())
    spoiled[-1] ^= 1
    local(lists[-1].location).write_bytes(spoiled)
    text = "\n".join(catalog.verify().problems)
    assert lists[0].location.rsplit("/", 1)[1] in text
    assert lists[-1].location.rsplit("/", 1)[1] in text
    catalog.rebuild()
    assert catalog.verify().problems == ()


def carried(catalog: icecore.Catalog, how: str, folder: Path) -> icecore.Catalog:
    """The same warehouse after an export and import in its place, a clone, or a move."""
    if how == "clone":
        icecore.clone_warehouse(catalog.path, folder)
        return icecore.open(folder)
    data = io.BytesIO()
    catalog.export_log(data)
    catalog.close()
    if how == "move":
        icecore.move_warehouse(catalog.path, folder)
        return icecore.open(folder)
    for path in (*catalog.path.glob("icecore.db*"), *catalog.path.glob("ns/t/metadata")):
        shutil.move(path, folder.with_name(f"lost-{path.name}"))
    data.seek(0)
    icecore.import_log(data, catalog.path)
    return icecore.open(catalog.path)


@pytest.mark.parametrize("how", ["import", "clone", "move"])
def test_a_log_takes_them_along(catalog: icecore.Catalog, tmp_path: Path, how: str) -> None:
    """Wherever the log goes, it has the files: after a loss there a rebuild gives them."""
    before = metadata_files(written(catalog, "client"))
    with carried(catalog, how, tmp_path / "there") as again:
        table = again.load_table("ns.t")
        assert ids_of(table) == [2, 3, 4, 6, 7]
        if how == "import":
            assert metadata_files(table) == before
        assert again.verify().problems == ()
        lose(local(table.metadata_location).parent)
        again.rebuild()
        assert ids_of(again.load_table("ns.t")) == [2, 3, 4, 6, 7]
        assert again.verify().problems == ()


def test_reads_need_no_file_of_theirs(catalog: icecore.Catalog) -> None:
    """Where their files are gone the log has what they held: scans, blame and the history of files go on."""
    table = written(catalog, "client")
    blamed = table.blame().to_pylist()
    history = catalog.sql("SELECT change, file_path FROM file_history ORDER BY ALL").to_pylist()
    for event in store_of(catalog).events():
        for file in kept_files(event.payload):
            local(file.location).unlink()
    with icecore.open(catalog.path, read_only=True) as again:
        table = again.load_table("ns.t")
        assert ids_of(table) == [2, 3, 4, 6, 7]
        assert table.blame().to_pylist() == blamed
        assert again.sql("SELECT change, file_path FROM file_history ORDER BY ALL").to_pylist() == history


@pytest.mark.parametrize("read_only", [False, True])
def test_a_log_of_an_earlier_release_has_them_before_it_is_written(catalog: icecore.Catalog, read_only: bool) -> None:
    """Read models that came later are none of theirs."""
    table = written(catalog, "client")
    catalog.close()
    with sqlite3.connect(catalog.path / "icecore.db") as connection:
        connection.execute("DROP TABLE removed_orphan")
    lose(local(table.metadata_location).parent)
    with icecore.open(catalog.path, read_only=read_only) as lake:
        again = lake.load_table("ns.t")
        assert ids_of(again) == [2, 3, 4, 6, 7]
        assert all(repository_of(lake).entries.kept_bytes(again.state.stream, f) for f in kept_of(lake))


def kept_of(catalog: icecore.Catalog) -> list[str]:
    return [f.location for e in store_of(catalog).events() for f in kept_files(e.payload)]


def test_not_all_lists_of_a_client_stay_in_memory(catalog: icecore.Catalog) -> None:
    """Each commit has a list of all manifests, so a server would grow with the square of its clients' commits."""
    repository = repository_of(catalog)
    kept = repository.lists._foreign_lists
    kept.budget = 7 * BYTES_A_MANIFEST
    make_table(catalog)
    for n in range(6):
        theirs(catalog, "client").append(rows(n))
    table = catalog.load_table("ns.t")
    assert [len(repository.list_manifests(table.state, s)) for s in table.metadata.snapshots] == list(range(1, 7))
    assert 0 < sum(len(listed) for listed, _ in kept._held.values()) <= 7
    assert ids_of(table) == list(range(6))


def test_an_archived_log_has_them_too(catalog: icecore.Catalog) -> None:
    """What snapshots need stays in the log when its events go to an archive, even where that is lost."""
    table = written(catalog, "client")
    before = metadata_files(table)
    archived = catalog.archive(catalog.position - 1)
    assert archived is not None
    lose(local(table.metadata_location).parent)
    archived.path.rename(archived.path.with_name("away"))
    assert ids_of(catalog.load_table("ns.t")) == [2, 3, 4, 6, 7]
    archived.path.with_name("away").rename(archived.path)
    catalog.rebuild()
    assert metadata_files(table) == before
    assert catalog.verify().problems == ()


def test_commits_of_ours_keep_no_files(catalog: icecore.Catalog) -> None:
    make_table(catalog).append(rows(1))
    assert not any(kept_files(e.payload) for e in store_of(catalog).events())


def test_a_loss_inside_of_an_event_is_told(catalog: icecore.Catalog) -> None:
    """Where the log keeps no copy, a lost file is a fault that a rebuild says, and not a silence."""
    written(catalog, "client")
    stream = repository_of(catalog).models.table_stream(("ns", "t"))
    assert repository_of(catalog).entries.kept_bytes(stream, "file:///never") is None


def test_what_is_forgotten_goes_out_of_their_files_too(catalog: icecore.Catalog) -> None:
    """Bounds in manifests that they wrote go with those manifests, once no snapshot has them; the rest stays."""
    table = make_table(catalog)
    theirs(catalog, "client").append(rows(5))
    theirs(catalog, "client").overwrite(rows(6))
    table.refresh()
    assert table.forget(dry_run=True).files == 0
    assert in_events(catalog, "n5")
    table.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).commit()
    assert table.forget().files == 1
    assert not in_events(catalog, "n5") and in_events(catalog, "n6")
    catalog.rebuild()
    assert ids_of(catalog.load_table("ns.t")) == [6]
    assert catalog.verify().problems == ()


def in_events(catalog: icecore.Catalog, text: str) -> bool:
    """Whether the log has a text in bounds."""
    return any(p.kind == "bounds" for p in catalog.find_value(text).places)


def test_a_text_in_their_headers_is_not_forgotten_in_silence(catalog: icecore.Catalog) -> None:
    """The header of a manifest has the comments of columns: what the log keeps whole can't be told without them."""
    table = make_table(catalog)
    with table.update_schema() as schema:
        schema.update_column("name", doc="named after Ann")
    theirs(catalog, "client").append(rows(5))
    with table.refresh().update_schema() as schema:
        schema.update_column("name", doc="a name")
    with pytest.raises(ValidationError, match=r"header of .*, a file of another engine that the log keeps whole"):
        catalog.forget_text("after Ann")
