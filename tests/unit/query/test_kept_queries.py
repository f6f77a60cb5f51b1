"""The same query again: what is kept for it, and that no answer is of tables as they were before."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.errors import (
    MissingFileError,
    NoSuchSnapshotError,
    NoSuchTableError,
    QueryLimitError,
    StorageError,
    ValidationError,
)
from icecore.engine.queries.query_limits import within_limits
from icecore.engine.query import kept_queries, kept_relations, prepare_query, query_answer, query_sources
from icecore.engine.query.kept_queries import KeptQueries, key_of
from icecore.engine.query.kept_query import KeptQuery
from icecore.engine.query.named_tables import named_tables
from icecore.engine.query.query_sources import TableRows
from icecore.engine.scan.data_scan import DataScan

QUERIES = (
    "SELECT * FROM ns.t ORDER BY ALL",
    "SELECT count(*) FROM ns.t",
    "SELECT * FROM ns.v ORDER BY ALL",
    "SELECT count(*), max(_pos) FROM ns.t AS a JOIN ns.v AS b USING (id) WHERE id > 1",
    "SELECT count(*) FROM ns.t AT (VERSION => 'side')",
    "SELECT count(*), sum(record_count) FROM ns.t.files",
)
CHANGES: dict[str, Callable[[icecore.Catalog], object]] = {
    "append": lambda c: c.load_table("ns.t").append(rows(20)),
    "deleted rows": lambda c: c.load_table("ns.t").delete("id = 3"),
    "more deleted rows": lambda c: c.load_table("ns.t").delete("id = 11"),
    "overwrite": lambda c: c.load_table("ns.t").overwrite(rows(7, 8)),
    "a branch": lambda c: c.load_table("ns.t").append(rows(30), branch="side"),
    "back": lambda c: c.load_table("ns.t").manage_snapshots().rollback_to_snapshot(first(c)).commit(),
    "a column more": lambda c: c.load_table("ns.t").update_schema().add_column("more", "int").commit(),
    "a column renamed": lambda c: c.load_table("ns.t").update_schema().rename_column("name", "title").commit(),
    "a view": lambda c: c.load_view("ns.v").replace("SELECT id FROM t WHERE id > 8"),
    "a view of other tables": lambda c: c.load_view("ns.v").replace("SELECT id FROM other"),
    "another table by that name": lambda c: (c.drop_table("ns.t"), make_table(c, "t").append(rows(5))),
    "a renamed table": lambda c: (c.rename_table("ns.t", "ns.u"), c.rename_table("ns.other", "ns.t")),
    "a table in place of a view": lambda c: (c.drop_view("ns.v"), make_table(c, "v").append(rows(2))),
    "a property": lambda c: c.load_table("ns.t").transaction().set_properties(a="b").commit_transaction(),
    "no table": lambda c: c.drop_table("ns.t"),
}
UNSEEN = {"a property"}


def first(catalog: icecore.Catalog) -> int:
    return catalog.load_table("ns.t").history()[0].snapshot_id


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[icecore.Catalog]:
    """A catalog with `ns.t` of two files and a branch, `ns.other`, and the view `ns.v`."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
        table.append(rows(1, 2, 3))
        table.append(rows(10, 11, 12))
        table.manage_snapshots().create_branch(first(catalog), "side").commit()
        make_table(catalog, "other").append(rows(4))
        catalog.create_view("ns.v", "SELECT id FROM t WHERE id < 8")
        yield catalog


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The queries that were made ready, counted with the views in them."""
    found = Mock(side_effect=named_tables)
    monkeypatch.setattr(prepare_query, "named_tables", found)
    return found


def told(catalog: icecore.Catalog, sql: str) -> tuple[Any, ...]:
    """What a query gives: columns and rows, or the error."""
    try:
        answer = catalog.query(sql)
        return answer.schema, answer.fetchall()
    except (NoSuchTableError, NoSuchSnapshotError, ValidationError) as e:
        return type(e), str(e)


def test_each_change_is_seen(lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, by the catalog that is asked and by another process' in turns; by a text that is new too."""
    before = [told(lake, sql) for sql in QUERIES]
    with icecore.open(lake.path) as other:
        for i, (change, make) in enumerate(CHANGES.items()):
            monkeypatch.setattr(query_sources, "FEW_FILES", -1 if i % 3 else 8)
            make(other if i % 2 else lake)
            with icecore.open(lake.path, read_only=True) as fresh:
                found = [told(fresh, sql) for sql in QUERIES]
            assert [told(lake, sql) for sql in QUERIES] == found, change
            assert [told(lake, f"{sql} -- {i}") for sql in QUERIES[:3]] == found[:3], change
            assert found != before or change in UNSEEN, change
            before = found


