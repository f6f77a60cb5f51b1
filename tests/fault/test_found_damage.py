"""What `verify` has to find and `rebuild` to heal, one kind of damage at a time."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows, store_of

import icecore
from icecore.engine.errors import CorruptLogError, ForeignCommitError
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.storage.atomic_write import put_file, sweep
from icecore.projections.verify import verify_files


def problems(catalog: icecore.Catalog) -> str:
    return "\n".join(catalog.verify().problems)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE manifest SET record = replace(record, '-m0.avro', '-m9.avro') WHERE manifest_id = 1", "manifest"),
        ("DELETE FROM manifest WHERE manifest_id = 2", "manifest"),
        ("UPDATE snapshot_manifests SET manifest_ids = x''", "snapshot_manifests"),
        ("DELETE FROM snapshot_manifests", "snapshot_manifests"),
        ("UPDATE stream_head SET location = NULL", "stream_head"),
        ("DELETE FROM iceberg_namespace_properties", "iceberg_namespace_properties"),
    ],
)
def test_a_changed_read_model_is_found_and_healed(catalog: icecore.Catalog, damage: str, named: str) -> None:
    """Every read model is compared with a replay: a plan from a wrong manifest list would lose rows."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    assert store_of(catalog).connection().execute(damage).rowcount
    assert f"the read model {named} differs from a replay of the log" in problems(catalog)
    catalog.rebuild()
    assert problems(catalog) == ""
    assert ids_of(catalog.load_table("ns.t")) == [1, 2] == peer_ids(catalog.path)


def test_an_index_that_lost_an_entry_is_found_and_healed(catalog: icecore.Catalog) -> None:
    """Without its entry in the index of idempotency keys a commit would be made twice."""
    table = make_table(catalog)
    table.append(rows(1), idempotency_key="once")
    path = catalog.path / "icecore.db"
    catalog.close()
    connection = sqlite3.connect(path)
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'event' AND name LIKE 'sqlite_autoindex_event_%' "
        "AND rootpage IN (SELECT rootpage FROM sqlite_master) ORDER BY name LIMIT 1 OFFSET 1"
    ).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    start = (page - 1) * size
    # A leaf page of an index without cells.
    data[start : start + 8] = bytes([10, 0, 0, 0, 0]) + size.to_bytes(2, "big") + b"\0"
    path.write_bytes(data)
    with icecore.open(catalog.path) as again:
        assert "icecore.db: wrong # of entries in index" in problems(again)
        again.rebuild()
        assert problems(again) == ""
        again.load_table("ns.t").append(rows(1), idempotency_key="once")
        assert ids_of(again.load_table("ns.t")) == [1]


