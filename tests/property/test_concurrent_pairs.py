"""Two commits decided on one base: the second is a conflict, or both have the effect of one after the other."""

from __future__ import annotations

import contextlib
import tempfile
import unittest.mock
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from budgets import examples
from core_tables import pyiceberg_catalog, sorted_rows
from hypothesis import given
from hypothesis import strategies as st
from pinned_files import position_deletes, rewritten

import icecore
from icecore.engine.errors import ConflictingCommitsError
from icecore.engine.repository.repository import Repository

# The first column tells rows apart for ever: a row that comes back, or comes twice, is seen.
Row = tuple[int, int, int]
SCHEMA = pa.schema([("row", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
SPECS: tuple[list[str], ...] = ([], ["k"], ["bucket(2, k)"])
FILTERS: dict[str, Callable[[Row], bool]] = {
    "k = 1": lambda r: r[1] == 1,
    "k < 3": lambda r: r[1] < 3,
    "v >= 2": lambda r: r[2] >= 2,
    "k = 2 AND v = 1": lambda r: r[1] == 2 and r[2] == 1,
    "TRUE": lambda r: True,
}
pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=3)
filters = st.sampled_from(sorted(FILTERS))
ops = st.one_of(
    st.tuples(st.just("append"), pairs),
    st.tuples(st.just("delete"), filters),
    st.tuples(st.just("overwrite"), filters, pairs),
    st.tuples(st.just("upsert"), st.dictionaries(st.integers(0, 4), st.integers(0, 3), min_size=1, max_size=3)),
    st.tuples(st.just("row_delta"), filters, pairs),
    st.tuples(st.just("row_delta"), filters, st.just([])),
    st.tuples(st.just("overwrite_files"), filters, pairs),
    st.tuples(st.just("rewrite_files"), filters, st.booleans()),
    st.tuples(st.just("delete_keys"), st.integers(0, 4)),
    st.tuples(st.just("compact"), filters),
)
at_commit = st.one_of(
    st.tuples(st.just("delete"), filters),
    st.tuples(st.just("overwrite"), filters, pairs),
    st.tuples(st.just("upsert"), st.dictionaries(st.integers(0, 4), st.integers(0, 3), min_size=1, max_size=3)),
    st.tuples(st.just("compact"), filters),
)
others = st.one_of(
    st.tuples(st.just("append"), pairs),
    st.tuples(st.just("append"), pairs),
    st.tuples(st.just("delete"), filters),
    st.tuples(st.just("delete_keys"), st.integers(0, 4)),
    st.tuples(st.just("compact"), filters),
)


def arrow(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table(dict(zip(SCHEMA.names, map(list, columns), strict=True)), schema=SCHEMA)


class Step:
    """An operation with the rows that it brings, on a table or on rows in memory."""

    def __init__(self, op: tuple[Any, ...], first_row: int) -> None:
        self.kind = op[0]
        self.op = op
        brought = {"append": 1, "overwrite": 2, "row_delta": 2, "overwrite_files": 2}.get(self.kind)
        given = op[1].items() if self.kind == "upsert" else op[brought] if brought else ()
        self.rows = [(first_row + i, k, v) for i, (k, v) in enumerate(given)]

    def possible(self, version: int, held: Counter[Row]) -> bool:
        if self.kind == "upsert":
            keys = [r[1] for r in held.elements()]
            return all(keys.count(k) <= 1 for k in self.op[1])
        return version > 1 or self.kind not in ("row_delta", "delete_keys")

    def model(self, held: Counter[Row]) -> Counter[Row]:
        """What the rows are after it."""
        match self.kind:
            case "append":
                kept = list(held.elements())
            case "upsert":
                kept = [r for r in held.elements() if r[1] not in self.op[1]]
            case "delete_keys":
                kept = [r for r in held.elements() if r[1] != self.op[1]]
            case "rewrite_files" | "compact":
                kept = list(held.elements())
            case _:
                kept = [r for r in held.elements() if not FILTERS[self.op[1]](r)]
        return Counter([*kept, *self.rows])

    def prepare(self, table: icecore.Table, level: str | None = None) -> Callable[[], Any]:
        """Decides on what the table shows; the answer commits it. Without a level it is of the rows at commit."""
        if self.kind == "append":
            return lambda: table.append(arrow(self.rows))
        head = table.current_snapshot()
        assert head is not None
        base: dict[str, Any] = {"base_snapshot_id": head.snapshot_id, "isolation_level": level} if level else {}
        match self.kind:
            case "delete":
                return lambda: table.delete(self.op[1], **base)
            case "overwrite":
                return lambda: table.overwrite(arrow(self.rows), self.op[1], **base)
            case "upsert":
                return lambda: table.upsert(arrow(self.rows), ["k"], **base)
            case "delete_keys":
                return lambda: table.delete_keys(pa.table({"k": pa.array([self.op[1]], pa.int64())}), ["k"])
            case "compact":
                return lambda: table.rewrite_data_files(self.op[1], options={"rewrite-all": "true"})
            case "row_delta":
                deletes = position_deletes(table, self.op[1])
                added = files_of(table, self.rows)
                return lambda: table.row_delta(added, deletes, conflict_filter=self.op[1], **base)
            case "overwrite_files":
                gone, kept = rewritten(table, self.op[1], keep=False)
                added = [*kept, *files_of(table, self.rows)]
                return lambda: table.overwrite_files(gone, added, conflict_filter=self.op[1], **base)
            case _:
                gone, again = rewritten(table, self.op[1])
                number = head.sequence_number if self.op[2] and table.format_version > 1 else None
                if not gone:
                    return lambda: None
                return lambda: table.rewrite_files(
                    gone, again, base_snapshot_id=head.snapshot_id, data_sequence_number=number
                )


def files_of(table: icecore.Table, rows: list[Row]) -> list[Any]:
    from icecore.engine.data.write.conform import conform
    from icecore.engine.operations.copy_on_write import write_again

    if not rows:
        return []
    storage = table._repository.storage_of(table.state)
    return write_again(conform(arrow(rows), table.schema()), table.metadata, storage)


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize(
    ("version", "mode"), [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]
)
@examples(5, new=56)
@given(
    spec=st.sampled_from(SPECS),
    start=st.lists(pairs, min_size=1, max_size=3),
    before=st.lists(ops, max_size=1),
    first=ops,
    second=ops,
    is_race=st.booleans(),
)
def test_the_second_of_two_is_a_conflict_or_a_serial_order(
    version: int,
    mode: str,
    level: str,
    spec: list[str],
    start: Any,
    before: Any,
    first: Any,
    second: Any,
    is_race: bool,
) -> None:
    """No row is lost, doubled or brought back, row ids stay, and PyIceberg reads the same rows."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": mode, "write.update.mode": mode}
        table = catalog.create_table("ns.t", SCHEMA, partition_spec=spec, format_version=version, properties=properties)
        held: Counter[Row] = Counter()
        for number, op in enumerate([*(("append", p) for p in start), *before]):
            step = Step(op, 100 * number)
            if step.possible(version, held):
                step.prepare(table, level)()
                held = step.model(held)
        one, two = Step(first, 1000), Step(second, 2000)
        if not (one.possible(version, held) and two.possible(version, held)):
            return
        after_one = one.model(held)
        if not two.possible(version, after_one):
            return
        ids_before = row_ids(table)
        handle = catalog.load_table("ns.t")
        commit_one, commit_two = one.prepare(table, level), two.prepare(handle, level)
        if not is_race:
            commit_one()
            assert rows_of(table) == after_one
        try:
            with before_next_commit(commit_one if is_race else lambda: None):
                commit_two()
        except ConflictingCommitsError as e:
            assert e.conflicts and "position " in str(e)
            expected = [after_one]
        else:
            expected = [two.model(after_one), one.model(two.model(held))]
            if level == "snapshot":
                gone, came = held - two.model(held), two.model(held) - held
                expected.append((after_one - gone) + came)
        found = rows_of(handle.refresh())
        assert found in expected, (one.op, two.op, found, expected)
        assert max(found.values(), default=1) == 1
        assert catalog.verify().problems == ()
        now = row_ids(handle)
        assert len(set(now.values())) == len(now)
        assert all(now[r] == i for r, i in ids_before.items() if r in now)
        if version < 3:
            peer = pyiceberg_catalog(catalog.path)
            try:
                assert Counter(sorted_rows(peer.load_table("ns.t").scan().to_arrow())) == found
            except NotImplementedError:
                pass  # PyIceberg reads no equality deletes
            except ValueError as e:
                assert "equality" in str(e)
            finally:
                peer.close()


@pytest.mark.parametrize(("version", "mode"), [(2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")])
@examples(6, new=60)
@given(
    spec=st.sampled_from(SPECS),
    start=st.lists(pairs, min_size=1, max_size=4),
    op=at_commit,
    meanwhile=st.lists(others, min_size=2, max_size=2),
    merges=st.booleans(),
)
def test_an_operation_ends_beside_a_writer_who_is_always_faster(
    version: int, mode: str, spec: list[str], start: Any, op: Any, meanwhile: Any, merges: bool
) -> None:
    """It has its effect upon all that the other committed before each of its attempts, and one retry is enough.

    The other may merge manifests with each commit, so that those which were planned on are gone.
    """
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": mode, "write.update.mode": mode, "commit.retry.num-retries": "1"}
        if merges:
            properties["commit.manifest.min-count-to-merge"] = "2"
        table = catalog.create_table("ns.t", SCHEMA, partition_spec=spec, format_version=version, properties=properties)
        held: Counter[Row] = Counter()
        for number, some in enumerate(start):
            step = Step(("append", some), 100 * number)
            step.prepare(table)()
            held = step.model(held)
        mine, ids_before = Step(op, 1000), row_ids(table)
        handle, done = catalog.load_table("ns.t"), list[Step]()

        def commit_first() -> None:
            done.append(Step(meanwhile[len(done)], 2000 + 100 * len(done)))
            done[-1].prepare(handle)()

        after = held
        for number, other in enumerate(meanwhile):
            after = Step(other, 2000 + 100 * number).model(after)
            if not mine.possible(version, after):
                return
        with before_each_commit(commit_first):
            mine.prepare(table)()
        for step in done:
            held = step.model(held)
        held = mine.model(held)
        assert rows_of(table.refresh()) == held, (op, [s.op for s in done])
        assert catalog.verify().problems == ()
        now = row_ids(table)
        assert len(set(now.values())) == len(now)
        assert all(now[r] == i for r, i in ids_before.items() if r in now)


@contextlib.contextmanager
def before_each_commit(action: Callable[[], Any]) -> Iterator[None]:
    """Does the action before each attempt to commit, after that was planned, but not before its own."""
    original, at_it = Repository._try_commit, list[bool]()

    def delayed(self: Repository, *args: Any) -> Any:
        if not at_it:
            at_it.append(True)
            action()
            at_it.clear()
        return original(self, *args)

    with unittest.mock.patch.object(Repository, "_try_commit", delayed):
        yield


@contextlib.contextmanager
def before_next_commit(action: Callable[[], Any]) -> Iterator[None]:
    """Does the action once, after the next commit was planned and before it gets the lock, or at the end."""
    original, waiting = Repository._try_commit, [action]

    def delayed(self: Repository, *args: Any) -> Any:
        if waiting:
            waiting.pop()()
        return original(self, *args)

    with unittest.mock.patch.object(Repository, "_try_commit", delayed):
        yield
    if waiting:
        waiting.pop()()


def rows_of(table: icecore.Table) -> Counter[Row]:
    return Counter(sorted_rows(table.scan().to_arrow()))


def row_ids(table: icecore.Table) -> dict[int, int]:
    """The id of each row, of a v3 table."""
    if table.format_version < 3:
        return {}
    found = table.scan(selected_fields=("row", "_row_id")).to_arrow()
    return dict(zip(found["row"].to_pylist(), found["_row_id"].to_pylist(), strict=True))
