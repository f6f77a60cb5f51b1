"""A bounded run of the harness: `make fault` runs it for minutes, over all kinds of warehouses."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from harness import clocks, crowds, damage, folders, io_errors, kills, permissions, torn
from harness.bench import Bench
from harness.children import FAILED, Outcome, Say, Work, in_child, in_turn
from harness.counts import Counts
from harness.deaths import deaths
from harness.operations import Setting
from harness.steps import kill
from harness.writers import race

METASTORE, FILE_SYSTEM = Setting("metastore", "commit", 2), Setting("filesystem", "commit", 3)
BY_HAND = Setting("metastore", "manual", 1)


@pytest.fixture(scope="module")
def place_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory, where there is such a thing: what is killed here is a process, not the machine."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path_factory.mktemp("faults")
        return
    folder = Path(tempfile.mkdtemp(prefix="icecore-faults-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def place(place_of_all: Path) -> Iterator[Path]:
    """The same place each time, so that a warehouse of a kind is made once and copied from then on."""
    yield place_of_all / "w"
    shutil.rmtree(place_of_all / "w", ignore_errors=True)


@pytest.fixture
def counts() -> Counts:
    return Counts()


def check(counts: Counts, at_least: int) -> None:
    """No violation, in so many rounds."""
    assert counts.violations == []
    assert counts.total() >= at_least


@pytest.mark.parametrize(
    ("setting", "operation", "each_kind"),
    [
        (METASTORE, "append", True),
        (FILE_SYSTEM, "append", False),
        (METASTORE, "transaction over two tables", False),
        (FILE_SYSTEM, "transaction that makes a namespace", True),
    ],
    ids=str,
)
def test_killed_at_steps_of_a_commit(
    place: Path, counts: Counts, setting: Setting, operation: str, each_kind: bool
) -> None:
    """SIGKILL at steps of a commit and of writing its files, of each kind: all is there, once, or nothing is."""
    every = 40 if each_kind else 15
    kills.kill_at_each_step(place, counts, setting, every=every, first=1, each_kind=each_kind, names=(operation,))
    check(counts, 4)
    hit = {what for _, what, _ in counts.rounds}
    assert any(what.startswith("SQL") for what in hit) and hit & {"write", "half a write", "replace", "link", "fsync"}


def test_killed_at_steps_of_moving_and_cloning(place: Path, counts: Counts) -> None:
    """SIGKILL at steps of each way to take a warehouse elsewhere, of each kind: made again it is whole.

    Its original is untouched.
    """
    folders.take_elsewhere(place, counts, FILE_SYSTEM, every=204, first=99, each_kind=True)
    check(counts, 5)


@pytest.mark.parametrize("setting", [METASTORE, FILE_SYSTEM], ids=str)
def test_killed_at_steps_of_forgetting(place: Path, counts: Counts, setting: Setting) -> None:
    """SIGKILL at steps of forgetting: it is done with at the next open, or was never begun."""
    kills.kill_at_each_step(place, counts, setting, every=14, names=("forget",))
    check(counts, 4)


@pytest.mark.parametrize("setting", [METASTORE, FILE_SYSTEM, BY_HAND], ids=str)
@pytest.mark.parametrize("operation", ["expire snapshots", "remove orphan files", "drop and purge table"])
def test_killed_at_steps_of_a_deletion(place: Path, counts: Counts, setting: Setting, operation: str) -> None:
    """The event is there or not; where it is, the next open deletes what is left, and nothing that is needed."""
    kills.kill_at_each_step(place, counts, setting, every=9, first=4, names=(operation,))
    check(counts, 1)


@pytest.mark.parametrize("setting", [FILE_SYSTEM, BY_HAND], ids=str)
def test_killed_at_random(place: Path, counts: Counts, setting: Setting) -> None:
    """A history in which each process dies at a random moment, step or byte."""
    kills.random_kills(place, counts, setting, "test", 8)
    check(counts, 8)


@pytest.mark.parametrize("setting", [METASTORE, FILE_SYSTEM], ids=str)
def test_disks_that_fail(place: Path, counts: Counts, setting: Setting) -> None:
    """Full, read-only and broken disks: refused with an error of ours and nothing there, or committed and healed."""
    io_errors.fail_at_each_step(place, counts, setting, every=9, names=("append", "view commit"))
    check(counts, 4)


@pytest.mark.parametrize("setting", [METASTORE, FILE_SYSTEM], ids=str)
def test_torn_write_ahead_logs(place: Path, counts: Counts, setting: Setting) -> None:
    """A WAL whose end is destroyed gives a shorter log that is whole; what is ahead of it is named."""
    torn.tear(place, counts, setting, "test", 4)
    check(counts, 4)


@pytest.mark.usefixtures("no_hint_to_come")
@pytest.mark.parametrize("setting", [METASTORE, FILE_SYSTEM], ids=str)
def test_damaged_files(place: Path, counts: Counts, setting: Setting) -> None:
    """Damage to what follows from the log is found and healed with the same bytes, damage to the log is refused."""
    damage.damage_projections(place, counts, setting, "test", 5)
    damage.damage_log(place, counts, setting, "test", 8)
    damage.damage_data(place, counts, setting, "test", 4)
    check(counts, 17)


def test_places_that_may_only_be_read(place: Path, counts: Counts) -> None:
    """Read-only files and folders, for a user whom that holds for: refused by name, or committed and healed later."""
    permissions.forbid(place, counts, METASTORE, "test", 5)
    check(counts, 5)


def test_clocks_that_jump(place: Path, counts: Counts) -> None:
    """Times of the log and of metadata always grow, whatever the clock does."""
    clocks.jump(place, counts, METASTORE, "test", 1)
    check(counts, 1)


@pytest.mark.parametrize("setting", [METASTORE, FILE_SYSTEM], ids=str)
def test_several_processes_at_once(place: Path, counts: Counts, setting: Setting) -> None:
    """Processes that append, and that write out the same files, while some of them are killed."""
    crowds.append_at_once(place / "a", counts, setting, "test", 2)
    crowds.materialize_at_once(place / "m", counts, setting, "test", 2)
    check(counts, 4)


def test_a_process_that_looks_at_many_names_what_it_could_not_look_at() -> None:
    """One look that fails hides no other; what ends the process is said of each that it did not come to."""

    def fail(_: Say) -> None:
        raise ValueError("no such thing")

    seen = in_turn([lambda say: say("seen", 1), fail, lambda say: say("seen", 3), lambda _: kill(""), fail])
    assert [o.get("seen") for o in seen] == [1, None, 3, None, None]
    assert "no such thing" in seen[1].get(FAILED)
    assert [o.was_killed for o in seen] == [True] * 5 and not seen[4].messages


def test_only_deaths_that_left_the_same_are_looked_at_once(place: Path) -> None:
    """A death before a COMMIT and one after it leave two logs, as do one before a file is made and one after it."""
    bench = Bench(place)
    base = bench.start(METASTORE)
    looks = []
    names = ["SQL BEGIN", "SQL INSERT event", "SQL COMMIT", "after COMMIT", "create file", "write"]

    def die(number: int) -> Outcome:
        bench.put_back()
        if number > 4:
            (Path(bench.folder) / "a file").touch()
        return in_child(lambda _: kill(""))

    def look(numbers: Sequence[int]) -> Work:
        looks.append(list(numbers))
        return lambda say: say("model", bench.model)

    found = deaths(bench, names, range(6), die, look)
    assert looks == [[0, 1, 2], [3], [4], [5]]
    assert [d.number for d in found] == list(range(6)) and all(d.seen.get("model") == base for d in found)


def test_many_writers(place: Path) -> None:
    """Six writers of two tables: no commit lost or doubled, and nobody waits in vain."""
    # Other tests share the machine, so that only `make fault` looks at how evenly they come through.
    result = race(place, 6, 2, 2.5, share=0)
    assert result.problems == ()
    assert all(w.ids for w in result.writers)
