"""A commit that others are faster than: it is refused and changes nothing, or all is as after some serial order."""

from __future__ import annotations

import contextlib
import tempfile
import time
import unittest.mock
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from raced_changes import ADDING, OTHERS, PARTS, REFS, ROWS, SHAPES, SPECS, Given, Shown, make, present, seen

import icecore
from icecore.engine.errors import REFUSED
from icecore.engine.joint_commit import joint_commit
from icecore.engine.repository import retry_policy
from icecore.engine.repository.repository import Repository

Named = tuple[str, int]
Act = Callable[[], object]
numbers = st.integers(0, 11)
shapes, row_changes = (st.tuples(st.sampled_from(sorted(names)), numbers) for names in (SHAPES, ROWS))
refs, others = (st.tuples(st.sampled_from(sorted(names)), numbers) for names in (REFS, OTHERS.keys() - PARTS.keys()))
mine = st.one_of(
    st.tuples(row_changes),
    st.tuples(row_changes),
    st.tuples(shapes, row_changes),
    st.tuples(refs),
    st.tuples(row_changes, refs),
)
theirs = st.lists(st.one_of(shapes, row_changes, refs, others, others, others), min_size=1, max_size=2)


@define
class Lake:
    """A warehouse in which the changes of an example are made, in some order."""

    folder: Path
    catalog: icecore.Catalog
    mine: tuple[Named, ...]
    theirs: list[Named]
    is_joint: bool
    table: icecore.Table = field(init=False)
    heads: dict[str, int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.table = present(self.catalog)
        self.heads = {name: ref.snapshot_id for name, ref in self.table.refs().items()}

    def begin(self) -> Act:
        """Gathers the changes of a transaction; the answer commits them."""
        whole = self.catalog.transaction() if self.is_joint else None
        changes = self.table.transaction() if whole is None else whole.table(present(self.catalog).name())
        for place, (name, number) in enumerate(self.mine):
            PARTS[name](changes, Given(self.folder, self.heads, number, 1000 + 100 * place))
        return changes.commit if whole is None else whole.commit

    def other(self, place: int) -> None:
        """Makes one of the changes of the others."""
        name, number = self.theirs[place]
        OTHERS[name](self.catalog, Given(self.folder, self.heads, number, 2000 + 100 * place))


@pytest.mark.parametrize(
    ("version", "mode"), [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]
)
@examples(6, new=40)
@given(st.sampled_from(SPECS), mine, theirs, st.sampled_from(["begun", "planned", "each"]), st.booleans())
def test_a_raced_commit_is_refused_or_one_of_a_serial_order(
    version: int, mode: str, spec: list[str], mine: Any, theirs: Any, when: str, is_joint: bool
) -> None:
    """Schemas, specs, refs, names and rows of others come after it was begun, or before each attempt at its commit.

    Values are under the right ids, row ids are no other row's, the log verifies, files can be made again, and no file
    is left over.
    """

    @contextlib.contextmanager
    def lake() -> Iterator[Lake]:
        with tempfile.TemporaryDirectory() as folder, icecore.open(Path(folder) / "lake") as catalog:
            make(catalog, version, mode, spec)
            yield Lake(Path(folder), catalog, mine, theirs, is_joint)

    with lake() as raced:
        made: list[int] = []
        is_refused = race(raced, when, made)
        if is_refused is None:
            return
        found = seen(raced.catalog)
        check(raced.catalog, found)
    orders = [None] if is_refused else [*range(len(made), -1, -1)]
    assert any(found == shown for place in orders if (shown := after(lake, made, place)) is not None) or (
        not is_refused and is_allowed(found, lake, made, mine, theirs)
    ), (mine, theirs, when, is_refused, found)


def race(lake: Lake, when: str, made: list[int]) -> bool | None:
    """Makes the changes of the others meanwhile, and notes those that were made; None where nothing is to be raced."""

    def act(place: int) -> Act:
        def acting() -> None:
            with contextlib.suppress(*REFUSED):
                lake.other(place)
                made.append(place)

        return acting

    acts = [act(place) for place in range(len(lake.theirs))]
    meanwhile: dict[str, list[Act]] = {"begun": [], "planned": [lambda: [a() for a in acts]], "each": acts}
    try:
        commit = lake.begin()
    except REFUSED:
        return None
    try:
        with before_commits(meanwhile[when]):
            if when == "begun":
                for a in acts:
                    a()
            commit()
    except REFUSED:
        return True
    return False


@contextlib.contextmanager
def before_commits(acts: list[Act]) -> Iterator[None]:
    """Does one act before each attempt to commit, after that was planned, but not before its own."""
    waiting, at_it = list(acts), list[bool]()

    def first(attempt: Callable[..., Any]) -> Callable[..., Any]:
        def delayed(*arguments: Any) -> Any:
            if waiting and not at_it:
                at_it.append(True)
                try:
                    waiting.pop(0)()
                finally:
                    at_it.clear()
            return attempt(*arguments)

        return delayed

    with (
        unittest.mock.patch.object(Repository, "_try_commit", first(Repository._try_commit)),
        unittest.mock.patch.object(joint_commit, "_try", first(joint_commit._try)),
        # No plan takes too long to be made again in the write lock.
        unittest.mock.patch.object(retry_policy, "LOCKED_S", 600),
    ):
        yield


def after(lake: Any, made: list[int], place: int | None) -> Shown | None:
    """What is seen after the changes of the others, with the commit at a place among them; None where it can't be."""
    with lake() as serial:
        try:
            for number, other in enumerate(made):
                if number == place:
                    serial.begin()()
                serial.other(other)
            if place == len(made):
                serial.begin()()
        except REFUSED:
            return None
        return seen(serial.catalog)


def is_allowed(found: Shown, lake: Any, made: list[int], mine: tuple[Named, ...], theirs: list[Named]) -> bool:
    """Whether rows that a commit only adds came beside all else: under the ids and the spec that they were written for.

    No later call says just that where a column has another name by now, or the table was replaced.
    """
    if not {name for name, _ in mine} <= ADDING:
        return False
    others = after(lake, made, None)
    for name, table in (others or {}).items():
        for ref, before in table["rows"].items():
            now = found[name]["rows"].get(ref, [])
            come = Counter(now) - Counter(before)
            if not Counter(before) - Counter(now) and all(row.startswith(("[(1, 10", "[(1, 9000")) for row in come):
                table["rows"][ref] = now
        new = {ref: rows for ref, rows in found[name]["rows"].items() if ref not in table["rows"]}
        is_new = "replace" in {n for n, _ in theirs} or any(n == "append_new" for n, _ in mine)
        if new and is_new:
            table["rows"] |= new
            table["types"] |= {ref: found[name]["types"][ref] for ref in new}
        if any(n == "stage" for n, _ in mine):
            table["staged"] = found[name]["staged"]
    return others == found


def check(catalog: icecore.Catalog, found: Shown) -> None:
    """Checks the log, the row ids and the files."""
    assert catalog.verify().problems == ()
    for name in catalog.list_tables("ns"):
        table = catalog.load_table(name)
        if table.format_version > 2:
            ids = table.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].drop_null().to_pylist()
            assert len(set(ids)) == len(ids)
        later = int(time.time() * 1000) + 1000
        left = table.maintenance.remove_orphan_files(later, allow_recent=True, dry_run=True)
        assert left.orphan_file_locations == ()
    catalog.rebuild()
    assert seen(catalog) == found
