"""`verify` looks for every file that a snapshot needs: whatever is gone or of another size is found and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import evolve
from broken_tables import edit, healthy, list_of, register
from core_tables import SCHEMA, local, make_table, metadata_files, repository_of, rows

import icecore
from icecore.engine.common.location import LocationMapping
from icecore.engine.errors import CorruptFileError, NoSuchTableError
from icecore.engine.storage.file_io import Storage
from icecore.projections.verify import verify_files
from icecore.projections.verify.findings import Cause, Finding, Verification
from icecore.projections.verify.verify_presence import Looked, Looker

OF_OTHERS = {
    "data file": "data/*/*.parquet",
    "deletion vector file": "data/**/*.puffin",
    "manifest list": "metadata/snap-*.avro",
    "manifest": "metadata/*-m[0-9]*.avro",
    "metadata file": "metadata/*.metadata.json",
}


def found(catalog: icecore.Catalog, *names: str, deep: bool = False) -> list[tuple[Cause, str, int]]:
    return [(f.cause, f.kind, f.count) for f in catalog.verify(*names, deep=deep).findings]


def everything(catalog: icecore.Catalog, name: str = "t", version: int = 2) -> icecore.Table:
    """A table with a file of each kind that its format version has."""
    options = {"format_version": version, "properties": {"write.delete.mode": "merge-on-read"}}
    table = make_table(catalog, name, partition_spec=["truncate(100, id)"], **options)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    table.delete("id = 1")
    table.delete_keys(rows(4).select(["id"]), ["id"])
    table.compute_partition_statistics()
    return table


def contents(table: icecore.Table, kind: str) -> list[Path]:
    """Where the current snapshot's files of one content lie."""
    return [local(f["file_path"]) for f in table.files().to_pylist() if f["content"] == kind]


def uri(path: Path) -> str:
    """The location of a file; nothing in it is percent-encoded."""
    return f"file://{path}"


def damage(path: Path, how: str) -> None:
    path.unlink() if how == "gone" else path.write_bytes(path.read_bytes() + b"more")


@pytest.mark.parametrize("how", ["gone", "size"])
@pytest.mark.parametrize(
    ("version", "content", "kind"),
    [
        (2, "data", "data file"),
        (2, "position_deletes", "position delete file"),
        (2, "equality_deletes", "equality delete file"),
        (3, "position_deletes", "deletion vector file"),
    ],
)
def test_each_kind_of_content_file_is_looked_for(
    catalog: icecore.Catalog, version: int, content: str, kind: str, how: str
) -> None:
    """A content file that is gone or longer than its manifest says is one finding, which names table, kind and file."""
    table = everything(catalog, version=version)
    assert found(catalog) == found(catalog, deep=True) == []
    path = contents(table, content)[0]
    damage(path, how)
    report = catalog.verify()
    assert not report.ok and [(f.cause, f.table, f.kind, f.count) for f in report.findings] == [(how, "ns.t", kind, 1)]
    assert report.findings[0].examples == (uri(path),)
    assert f"ns.t: the {kind} {uri(path)} {'is gone' if how == 'gone' else 'has '}" in report.problems[0]


def test_statistics_are_looked_for(catalog: icecore.Catalog) -> None:
    """Statistics of a table and of its partitions are files that the metadata names with their sizes."""
    table = everything(catalog, version=3)
    (partitions,) = table.metadata.partition_statistics
    damage(local(partitions.statistics_path), "size")
    assert found(catalog) == [("size", "partition statistics file", 1)]
    damage(local(partitions.statistics_path), "gone")
    assert found(catalog) == [("gone", "partition statistics file", 1)]


def test_files_of_every_snapshot_count_until_it_expires(catalog: icecore.Catalog) -> None:
    """What only an older snapshot needs is missed too; once it expired, nothing of it is."""
    table = make_table(catalog)
    table.append(rows(1))
    (first,) = contents(table, "data")
    table.overwrite(rows(2))
    kept = first.read_bytes()
    first.unlink()
    assert found(catalog) == [("gone", "data file", 1)]
    first.write_bytes(kept)
    table.maintenance.expire_snapshots().older_than(2**53).commit()
    assert not first.exists() and found(catalog) == []


