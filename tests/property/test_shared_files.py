"""Tables of one warehouse that share files: whatever is deleted, what another one can be read by stays."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from budgets import examples
from core_tables import local, make_table, repository_of, rows, store_of
from hypothesis import Phase, example, given
from hypothesis import strategies as st

import icecore
from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import NoSuchTableError, TableAlreadyExistsError, ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.log.store import MODELS
from icecore.engine.spec.updates.metadata_update import SetLocation
from icecore.projections.inspect.reachable_files import needed_files

NAMES = ("a", "b", "c")
EVERYTHING = 2**53
# Those that make no step where the tables are not as they need them.
REFUSED = (ValidationError, NoSuchTableError, TableAlreadyExistsError)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these tests need not outlive the machine."""
    monkeypatch.setattr("os.fsync", lambda _: None)


def needed(catalog: icecore.Catalog) -> set[str]:
    """What the snapshots of all tables lead to that have a name or can get it back, but for older metadata files."""
    repository = repository_of(catalog)
    out: set[str] = set()
    for row in store_of(catalog).rows(MODELS, "all_heads"):
        state = repository.state(row["stream"])
        if state.purged_at is None:
            logged = {entry.metadata_file for entry in state.metadata.metadata_log}
            out |= set(needed_files(repository, state, set())) - logged
    return out


def append(catalog: icecore.Catalog, name: str, _: str, number: int) -> None:
    catalog.load_table(f"ns.{name}").append(rows(number, number + 1))


def delete(catalog: icecore.Catalog, name: str, _: str, number: int) -> None:
    catalog.load_table(f"ns.{name}").delete(f"id IN ({', '.join(map(str, range(0, number, 10)))})")


def overwrite(catalog: icecore.Catalog, name: str, _: str, number: int) -> None:
    catalog.load_table(f"ns.{name}").overwrite(rows(number))


def compact(catalog: icecore.Catalog, name: str, _: str, __: int) -> None:
    catalog.load_table(f"ns.{name}").rewrite_data_files(options={"rewrite-all": "true"})


def rewrite_manifests(catalog: icecore.Catalog, name: str, _: str, __: int) -> None:
    catalog.load_table(f"ns.{name}").rewrite_manifests()


def files_of(catalog: icecore.Catalog, name: str) -> list[FileScanTask]:
    return list(catalog.load_table(f"ns.{name}").scan().plan_files())


def add_files(catalog: icecore.Catalog, name: str, other: str, number: int) -> None:
    """Takes the other table's files by their paths, written in one of several ways."""
    paths = [local(task.file.file_path) for task in files_of(catalog, other)]
    link = catalog.path.parent / "link"
    if number % 3 == 1:
        paths = [link / path.relative_to(catalog.path.parent) for path in paths]
    catalog.load_table(f"ns.{name}").add_files([f"file:{path}" if number % 3 == 2 else str(path) for path in paths])


def append_files(catalog: icecore.Catalog, name: str, other: str, _: int) -> None:
    catalog.load_table(f"ns.{name}").append_files([task.file for task in files_of(catalog, other)])


def register(catalog: icecore.Catalog, name: str, other: str, _: int) -> None:
    location = catalog.load_table(f"ns.{other}").metadata_location
    assert location is not None
    drop(catalog, name, other, 0)
    catalog.register_table(f"ns.{name}", location)


def create(catalog: icecore.Catalog, name: str, other: str, number: int) -> None:
    drop(catalog, name, other, 0)
    version = number % 3 + 1
    make_table(catalog, name, format_version=version, properties=PROPERTIES if version > 1 else {})


def move_location(catalog: icecore.Catalog, name: str, _: str, number: int) -> None:
    """As a catalog of another kind does; new files go to the new folder, the others stay where they are."""
    folder = catalog.path.parent / f"elsewhere/{name}{number}"
    update = SetLocation(f"file://{folder}")
    stream = catalog.load_table(f"ns.{name}").state.stream
    repository_of(catalog).commit(stream, lambda _: [ChangeMetadata(lambda _: [update])], Provenance())


def write_elsewhere(catalog: icecore.Catalog, name: str, other: str, _: int) -> None:
    """The data of one table goes into the folder of another one from now on."""
    folder = catalog.load_table(f"ns.{other}").location()
    catalog.load_table(f"ns.{name}").set_properties({"write.data.path": f"{folder}/data/{name}"})


def expire(catalog: icecore.Catalog, name: str, _: str, __: int) -> None:
    catalog.load_table(f"ns.{name}").maintenance.expire_snapshots().older_than(EVERYTHING).commit()


def remove_orphans(catalog: icecore.Catalog, name: str, _: str, __: int) -> None:
    maintenance = catalog.load_table(f"ns.{name}").maintenance
    maintenance.remove_orphan_files(older_than=EVERYTHING, allow_recent=True)


def drop(catalog: icecore.Catalog, name: str, _: str, __: int) -> None:
    if catalog.table_exists(f"ns.{name}"):
        catalog.drop_table(f"ns.{name}")


def undrop(catalog: icecore.Catalog, name: str, _: str, __: int) -> None:
    catalog.undrop_table(f"ns.{name}")


def purge(catalog: icecore.Catalog, name: str, _: str, __: int) -> None:
    drop(catalog, name, name, 0)
    catalog.purge_table(f"ns.{name}")


def rebuild(catalog: icecore.Catalog, _: str, __: str, ___: int) -> None:
    catalog.rebuild()


PROPERTIES = {
    "write.delete.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "1",
}
Action = Callable[[icecore.Catalog, str, str, int], None]
TAKE: list[Action] = [add_files, append_files]
LEAVE: list[Action] = [overwrite, overwrite, delete, compact]
CLEAN: list[Action] = [expire, expire, remove_orphans]
OTHER: list[Action] = [append, rewrite_manifests, move_location, write_elsewhere, rebuild]
NAMED: list[Action] = [register, create, drop, undrop, undrop, purge]
ACTIONS = st.one_of(*(st.sampled_from(actions) for actions in (TAKE, LEAVE, CLEAN, [*OTHER, *NAMED])))
STEP = st.tuples(ACTIONS, st.permutations(NAMES))


# The steps of a failure are few enough to be read as they are; to look for fewer takes minutes.
@examples(7, new=84, phases=(Phase.explicit, Phase.generate))
@example([(action, ["a", "b", "c"]) for action in (register, append, move_location)])
@example([(register, ["a", "b", "c"]), (purge, ["a", "b", "c"]), (append, ["b", "a", "c"])])
@given(st.lists(STEP, min_size=8, max_size=20))
def test_no_file_goes_that_a_table_can_be_read_by(steps: list[tuple[Action, list[str]]]) -> None:
    """After each step, whichever table it was of, all is there that any table's snapshots lead to."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "real").mkdir()
        (Path(root) / "real/link").symlink_to(Path(root) / "real")
        with icecore.open(Path(root) / "real/warehouse") as catalog:
            catalog.create_namespace("ns")
            for number, name in enumerate(NAMES):
                create(catalog, name, name, number)
                append(catalog, name, name, number)
            for number, (action, (name, other, _)) in enumerate(steps):
                with contextlib.suppress(*REFUSED):
                    action(catalog, name, other, 10 * number)
                gone = {f for f in needed(catalog) if not local(f.replace("file:/", "/")).exists()}
                assert not gone, f"after {action.__name__} of {name} ({other})"
            # Of two tables in one folder the hint is of the one that wrote last, also when that has moved away since.
            assert all("version-hint.text: it says" in problem for problem in catalog.verify().problems)
            catalog.rebuild()
            assert catalog.verify().problems == ()
