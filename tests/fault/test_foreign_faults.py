"""Adoption of other engines' commits under crashes and races: each is taken in exactly once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clean_processes import clean_processes
from core_tables import ids_of, local, make_table, peer_ids, pyiceberg_catalog, repository_of, rows, store_of
from fault_writers import open_until_killed

import icecore
from icecore.engine.events import event as ev
from icecore.projections.files.file_follower import FileFollower
from icecore.projections.files.materialize import Materializer

SCHEMES = ("metastore", "filesystem")


class Killed(BaseException):
    """Stands for the end of the process."""


def adopted(catalog: icecore.Catalog) -> list[str]:
    """The locations of the adopted files, in order."""
    return [e.payload["metadata-location"] for e in store_of(catalog).events() if e.kind == ev.TABLE_ADOPTED]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("step", ["write", "_move_pointers", "finish"])
def test_a_crash_in_the_middle_of_an_adoption(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, step: str, scheme: str
) -> None:
    """Nothing of it is kept, or all: the next open takes each commit in once, in order."""
    make_table(catalog, properties={"icecore.commit-scheme": scheme}).append(rows(1))
    peer = pyiceberg_catalog(catalog.path)
    locations = []
    for i in (2, 3):
        peer.load_table("ns.t").append(rows(i))
        locations.append(peer.load_table("ns.t").metadata_location)
    peer.close()

    def dying(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Materializer, step, dying)
        catalog.load_table("ns.t")
    assert adopted(catalog) == (locations if step == "finish" else [])
    with icecore.open(catalog.path) as again:
        assert adopted(again) == locations
        again.load_table("ns.t").append(rows(4))
        assert ids_of(again.load_table("ns.t")) == peer_ids(catalog.path) == [1, 2, 3, 4]
        assert again.verify().problems == ()


def test_many_adopt_at_once(catalog: icecore.Catalog) -> None:
    """Threads with catalogs of their own see a foreign commit together: one event for each."""
    make_table(catalog)
    peer = pyiceberg_catalog(catalog.path)
    for i in range(6):
        others = [icecore.open(catalog.path) for _ in range(3)]
        barrier, failed = threading.Barrier(3), list[BaseException]()

        def load(other: icecore.Catalog, gate: threading.Barrier = barrier, out: list[Any] = failed) -> None:
            gate.wait()
            try:
                other.load_table("ns.t")
            except BaseException as e:
                out.append(e)
            finally:
                other._warehouse.store.close()

        peer.load_table("ns.t").append(rows(i))
        threads = [threading.Thread(target=load, args=(o,)) for o in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failed == []
        for other in others:
            other.close()
        assert len(adopted(catalog)) == i + 1
    assert ids_of(catalog.load_table("ns.t")) == peer_ids(catalog.path) == list(range(6))
    assert catalog.verify().problems == ()
    peer.close()


@pytest.mark.slow
def test_killed_adopters_take_each_commit_in_once(catalog: icecore.Catalog) -> None:
    """SIGKILL at random moments of opens and commits, while PyIceberg commits: nothing lost, nothing twice."""
    make_table(catalog)
    dice = random.Random(7)
    peer = pyiceberg_catalog(catalog.path)
    expected: set[int] = set()
    for round_number in range(5):
        here, there = clean_processes().Pipe(duplex=False)
        process = clean_processes().Process(
            target=open_until_killed, args=(str(catalog.path), there, 1000 * (round_number + 1))
        )
        process.start()
        there.close()
        assert here.poll(60)
        for i in range(3):
            number = round_number * 10 + i
            try:
                peer.load_table("ns.t").append(rows(number))
                expected.add(number)
            except Exception as e:
                # Refused by its own compare-and-swap, or by the lock of the file: then it is not there.
                assert "CommitFailed" in type(e).__name__ or "locked" in str(e), e
        time.sleep(dice.uniform(0.0, 0.3))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)
        done, tried = set[int](), set[int]()
        try:
            while here.poll(0):
                kind, number = here.recv()
                (done if kind == "done" else tried).add(number)
        except EOFError:
            pass
        with icecore.open(catalog.path) as again, warnings.catch_warnings():
            ids = ids_of(again.load_table("ns.t"))
            assert len(ids) == len(set(ids)), "a row is there twice"
            assert expected | done <= set(ids), "an acknowledged row is lost"
            assert set(ids) - expected - done <= tried
            assert peer_ids(catalog.path) == ids
            assert again.verify().problems == ()
            expected = set(ids)
    locations = adopted(catalog)
    assert len(locations) == len(set(locations)), "a commit was adopted twice"
    assert all(local("file://" + f.removeprefix("file://")).exists() for f in locations)
    peer.close()


def test_a_dry_run_takes_no_version_of_a_commit_under_way_back(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the version's file and COMMIT a dry run of another process sees the claim without its event."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    other = open_again()
    publish, found = FileFollower.publish, list[tuple[str, ...]]()

    def look() -> None:
        repository = repository_of(other)
        with monkeypatch.context() as patch:
            # What is settled before waits for the lock; the check comes after, when others may have it again.
            patch.setattr(type(repository.foreign), "adopt_stream", lambda *_: None)
            found.append(other.load_table("ns.t").append(rows(3), dry_run=True).conflicts)  # type: ignore[union-attr]

    def published(self: FileFollower, *args: Any) -> None:
        publish(self, *args)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(60)

    with monkeypatch.context() as patch:
        patch.setattr(FileFollower, "publish", published)
        table.append(rows(2))
    assert found == [()]
    assert local(table.metadata_location).exists()
    assert catalog.verify().problems == ()


def test_a_registered_version_is_not_taken_back(
    catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registration that dies before COMMIT leaves the file that it was to register, though these bytes are ours."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    table.append(rows(2))
    publish = FileFollower.publish

    def dying(self: FileFollower, *args: Any) -> None:
        publish(self, *args)
        raise Killed

    assert table.metadata_location is not None
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(FileFollower, "publish", dying)
            other.register_table("ns.t", table.metadata_location)
    with icecore.open(tmp_path / "other") as again:
        assert local(table.metadata_location).exists()
        registered = again.register_table("ns.t", table.metadata_location)
        registered.append(rows(3))
        assert ids_of(registered) == [1, 2, 3]
        assert again.verify().problems == ()