def test_a_log_that_was_put_back_is_noted(catalog: icecore.Catalog) -> None:
    """By metadata files of commits that it lacks: no file that it needs is missing, but commits are lost."""
    table = make_table(catalog)
    table.append(rows(1))
    catalog.close()
    before = (catalog.path / "icecore.db").read_bytes()
    with icecore.open(catalog.path) as later:
        later.load_table("ns.t").append(rows(2))
        later.load_table("ns.t").append(rows(3))
        assert later.verify().notes == ()
    (catalog.path / "icecore.db").write_bytes(before)
    with icecore.open(catalog.path) as again:
        make_table(again, "other").append(rows(1))
        verified = again.verify()
        assert verified.ok and [(n.table, n.cause, n.count) for n in verified.notes] == [("ns.t", Cause.UNLOGGED, 2)]
        assert "later commits than the log has" in str(verified)


def test_files_of_dropped_tables_count(catalog: icecore.Catalog) -> None:
    """A dropped table can be undropped, so its files are looked for, and the finding says that it was dropped.

    Clients delete them too, as Spark for `DROP TABLE ... PURGE`; a purge says that this was meant.
    """
    table = make_table(catalog)
    table.append(rows(1))
    (path,) = contents(table, "data")
    catalog.drop_table("ns.t")
    assert catalog.verify().ok
    path.unlink()
    (finding,) = catalog.verify().findings
    assert finding.dropped and str(finding).startswith("ns.t (dropped): the data file")
    catalog.purge_table("ns.t")
    assert catalog.verify().ok


