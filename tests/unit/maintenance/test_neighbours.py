"""Whether another table may need a file: what it takes in stays, and tables that share nothing are not asked."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from core_tables import ids_of, local, make_table, peer_ids, pyiceberg_catalog, repository_of, rows, store_of

import icecore
from icecore.engine.deletion import delete_files, neighbours
from icecore.engine.deletion.needed_files import Marking
from icecore.engine.errors import ForeignCommitError, NamespaceAlreadyExistsError
from icecore.engine.foreign.adopter import Adopter, ForeignCommitWarning
from icecore.projections.inspect.reachable_files import needed_files

FAR = 2**53
FORGET = "DROP TABLE table_folder; DELETE FROM warehouse WHERE key LIKE 'table-folders-%'"


def given_up(catalog: icecore.Catalog, name: str = "t") -> tuple[icecore.Table, str]:
    """A table, and its data file, which it has no more after `expire`."""
    table = make_table(catalog, name)
    table.append(rows(1))
    [task] = table.scan().plan_files()
    return table, task.file.file_path


def expire(table: icecore.Table) -> tuple[str, ...]:
    """Overwrites all rows and expires what was before; gives the data files that went."""
    table.refresh().overwrite(rows(2))
    expired = table.maintenance.expire_snapshots().older_than(FAR).commit()
    assert expired.snapshot_ids
    return tuple(f for f in expired.deleted_files if f.endswith(".parquet"))


def folders(catalog: icecore.Catalog) -> set[tuple[str, str]]:
    found = store_of(catalog).connection().execute("SELECT stream, folder FROM table_folder")
    return {tuple(row) for row in found}


def change_log(catalog: icecore.Catalog, script: str) -> None:
    store_of(catalog).connection().executescript(script)


def statements(catalog: icecore.Catalog, action: Callable[[], object]) -> int:
    """How many statements of SQL an action runs in the log."""
    found: list[str] = []
    store_of(catalog).connection().set_trace_callback(found.append)
    try:
        action()
    finally:
        store_of(catalog).connection().set_trace_callback(None)
    return len(found)


def looked_through(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables whose manifests are looked through from now on."""
    found: list[str] = []

    def noting(repository, state, seen):  # type: ignore[no-untyped-def]  # as `needed_files`
        found.append(state.identifier[-1])
        return needed_files(repository, state, seen)

    monkeypatch.setattr(neighbours, "needed_files", noting)
    monkeypatch.setattr("icecore.engine.deletion.needed_files.needed_files", noting)
    return found


@pytest.mark.parametrize("spelled", ["file://{}", "file:{}", "{}", "link"])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_an_expiry_keeps_what_another_table_took_in(catalog: icecore.Catalog, spelled: str, is_dropped: bool) -> None:
    """However the file was named, and in a dropped table until that is purged."""
    table, path = given_up(catalog)
    (catalog.path / "link").symlink_to(catalog.path.parent)
    linked = catalog.path / "link" / local(path).relative_to(catalog.path.parent)
    make_table(catalog, "u").add_files([str(linked) if spelled == "link" else spelled.format(local(path))])
    if is_dropped:
        catalog.drop_table("ns.u")
    assert expire(table) == ()
    assert local(path).exists()
    if is_dropped:
        catalog.undrop_table("ns.u")
    assert ids_of(catalog.load_table("ns.u")) == [1]
    assert catalog.verify().problems == ()


