"""Instances of DuckDB that queries of the same tables share, and what they share not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.query import file_instances, query_answer, query_sources
from icecore.engine.query.file_instances import FileInstances


@pytest.fixture
def instances(monkeypatch: pytest.MonkeyPatch) -> FileInstances:
    """Those of queries, of which there are none yet; DuckDB reads the smallest files."""
    found = FileInstances(most_kept=2)
    monkeypatch.setattr(query_answer, "FILE_INSTANCES", found)
    monkeypatch.setattr(query_sources, "FEW_FILES", -1)
    return found


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The making of instances, counted."""
    found = Mock(side_effect=file_instances.instance_of)
    monkeypatch.setattr(file_instances, "instance_of", found)
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[icecore.Catalog]:
    """A catalog with tables `ns.a`, `ns.b` and `ns.c` of two files."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        for name in "abc":
            table = make_table(catalog, name)
            table.append(rows(1, 2))
            table.append(rows(3))
        yield catalog


def test_queries_of_the_same_snapshots_share_one(lake: icecore.Catalog, instances: FileInstances, made: Mock) -> None:
    """Also one that reads more files than those before it, whose instance has all of them from then on."""
    for sql in ("SELECT id FROM ns.a WHERE id = 3", "SELECT id FROM ns.a", "SELECT id FROM ns.a WHERE id < 2"):
        answer = lake.query(sql)
        assert answer.fetchall() == lake.query(sql).fetchall() == answer.fetchall()
    assert made.call_count == 2
    lake.load_table("ns.a").append(rows(4))
    assert lake.query("SELECT count(id) FROM ns.a").fetchall() == [(4,)] and made.call_count == 3
    assert len(lake.query("FROM ns.a", memory_limit="100MB").fetchall()) == 4 and len(instances._kept) == 2


def test_queries_that_read_no_file_share_one(
    lake: icecore.Catalog, made: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whatever tables, as this engine reads small files; types of Arrow's extensions stay."""
    monkeypatch.setattr(query_answer, "FILE_INSTANCES", FileInstances(most_kept=1))
    for sql, count in (("FROM ns.a", 3), ("FROM ns.a, ns.b", 9), ("FROM ns.a.files", 2), ("", 1)):
        assert lake.query(f"SELECT count(*) {sql}").fetchall() == [(count,)]
    assert lake.query("SELECT uuid() AS u").to_arrow().schema.field("u").type == pa.uuid()
    assert made.call_count == 1


def test_few_are_kept(lake: icecore.Catalog, instances: FileInstances, made: Mock) -> None:
    """The latest; answers from the others go on."""
    first = lake.query("SELECT sum(id) AS ids FROM ns.a").arrow_reader()
    for sql in ("FROM ns.b", "FROM ns.c", "FROM ns.b", "FROM ns.a, ns.b", "FROM ns.b"):
        lake.query(f"SELECT * {sql}").fetchall()
    assert made.call_count == 3 and len(instances._kept) == 2
    assert first.read_all().to_pydict() == {"ids": [6]}


@pytest.mark.usefixtures("instances")
def test_nothing_of_one_query_is_there_for_the_next(lake: icecore.Catalog, made: Mock) -> None:
    """No name, setting or seed, nor the time of it; a setting can't be changed at all."""
    told = lake.query("SELECT now(), count(id) FROM ns.a")
    before = told.fetchall()
    with pytest.raises(ValidationError, match="configuration"):
        lake.query("SELECT id FROM ns.a, enable_logging()").fetchall()
    lake.query("SELECT setseed(0.5), id FROM ns.a").fetchall()
    seen = lake.query("SELECT id, now(), (SELECT count(*) FROM duckdb_views() WHERE NOT internal) FROM ns.a")
    one, two = (lake.query("SELECT random(), id FROM ns.a").fetchall() for _ in range(2))
    assert one != two
    own = seen.fetchall()
    # That of the table, for this query alone.
    assert {number for *_, number in own} == {1 + len(seen._relations["__icecore_0"].relations)}
    assert own[0][1] > before[0][0] and told.fetchall() == before
    assert made.call_count == 1


@pytest.mark.usefixtures("instances")
def test_files_of_another_table_are_out_of_reach_whoever_asked_before(lake: icecore.Catalog) -> None:
    """Of a connection too, which no plan stands before."""
    paths = [
        t.file.file_path.removeprefix("file://") for n in "ab" for t in lake.load_table(f"ns.{n}").scan().plan_files()
    ]
    for name in "ba":
        answer = lake.query(f"SELECT sum(id) FROM ns.{name}")
        assert answer.fetchall() == [(6,)]
    with answer._running() as con:
        assert con.execute(f"SELECT count(*) FROM read_parquet({paths[:2]})").fetchall() == [(3,)]
        with pytest.raises(duckdb.PermissionException):
            con.execute(f"SELECT * FROM read_parquet('{paths[2]}')")


def test_one_of_many_files_does_not_grow(made: Mock) -> None:
    """Each query of other files of a table would make a larger one than the query before it."""
    instances = FileInstances(most_files=3)
    for path in "abcd":
        instances.connect("snapshot", frozenset([path]))
    assert [call.args[0] for call in made.call_args_list] == [{"a"}, {"a", "b"}, {"a", "b", "c"}, {"d"}]
    instances.connect("snapshot", frozenset("abcdef"))
    instances.connect("snapshot", frozenset("ef"))
    assert made.call_count == 5


def test_no_query_waits_for_the_instance_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of many files takes seconds to make."""
    instances, made, is_making, may_go_on = FileInstances(), file_instances.instance_of, Event(), Event()

    def slow(files: frozenset[str], memory_limit: str | None) -> duckdb.DuckDBPyConnection:
        if files:
            is_making.set()
            assert may_go_on.wait(60)
        return made(files, memory_limit)

    monkeypatch.setattr(file_instances, "instance_of", slow)
    first = Thread(target=instances.connect, args=("many", frozenset("a")))
    first.start()
    other = Thread(target=instances.connect, args=("none", frozenset()), daemon=True)
    try:
        assert is_making.wait(60)
        other.start()
        other.join(60)
        assert not other.is_alive()
    finally:
        may_go_on.set()
        first.join()
    assert list(instances._kept) == ["none", "many"]


def test_another_is_made_where_one_was_lost(lake: icecore.Catalog, instances: FileInstances) -> None:
    """As by an error that is fatal to it."""
    assert lake.query("SELECT count(*) FROM ns.a").fetchall() == [(3,)]
    for instance in instances._kept.values():
        instance.root.close()
    assert lake.query("SELECT count(*) FROM ns.a").fetchall() == [(3,)]
    assert isinstance(next(iter(instances._kept.values())).root, duckdb.DuckDBPyConnection)