def test_commits_to_be_written_by_hand_lack_no_file(catalog: icecore.Catalog) -> None:
    """Manifests and lists of commits that are not written out yet are not missed, their data files are."""
    table = make_table(catalog, properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    assert catalog.verify().ok
    for path in contents(table.refresh(), "data"):
        path.unlink()
    assert found(catalog) == [("gone", "data file", 1)]


@pytest.fixture
def registered(catalog: icecore.Catalog, tmp_path: Path) -> icecore.Catalog:
    """A warehouse with a table of each kind of file, which lies as another warehouse wrote it."""
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        location = everything(other, version=3).metadata_location
        assert location is not None
    catalog.register_table("ns.t", location)
    return catalog


@pytest.mark.parametrize("how", ["gone", "size"])
@pytest.mark.parametrize("kind", OF_OTHERS)
def test_registered_tables_are_looked_at(registered: icecore.Catalog, tmp_path: Path, kind: str, how: str) -> None:
    """Of a table that another engine wrote all files are looked for, by what its lists and manifests say of them."""
    assert registered.verify().ok and registered.verify().files > 10
    folder = tmp_path / "other" / "ns" / "t"
    path = max(p for p in folder.glob(OF_OTHERS[kind]) if "deletes" not in p.name or kind != "data file")
    damage(path, how)
    findings = registered.verify().findings
    assert (findings[0].kind, findings[0].examples) == (kind, (uri(path),)), findings
    assert len(findings) == 1
    assert findings[0].cause == how


def test_a_list_with_manifests_of_an_unknown_partition_spec_is_a_finding(
    catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """Nothing can be planned by such a manifest, as the error of a plan says."""
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = healthy(theirs, "t")
        edit(list_of(table), lambda listed: listed[0].update(partition_spec_id=77))
        ours = register(catalog, table, "t")
    for row_filter in (None, "id = 1"):
        with pytest.raises(CorruptFileError, match=r"-m0\.avro is listed as one of spec 77, the table has \[0\]$"):
            ours.scan(row_filter).plan()
    [finding] = catalog.verify().findings
    assert (finding.cause, finding.kind, finding.examples) == ("unreadable", "manifest list", (uri(list_of(table)),))
    assert "manifests of partition spec 77, which the table does not have" in str(finding)
    ours.append(rows(1))
    head = ours.current_snapshot()
    assert head is not None
    ours.maintenance.expire_snapshots().by_ids(s.snapshot_id for s in ours.snapshots() if s != head).commit()
    [finding] = catalog.verify().findings
    assert (finding.cause, finding.kind) == ("unreadable", "manifest"), "it is in the list of a commit of ours now"
    assert "-m0.avro is listed as one of partition spec 77, which the table does not have" in str(finding)


def test_earlier_metadata_of_others_may_go(registered: icecore.Catalog, tmp_path: Path) -> None:
    """The metadata log of a registered table may name files that are gone: no snapshot needs them, so it is a note."""
    newest = local(registered.load_table("ns.t").metadata_location)
    earlier = [p for p in newest.parent.glob("*.metadata.json") if p != newest]
    for path in earlier:
        path.unlink()
    report = registered.verify()
    assert report.ok and report.unchecked == 0
    (gone,) = report.notes
    assert (gone.cause, gone.kind, gone.count) == (Cause.NOT_NEEDED, "previous metadata file", len(earlier))
    told = str(report).replace("\n  ", " ")
    assert "are gone, but no snapshot needs them" in told


def test_files_that_a_dropped_table_keeps_are_kept_of_the_one_that_was_registered_again(
    catalog: icecore.Catalog,
) -> None:
    """A rebuild brings them back from the dropped table's events, and when it is purged from the registration."""
    table = everything(catalog)
    location = table.metadata_location
    assert location is not None
    catalog.drop_table("ns.t")
    catalog.register_table("ns.t", location)
    assert catalog.verify().notes == ()
    for path in local(location).parent.glob("*.avro"):
        path.unlink()
    catalog.rebuild()
    assert catalog.verify().ok and catalog.verify().notes == ()
    assert sorted(catalog.load_table("ns.t").scan().to_arrow()["id"].to_pylist()) == [2, 3, 5]
    catalog.purge_table("ns.t")
    assert catalog.verify().notes == ()
    for path in local(location).parent.glob("*.avro"):
        path.unlink()
    catalog.rebuild()
    assert sorted(catalog.load_table("ns.t").scan().to_arrow()["id"].to_pylist()) == [2, 3, 5]
    assert catalog.verify().ok


def test_a_folder_that_moved_is_one_problem(registered: icecore.Catalog, tmp_path: Path) -> None:
    """All that is gone with one folder is one sentence with that folder, whatever tables and kinds were in it."""
    make_table(registered, "here").append(rows(1))
    (tmp_path / "other").rename(tmp_path / "moved")
    report = registered.verify()
    (problem,) = report.problems
    folder = uri(tmp_path / "other")
    assert problem.startswith("ns.t: ") and f"there is no folder {folder}: was it moved?" in problem
    assert {f.missing_folder for f in report.findings} == {folder}
    assert {f.kind for f in report.findings} >= {"manifest list", "metadata file"}, "which say what else there was"


def test_the_named_tables_only_are_looked_at(catalog: icecore.Catalog) -> None:
    """A name limits the check to that table or view; a name that nothing has is an error."""
    for name in ("a", "b"):
        make_table(catalog, name).append(rows(1))
    catalog.create_view("ns.v", "SELECT 1 AS x")
    (path,) = contents(catalog.load_table("ns.a"), "data")
    path.unlink()
    assert catalog.verify("ns.b", "ns.v").ok and catalog.verify("ns.b", "ns.v").views == 1
    report = catalog.verify(("ns", "a"))
    assert (report.tables, len(report.findings)) == (1, 1)
    with pytest.raises(NoSuchTableError, match="nothing"):
        catalog.verify("ns.nothing")


def test_progress_ends_at_all_files(catalog: icecore.Catalog) -> None:
    """Who waits is told of each table how many of its files were looked at."""
    everything(catalog)
    told: list[tuple[str, int, int]] = []
    report = catalog.verify(progress=lambda *step: told.append(step))
    assert told[0] == ("ns.t", 0, report.files) and told[-1] == ("ns.t", report.files, report.files)


def test_files_that_an_expiry_deletes_meanwhile_are_not_missed(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is gone counts only where it is still needed after it was found gone."""
    table = make_table(catalog)
    table.append(rows(1))
    table.overwrite(rows(2))
    (kept,) = contents(table.refresh(), "data")
    look, commits = Looker.look, list[int]()

    def after_an_expiry(self: Looker, locations: list[str]) -> Looked:
        if not commits:
            commits.append(1)
            open_again().load_table("ns.t").maintenance.expire_snapshots().older_than(2**53).commit()
        return look(self, locations)

    with monkeypatch.context() as patched:
        patched.setattr(Looker, "look", after_an_expiry)
        assert catalog.verify().problems == ()
    commits.clear()
    kept.unlink()
    monkeypatch.setattr(Looker, "look", after_an_expiry)
    assert found(catalog) == [("gone", "data file", 1)]


def test_a_store_that_does_not_answer_is_neither_right_nor_wrong(
    catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files in a store that can't be reached are told of beside the problems, and leave the rest as checked."""
    table = make_table(catalog)
    table.append(rows(1))
    repository = repository_of(catalog)
    far = LocationMapping.of({f"{table.location()}/data": "nowhere://bucket/data"})
    monkeypatch.setattr(repository, "storage", evolve(repository.storage, mapping=far))
    report = catalog.verify()
    assert report.ok and report.unchecked == 1
    assert [(n.cause, n.kind) for n in report.notes] == [(Cause.UNREACHABLE, "data file")]
    assert "nowhere" in str(report)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "."])
def test_what_is_no_path_is_a_finding(catalog: icecore.Catalog, path: str) -> None:
    """A location that no file can have is said to be unreadable, not an error of the operating system."""
    looked = Looker(repository_of(catalog).storage).look([path, "nothing-there"])
    assert looked.sizes.tolist()[0] < -1 and looked.reasons[0] and looked.sizes.tolist()[1] == -1


def test_sentences_are_few_and_short() -> None:
    """A million files of a hundred tables make a screenful, with lines that break between words."""
    examples = tuple(f"file:///lake/ns/t/data/{n}.parquet" for n in range(3))
    details = tuple(f"{e} is gone" for e in examples)
    findings = tuple(
        Finding(Cause.GONE, f"ns.t{n}", "data file", 10_000, examples, details, "file:///lake/ns/t/data")
        for n in range(100)
    )
    report = Verification(1, 100, 10**6, "abc", findings)
    lines = str(report).splitlines()
    assert len(lines) < 80 and max(map(len, lines)) <= 80
    assert lines[-1] == "- and 80 more"
    assert report.problems[0] == (
        "ns.t0: 10,000 data files under file:///lake/ns/t/data are gone: 0.parquet, 1.parquet, 2.parquet and 9,997 more"
    )


def test_what_metadata_folders_hold_is_all_looked_at(catalog: icecore.Catalog) -> None:
    """The number of files is that of the table's folders, but for version hints, and for each schema of paths once."""
    table = everything(catalog, version=3)
    data = {p for p in (local(table.location()) / "data").rglob("*") if p.is_file()}
    assert catalog.verify().files == len(data) + len(metadata_files(table)) - 1
    assert SCHEMA.names == ["id", "name"]


def test_a_hint_that_comes_while_the_check_is_held_up_is_no_problem(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read before it came, and the time for it to come was over after that."""
    hint = local(make_table(catalog).metadata_location).with_name("version-hint.text")
    text, clock, read = hint.read_text(), [0.0], Storage.read_bytes
    hint.write_text("0")

    def held_up(self: Storage, location: str) -> bytes:
        found = read(self, location)
        if location.endswith(hint.name):
            hint.write_text(text)
            clock[0] += 100
        return found

    times = SimpleNamespace(monotonic=lambda: clock[0], time=lambda: 0.0, sleep=lambda _: None)
    monkeypatch.setattr(verify_files, "time", times)
    monkeypatch.setattr(Storage, "read_bytes", held_up)
    assert catalog.verify().problems == ()
    assert clock[0] == 200
