"""Versions that other writers make in the folder of a file system table (MD7): what follows ours, and what does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from core_tables import ids_of, local, make_table, peer_ids, repository_of, rows, store_of
from foreign_peer import kinds

import icecore
from icecore.engine.common.compressed_json import compress
from icecore.engine.errors import CommitStateUnknownError, ForeignCommitError
from icecore.engine.events import event as ev
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MetadataLogEntry
from icecore.projections.files.materialize import Materializer
from icecore.projections.files.version_claims import Claim, VersionClaims

FILE_SYSTEM = {"icecore.commit-scheme": "filesystem"}


class Killed(BaseException):
    """Stands for the end of the process."""


def test_versions_that_another_writer_made_are_adopted(catalog: icecore.Catalog) -> None:
    """MD7: v<N+1> and v<N+2>, one of them compressed, are the table's next versions, for load and for commit."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    table.append(rows(1))
    for name in ("v3.gz.metadata.json", "v4.metadata.json.gz", "v5.metadata.json"):
        make_version(table, name)
        table = catalog.load_table("ns.t")
        assert local(table.metadata_location).name == name
        assert table.properties["made-by"] == name
    make_version(table, "v6.metadata.json")
    table.append(rows(2))
    assert local(table.metadata_location).name == "v7.metadata.json"
    assert (local(table.metadata_location).parent / "version-hint.text").read_text() == "7"
    assert ids_of(table) == peer_ids(catalog.path) == [1, 2]
    make_version(table, "v8.metadata.json")
    with icecore.open(catalog.path) as again:
        assert kinds(again)[-1] == ev.TABLE_ADOPTED
    assert catalog.verify().problems == ()


def test_versions_whose_forerunners_were_deleted_are_adopted(catalog: icecore.Catalog) -> None:
    """Of three versions the next one is gone already, by a writer that keeps few: no commit is made in its place."""
    kept = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = make_table(catalog, properties={**FILE_SYSTEM, **kept})
    table.append(rows(1))
    own = local(table.metadata_location)
    for version in (3, 4, 5):
        name = f"v{version}.metadata.json"
        make_version(table if version == 3 else of_file(table, own.with_name(f"v{version - 1}.metadata.json")), name, 1)
        own.with_name("version-hint.text").write_text(str(version))
        own.with_name(f"v{version - 2}.metadata.json").unlink(missing_ok=True)
    table.append(rows(2))
    assert [local(e.payload["metadata-location"]).name[:2] for e in adoptions(catalog)] == ["v4", "v5"]
    assert local(table.metadata_location).name == "v6.metadata.json"
    assert ids_of(table) == peer_ids(catalog.path) == [1, 2]
    assert table.properties["made-by"] == "v5.metadata.json"
    assert catalog.verify(deep=True).problems == ()
    catalog.rebuild()
    assert catalog.verify(deep=True).problems == () and ids_of(catalog.load_table("ns.t")) == [1, 2]


def test_versions_after_a_gap_without_our_rows_are_refused(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties=FILE_SYSTEM)
    before = catalog.load_table("ns.t")
    table.append(rows(1))
    make_version(before, "v5.metadata.json", 0)
    local(table.metadata_location).with_name("version-hint.text").unlink()
    with pytest.raises(ForeignCommitError, match="does not follow"):
        table.append(rows(2))
    with pytest.raises(ForeignCommitError, match="does not follow"):
        table.maintenance.expire_snapshots().retain_last(1).commit()


