"""Processes that die while they forget, or archive what is forgotten later: all is forgotten, or nothing is begun."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from harness.children import FAILED, Child, Say
from harness.steps import Steps, kill
from traces import traces_of

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.forget.redact_events import ENDING

SECRET = "zoe.secret@x.org"
SCHEMA = pa.schema([("id", pa.int64()), ("email", pa.string())])
EVERY = 3


def build(folder: Path) -> None:
    """A log with an archive, in both of which the secret is."""
    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.users", SCHEMA)
        table.append([{"id": 1, "email": SECRET}])
        table.append([{"id": 2, "email": "bob@x.org"}])
        catalog.archive(before=catalog.position)
        table.delete("id = 1")
        table.rewrite_manifests()
        table.maintenance.expire_snapshots().older_than(now_ms() + 1).retain_last(1).commit()


def forget(folder: Path, number: int | None) -> Child:
    steps = Steps(kill, number)

    def work(say: Say) -> None:
        steps.install()
        with icecore.open(folder) as catalog:
            table = catalog.load_table("ns.users")
            steps.active = True
            table.forget()
            steps.active = False
            say("steps", steps.names)

    return Child(work)


@pytest.mark.parametrize("first", range(EVERY))
def test_a_forgetting_that_dies_is_done_or_not_begun(tmp_path: Path, first: int) -> None:
    """SIGKILL at each step, of the archive that is written anew, of the log, and of what is tidied up after it."""
    folder, kept = tmp_path / "w", tmp_path / "kept"
    build(folder)
    shutil.copytree(folder, kept)
    learnt = forget(folder, None).wait()
    names = learnt.get("steps")
    assert names, learnt.get(FAILED)
    assert {"replace", "unlink", "SQL VACUUM", "SQL UPDATE event_content", "after COMMIT"} <= set(names)
    assert traces_of(folder, SECRET) == []
    seen = set()
    for number in range(first, len(names), EVERY):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        assert forget(folder, number).wait().was_killed
        with icecore.open(folder) as catalog:
            done = catalog.log(limit=1)["kind"].to_pylist() == ["log.forgotten"]
            assert catalog.verify().problems == (), names[number]
            assert catalog.load_table("ns.users").scan().to_arrow()["id"].to_pylist() == [2]
            found = {p.name for p in folder.iterdir() if "archive" in p.name}
            assert found == {a.file for a in catalog.archives()}, names[number]
            assert done == any(ENDING in name for name in found)
            assert (traces_of(folder, SECRET) == []) == done, (number, names[number])
            seen.add(done)
    assert seen == {True, False}


def archive(folder: Path, number: int | None) -> Child:
    steps = Steps(kill, number)

    def work(say: Say) -> None:
        steps.install()
        with icecore.open(folder) as catalog:
            steps.active = True
            catalog.archive(before=4)
            steps.active = False
            say("steps", steps.names)

    return Child(work)


def test_what_an_archiving_that_died_left_is_forgotten_too(tmp_path: Path) -> None:
    """SIGKILL at each step: of the file that is written, of its naming, and of the log until its COMMIT."""
    folder, kept = tmp_path / "w", tmp_path / "kept"
    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.users", SCHEMA)
        table.append([{"id": 1, "email": SECRET}])
        table.append([{"id": 2, "email": "bob@x.org"}])
        table.delete("id = 1")
        table.rewrite_manifests()
        table.maintenance.expire_snapshots().older_than(now_ms() + 1).retain_last(1).commit()
    shutil.copytree(folder, kept)
    names = archive(folder, None).wait().get("steps")
    assert names and "replace" in names
    named = set[str]()
    for number in range(len(names)):
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        assert archive(folder, number).wait().was_killed
        left = [p.name for p in folder.iterdir() if "archive" in p.name]
        with icecore.open(folder) as catalog:
            named.update(name for name in left if not catalog.archives() and not name.startswith("."))
            catalog.load_table("ns.users").forget()
            assert catalog.verify().problems == (), names[number]
            found = {p.name for p in folder.iterdir() if "archive" in p.name}
            assert found == {a.file for a in catalog.archives()}, (number, names[number])
        assert traces_of(folder, SECRET) == [], (number, names[number])
    assert named
