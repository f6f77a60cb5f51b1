"""Folders of file system tables that meanwhile are another table's: no version there is written over."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from attrs import evolve
from core_tables import SCHEMA, ids_of, local, lose, make_table, rows, store_of

import icecore
from icecore.engine.errors import CommitConflictError, ForeignCommitError, RebuildError
from icecore.engine.log.store import MODELS
from icecore.engine.spec.snapshot import MetadataLogEntry

FILE_SYSTEM = {"icecore.commit-scheme": "filesystem"}
DELETE = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


def adopted(catalog: icecore.Catalog) -> icecore.Table:
    """A table with versions 1 to 4, of which another engine made the last."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    table.append(rows(1))
    table.append(rows(2))
    m = table.metadata
    log = (*m.metadata_log, MetadataLogEntry(m.last_updated_ms, str(table.metadata_location)))
    theirs = evolve(m, properties={**m.properties, "by": "them"}, metadata_log=log, last_updated_ms=m.last_updated_ms)
    local(table.metadata_location).with_name("v4.metadata.json").write_bytes(theirs.to_json())
    table = catalog.load_table("ns.t")
    assert table.properties["by"] == "them"
    return table


def contents(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("metadata/*")}


def taken(table: icecore.Table, warehouse: Path, versions: int = 2) -> tuple[icecore.Table, Path]:
    """Another table, of another warehouse and with some versions, in the folder of one whose files are gone."""
    folder = local(table.metadata_location).parents[1]
    lose(folder)
    with icecore.open(warehouse) as others:
        others.create_namespace("ns")
        other = others.create_table("ns.t", SCHEMA, location=str(folder), properties=FILE_SYSTEM)
        for _ in range(versions - 1):
            other.append(rows(7))
    return other, folder