@pytest.mark.parametrize("keep", ["log", "foreign"])
def test_a_version_built_on_another_of_the_same_name_is_refused(catalog: icecore.Catalog, keep: str) -> None:
    """A crash may leave a version that others read before it was taken back, and its name is given again."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    stale = catalog.load_table("ns.t")
    table.append(rows(1))
    make_version(stale, "v3.metadata.json", named=(table.metadata_location, stale.metadata.last_updated_ms - 1))
    with pytest.raises(ForeignCommitError, match=r"v3\.metadata\.json, which does not follow"):
        table.append(rows(2))
    with pytest.warns(ForeignCommitWarning):
        resolved = catalog.resolve("ns.t", keep)
    assert ids_of(resolved) == ([1] if keep == "log" else [])
    resolved.append(rows(3))
    assert ids_of(resolved) == peer_ids(catalog.path) and catalog.verify(deep=True).problems == ()


def of_file(table: icecore.Table, path: Path) -> Any:
    """Something with the metadata of a file, as another writer has it."""
    return SimpleNamespace(metadata=TableMetadata.from_json(path.read_bytes()), metadata_location=f"file://{path}")


def evolved(table: Any, **changes: Any) -> Any:
    """The same with other metadata."""
    return SimpleNamespace(metadata=evolve(table.metadata, **changes), metadata_location=table.metadata_location)


def adoptions(catalog: icecore.Catalog) -> list[Any]:
    return [e for e in store_of(catalog).events() if e.kind == ev.TABLE_ADOPTED]


def make_version(
    table: Any, name: str, most: int | None = None, *, named: tuple[str | None, int] | None = None
) -> None:
    """What another engine's file system catalog would write after the table's last version.

    `most` is the length of the metadata log, and `named` what its last entry says where that is not the truth.
    """
    m = table.metadata
    location, written = named or (table.metadata_location, m.last_updated_ms)
    log = (*m.metadata_log, MetadataLogEntry(written, location or ""))
    after = evolve(
        m,
        properties={**m.properties, "made-by": name},
        metadata_log=log if most is None else log[len(log) - most :],
        last_updated_ms=m.last_updated_ms + 1,
    )
    path = local(table.metadata_location).with_name(name)
    path.write_bytes(compress(after.to_json(), "gzip" if "gz" in name else "none"))


def test_a_version_that_does_not_follow_is_refused(catalog: icecore.Catalog) -> None:
    """A file built on an older version can't be the next one; keep='foreign' takes it all the same."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    stale = catalog.load_table("ns.t")
    table.append(rows(1))
    make_version(stale, "v3.metadata.json")
    with pytest.raises(ForeignCommitError, match=r"v3\.metadata\.json"):
        table.append(rows(2))
    assert ids_of(table) == [1]
    with pytest.warns(ForeignCommitWarning, match=r"v3\.metadata\.json"):
        resolved = catalog.resolve("ns.t", "log")
    assert local(resolved.metadata_location).name == "v4.metadata.json"
    assert ids_of(resolved) == peer_ids(catalog.path) == [1]
    assert catalog.verify().problems == ()


def killed_before_commit(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, step: int, call: Any) -> None:
    """Makes a call that ends, as a killed process does, when it has made so many versions and nothing is stored."""
    move, left = Materializer.move, [step]

    def dying(self: Materializer, *args: Any) -> bool:
        left[0] -= 1
        if not left[0]:
            raise Killed
        return move(self, *args)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Materializer, "move", dying)
        for name in ("settle_claims", "settle_claim"):
            patch.setattr(Materializer, name, lambda *_: None)
        patch.setattr(VersionClaims, "settle", lambda *_: None)
        call(catalog)


def append_by_key(lake: icecore.Catalog) -> None:
    lake.load_table("ns.t").append(rows(2), idempotency_key="k")


def cut_off_append(
    catalog: icecore.Catalog,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[icecore.Catalog], None] = append_by_key,
    properties: Mapping[str, str] = FILE_SYSTEM,
) -> icecore.Table:
    """A table with one row, to which a second one was about to be appended."""
    table = make_table(catalog, properties=properties)
    table.append(rows(1))
    killed_before_commit(catalog, monkeypatch, 1, call)
    return table


