"""`write.metadata.delete-after-commit.enabled`: old metadata files go, and everything knows that (MD2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from clean_processes import exit_codes_of
from core_tables import ids_of, local, make_table, peer_ids, pyiceberg_catalog, repository_of, rows, store_of

import icecore
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.log.store import MODELS
from icecore.projections.files import materialize

KEEP_TWO = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
SCHEMES = pytest.mark.parametrize("scheme", ["metastore", "filesystem"])


def files_of(table: icecore.Table) -> set[str]:
    return {f"file://{p}" for p in local(f"{table.location()}/metadata").glob("*.metadata.json")}


def named_by(table: icecore.Table) -> set[str]:
    return {e.metadata_file for e in table.metadata.metadata_log} | {table.metadata_location or ""}


@SCHEMES
@pytest.mark.parametrize("asked", ["from the start", "later"])
def test_MD2_files_that_fall_out_of_the_log_are_deleted(
    catalog: icecore.Catalog, warehouse: Path, scheme: str, asked: str
) -> None:
    now = KEEP_TWO if asked == "from the start" else {}
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme, **now})
    for number in range(6):
        table.append(rows(number))
    if asked == "later":
        assert len(files_of(table)) == 7
        table.set_properties(KEEP_TWO)
        table.append(rows(6))
        table.append(rows(7))
        assert len(table.metadata.metadata_log) == 2
    else:
        assert len(files_of(table)) == 3
    assert files_of(table) == named_by(table)
    found = catalog.verify()
    assert found.ok, found
    assert ids_of(table) == peer_ids(warehouse)
    before = {p: p.read_bytes() for p in local(f"{table.location()}/metadata").iterdir()}
    catalog.rebuild()
    assert {p: p.read_bytes() for p in local(f"{table.location()}/metadata").iterdir()} == before
    found = catalog.verify()
    assert found.ok, found


def test_what_another_engine_deletes_with_its_commit_is_not_missed(catalog: icecore.Catalog, warehouse: Path) -> None:
    """PyIceberg deletes what falls out of the metadata log itself, files of ours among it."""
    table = make_table(catalog, properties=KEEP_TWO)
    for number in range(3):
        table.append(rows(number))
    before = files_of(table)
    pyiceberg_catalog(warehouse).load_table("ns.t").append(rows(9))
    assert len(before - files_of(table)) == 1
    table.refresh()
    assert catalog.verify().problems == ()
    table.append(rows(10))
    left = files_of(table)
    catalog.rebuild()
    assert files_of(table) == left and catalog.verify().problems == ()


def test_what_a_restored_state_lets_go_is_named_and_deleted(catalog: icecore.Catalog, warehouse: Path) -> None:
    """The log's state goes on over another engine's: the file that falls out of the metadata log goes with it."""
    limit = {"write.metadata.previous-versions-max": "2"}
    table = make_table(catalog, properties={**limit, "icecore.materialize": "manual"})
    for number in range(3):
        table.append(rows(number))
        catalog.materialize("ns.t")
    kept = files_of(table)
    table.set_properties(KEEP_TWO)
    table.append(rows(4))
    pyiceberg_catalog(warehouse).load_table("ns.t").append(rows(9))
    with pytest.warns(ForeignCommitWarning, match="resolve"):
        table = catalog.resolve("ns.t", "log", author="ann")
    assert [len(table.metadata.metadata_log), ids_of(table)] == [2, [0, 1, 2, 4]]
    restored = store_of(catalog).event_at(catalog.position)
    own = {r["location"] for r in store_of(catalog).rows(MODELS, "all_files_of", stream=table.state.stream)}
    assert restored.kind == "table.restored" and set(restored.payload["deleted-metadata"]) <= own
    [gone] = kept - files_of(table)
    assert restored.payload["deleted-metadata"] == [gone] and gone not in named_by(table) <= files_of(table)
    assert catalog.verify().problems == ()
    catalog.rebuild()
    assert gone not in files_of(table) and catalog.verify().problems == ()


@SCHEMES
@pytest.mark.parametrize("manual", [False, True])
def test_the_commit_says_which_go(catalog: icecore.Catalog, scheme: str, manual: bool) -> None:
    """With who and why: every file that is gone is named by an event, and all that are named are gone."""
    by_hand = {"icecore.materialize": "manual"} if manual else {}
    table = make_table(catalog, properties={**KEEP_TWO, "icecore.commit-scheme": scheme, **by_hand})
    seen = set[str]()
    for number in range(6):
        table.append(rows(number), author="eve", message="once more")
        catalog.materialize("ns.t", author="eve", message="once more")
        table.refresh()
        seen |= files_of(table)
    told = [e for e in store_of(catalog).events() if "deleted-metadata" in e.payload]
    assert {(e.provenance.actor, e.provenance.message) for e in told} == {("eve", "once more")}
    assert {f for e in told for f in e.payload["deleted-metadata"]} == seen - files_of(table) != set()
    if not manual:
        assert catalog.log().to_pylist()[-1]["changes"].endswith("delete 1 metadata file")


def test_what_is_still_named_stays_and_a_lost_file_is_still_a_problem(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties=KEEP_TWO)
    for number in range(4):
        table.append(rows(number))
    local(table.metadata.metadata_log[0].metadata_file).unlink()
    assert not catalog.verify().ok
    catalog.rebuild()
    assert catalog.verify().ok and files_of(table) == named_by(table)


def test_not_asked_nothing_is_deleted(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"write.metadata.previous-versions-max": "1"})
    for number in range(4):
        table.append(rows(number))
    assert len(files_of(table)) == 5
    table.set_properties(KEEP_TWO)
    table.set_properties({"write.metadata.delete-after-commit.enabled": "false"})
    table.append(rows(4))
    table.append(rows(5))
    kept = files_of(table)
    catalog.rebuild()
    assert files_of(table) == kept and catalog.verify().ok


def test_a_table_registered_from_one_of_the_files_keeps_them(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties=KEEP_TWO)
    table.append(rows(0))
    copy = catalog.register_table("ns.copy", table.metadata_location or "")
    for number in range(1, 5):
        table.append(rows(number))
    assert local(copy.metadata_location).exists()
    assert ids_of(copy) == [0]
    for number in range(5, 9):
        copy.append(rows(number))
    assert files_of(table) >= named_by(table) | named_by(copy)
    catalog.rebuild()
    assert catalog.verify().ok and files_of(table) >= named_by(table) | named_by(copy)


def test_files_of_a_registered_tables_first_owner_are_never_deleted(catalog: icecore.Catalog, tmp_path: Path) -> None:
    with icecore.open(tmp_path / "first") as first:
        first.create_namespace("ns")
        origin = make_table(first)
        origin.append(rows(0))
        origin.append(rows(1))
        theirs = files_of(origin)
        table = catalog.register_table("ns.r", origin.metadata_location or "")
        table.set_properties(KEEP_TWO)
        for number in range(2, 7):
            table.append(rows(number))
        assert files_of(origin) == theirs | named_by(table)
        catalog.rebuild()
        assert files_of(origin) == theirs | named_by(table)
        assert first.verify().ok and catalog.verify().ok


@SCHEMES
def test_written_by_hand(catalog: icecore.Catalog, scheme: str) -> None:
    manual = {"icecore.materialize": "manual", "icecore.commit-scheme": scheme}
    table = make_table(catalog, properties={**KEEP_TWO, **manual})
    for number in range(5):
        table.append(rows(number))
        table.append(rows(number + 10))
        catalog.materialize("ns.t")
        table.refresh()
        assert files_of(table) == named_by(table)
    catalog.rebuild()
    assert files_of(table) == named_by(table) and catalog.verify().ok


@SCHEMES
def test_a_process_that_lags_behind_brings_nothing_back(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends its commit after another process made later ones and deleted that commit's metadata file."""
    table = make_table(catalog, properties={**KEEP_TWO, "icecore.commit-scheme": scheme})
    peer = open_again()
    theirs = peer.load_table("ns.t")
    once = [True]
    writing = materialize.Materializer.finish

    def late(self: materialize.Materializer, *arguments: object, **named: object) -> object:
        if self is repository_of(catalog).materializer and once and not store_of(catalog).connection().in_transaction:
            once.clear()
            for number in range(1, 7):
                theirs.append(rows(number))
        return writing(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(materialize.Materializer, "finish", late)
    table.append(rows(0))
    table.refresh()
    assert files_of(table) == named_by(table)
    found = catalog.verify()
    assert found.ok, found
    assert ids_of(table) == list(range(7))


def die(*_: object) -> None:
    os._exit(9)


def die_appending(folder: Path, where: str) -> None:
    """Appends until a step of it."""
    patch = pytest.MonkeyPatch()
    with icecore.open(folder) as catalog:
        table = catalog.load_table("ns.t")
        if where == "before the pointer":
            patch.setattr(materialize.Materializer, "_move_pointers", die)
        else:
            patch.setattr(materialize, "sweep", die)
        table.append([{"id": 99, "name": "last"}])


@SCHEMES
@pytest.mark.parametrize("where", ["before the pointer", "before the deletion"])
def test_a_crash_leaves_nothing_behind(warehouse: Path, scheme: str, where: str) -> None:
    with icecore.open(warehouse) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, properties={**KEEP_TWO, "icecore.commit-scheme": scheme})
        for number in range(4):
            table.append(rows(number))
    assert exit_codes_of(lambda: die_appending(warehouse, where)) == [9]
    with icecore.open(warehouse) as catalog:
        table = catalog.load_table("ns.t")
        # Before COMMIT the commit never was: at most its file, which nothing names, is there.
        left = files_of(table) - named_by(table)
        assert len(left) == (where == "before the pointer" and scheme == "metastore")
        assert ids_of(table) == [0, 1, 2, 3, *([99] if where == "before the deletion" else [])] == peer_ids(warehouse)
        table.append(rows(5))
        assert files_of(table) == named_by(table) | left and catalog.verify().ok
        assert len(files_of(table) - left) == 3


def test_a_new_limit_holds_in_the_commit_that_sets_it(catalog: icecore.Catalog) -> None:
    """As in Java; the files that are deleted are those that the metadata log no longer has, after a rebuild too."""
    table = make_table(catalog)
    for number in range(4):
        table.append(rows(number))
    table.set_properties(KEEP_TWO)
    assert len(table.metadata.metadata_log) == 2 and files_of(table) == named_by(table)
    table.set_properties({"write.metadata.previous-versions-max": "4"})
    lengths = []
    for number in range(3):
        table.append(rows(number))
        lengths.append(len(table.metadata.metadata_log))
    assert lengths == [4, 4, 4] and files_of(table) == named_by(table)
    log = table.metadata.metadata_log
    catalog.rebuild()
    assert catalog.load_table("ns.t").metadata.metadata_log == log and catalog.verify().problems == ()
