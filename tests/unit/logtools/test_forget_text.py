"""Forgetting a text: who said what, and values that are not in force any more, leave the log for good."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner
from core_tables import ids_of, local, make_table, pyiceberg_catalog, rows, store_of
from traces import traces_of

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import MissingArchiveError, ValidationError

SECRET = "zoe.secret@x.org"


def told(catalog: icecore.Catalog, scheme: str = "metastore") -> icecore.Table:
    """A log with the secret wherever it can be forgotten, none of it in force any more."""
    catalog.create_namespace("people", {"owner": SECRET}, author=SECRET)
    catalog.update_namespace_properties("people", updates={"owner": "bob", "note": f"ask {SECRET}"})
    catalog.update_namespace_properties("people", ["note"], message=f"{SECRET} asked")
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme, "contact": f"mail {SECRET}, or bob"})
    table.append(rows(1), message=f"for {SECRET}", snapshot_properties={"by": SECRET})
    table.set_properties({"contact": "bob"})
    table.append(rows(2))
    table.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).commit()
    view = catalog.create_view("ns.v", "SELECT id FROM t", properties={"contact": SECRET})
    view.set_properties({"contact": "bob"})
    return table


def make_early(catalog: icecore.Catalog) -> None:
    """Gives the events the form of schema version 1, whose hashes are over texts."""
    connection, previous = store_of(catalog).connection(), "0" * 64
    connection.execute("DROP TRIGGER event_is_append_only_update")
    for event in list(store_of(catalog).events()):
        early = evolve(event, schema_version=1, prev_hash=previous).sealed()
        sql = "UPDATE event SET schema_version = 1, prev_hash = ?, hash = ? WHERE position = ?"
        connection.execute(sql, (early.prev_hash, early.hash, early.position))
        previous = early.hash
    connection.execute("DELETE FROM checkpoint")
    catalog._warehouse.repository.forget()
    catalog._warehouse.views.forget()


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
@pytest.mark.parametrize("form", ["now", "early", "archived"])
def test_a_text_is_forgotten_everywhere(catalog: icecore.Catalog, scheme: str, form: str) -> None:
    """From events of either form, archives, checkpoints and metadata files of the past; what there is now stays."""
    table = told(catalog, scheme)
    if form == "early":
        make_early(catalog)
    if form == "archived":
        catalog.archive(before=catalog.position - 4)
    catalog.checkpoint()
    before = catalog.load_table("ns.t").state, catalog.load_view("ns.v").state
    now = local(table.refresh().metadata_location).read_bytes()
    assert traces_of(catalog.path, SECRET)
    found = catalog.forget_text(SECRET, message="asked for", author="dpo")
    assert found.position == catalog.position and len(found.events) == 6
    assert traces_of(catalog.path, SECRET) == []
    assert catalog.verify().problems == ()
    assert (catalog.load_table("ns.t").state, catalog.load_view("ns.v").state) == before
    catalog.rebuild()
    assert catalog.verify().problems == ()
    assert (catalog.load_table("ns.t").state, catalog.load_view("ns.v").state) == before
    assert local(catalog.load_table("ns.t").metadata_location).read_bytes() == now
    assert traces_of(catalog.path, SECRET) == []
    assert ids_of(catalog.load_table("ns.t")) == [1, 2]
    assert catalog.forget_text(SECRET).position is None


def test_the_past_says_that_something_was_forgotten(catalog: icecore.Catalog) -> None:
    told(catalog)
    catalog.forget_text(SECRET, author="dpo")
    assert "for forgotten" in catalog.log("ns.t")["message"].to_pylist()
    assert "forgotten" in catalog.log()["actor"].to_pylist()
    created = catalog.log("ns.t", kind="table.created")["position"][0].as_py()
    assert catalog.at(created).load_table("ns.t").properties["contact"] == "mail forgotten, or bob"
    assert catalog.log(limit=1)["changes"].to_pylist() == ["forget text, of 6 events"]


def test_some_positions_only(catalog: icecore.Catalog) -> None:
    told(catalog)
    asked = [r["position"] for r in catalog.log().to_pylist() if r["message"] == f"{SECRET} asked"]
    assert catalog.forget_text(SECRET, positions=asked).events == tuple(asked)
    assert len(catalog.forget_text(SECRET, dry_run=True).events) == 5
    assert catalog.verify().problems == ()


def test_what_can_not_be_forgotten(catalog: icecore.Catalog) -> None:
    """What is in force, names and paths; nothing is forgotten then, of other events neither."""
    table = make_table(catalog, "secret", properties={"contact": "zoe"})
    catalog.create_namespace("other", {"contact": "amy"}, message="zoe and amy")
    position = catalog.position
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("zoe", {}, r"still in force in ns\.secret"),
        ("amy", {}, "still in force in the namespace other"),
        ("secret", {}, r"position 2: the table\.created event has the text in a name"),
        ("forgot", {}, "text that is not in 'forgotten'"),
        ("", {}, "must be text"),
        ("zoe", {"message": "zoe asked"}, "with that very text"),
        ("zoe", {"positions": [99]}, "there is no position 99"),
    ]
    for text, options, expected in refused:
        with pytest.raises(ValidationError, match=expected):
            catalog.forget_text(text, **options)
    assert catalog.position == position
    table.set_properties({"contact": "bob"})
    assert catalog.forget_text("zoe").events == (2, 3)
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("text", ["ada", 'ad"a', "a\\da"])
def test_a_text_in_a_metadata_file_of_another_engine_can_not_be_forgotten(catalog: icecore.Catalog, text: str) -> None:
    """However JSON writes it there: else it stayed in the log's copy of the file."""
    make_table(catalog)
    peer = pyiceberg_catalog(catalog.path)
    with peer.load_table("ns.t").transaction() as change:
        change.set_properties(note=text)
    peer.close()
    assert catalog.load_table("ns.t").properties["note"] == text
    with pytest.raises(ValidationError, match="another engine's metadata file"):
        catalog.forget_text(text)