def test_a_cut_off_commit_that_others_built_on_is_made_once(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken in with its author, its reason and its key, under which it is not made again."""

    def call(lake: icecore.Catalog) -> None:
        lake.load_table("ns.t").append(rows(2), idempotency_key="k", message="why", author="ann")

    table = cut_off_append(catalog, monkeypatch, call)
    make_version(of_file(table, local(table.metadata_location).with_name("v3.metadata.json")), "v4.metadata.json")
    for _ in range(2):
        with icecore.open(catalog.path) as again:
            call(again)
            assert ids_of(again.load_table("ns.t")) == peer_ids(catalog.path) == [1, 2]
            first, second = adoptions(again)
            made_by = first.provenance
            assert (made_by.actor, made_by.message, made_by.idempotency_key) == ("ann", "why", "k")
            assert second.provenance.idempotency_key is None
            assert again.verify(deep=True).problems == ()
    table.append(rows(3))
    assert ids_of(table) == peer_ids(catalog.path) == [1, 2, 3]
    assert not list((Path(catalog.path) / ".icecore" / "claims").glob("*.json"))


def two_tables(catalog: icecore.Catalog) -> dict[str, icecore.Table]:
    tables = {name: make_table(catalog, name, properties=FILE_SYSTEM) for name in ("t", "u")}
    for table in tables.values():
        table.append(rows(1))
    return tables


def append_to_both(lake: icecore.Catalog) -> None:
    with lake.transaction(idempotency_key="k") as both:
        both.table("ns.t").append(rows(2))
        both.table("ns.u").append(rows(2))


@pytest.mark.parametrize("built_on", ["t", "u"])
def test_half_of_a_cut_off_transaction_is_told_of(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, built_on: str
) -> None:
    """What others built on stands. The rest is not made by the same call again, which would double the other half."""
    tables = two_tables(catalog)
    killed_before_commit(catalog, monkeypatch, 2, append_to_both)
    table = tables[built_on]
    make_version(of_file(table, local(table.metadata_location).with_name("v3.metadata.json")), "v4.metadata.json")
    with icecore.open(catalog.path) as again:
        for _ in range(2):
            with pytest.raises(CommitStateUnknownError, match=rf"'k' was cut off: its change of ns\.{built_on} stands"):
                append_to_both(again)
        for name in tables:
            assert ids_of(again.load_table(f"ns.{name}")) == ([1, 2] if name == built_on else [1])
        assert again.verify(deep=True).problems == ()


def test_a_cut_off_commit_is_known_when_its_version_is_deleted(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a writer that built on it and keeps few versions: a later one has its snapshot."""
    kept = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = cut_off_append(catalog, monkeypatch, properties={**FILE_SYSTEM, **kept})
    own = local(table.metadata_location)
    for version in (4, 5):
        make_version(of_file(table, own.with_name(f"v{version - 1}.metadata.json")), f"v{version}.metadata.json", 1)
        own.with_name("version-hint.text").write_text(str(version))
        own.with_name(f"v{version - 2}.metadata.json").unlink(missing_ok=True)
    for _ in range(2):
        with icecore.open(catalog.path) as again:
            append_by_key(again)
            assert ids_of(again.load_table("ns.t")) == [1, 2]
    assert [e.provenance.idempotency_key for e in adoptions(catalog)] == ["k", None]


def versions_that_dont_lead_there(table: icecore.Table) -> None:
    """Two versions of another writer after a cut-off one, of which the last alone is there and tells of no other."""
    own = local(table.metadata_location)
    cut_off = of_file(table, own.with_name("v3.metadata.json"))
    expired = [s for s in cut_off.metadata.snapshots if s.snapshot_id == cut_off.metadata.current_snapshot_id]
    make_version(evolved(cut_off, snapshots=expired, snapshot_log=()), "v4.metadata.json", 1)
    make_version(of_file(table, own.with_name("v4.metadata.json")), "v5.metadata.json", 1)
    own.with_name("version-hint.text").write_text("5")
    for version in (3, 4):
        own.with_name(f"v{version}.metadata.json").unlink()


@pytest.mark.parametrize("keep", ["log", "foreign"])
def test_a_cut_off_commit_that_a_conflict_has_is_made_once(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    """Where what was built on it is kept, it is known by its key; where the log is, it can be made again."""
    table = cut_off_append(catalog, monkeypatch)
    versions_that_dont_lead_there(table)
    with pytest.warns(ForeignCommitWarning, match="does not follow"), icecore.open(catalog.path) as again:
        assert ids_of(again.resolve("ns.t", keep)) == ([1] if keep == "log" else [1, 2])
        for _ in range(2):
            append_by_key(again)
            assert ids_of(again.load_table("ns.t")) == peer_ids(catalog.path) == [1, 2]


def test_a_text_is_forgotten_in_the_note_of_a_cut_off_commit_too(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays while what others built on the commit is a conflict, and the commit is still known by it."""

    def call(lake: icecore.Catalog) -> None:
        lake.load_table("ns.t").append(rows(2), idempotency_key="k", message='as "zoe" asked', author="zoe")

    table = cut_off_append(catalog, monkeypatch, call)
    versions_that_dont_lead_there(table)
    (claim,) = (Path(catalog.path) / ".icecore" / "claims").glob("*.json")
    with pytest.warns(ForeignCommitWarning), icecore.open(catalog.path) as again:
        assert [(p.kind, p.where) for p in again.find_value("zoe").places] == [("file", claim.as_uri())]
        again.forget_text("zoe")
        assert again.find_value("zoe").is_nowhere
    kept = Claim.from_bytes(claim.read_bytes())
    assert kept is not None
    made_by = kept.provenance
    assert (made_by.actor, made_by.message, made_by.idempotency_key) == ("forgotten", 'as "forgotten" asked', "k")


def test_a_cut_off_commit_is_taken_back_in_a_clone(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is there once when it is made again, in the clone as in the original."""
    cut_off_append(catalog, monkeypatch)
    icecore.clone_warehouse(catalog.path, tmp_path / "clone")
    for folder in (tmp_path / "clone", catalog.path):
        with icecore.open(folder) as lake:
            assert ids_of(lake.load_table("ns.t")) == [1]
            append_by_key(lake)
            assert ids_of(lake.load_table("ns.t")) == peer_ids(folder) == [1, 2]
            assert lake.verify(deep=True).problems == ()


def test_a_copy_that_becomes_a_clone_takes_no_version_of_its_original_back(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The table lies outside of both, and the copy was made while the original committed."""
    elsewhere = tmp_path / "elsewhere"
    table = make_table(catalog, properties=FILE_SYSTEM, location=str(elsewhere))
    table.append(rows(1))
    killed_before_commit(catalog, monkeypatch, 1, lambda lake: lake.load_table("ns.t").append(rows(2)))
    shutil.copytree(catalog.path, tmp_path / "copy")
    icecore.clone_warehouse(tmp_path / "copy")
    assert (elsewhere / "metadata" / "v3.metadata.json").exists()


def test_another_s_change_is_no_part_of_a_cut_off_transaction(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is taken in at once with the one part that was made is not taken for the other."""
    tables = two_tables(catalog)
    killed_before_commit(catalog, monkeypatch, 1, append_to_both)
    made = local(tables["t"].metadata_location).with_name("v3.metadata.json")
    make_version(of_file(tables["t"], made), "v4.metadata.json")
    make_version(tables["u"], "v3.metadata.json")
    with icecore.open(catalog.path) as again, pytest.raises(CommitStateUnknownError, match="was cut off"):
        append_to_both(again)


def test_a_look_without_the_lock_leaves_a_version_under_way_alone(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a dry run: the version is neither another writer's nor left by a crash."""
    table = make_table(catalog, properties=FILE_SYSTEM)
    table.append(rows(1))
    with icecore.open(catalog.path) as again:
        looking, move = repository_of(again), Materializer.move
        before = looking.state(table.state.stream)

        def looked_at(self: Materializer, *args: Any) -> bool:
            looking.foreign.check(before)
            return move(self, *args)

        monkeypatch.setattr(Materializer, "move", looked_at)
        table.append(rows(2))
    assert ids_of(table) == peer_ids(catalog.path) == [1, 2]


def test_a_cut_off_creation_leaves_no_claim(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """No table of the log will ever take in what others built on it."""

    def call(lake: icecore.Catalog) -> None:
        make_table(lake, properties=FILE_SYSTEM)

    killed_before_commit(catalog, monkeypatch, 1, call)
    (made,) = Path(catalog.path).rglob("v1.metadata.json")
    made.with_name("v2.metadata.json").write_bytes(made.read_bytes())
    with icecore.open(catalog.path):
        assert not list((Path(catalog.path) / ".icecore" / "claims").glob("*.json"))
    assert made.exists()


def test_a_log_that_reaches_below_ours_must_name_ours(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties=FILE_SYSTEM)
    table.append(rows(1))
    first = of_file(table, local(table.metadata_location).with_name("v1.metadata.json"))
    below = MetadataLogEntry(first.metadata.last_updated_ms, first.metadata_location)
    with_rows = SimpleNamespace(
        metadata=evolve(table.metadata, metadata_log=(below,)),
        metadata_location=first.metadata_location.replace("v1", "v3"),
    )
    make_version(with_rows, "v4.metadata.json")
    local(table.metadata_location).with_name("version-hint.text").write_text("4")
    with pytest.raises(ForeignCommitError, match="does not follow"):
        table.append(rows(2))