def test_an_expiry_deletes_what_another_table_let_go_and_what_a_purged_one_had(catalog: icecore.Catalog) -> None:
    for name, other in (("t", "u"), ("v", "w")):
        table, path = given_up(catalog, name)
        taker = make_table(catalog, other)
        taker.add_files([path])
        if other == "u":
            assert expire(taker) == ()
            kept = table.scan().to_arrow()
            assert kept["id"].to_pylist() == [1]
            taker.maintenance.expire_snapshots().older_than(FAR).commit()
        else:
            catalog.drop_table("ns.w", purge=True)
        assert expire(table) == (path,)


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_a_table_registered_from_anothers_metadata_keeps_its_files(catalog: icecore.Catalog, scheme: str) -> None:
    """At another location too, as of a table that was copied by its metadata alone."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1))
    metadata = json.loads(local(table.metadata_location).read_bytes())
    metadata |= {"location": f"file://{catalog.path}/away", "table-uuid": "11111111-1111-4111-8111-111111111111"}
    clone = catalog.path / "away/metadata" / ("v1" if scheme == "filesystem" else "00001-c")
    clone = clone.with_name(f"{clone.name}.metadata.json")
    clone.parent.mkdir(parents=True)
    clone.write_text(json.dumps(metadata))
    copy = catalog.register_table("ns.copy", str(clone))
    assert expire(table) == ()
    assert ids_of(copy.refresh()) == [1]


def take_in(patch: pytest.MonkeyPatch, when: str, take: Callable[[], object]) -> None:
    """Has a file taken in between the check of an expiry and its event, or between that and the deletion."""
    if when == "after the check":
        mark = Marking.mark_others
        patch.setattr(Marking, "mark_others", lambda self: (mark(self), take())[0])
    else:
        finish = delete_files.finish
        patch.setattr(delete_files, "finish", lambda *a: (take(), finish(*a))[1])


@pytest.mark.parametrize("when", ["after the check", "after the event"])
def test_a_file_that_is_taken_in_meanwhile_stays(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """By another process, before the transaction that says what goes, or between that and the deletion."""
    table, path = given_up(catalog)
    make_table(catalog, "u")
    peer = open_again()

    def take() -> object:
        return peer.load_table("ns.u").add_files([path])

    with monkeypatch.context() as patch:
        take_in(patch, when, take)
        assert expire(table) == ()
    assert ids_of(peer.load_table("ns.u")) == [1]
    named = [e for e in store_of(catalog).events() if e.kind == "table.files-deleted"]
    assert len(named) == 1


@pytest.mark.parametrize("how", ["registers", "adds", "adds an orphan"])
def test_what_another_engine_takes_in_stays(catalog: icecore.Catalog, how: str) -> None:
    """Its commit to another table is in `iceberg_tables`, and the log has yet to adopt it."""
    table, path = given_up(catalog)
    make_table(catalog, "u")
    peer = pyiceberg_catalog(catalog.path)
    if how == "registers":
        peer.register_table("ns.copy", table.metadata_location or "")
        assert expire(table) == ()
    else:
        orphan = local(path).with_name("job.parquet")
        shutil.copy(local(path), orphan)
        taken = path if how == "adds" else f"file://{orphan}"
        peer.load_table("ns.u").add_files([taken])
        orphans = table.maintenance.remove_orphan_files(older_than=FAR, allow_recent=True)
        assert taken not in (*expire(table), *orphans.deleted_files)
    assert peer_ids(catalog.path, "ns.copy" if how == "registers" else "ns.u") == [1]


@pytest.mark.parametrize("when", ["after the check", "after the event"])
@pytest.mark.parametrize("is_adopted", [True, False])
def test_what_another_engine_takes_in_meanwhile_stays(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, when: str, is_adopted: bool
) -> None:
    """Be there time to adopt its commit or not."""
    table, path = given_up(catalog)
    make_table(catalog, "u")
    adopt = Adopter.adopt_all_if_changed

    def take() -> object:
        if not is_adopted:
            monkeypatch.setattr(Adopter, "adopt_all_if_changed", lambda _: None)
        return pyiceberg_catalog(catalog.path).load_table("ns.u").add_files([path])

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", delete_files.UnfinishedDeletionWarning)
        take_in(patch, when, take)
        assert expire(table) == ()
    monkeypatch.setattr(Adopter, "adopt_all_if_changed", adopt)
    delete_files.finish_due(repository_of(catalog))
    assert peer_ids(catalog.path, "ns.u") == [1]


def test_a_version_of_another_file_system_table_keeps_its_files(catalog: icecore.Catalog) -> None:
    """Another engine made it in that table's folder, which nobody looked at since."""
    table, _ = given_up(catalog)
    other = make_table(catalog, "u", properties={"icecore.commit-scheme": "filesystem"})
    taken = json.loads(local(table.metadata_location).read_bytes())
    mine = json.loads(local(other.metadata_location).read_bytes())
    moved = {k: mine[k] for k in ("table-uuid", "location", "properties", "metadata-log")}
    local(other.metadata_location).with_name("v2.metadata.json").write_text(json.dumps({**taken, **moved}))
    assert expire(table) == ()
    assert ids_of(catalog.load_table("ns.u")) == [1]


