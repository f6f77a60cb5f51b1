"""Random turns of icecore and PyIceberg on one SQLite file: every acknowledged row is there once, for both."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import define, field
from budgets import examples
from core_tables import SCHEMA, ids_of, peer_ids, pyiceberg_catalog, repository_of, rows
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.exceptions import ValidationException as TheirValidationError
from pyiceberg.table import Table as PeerTable

import icecore
from icecore.engine.errors import CommitConflictError, ForeignCommitError, ValidationError
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.projections.files.file_follower import MaterializationWarning

NAMES = ("a", "b")
names = st.sampled_from(NAMES)
ours = st.integers(0, 1)
steps = st.one_of(
    st.tuples(st.just("append"), ours, names),
    st.tuples(st.just("append"), ours, names),
    st.tuples(st.just("delete"), ours, names),
    st.tuples(st.just("property"), ours, names),
    st.tuples(st.just("materialize"), ours, names),
    st.tuples(st.just("open"), ours, names),
    st.tuples(st.just("load"), ours, names),
    st.tuples(st.just("peer-load"), ours, names),
    st.tuples(st.just("peer-append"), ours, names),
    st.tuples(st.just("peer-append"), ours, names),
    st.tuples(st.just("peer-delete"), ours, names),
    st.tuples(st.just("peer-rename"), ours, names),
    st.tuples(st.just("rename"), ours, names),
    st.tuples(st.just("rebuild"), ours, names),
)
layouts = st.tuples(st.sampled_from(["metastore", "filesystem"]), st.sampled_from(["commit", "manual"]))


@define
class Both:
    """Two catalogs of ours and one of PyIceberg's on one warehouse, and the rows that each table must have."""

    folder: Path
    keep: str
    catalogs: list[icecore.Catalog]
    tables: list[dict[str, icecore.Table]]
    called: dict[str, str] = field(factory=lambda: {n: f"ns.{n}" for n in NAMES})
    expected: dict[str, set[int]] = field(factory=lambda: {n: set() for n in NAMES})
    theirs: dict[str, PeerTable] = field(factory=dict)
    peer_rows: dict[str, set[int]] = field(factory=lambda: {n: set() for n in NAMES})
    numbers: int = 0

    def step(self, what: str, who: int, name: str) -> None:
        self.numbers += 1
        number, catalog, table = self.numbers, self.catalogs[who], self.tables[who][name]
        match what:
            case "append":
                self.commit(name, lambda: table.append(rows(number)), {number}, set())
            case "delete":
                gone = {i for i in self.expected[name] if i % 3 == number % 3}
                filters = " OR ".join(f"id = {i}" for i in sorted(gone)) or "id = -1"
                self.commit(name, lambda: table.delete(filters), set(), gone)
            case "property":
                self.commit(name, lambda: table.set_properties({"n": str(number)}), set(), set())
            case "materialize":
                self.commit(name, lambda: catalog.materialize(self.called[name]), set(), set())
            case "open":
                self.catalogs[who].close()
                self.catalogs[who] = icecore.open(self.folder)
                self.tables[who] = {n: self.catalogs[who].load_table(c) for n, c in self.called.items()}
            case "load":
                self.tables[who][name] = catalog.load_table(self.called[name])
            case "rename":
                new = f"ns.{name}{number}"
                try:
                    catalog.rename_table(self.called[name], new)
                    self.called[name] = new
                except ForeignCommitError:
                    self.resolve(name)
            case "rebuild":
                try:
                    catalog.rebuild()
                except ForeignCommitError:
                    for each in NAMES:
                        self.resolve(each)
            case _:
                self.peer(what, name, number)

    def commit(self, name: str, change: Callable[[], object], added: set[int], gone: set[int]) -> None:
        try:
            change()
        except ForeignCommitError:
            self.resolve(name)
            return
        except CommitConflictError:
            return
        self.expected[name] = (self.expected[name] | added) - gone

    def resolve(self, name: str) -> None:
        """What was refused is in conflict: one side is chosen, and its rows are what is expected from then on."""
        catalog = self.catalogs[0]
        try:
            resolved = catalog.resolve(self.called[name], self.keep)
        except ValidationError as e:
            assert "no conflict" in str(e)
            return
        left = self.expected[name] if self.keep == "log" else self.peer_rows[name]
        assert ids_of(resolved) == sorted(left), "the side that was kept is whole"
        self.expected[name] = set(left)

    def peer(self, what: str, name: str, number: int) -> None:
        peer = pyiceberg_catalog(self.folder)
        try:
            if what == "peer-load" or name not in self.theirs:
                self.theirs[name] = peer.load_table(self.called[name])
            if what == "peer-rename":
                new = f"ns.{name}{number}"
                peer.rename_table(self.called[name], new)
                self.called[name] = new
                self.theirs.pop(name)
                return
            before = set(peer_ids(self.folder, self.called[name]))
            diverged = before != self.expected[name] or self.is_pending(name)
            gone = {i for i in before if i % 3 == number % 3}
            try:
                if what == "peer-append":
                    self.theirs[name].append(rows(number))
                elif what == "peer-delete" and gone:
                    self.theirs[name].delete(" or ".join(f"id = {i}" for i in sorted(gone)))
            except (CommitFailedException, NoSuchTableError, TheirValidationError):
                # Its table was loaded before somebody else's commit.
                self.theirs.pop(name)
                return
            after = set(peer_ids(self.folder, self.called[name]))
            self.peer_rows[name] = after
            if not diverged:
                self.expected[name] = after
        finally:
            peer.close()

    def is_pending(self, name: str) -> bool:
        """Whether the log holds commits that are not published."""
        return repository_of(self.catalogs[0]).state(self.tables[0][name].state.stream).pending

    def settle(self) -> None:
        """At the end everything is published and agreed on."""
        for name in NAMES:
            try:
                self.catalogs[0].materialize(self.called[name])
            except ForeignCommitError:
                self.resolve(name)
                self.catalogs[0].materialize(self.called[name])


@pytest.mark.parametrize("keep", ["log", "foreign"])
@examples(4, new=42, phases=(Phase.generate,))
@given(layouts, st.lists(steps, min_size=3, max_size=14))
def test_both_engines_agree(keep: str, layout: tuple[str, str], chosen: list[tuple[str, int, str]]) -> None:
    """Interleaved commits of both, with new opens between: no row is lost or doubled, and both read the same."""
    scheme, materialize = layout
    properties = {"icecore.commit-scheme": scheme, "icecore.materialize": materialize}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeignCommitWarning)
        warnings.simplefilter("ignore", MaterializationWarning)
        first = icecore.open(folder)
        first.create_namespace("ns")
        for name in NAMES:
            first.create_table(f"ns.{name}", SCHEMA, properties=properties)
        catalogs = [first, icecore.open(folder)]
        both = Both(Path(folder), keep, catalogs, [{n: c.load_table(f"ns.{n}") for n in NAMES} for c in catalogs])
        for step in chosen:
            both.step(*step)
        both.settle()
        for catalog in both.catalogs:
            for name, called in both.called.items():
                assert ids_of(catalog.load_table(called)) == sorted(both.expected[name])
        for name, called in both.called.items():
            assert peer_ids(both.folder, called) == sorted(both.expected[name])
        assert both.catalogs[0].verify().problems == ()
        with icecore.open(folder) as again:
            again.rebuild()
            for name, called in both.called.items():
                assert ids_of(again.load_table(called)) == peer_ids(both.folder, called) == sorted(both.expected[name])
            assert again.verify().problems == ()
        for catalog in both.catalogs:
            catalog.close()
