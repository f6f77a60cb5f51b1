"""Manifests are decoded, and read from object stores, ahead of who takes them: nothing of the entries changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.errors import CorruptFileError, MissingFileError
from icecore.engine.foreign import foreign_manifests
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries import decode_entries

COMMITS = 6


@pytest.fixture
def other(catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[icecore.Table]:
    """A table of another warehouse, with as many manifests as commits, of which the log keeps none as they are many."""
    monkeypatch.setattr(foreign_manifests, "MOST_BYTES_OF_REGISTERED", 0)
    table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
    for commit in range(COMMITS):
        table.append(rows(commit))
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        yield other.register_table("ns.t", str(table.metadata_location))


def manifests_of(table: icecore.Table) -> list[str]:
    return [m.manifest.manifest_path.removeprefix("file://") for m in table.manifests()]


@pytest.fixture
def one_run_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests are decoded by themselves, as large ones are."""
    monkeypatch.setattr(decode_entries, "MANIFESTS_AT_ONCE", 1)


@pytest.mark.usefixtures("one_run_each")
def test_entries_come_in_the_order_of_the_manifests(other: icecore.Table) -> None:
    assert ids_of(other) == list(range(COMMITS))
    found = other.inspect.entries()
    assert found["snapshot_id"].to_pylist() == [m.manifest.added_snapshot_id for m in other.manifests()]


@pytest.mark.usefixtures("one_run_each")
@pytest.mark.parametrize("number", [0, 3, COMMITS - 1])
def test_the_manifest_that_is_broken_is_named(other: icecore.Table, number: int) -> None:
    path = Path(manifests_of(other)[number])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CorruptFileError, match=path.name):
        other.scan().plan()


def test_those_of_object_stores_are_asked_for_together(other: icecore.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at a time wait for each other here, which one after the other would never do."""
    together, read = threading.Barrier(2), Storage.read_bytes
    asked: list[str] = []

    def slow(self: Storage, location: str) -> bytes:
        if location.endswith(".avro") and "snap-" not in location:
            asked.append(location)
            together.wait(timeout=60)
        return read(self, location)

    monkeypatch.setattr(Storage, "local_path", lambda self, location: None)
    monkeypatch.setattr(Storage, "read_bytes", slow)
    assert len(other.scan().plan().to_arrow()) == COMMITS
    assert len(asked) == COMMITS


def test_one_that_an_object_store_lost_is_named(other: icecore.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Path(manifests_of(other)[2])
    gone.unlink()
    monkeypatch.setattr(Storage, "local_path", lambda self, location: None)
    with pytest.raises(MissingFileError, match=gone.name):
        other.scan().plan()