def test_the_text_of_a_dropped_table_is_forgotten_once_it_is_purged(catalog: icecore.Catalog) -> None:
    """Until then it can be had back, and after that nobody could change it."""
    table = make_table(catalog, properties={"contact": "zoe"})
    table.append(rows(1), snapshot_properties={"asked-by": "zoe"})
    end = catalog.position
    catalog.drop_table("ns.t")
    with pytest.raises(ValidationError, match=r"still in force in ns\.t, which can be undropped"):
        catalog.forget_text("zoe")
    catalog.purge_table("ns.t")
    assert catalog.forget_text("zoe").events == (2, 3)
    assert catalog.at(end).load_table("ns.t").properties["contact"] == "forgotten"
    catalog.rebuild()
    assert catalog.verify().problems == () and not list(local(table.location()).rglob("*.json"))


def test_the_command_forgets_a_text(catalog: icecore.Catalog) -> None:
    told(catalog)

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, ["forget", "-w", str(catalog.path), *words])

    assert run("--text", SECRET, "--dry-run").output == "would forget the text in 6 events\n"
    assert run("--text", SECRET, "--yes").output == "forgot the text in 6 events\n"
    assert run("ns.t", "--text", SECRET).exit_code == run().exit_code == 2


@pytest.mark.parametrize("spelled", ["..", "link"])
def test_forgetting_keeps_an_archive_whose_path_is_written_another_way(
    catalog: icecore.Catalog, warehouse: Path, spelled: str
) -> None:
    """It is not one that an archiving left behind, though it lies beside the log under such a name."""
    told(catalog)
    (warehouse.parent / "link").symlink_to(warehouse)
    beside = warehouse.parent / "link" if spelled == "link" else warehouse / ".." / warehouse.name
    catalog.archive(before=4, path=beside / "icecore.db.archive-00000001-00000003")
    catalog.create_namespace("late", message="by amy")
    catalog.forget_text("amy")
    assert catalog.verify().problems == () and len(catalog.log()) == catalog.position


def test_a_log_from_a_backup_whose_archive_was_written_anew_leaves_that_one(
    catalog: icecore.Catalog, warehouse: Path, tmp_path: Path
) -> None:
    """It is of the later log, which may be put back yet, and all that is left of these events."""
    told(catalog)
    catalog.archive(before=catalog.position)
    catalog.close()
    shutil.copy(warehouse / "icecore.db", tmp_path / "backup.db")
    with icecore.open(warehouse) as lake:
        lake.forget_text(SECRET)
    shutil.copy(warehouse / "icecore.db", tmp_path / "later.db")
    (anew,) = warehouse.glob("*.forgotten-*")
    shutil.copy(tmp_path / "backup.db", warehouse / "icecore.db")
    with icecore.open(warehouse) as lake:
        lake.create_namespace("late", message="by amy")
        with pytest.raises(MissingArchiveError):
            lake.forget_text("amy")
    assert anew.exists()
    shutil.copy(tmp_path / "later.db", warehouse / "icecore.db")
    with icecore.open(warehouse) as lake:
        assert lake.verify().problems == ()
