"""Decoded entries of large manifests in files: the same rows, made once, whatever happens to the files."""

from __future__ import annotations

import datetime as dt
import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.forget.forget import Forgotten
from icecore.projections.entries import decode_entries, decoded_files
from icecore.projections.entries.decoded_files import DecodedFiles

COMMITS = 4
NAMES = ("files", "data_files", "delete_files", "all_files", "entries", "all_entries")


@pytest.fixture
def other(catalog: icecore.Catalog, tmp_path: Path) -> Iterator[icecore.Table]:
    """A table of another warehouse, with as many manifests as commits, one of them of deletes."""
    table = make_table(
        catalog, properties={"commit.manifest-merge.enabled": "false", "write.delete.mode": "merge-on-read"}
    )
    for commit in range(COMMITS - 1):
        table.append(rows(commit, commit + 10))
    table.delete("id = 11")
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        yield other.register_table("ns.t", str(table.metadata_location))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All manifests are large enough to be kept, and no rows in memory."""
    monkeypatch.setattr(decoded_files, "WORTH_A_FILE", 1)
    monkeypatch.setattr("icecore.projections.plan.planner.KEPT_FILES_BYTES", 0)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the manifests that are decoded."""
    found: list[str] = []
    real = decode_entries._decoded

    def decode(manifests: list[Any], *args: Any) -> list[pa.Table] | None:
        found.extend(m.where for m in manifests)
        return real(manifests, *args)

    monkeypatch.setattr(decode_entries, "_decoded", decode)
    return found


def files_of(warehouse: Path) -> list[Path]:
    return sorted((warehouse / "other" / ".icecore" / "segments").rglob("decoded-*"))


def all_rows(table: icecore.Table) -> dict[str, list[dict[str, Any]]]:
    return {name: getattr(table.inspect, name)().to_pylist() for name in NAMES}


@pytest.mark.usefixtures("large")
def test_rows_are_the_same_and_manifests_decoded_once(other: icecore.Table, tmp_path: Path, decoded: list[str]) -> None:
    first = all_rows(other)
    assert len(decoded) == len(files_of(tmp_path)) == COMMITS
    with icecore.open(tmp_path / "other") as again:
        table = again.load_table("ns.t")
        assert all_rows(table) == first
        assert {len(rows) for rows in all_rows(table).values()} == {COMMITS, COMMITS - 1, 1}
        assert len(decoded) == COMMITS
        table.append(rows(50))
        assert all_rows(table)["files"] == table.inspect.files().to_pylist()
        assert len(table.inspect.files()) == COMMITS + 1
        assert len(decoded) == COMMITS, "entries of ours come from the log"


def test_small_manifests_are_not_kept(other: icecore.Table, tmp_path: Path, decoded: list[str]) -> None:
    assert len(other.inspect.files()) == COMMITS
    assert len(decoded) == COMMITS and not files_of(tmp_path)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("damage", ["gone", "empty", "short", "cut", "a bit", "other columns"])
def test_what_is_damaged_is_made_again(other: icecore.Table, tmp_path: Path, decoded: list[str], damage: str) -> None:
    first = all_rows(other)
    path = files_of(tmp_path)[0]
    data = path.read_bytes()
    match damage:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "short":
            path.write_bytes(b"x")
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "a bit":
            middle = len(data) // 2
            path.write_bytes(data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :])
        case "other columns":
            sink = pa.BufferOutputStream()
            table = pa.table({"content": [0]})
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            stream = sink.getvalue().to_pybytes()
            path.write_bytes(stream + zlib.crc32(stream).to_bytes(4, "big"))
    assert all_rows(other) == first
    assert len(decoded) == COMMITS + 1 and len(files_of(tmp_path)) == COMMITS


@pytest.mark.usefixtures("large")
def test_a_folder_that_can_not_be_written_costs_no_rows(
    other: icecore.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    first = all_rows(other)
    monkeypatch.undo()
    assert not files_of(tmp_path)
    assert all_rows(other) == first


@pytest.mark.usefixtures("large")
def test_files_that_nobody_used_for_long_are_removed(other: icecore.Table, tmp_path: Path) -> None:
    first = all_rows(other)
    files = files_of(tmp_path)
    long_ago = time.time() - decoded_files.UNUSED_AFTER_S - 60
    strange = files[0].with_name("decoded-0-of-another-release.arrow")
    unfinished = files[0].with_name("decoded-1-of-one-that-died.unfinished")
    for path in (strange, unfinished):
        path.write_bytes(b"")
    for path in (*files, strange, unfinished):
        os.utime(path, (long_ago, long_ago))
    files[0].unlink()
    assert all_rows(other) == first
    assert files_of(tmp_path) == files, "those that are used stay, the others go when one is made"


@pytest.mark.usefixtures("large")
def test_files_of_manifests_that_are_no_more_are_removed(other: icecore.Table, tmp_path: Path) -> None:
    """Also where none is left that would get a file, as after all manifests were rewritten here."""
    all_rows(other)
    other.delete("TRUE")
    other.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).commit()
    other.append(rows(70))
    long_ago = time.time() - decoded_files.UNUSED_AFTER_S - 60
    for path in files_of(tmp_path):
        os.utime(path, (long_ago, long_ago))
    assert len(other.inspect.files()) == 1
    assert not files_of(tmp_path)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("in_the_log", [False, True])
def test_bounds_that_are_forgotten_are_in_no_file(other: icecore.Table, tmp_path: Path, in_the_log: bool) -> None:
    """Those of a registered table's manifests are in no event, but were cached as others are."""
    other.scan().plan()
    all_rows(other)
    assert files_of(tmp_path)
    if in_the_log:
        other.delete("TRUE")
        other.append(rows(60))
        other.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).commit()
    other.forget(dry_run=True)
    assert files_of(tmp_path)
    assert (other.forget().position is not None) == in_the_log
    assert not list((tmp_path / "other" / ".icecore" / "segments").rglob("*.*"))


@pytest.mark.usefixtures("large")
def test_nothing_is_kept_of_a_table_that_is_purged(other: icecore.Table, tmp_path: Path) -> None:
    all_rows(other)
    assert files_of(tmp_path)
    with icecore.open(tmp_path / "other") as again:
        again.drop_table("ns.t", purge=True)
    assert not files_of(tmp_path)


@pytest.mark.usefixtures("large")
def test_files_of_somebody_else_are_read(
    other: icecore.Table, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may read them but not note that they are used, as another user of the machine, has no less of them."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    first = all_rows(other)
    monkeypatch.setattr(os, "utime", refuse)
    assert all_rows(other) == first
    assert len(decoded) == COMMITS


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("in_the_log", [False, True])
def test_bounds_that_are_forgotten_as_others_decode_them_are_in_no_file(
    other: icecore.Table, tmp_path: Path, in_the_log: bool
) -> None:
    """Their folder is removed, and who has begun to fill it does not make it again."""
    if in_the_log:
        other.append(rows(60))
        other.delete("id = 60")
        other.append(rows(61))
        other.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).commit()
    real = DecodedFiles._write
    told: list[Forgotten] = []

    def write(*args: Any) -> None:
        if not told:
            told.append(other.forget())
        real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DecodedFiles, "_write", write)
        first = other.inspect.files()
    assert (told[0].position is not None) == in_the_log
    assert not files_of(tmp_path)
    assert other.inspect.files() == first
    assert len(files_of(tmp_path)) == COMMITS