def test_nothing_is_deleted_while_another_engines_commit_can_not_be_adopted(catalog: icecore.Catalog) -> None:
    """What it needs is not known: an expiry keeps all files, and a search for orphans and a purge are refused."""
    table, path = given_up(catalog)
    make_table(catalog, "u")
    catalog.drop_table("ns.u")
    change_log(
        catalog,
        "INSERT INTO iceberg_tables SELECT catalog_name, 'ns', 'w', 'file:///no', NULL, NULL FROM iceberg_tables",
    )
    with pytest.warns(ForeignCommitWarning, match="file:///no"):
        assert expire(table) == ()
    for delete in (
        lambda: table.maintenance.remove_orphan_files(),
        lambda: catalog.purge_table("ns.u"),
        lambda: catalog.drop_table("ns.t", purge=True),
    ):
        with pytest.raises(ForeignCommitError, match="file:///no"):
            delete()
    change_log(catalog, "DELETE FROM iceberg_tables WHERE table_name = 'w'")
    assert path in table.maintenance.remove_orphan_files(older_than=FAR, allow_recent=True).deleted_files


def test_the_cost_does_not_grow_with_the_tables_that_keep_to_their_locations(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many statements with many tables as with few, and no manifest of another table is read."""
    monkeypatch.setattr(delete_files, "TURN_S", 60.0)
    tables = [given_up(catalog, name)[0] for name in ("a", "b")]
    expire(given_up(catalog, "first")[0])
    found = looked_through(monkeypatch)
    few = statements(catalog, lambda: expire(tables[0]))
    for number in range(12):
        given_up(catalog, f"other{number}")
    assert statements(catalog, lambda: expire(tables[1])) == few
    assert found == []


def test_only_tables_with_files_in_the_same_folders_are_looked_through(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By all that delete: an expiry, a search for orphans, and a purge."""
    table, path = given_up(catalog)
    other, elsewhere = given_up(catalog, "other")
    make_table(catalog, "u").add_files([path])
    make_table(catalog, "v").add_files([elsewhere])
    found = looked_through(monkeypatch)
    assert expire(table) == () and set(found) == {"u"}
    found.clear()
    table.maintenance.remove_orphan_files(older_than=FAR, allow_recent=True)
    assert set(found) == {"t", "u"}
    catalog.drop_table("ns.t")
    found.clear()
    assert path in catalog.purge_table("ns.t").kept_files
    assert set(found) == {"u"}
    assert ids_of(other) == [1]


def test_manifests_of_other_engines_are_read_once(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered table is looked through by the first expiry of another one, and by the next none."""
    tables = [given_up(catalog, name)[0] for name in ("a", "b", "c")]
    assert tables[0].metadata_location is not None
    catalog.drop_table("ns.a")
    catalog.register_table("ns.r", tables[0].metadata_location)
    found = looked_through(monkeypatch)
    assert expire(tables[1]) != () and found == ["r"]
    assert expire(tables[2]) != () and found == ["r"]
    assert catalog.verify().problems == ()


def test_a_log_of_an_earlier_release_is_brought_up_when_it_is_asked(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """One without the folders, and one that such a release wrote to after them."""
    table, path = given_up(catalog)
    make_table(catalog, "u").add_files([path])
    table.overwrite(rows(2))
    change_log(catalog, FORGET)
    catalog.close()
    again = open_again()
    assert again.verify().problems == ()
    told = again.load_table("ns.t").maintenance.expire_snapshots().older_than(FAR).dry_run()
    assert told.snapshot_ids and path not in told.deleted_files
    assert path not in expire(again.load_table("ns.t")) and local(path).exists()
    later, taken = given_up(again, "later")
    position = again.position
    make_table(again, "w").add_files([taken])
    change_log(
        again,
        f"DELETE FROM table_folder WHERE position > {position};"
        f"UPDATE warehouse SET value = '{position}' WHERE key = 'table-folders-known'",
    )
    assert expire(later) == ()
    assert again.verify().problems == ()


def test_a_replay_gives_the_same_folders_and_verify_misses_none(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Of tables that took files in, moved their data, were registered, renamed, dropped and purged."""
    table, path = given_up(catalog)
    taker = make_table(catalog, "u", properties={"write.metadata.path": f"{tmp_path}/metadata"})
    taker.add_files([path])
    taker.set_properties({"write.data.path": f"{tmp_path}/data"})
    taker.append(rows(3))
    given_up(catalog, "gone")
    catalog.drop_table("ns.gone", purge=True)
    before = folders(catalog)
    ours = {folder for stream, folder in before if stream == taker.state.stream}
    assert ours == {
        str(p).casefold()
        for p in (local(taker.location()), local(path).parent, *(tmp_path / n for n in ("data", "metadata")))
    }
    assert {folder for stream, folder in before if stream == table.state.stream} == {
        str(local(table.location())).casefold()
    }
    assert len(before) == 5
    catalog.rebuild()
    assert folders(catalog) == before
    assert catalog.verify().problems == ()
    change_log(catalog, f"DELETE FROM table_folder WHERE folder = '{str(local(path).parent).casefold()}'")
    [problem] = catalog.verify().problems
    assert "table_folder" in str(problem)


def test_many_folders_are_not_noted_one_by_one(catalog: icecore.Catalog) -> None:
    """Partitions count as the folder above them; where there are very many others, they are found out when asked."""
    table = catalog.create_table("ns.p", rows(1).schema, partition_spec=["id"])
    table.append(rows(*range(50)))
    taker = make_table(catalog, "u")
    files = [evolve(task.file, spec_id=0, partition=()) for task in table.scan().plan_files()]
    taker.append_files(files)
    own = str(local(taker.location())).casefold()
    found = {folder for stream, folder in folders(catalog) if stream == taker.state.stream} - {own}
    assert found == {f"{local(table.location())}/data".casefold()}
    assert repository_of(catalog).models.folders.known_up_to == catalog.position
    scattered = [evolve(f, file_path=f"file://{catalog.path}/{i}/x.parquet") for i, f in enumerate(files)]
    taker.append_files(scattered)
    assert (taker.state.stream, "") in folders(catalog)
    expire(given_up(catalog)[0])
    assert (taker.state.stream, f"{catalog.path}/7".casefold()) in folders(catalog)
    assert (taker.state.stream, "") not in folders(catalog)
    assert not any("table_folder" in str(p) for p in catalog.verify().problems)


def test_a_log_of_an_earlier_release_is_brought_up_after_what_was_rolled_back(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """Its tables are made in the first transaction, and so again where that one is a dry run, or is refused."""
    table = make_table(catalog)
    table.append(rows(1))
    change_log(catalog, FORGET)
    catalog.close()
    again = open_again()
    assert not again.drop_table("ns.t", dry_run=True).is_empty  # type: ignore[union-attr]  # nothing was purged
    with pytest.raises(NamespaceAlreadyExistsError):
        again.create_namespace("ns")
    again.load_table("ns.t").append(rows(2))
    assert again.verify().problems == ()