def test_a_damaged_log_is_left_with_its_history(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """As its error says, where the events are whole; a copy put back beside the old icecore.db-wal would be damaged."""
    make_table(catalog).append(rows(1), message="kept")
    (page,) = (
        store_of(catalog).connection().execute("SELECT rootpage FROM sqlite_master WHERE name = 'manifest'").fetchone()
    )
    (size,) = store_of(catalog).connection().execute("PRAGMA page_size").fetchone()
    catalog.close()
    path = catalog.path / "icecore.db"
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    exported, left = tmp_path / "log.jsonl", tmp_path / "left"
    with icecore.open(catalog.path) as damaged:
        with pytest.raises(
            CorruptLogError, match=r"`icecore export`.* icecore\.db-wal beside it, then `icecore import`"
        ):
            damaged.rebuild()
        damaged.export_log(exported)
    left.mkdir()
    for file in catalog.path.glob("icecore.db*"):
        file.rename(left / file.name)
    icecore.import_log(exported, catalog.path)
    with icecore.open(catalog.path) as again:
        assert again.verify().ok and again.log("ns.t")["message"].to_pylist() == [None, "kept"]
        assert ids_of(again.load_table("ns.t")) == [1]


@pytest.mark.usefixtures("no_hint_to_come")
@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
@pytest.mark.parametrize("damage", ["lost", "wrong"])
def test_a_version_hint_is_checked(catalog: icecore.Catalog, scheme: str, damage: str) -> None:
    """Readers without a catalog follow the hint, so it must name the log's version."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1))
    hint = local(table.metadata_location).parent / "version-hint.text"
    good = hint.read_text()
    if damage == "lost":
        hint.unlink()
    else:
        hint.write_text("1")
    told = problems(catalog)
    assert str(hint) in told and (damage == "lost" or f"says '1', the log ends at {good!r}" in told)
    catalog.rebuild()
    assert hint.read_text() == good
    assert problems(catalog) == ""


@pytest.mark.parametrize("damage", ["flipped", "cut", "lost"])
def test_a_damaged_version_of_a_file_system_table_is_healed(catalog: icecore.Catalog, damage: str) -> None:
    """Versions are never written over, but one that the log notes as ours is made anew where its bytes changed."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    path = local(table.metadata_location)
    good = path.read_bytes()
    match damage:
        case "flipped":
            path.write_bytes(good[:50] + bytes([good[50] ^ 1]) + good[51:])
        case "cut":
            path.write_bytes(good[:-1])
        case _:
            path.unlink()
    assert path.name in problems(catalog)
    catalog.rebuild()
    assert path.read_bytes() == good
    assert problems(catalog) == ""


def test_a_version_ahead_of_the_log_is_named(catalog: icecore.Catalog) -> None:
    """A file that another writer made, or that outlived its event, stays, and verify says what to do."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    ahead = local(table.metadata_location).with_name("v3.metadata.json")
    ahead.write_text("{}")
    assert f"{ahead} is ahead of the log, which ends at version 2 of ns.t" in problems(catalog)
    with pytest.raises(ForeignCommitError, match=ahead.name), pytest.warns(ForeignCommitWarning, match=ahead.name):
        catalog.rebuild()
    assert ahead.read_text() == "{}"


def planned_paths(table: icecore.Table, row_filter: str) -> list[str]:
    return sorted(t.file.file_path for t in table.scan(row_filter).plan_files())


def test_a_changed_byte_of_a_segment_changes_no_plan(catalog: icecore.Catalog) -> None:
    """A bound that was changed in the cache would leave a file out of a plan: DuckDB's checksums find it."""
    table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
    for n in range(20):
        table.append(rows(n, n + 100))
    filters = ("id = 107", "id >= 100")
    expected = [planned_paths(table, f) for f in filters]
    assert [len(paths) for paths in expected] == [13, 20]
    catalog.close()
    (path,) = (p for p in (catalog.path / ".icecore" / "segments").rglob("*") if p.is_file())
    good = path.read_bytes()
    found = 0
    for at in range(0, len(good), len(good) // 30):
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with icecore.open(catalog.path) as again:
            assert [planned_paths(again.load_table("ns.t"), f) for f in filters] == expected
        (after,) = (p for p in path.parent.iterdir() if p.is_file())
        found += after.read_bytes()[at] == good[at]
        if after != path:
            after.unlink()
    assert found


def test_a_lost_hint_of_an_old_commit_is_told_of_at_once(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its writer, just after the commit, is waited for: else a lost folder costs seconds for each table."""
    state = make_table(catalog).metadata
    (hint,) = catalog.path.rglob("version-hint.text")
    hint.unlink()
    later = SimpleNamespace(
        time=lambda: state.last_updated_ms / 1000 + 3600,
        monotonic=time.monotonic,
        sleep=lambda _: pytest.fail("waited"),
    )
    monkeypatch.setattr(verify_files, "time", later)
    assert [p for p in catalog.verify().problems if "version-hint.text" in p]


def test_verify_is_clean_while_others_commit(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that verify compares is of one moment; for the writer's hint it waits, however slow that is."""
    monkeypatch.setattr(verify_files, "HINT_FOLLOWS_S", 60.0)
    table = make_table(catalog)
    began, stop = threading.Event(), threading.Event()

    def write() -> None:
        with icecore.open(catalog.path) as mine:
            for i in range(200):
                if stop.is_set():
                    return
                mine.load_table("ns.t").append(rows(i))
                began.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert began.wait(60), "the writer came to its first commit"
    found = [catalog.verify().problems for _ in range(12)]
    stop.set()
    thread.join()
    # The files of the very last commits may be on their way.
    assert [p for ps in found for p in ps if "its files are written up to" not in p and "iceberg_tables" not in p] == []
    assert table.refresh().snapshots()


def test_unfinished_files_are_swept_at_open(catalog: icecore.Catalog) -> None:
    """What a killed process had begun to write is taken away; what a living one writes stays."""
    make_table(catalog)
    scratch = catalog.path / ".icecore" / "unfinished"
    dead, living = scratch / ".x.1.tmp", scratch / ".y.2.tmp"
    dead.write_bytes(b"half")
    with living.open("xb") as f:
        import fcntl

        fcntl.flock(f, fcntl.LOCK_EX)
        icecore.open(catalog.path).close()
        assert [p.name for p in scratch.iterdir()] == [".y.2.tmp"]
    icecore.open(catalog.path).close()
    assert list(scratch.iterdir()) == []


def test_a_file_that_was_swept_too_early_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweeper that is quicker than our lock costs a second try, not the file."""
    from icecore.engine.storage import atomic_write

    original = atomic_write._lock
    swept: list[int] = []

    def late(f: object) -> None:
        if not swept:
            swept.append(sweep(str(tmp_path / "s")))
        original(f)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic_write, "_lock", late)
    put_file(str(tmp_path / "f"), b"data", scratch=str(tmp_path / "s"), replace=True, durable=True)
    assert swept == [1]
    assert (tmp_path / "f").read_bytes() == b"data"
    assert list((tmp_path / "s").iterdir()) == []


@pytest.mark.parametrize("at", range(0, 280, 20))
def test_a_damaged_claim_takes_no_version_back(catalog: icecore.Catalog, at: int) -> None:
    """A claim outlives its commit for a moment; whatever becomes of its bytes, the committed version stays."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    event = store_of(catalog).event_at(table.state.position)
    path = local(table.metadata_location)
    claims = catalog._warehouse.repository.materializer._claims
    claims.take(event, None, table.state, str(path), path.read_bytes())
    (note,) = (catalog.path / ".icecore" / "claims").glob("*.json")
    data = note.read_bytes()
    note.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    icecore.open(catalog.path).close()
    assert not note.exists()
    assert path.exists()
    assert problems(catalog) == ""