@pytest.mark.usefixtures("few_files")
def test_the_same_again_is_only_run(lake: icecore.Catalog, prepared: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not parsed nor planned, until a commit to a table of it; one to another table is none of its business."""
    planned = Mock(side_effect=TableRows.relation, autospec=True)
    monkeypatch.setattr(TableRows, "relation", lambda *a: planned(*a))
    sql = "SELECT count(*), max(name) FROM ns.t WHERE id > $least"
    for _ in range(3):
        assert lake.query(sql, {"least": 2}).fetchall() == [(4, "n3")]
        lake.load_table("ns.other").append(rows(9))
    assert (prepared.call_count, planned.call_count) == (1, 1)
    assert lake.query(sql, {"least": 3}).fetchall() == [(3, "n12")]
    lake.load_table("ns.t").append(rows(40))
    assert lake.query(sql, {"least": 2}).fetchall() == [(5, "n40")]
    assert (prepared.call_count, planned.call_count) == (3, 3)


def test_values_of_other_types_are_others(lake: icecore.Catalog) -> None:
    """Python takes some for the same that SQL tells apart; those of odd types are not kept."""
    values = [1, True, 1.0, -0.0, 0.0, "1", b"1", Decimal("1.0"), Decimal("1.00"), None]
    values += [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)]
    for _ in range(2):
        for value in values:
            found = lake.query("SELECT typeof($v), $v::VARCHAR FROM ns.other", {"v": value})
            assert found.fetchall() == lake.query("SELECT typeof($v), $v::VARCHAR", {"v": value}).fetchall()
    keys = [key_of("q", (), {"v": v}) for v in values]
    assert None not in keys and len(set(keys)) == len(values)
    odd = [[1], {"a": 1}, datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1))), Mock()]
    assert [key_of("q", (), {"v": v}) for v in odd] == [None] * 4
    assert key_of("q" * kept_queries.MOST_TEXT, (), {"v": "1"}) is None
    assert len({key_of("q", (), None), key_of("q", (), {}), key_of("q", ("ns",), None)}) == 3


def test_what_is_not_kept_is_not_written_out() -> None:
    """A list may be long, a value of an odd type may have no text, and no int of so many digits has a decimal one."""
    with_text = Mock(__repr__=Mock(side_effect=RuntimeError))
    assert key_of("q", (), {"v": [with_text], "w": with_text}) is None
    assert key_of("q", (), {"v": 10**5000}) != key_of("q", (), {"v": 10**5000 + 1})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT now(), id FROM ns.t",
        "SELECT * FROM ns.t.snapshots",
        "SELECT id FROM ns.t AT (VERSION => (SELECT $v + CAST(round(random()) AS BIGINT) * 0))",
    ],
)
def test_what_may_be_another_thing_next_time_is_not_kept(lake: icecore.Catalog, sql: str, prepared: Mock) -> None:
    for _ in range(2):
        lake.query(sql, {"v": first(lake)} if "$v" in sql else None).fetchall()
    assert prepared.call_count == 2 and not lake._kept_queries._kept


def test_limits_are_those_of_each_call(lake: icecore.Catalog, prepared: Mock) -> None:
    """A memory limit is that of a whole instance, so such a query is made anew; no answer has another's timeout."""
    sql = "SELECT count(*) FROM range(10000000) AS a, range(100000) AS b, ns.t"
    lake.query(sql)
    with pytest.raises(QueryLimitError, match=r"0\.05 s"):
        lake.query(sql, timeout=0.05).fetchall()
    assert prepared.call_count == 1
    lake.query(sql, memory_limit="100MB")
    assert prepared.call_count == 2


def test_little_is_kept(lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest queries, fewer connections, and no relation that takes much memory."""
    kept = KeptQueries(most_kept=3, most_connections=2)
    monkeypatch.setattr(icecore.Catalog, "_kept_queries", kept)

    def queries() -> list[KeptQuery]:
        return [k for k in kept._kept.values() if isinstance(k, KeptQuery)]

    texts = [f"SELECT id FROM ns.t WHERE id > {i}" for i in range(5)]
    for sql in texts:
        lake.query(sql).fetchall()
    assert list(kept._kept) == [key_of(sql, (), None) for sql in texts[2:]]
    waiting = [len(k.held.idle._waiting) for k in queries()]
    assert waiting == [0, 1, 1]
    monkeypatch.setattr(kept_relations, "MOST_BYTES", 0)
    for _ in range(2):
        assert lake.query("SELECT sum(id) FROM ns.t").fetchall() == [(39,)]
    assert [len(k.held.relations) for k in queries()] == [1, 1, 0]
    assert len(kept.relations._kept) == 5
    kept.clear()
    assert not kept._kept and not kept.relations._kept


@pytest.mark.usefixtures("few_files")
def test_another_text_that_needs_the_same_is_not_planned(
    lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shares the relations of its tables, as long as columns, conditions, snapshots and tables are the same."""
    planned = Mock(side_effect=TableRows.relation, autospec=True)
    monkeypatch.setattr(TableRows, "relation", lambda *a: planned(*a))
    same = ("sum(id)", "max(id)", "min(id) AS x", "count(id)")
    assert [lake.query(f"SELECT {s} FROM ns.t").fetchall() for s in same] == [[(39,)], [(12,)], [(1,)], [(6,)]]
    assert planned.call_count == 1
    others = (
        *("min(name) FROM ns.t", "min(id) FROM ns.t WHERE id > 2", "min(id) FROM ns.t WHERE id > 3"),
        *(
            "min(id) FROM ns.t AT (VERSION => 'side')",
            "count(*) FROM ns.t",
            "min(id) FROM ns.other",
            "min(_pos) FROM ns.t",
        ),
    )
    found = [lake.query(f"SELECT {o}").fetchall() for o in others]
    assert found == [[("n1",)], [(3,)], [(10,)], [(1,)], [(6,)], [(4,)], [(0,)]]
    assert planned.call_count == 1 + len(others)
    lake.load_table("ns.t").delete("id = 12")
    assert lake.query("SELECT sum(id) AS s FROM ns.t").fetchall() == [(27,)]
    assert len(lake._kept_queries.relations._kept) == 2


@pytest.mark.usefixtures("few_files")
def test_a_file_that_is_gone_is_missed_by_the_next(lake: icecore.Catalog) -> None:
    sql = "SELECT sum(id) FROM ns.t"
    assert lake.query(sql).fetchall() == lake.query(sql).fetchall() == [(39,)]
    (task, _) = lake.load_table("ns.t").scan().plan_files()
    Path(task.file.file_path.removeprefix("file://")).unlink()
    for _ in range(2):
        with pytest.raises(MissingFileError):
            lake.query(sql).fetchall()


@pytest.mark.usefixtures("few_files")
def test_threads_that_ask_at_once_are_told_their_own_errors(
    lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have failed before either is told why."""
    make_table(lake, "avro", properties={"write.format.default": "avro"}).append(rows(1))
    sql, errors, meet = "SELECT sum(id) FROM ns.avro", [StorageError("one"), StorageError("two")], Barrier(2)
    assert lake.query(sql).fetchall() == [(1,)]

    def read_tasks(*_: object) -> Iterator[pa.RecordBatch]:
        raise errors[meet.wait(60)]

    @contextmanager
    def within(*limits: Any) -> Iterator[None]:
        try:
            with within_limits(*limits):
                yield
        finally:
            meet.wait(60)

    def error() -> BaseException | None:
        with pytest.raises(StorageError) as found:
            lake.query(sql).fetchall()
        return found.value

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(DataScan, "read_tasks", read_tasks)
        patched.setattr(query_answer, "within_limits", within)
        told = [pool.submit(error) for _ in errors]
        assert {id(t.result()) for t in told} == {id(e) for e in errors}
    assert lake.query(sql).fetchall() == [(1,)]


def test_threads_see_what_was_committed_before_they_asked(lake: icecore.Catalog) -> None:
    """Each counts no fewer rows than were there when it asked, all with the same text."""
    table, counts = lake.load_table("ns.t"), [6]

    def count(_: int) -> bool:
        least = counts[-1]
        ((found,),) = lake.query("SELECT count(id) FROM ns.t").fetchall()
        return bool(least <= found <= 10)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(count, 0) for _ in range(8)]
        for i in range(4):
            table.append(rows(100 + i))
            counts.append(counts[-1] + 1)
            asked += [pool.submit(count, i) for _ in range(4)]
    assert all(a.result() for a in asked)
    assert lake.query("SELECT count(id) FROM ns.t").fetchall() == [(10,)]


def _sums(catalog: icecore.Catalog, out: Any) -> None:
    sql = "SELECT sum(id) FROM ns.t"
    out.put([catalog.query(sql).fetchall() for _ in range(2)])


@pytest.mark.usefixtures("few_files")
def test_a_forked_process_begins_with_none(lake: icecore.Catalog) -> None:
    lake.query("SELECT sum(id) FROM ns.t").fetchall()
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    process = context.Process(target=_sums, args=(lake, out))
    process.start()
    assert out.get(timeout=60) == [[(39,)], [(39,)]]
    process.join(60)
    assert process.exitcode == 0
    assert lake.query("SELECT sum(id) FROM ns.t").fetchall() == [(39,)]


def test_the_same_text_in_two_namespaces(lake: icecore.Catalog) -> None:
    lake.create_namespace("more")
    lake.create_table("more.t", pa.schema([("id", pa.int64())])).append([{"id": 99}])
    for _ in range(2):
        assert lake.query("SELECT max(id) FROM t", namespace="ns").fetchall() == [(12,)]
        assert lake.query("SELECT max(id) FROM t", namespace="more").fetchall() == [(99,)]