def test_a_rebuild_gives_back_no_version_of_a_dropped_table_in_a_folder_of_another(
    catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """Neither one that was adopted, which would be the other's next version, nor ours over theirs."""
    table = adopted(catalog)
    catalog.drop_table("ns.t")
    _, folder = taken(table, tmp_path / "others")
    before = contents(folder)
    catalog.rebuild()
    assert contents(folder) == before
    catalog.undrop_table("ns.t")
    assert contents(folder) == before
    with icecore.open(tmp_path / "others") as others:
        assert ids_of(others.load_table("ns.t")) == [7]


def test_a_rebuild_of_a_table_whose_folder_is_another_tables_says_so(catalog: icecore.Catalog, tmp_path: Path) -> None:
    table = adopted(catalog)
    _, folder = taken(table, tmp_path / "others")
    before = contents(folder)
    with pytest.raises(RebuildError, match=r"v1\.metadata\.json is another table's"):
        catalog.rebuild()
    with pytest.raises(ForeignCommitError, match=r"v1\.metadata\.json is another table's"):
        catalog.rebuild("ns.t")
    assert contents(folder) == before
    lose(folder)
    catalog.rebuild()
    assert (folder / "metadata" / "v4.metadata.json").exists()


@pytest.mark.parametrize("versions", [1, 3, 4])
def test_a_commit_to_a_table_whose_folder_is_another_tables_is_refused(
    catalog: icecore.Catalog, tmp_path: Path, versions: int
) -> None:
    """Else its version were the other's next, or one that is hinted. It may be dropped."""
    table = adopted(catalog)
    _, folder = taken(table, tmp_path / "others", versions)
    before, position = contents(folder), catalog.position
    for _ in range(2):
        with pytest.raises(CommitConflictError, match=r"v\d\.metadata\.json is another table's"):
            table.append(rows(3))
        assert (contents(folder), catalog.position) == (before, position)
    catalog.drop_table("ns.t")
    assert contents(folder) == before
    with icecore.open(tmp_path / "others") as others:
        others.load_table("ns.t").append(rows(8))
        assert len(ids_of(others.load_table("ns.t"))) == versions


def test_a_commit_to_a_table_whose_last_version_is_gone_is_taken(catalog: icecore.Catalog) -> None:
    """So is one whose last version is damaged."""
    table = adopted(catalog)
    metadata = local(table.metadata_location).parent
    (metadata / "v4.metadata.json").unlink()
    table.append(rows(3))
    (metadata / "v5.metadata.json").write_text("{}")
    table.append(rows(4))
    assert (metadata / "v6.metadata.json").exists()
    assert ids_of(catalog.load_table("ns.t")) == [1, 2, 3, 4]


def test_a_version_that_is_damaged_is_no_other_tables(catalog: icecore.Catalog) -> None:
    """It tells no UUID, and is written over."""
    table = adopted(catalog)
    folder = local(table.metadata_location).parents[1]
    before = contents(folder)
    (folder / "metadata" / "v2.metadata.json").write_text('{"table-uuid": 5')
    (folder / "metadata" / "v4.metadata.json").unlink()
    catalog.rebuild()
    assert contents(folder) == before


def test_the_file_of_a_registered_view_does_not_come_back_when_it_was_dropped(
    catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """It is another engine's, which may have deleted it; who takes the drop back can rebuild again."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        location = theirs.create_view("ns.v", "SELECT 1 AS id").metadata_location
    catalog.register_view("ns.v", location)
    catalog.drop_view("ns.v")
    local(location).unlink()
    catalog.rebuild()
    assert not local(location).exists()
    catalog.undrop_view("ns.v")
    catalog.rebuild()
    assert local(location).exists()


def test_a_dropped_table_leaves_its_folder_to_one_that_was_made_there(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """A rebuild writes the one that is there first, and fails for neither."""
    place = str(tmp_path / "place")
    make_table(catalog, "old", location=place, properties=FILE_SYSTEM).append(rows(1))
    catalog.drop_table("ns.old")
    lose(tmp_path / "place")
    make_table(catalog, location=place, properties=FILE_SYSTEM).append(rows(7))
    before = contents(tmp_path / "place")
    lose(tmp_path / "place" / "metadata")
    catalog.rebuild()
    assert contents(tmp_path / "place") == before
    assert ids_of(catalog.load_table("ns.t")) == [7]


def forgetful(catalog: icecore.Catalog, *, is_noted: bool = False) -> tuple[icecore.Table, Path]:
    """A table that deleted its first version, and its folder; earlier releases left a note to delete that again."""
    table = make_table(catalog, "old", properties={**FILE_SYSTEM, **DELETE})
    table.append(rows(1))
    table.append(rows(2))
    folder = local(table.metadata_location).parents[1]
    assert not (folder / "metadata" / "v1.metadata.json").exists()
    if is_noted:
        noted = "UPDATE written_file SET kind = 'metadata-forgotten' WHERE kind = 'metadata-deleted'"
        assert store_of(catalog).connection().execute(noted).rowcount == 1
    return table, folder


@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize("where", ["here", "in another warehouse"])
def test_a_version_of_a_table_where_a_dropped_one_was_outlasts_the_next_open(
    catalog: icecore.Catalog, tmp_path: Path, where: str, is_noted: bool
) -> None:
    """And a purge of the dropped one, if the log does not know it, and what it leads to."""
    table, folder = forgetful(catalog, is_noted=is_noted)
    catalog.drop_table("ns.old")
    if where == "here":
        lose(folder)
        make_table(catalog, location=str(folder), properties=FILE_SYSTEM)
    else:
        taken(table, tmp_path / "others", 1)[0].append(rows(7))
        (folder / "metadata" / "v2.metadata.json").replace(folder / "metadata" / "v1.metadata.json")
    before = contents(folder)
    assert "v1.metadata.json" in before
    catalog.close()
    with icecore.open(catalog.path) as again:
        assert contents(folder) == before
        again.purge_table("ns.old")
        assert contents(folder) == before
        found = store_of(again).connection().execute("SELECT 1 FROM written_file WHERE kind = 'metadata-forgotten'")
        assert found.fetchall() == []


def test_versions_are_noted_of_the_table_that_made_them_last(catalog: icecore.Catalog) -> None:
    """Whichever of them a dropped table had in the same folder, and after a rebuild."""
    _, folder = forgetful(catalog)
    catalog.drop_table("ns.old")
    lose(folder)
    table = make_table(catalog, location=str(folder), properties=FILE_SYSTEM)
    table.append(rows(1))
    for _ in range(2):
        found = store_of(catalog).rows(MODELS, "files_of", stream=table.state.stream)
        named = {f"file://{folder}/metadata/v{number}.metadata.json" for number in (1, 2)}
        assert {row["location"] for row in found if row["kind"] == "metadata"} == named
        catalog.rebuild()


def test_no_table_is_made_below_the_versions_of_another(catalog: icecore.Catalog) -> None:
    """The other's next version would be taken for one of this table, and the other way round."""
    _, folder = forgetful(catalog)
    catalog.drop_table("ns.old")
    before = contents(folder)
    with pytest.raises(CommitConflictError, match=r"v2\.metadata\.json is another table's"):
        make_table(catalog, location=str(folder), properties=FILE_SYSTEM)
    assert contents(folder) == before
    table = make_table(catalog, location=str(folder))
    with pytest.raises(CommitConflictError, match=r"v\d\.metadata\.json is another table's"):
        table.set_properties(FILE_SYSTEM)
    assert ids_of(catalog.undrop_table("ns.old")) == [1, 2]


def test_a_text_is_forgotten_in_no_version_of_another_table(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Though it has the name of one that the text was in."""
    table = make_table(catalog, "old", properties={**FILE_SYSTEM, "who": "ann"})
    table.remove_properties("who")
    _, folder = taken(table, tmp_path / "others")
    before = contents(folder)
    catalog.forget_text("ann", message="asked for")
    assert contents(folder) == before
