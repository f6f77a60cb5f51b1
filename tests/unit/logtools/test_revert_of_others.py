"""Commits that other engines made are undone like our own: what was live before them and after them is compared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import orjson
import pytest
from core_tables import ids_of, local, make_table, peer_ids, pyiceberg_catalog, rows
from pyiceberg.catalog import Catalog as PeerCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table as PeerTable
from pyiceberg.types import StringType
from rest_client import served

import icecore
from icecore.engine.errors import CommitConflictError
from icecore.engine.events import files_of_others

Change = Callable[[PeerTable], object]


@pytest.fixture(params=["sql", "rest"])
def peer(request: pytest.FixtureRequest, catalog: icecore.Catalog) -> Iterator[PeerCatalog]:
    """PyIceberg beside the log, or through the server."""
    if request.param == "sql":
        with contextlib.closing(pyiceberg_catalog(catalog.path)) as beside:
            yield beside
    else:
        with served(catalog) as client:
            yield RestCatalog("rest", uri=client.uri)


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize(
    ("change", "changed", "undone"),
    [
        (lambda t: t.append(rows(5)), [1, 2, 3, 4, 5, 9], [1, 2, 3, 4, 9]),
        (lambda t: t.delete("id >= 3"), [1, 2, 9], [1, 2, 3, 4, 9]),
        (lambda t: t.delete("id = 3"), [1, 2, 4, 9], [1, 2, 3, 4, 9]),
        (lambda t: t.overwrite(rows(7), "id > 1"), [1, 7, 9], [1, 2, 3, 4, 9]),
    ],
    ids=["append", "files deleted", "rows deleted", "overwrite"],
)
def test_rows_are_as_before_it(
    catalog: icecore.Catalog,
    peer: PeerCatalog,
    format_version: int,
    change: Change,
    changed: list[int],
    undone: list[int],
) -> None:
    """And the undoing is undone in its turn; later rows stay; a rebuild knows it all (SP3)."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    change(peer.load_table("ns.t"))
    assert catalog.load_table("ns.t").current_snapshot() is not None
    theirs = catalog.position
    table.refresh().append(rows(9))
    assert ids_of(table) == changed
    back = catalog.revert(theirs)
    assert ids_of(table.refresh()) == undone == peer_ids(catalog.path)
    catalog.revert(back)
    assert ids_of(table.refresh()) == changed == peer_ids(catalog.path)
    assert catalog.verify().ok
    catalog.rebuild()
    assert catalog.verify().ok and ids_of(catalog.load_table("ns.t")) == changed


def test_rows_that_another_engine_wrote_again_do_not_come_twice(catalog: icecore.Catalog, peer: PeerCatalog) -> None:
    """The file had come back and was rewritten, by a commit whose entries only its own files have."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1))
    table.append(rows(2, 3))
    table.delete("id >= 2")
    deleted = catalog.position
    catalog.revert(deleted)
    peer.load_table("ns.t").delete("id = 3")
    with pytest.raises(CommitConflictError, match="came back and was rewritten since"):
        catalog.revert(deleted)
    assert ids_of(table.refresh()) == [1, 2]


def test_what_can_not_be_told_any_more_is_refused(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of another engine came since, and its manifest, too large for the log, went with its snapshot."""
    monkeypatch.setattr(files_of_others, "MOST_BYTES", 0)
    table = make_table(catalog, format_version=2)
    table.append(rows(1))
    table.append(rows(2))
    table.delete("id = 2")
    deleted = catalog.position
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as beside:
        beside.load_table("ns.t").append(rows(3))
    theirs = table.refresh().current_snapshot()
    assert theirs is not None
    table.rewrite_data_files(options={"rewrite-all": "true"})
    table.maintenance.expire_snapshots().by_ids([theirs.snapshot_id]).commit()
    with (
        icecore.open(catalog.path) as again,
        pytest.raises(CommitConflictError, match=f"what snapshot {theirs.snapshot_id} did to its files"),
    ):
        again.revert(deleted)
    assert ids_of(table.refresh()) == [1, 3]


def test_what_the_commit_changed_beside_rows_is_set_back(catalog: icecore.Catalog, peer: PeerCatalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    with peer.load_table("ns.t").transaction() as changes:
        changes.set_properties({"owner": "them"})
        with changes.update_schema() as schema:
            schema.add_column("city", StringType())
        changes.append(rows(2))
    assert ids_of(table.refresh()) == [1, 2] and table.properties["owner"] == "them"
    catalog.revert(catalog.position)
    assert ids_of(table.refresh()) == [1] and [f.name for f in table.schema().fields] == ["id", "name"]
    assert "owner" not in table.properties


def test_a_range_of_commits_of_several_engines_is_undone(catalog: icecore.Catalog, peer: PeerCatalog) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2))
    first = catalog.position + 1
    peer.load_table("ns.t").delete("id = 1")
    table.refresh().append(rows(3))
    peer.load_table("ns.t").append(rows(4))
    last = table.refresh().state.position
    table.append(rows(5))
    assert ids_of(table) == [2, 3, 4, 5]
    catalog.revert(first, through=last)
    assert ids_of(table.refresh()) == [1, 2, 5] == peer_ids(catalog.path)


def test_the_rows_of_a_table_that_was_replaced_come_back(catalog: icecore.Catalog) -> None:
    """A snapshot that replaces all has no parent that tells what was there before."""
    table = make_table(catalog, format_version=3)
    table.append(rows(1, 2))
    with catalog.transaction() as transaction:
        transaction.replace_table("ns.t", table.schema()).append(rows(9))
    replaced = catalog.position
    table.refresh().append(rows(3))
    catalog.revert(replaced)
    assert ids_of(table.refresh()) == [1, 2, 3] and catalog.verify().ok


def test_a_view_that_another_engine_changed_is_set_back(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x", properties={"write.metadata.compression-codec": "none"})
    found = orjson.loads(local(view.metadata_location).read_bytes())
    found["properties"]["owner"] = "them"
    theirs = local(view.metadata_location).with_name("00001-theirs.metadata.json")
    theirs.write_bytes(orjson.dumps(found))
    catalog._warehouse.store.connection().execute(
        "UPDATE iceberg_tables SET previous_metadata_location = metadata_location, metadata_location = ? "
        "WHERE table_name = 'v'",
        (theirs.as_uri(),),
    )
    assert view.refresh().properties["owner"] == "them"
    catalog.revert(catalog.position)
    assert "owner" not in view.refresh().properties
