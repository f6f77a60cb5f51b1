"""`catalog.query`: names, time travel, what is read and what is refused."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from core_tables import rows

import icecore
from icecore.engine.errors import NoSuchSnapshotError, NoSuchTableError, QueryLimitError, ValidationError
from icecore.engine.query import told_time

pytestmark = pytest.mark.usefixtures("few_files")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """Tables and a view: `ns.t` of three files, one with deleted rows, `names.other`, and `names.t` with a `_file`."""
    with icecore.open(tmp_path_factory.mktemp("lake")) as catalog:
        catalog.create_namespace("ns")
        catalog.create_namespace("names")
        properties = {"write.delete.mode": "merge-on-read"}
        schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
        table = catalog.create_table("ns.t", schema, properties=properties)
        for start in (0, 10, 20):
            table.append(rows(*range(start, start + 10)))
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "all").commit()  # type: ignore[union-attr]
        table.delete("id = 13")
        other = catalog.create_table("names.other", schema)
        other.append(rows(1, 2))
        same_name = catalog.create_table("names.t", pa.schema([("id", pa.int64()), ("_file", pa.string())]))
        same_name.append([{"id": 1, "_file": "own"}])
        catalog.create_view("ns.v", "SELECT id FROM t WHERE id < 3")
        yield catalog


def files_planned(answer: Any) -> list[int]:
    return [scan.plan().counts.files_planned for scan in answer.scans]


@pytest.mark.parametrize(
    "now", ["now()", "current_timestamp", "localtimestamp", "CAST(get_current_timestamp() AS TIMESTAMP)"]
)
def test_the_time_of_a_query_is_when_it_was_made(lake: icecore.Catalog, now: str) -> None:
    answer = lake.query(f"SELECT {now} AS a, {now} AS b, current_date, today(), localtime FROM ns.t WHERE id = 1")
    ((first, second, *others),) = answer.fetchall()
    assert answer.schema == lake.query(f"SELECT {now} AS a, {now} AS b, current_date, today(), localtime").schema
    assert first == second
    assert answer.fetchall() == [(first, second, *others)]
    assert answer.to_arrow()["a"].to_pylist() == [first]
    assert lake.query(f"SELECT {now}").fetchall() > [(first,)]


def test_an_age_is_as_of_when_the_query_was_made(lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is DuckDB's for any type of time, and of two times what it was."""
    monkeypatch.setattr(told_time, "datetime", Mock(now=lambda _: datetime(2021, 3, 4, 12, tzinfo=UTC)))
    times = ["DATE '2020-01-01'", "TIMESTAMP '2020-01-01 06:00:00'", "TIMESTAMPTZ '2020-01-01 06:00:00+00'"]
    asked = [f"CAST(age({since}) AS TEXT)" for since in times]
    known = [f"CAST(age(TIMESTAMP '2021-03-04', {since}) AS TEXT)" for since in times]
    assert lake.query(f"SELECT {', '.join(asked)}").fetchall() == lake.query(f"SELECT {', '.join(known)}").fetchall()


def test_a_column_that_is_named_age_asks_for_no_time() -> None:
    """The functions that tell it take as long to make as a small query does."""
    assert told_time.told_time('SELECT age, t."age", (age) FROM t WHERE age IN (1, 2) -- age') is None
    for call in ("age(d)", "AGE (d)", '"age"\n(d)', "d.age()", "age/* since */(d)", "age -- since\n(d)"):
        assert told_time.told_time(f"SELECT {call} FROM t"), call


@pytest.mark.parametrize("text", ["a\nfalse\nb", "a\n1 = 2\nb", "a\r\n(__icecore_0_1 = 5)\n'", "\n", "a\n"])
def test_lines_of_a_text_are_no_conditions(tmp_path: Path, text: str) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("text", pa.string())]))
        table.append([{"id": 1, "text": text}, {"id": 2, "text": "a"}])
        table.append([{"id": 3, "text": "~"}])
        answer = catalog.query("SELECT id FROM ns.t WHERE text = ? AND id > 0", [text])
        assert answer.fetchall() == [(1,)]
        assert files_planned(answer) == [1]


@pytest.mark.parametrize(
    ("sql", "wanted", "files"),
    [
        ("SELECT count(*) FROM ns.t", [(29,)], [3]),
        ("SELECT name FROM ns.t WHERE id = 12", [("n12",)], [1]),
        ('SELECT x.name FROM "ns"."t" AS x WHERE x.id + 1 = 13', [("n12",)], [1]),
        ("SELECT name FROM icecore.ns.t WHERE ns.t.id IN (12, 13)", [("n12",)], [1]),
        ("WITH t AS (SELECT 7 AS id) SELECT id FROM t", [(7,)], []),
        ("WITH c AS (FROM ns.t) SELECT count(*) FROM c WHERE name LIKE 'n2%' AND id >= 5", [(10,)], [2]),
        ("SELECT a.name FROM ns.t a JOIN names.other b ON a.id = b.id WHERE b.id = 2", [("n2",)], [1, 1]),
        ("SELECT count(*) FROM ns.t a, ns.t b WHERE a.id < 5 AND b.id > 25", [(20,)], [1, 1]),
        ("SELECT (SELECT max(id) FROM ns.t WHERE id < 9)", [(8,)], [1]),
        ("SELECT count(*) FROM ns.t WHERE id = 5 OR name = 'n25'", [(2,)], [2]),
        ("SELECT count(*) FROM ns.t WHERE NOT (id > 5 AND id < 100)", [(6,)], [1]),
        (f"SELECT count(*) FROM ns.t WHERE id IN ({', '.join(map(str, range(-990, 10)))})", [(10,)], [1]),
        ("SELECT count(*) FROM ns.t WHERE id < 8 AND id NOT IN (0, 1, 2, 3, 4, 5, 6)", [(1,)], [1]),
        ("SELECT count(*) FROM ns.t WHERE id BETWEEN 5 AND 6 UNION ALL SELECT 1", [(2,), (1,)], [1]),
        ("SELECT count(*) FROM ns.t AT (VERSION => 'all') WHERE id = 13", [(1,)], [1]),
        ("SELECT count(*) FROM ns.t AT (TIMESTAMP => now())", [(29,)], [3]),
        ("SELECT count(*) FROM ns.t x AT (TIMESTAMP => '2100-01-01') JOIN ns.t USING (id)", [(29,)], [3, 3]),
        ("SELECT max(id) FROM ns.v", [(2,)], [1]),
        ("SELECT count(*) FROM ns.v JOIN ns.t USING (id)", [(3,)], [1, 1]),
        ("SELECT content, count(*) FROM ns.t.files GROUP BY content ORDER BY content", [(0, 3), (1, 1)], []),
        ("SELECT count(*), max(_pos) FROM ns.t WHERE id >= 20", [(10, 9)], [1]),
        ("SELECT * FROM ns.t WHERE id > 27 AND _pos = 9", [(29, "n29")], [1]),
        ("SELECT x.* FROM ns.t x JOIN ns.v USING (id) WHERE x._pos = 1", [(1, "n1")], [1, 1]),
        ("SELECT count(*) FROM ns.t a JOIN ns.t b ON a._file = b._file AND a._pos < b._pos", [(126,)], [3, 3]),
        ("SELECT count(*) FROM ns.t WHERE _deleted", [(1,)], [3]),
        ("SELECT max(_pos), count(*) FROM ns.t GROUP BY _file ORDER BY ALL", [(9, 9), (9, 10), (9, 10)], [3]),
        ("SELECT * FROM ns.t TABLESAMPLE 100% WHERE _pos = 0 AND id < 5", [(0, "n0")], [3]),
        ("SELECT ns.t.name, names.t._file FROM ns.t, names.t WHERE ns.t.id = names.t.id", [("n1", "own")], [3, 1]),
        ("FROM names.t WHERE _pos = 0", [(1, "own")], [1]),
        ("WITH t AS (SELECT 1 AS _pos) SELECT _pos FROM t", [(1,)], []),
        (
            "WITH __ICECORE_0 AS (SELECT 7 AS id) SELECT n.id, v.id FROM __icecore_0 n, ns.v WHERE v.id > 1",
            [(7, 2)],
            [1],
        ),
        ("PIVOT ns.t ON name IN ('n1', 'n2') USING sum(id)", [(1, 2)], [3]),
        ("SELECT trunc(id, -1), count(*) FROM ns.t WHERE trunc(id, -1) = 20 GROUP BY 1", [(20, 10)], [3]),
    ],
)
def test_what_a_query_gives_and_reads(lake: icecore.Catalog, sql: str, wanted: list[Any], files: list[int]) -> None:
    answer = lake.query(sql)
    assert files_planned(answer) == files
    assert answer.fetchall() == wanted
    assert answer.fetchall() == wanted


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT max(id) FROM ns.t) + 1, id FROM ns.t AS x",
        "SELECT * FROM (SELECT id IN (SELECT id FROM ns.t WHERE id > (SELECT 3 FROM ns.t LIMIT 1)) FROM ns.t)",
        "SELECT (SELECT count(*) FROM ns.t), count(*) FROM ns.t GROUP BY (SELECT count(*) FROM ns.t) ORDER BY ALL",
        "SELECT 1 AS a UNION SELECT (SELECT max(id) FROM ns.t)",
        "WITH c AS (SELECT ARRAY(SELECT id FROM ns.t)) SELECT * FROM c",
        "SELECT * REPLACE ((SELECT max(id) FROM ns.t) AS id) FROM ns.t",
        "SELECT coalesce(COLUMNS('id'), (SELECT max(id) FROM ns.t)), COLUMNS('id') IN (SELECT id FROM ns.t) FROM ns.t",
        "SELECT count(*) + (SELECT count(*) FROM ns.t) FROM ns.t",
    ],
)
def test_columns_with_a_query_in_them_are_named_as_duckdb_names_them(lake: icecore.Catalog, sql: str) -> None:
    con = duckdb.connect()
    con.execute("CREATE SCHEMA ns; CREATE TABLE ns.t (id BIGINT, name VARCHAR)")
    assert lake.query(sql).to_arrow().column_names == lake.query(sql).columns == con.sql(sql).columns


def test_names_with_dots_are_names_of_tables_alone(tmp_path: Path) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        catalog.create_table(("ns", "a.b"), pa.schema([("id", pa.int64())])).append([{"id": 7}])
        assert catalog.query('SELECT "a.b".id FROM ns."a.b"').fetchall() == [(7,)]
        assert catalog.query('SELECT record_count FROM ns."a.b".files').fetchall() == [(1,)]
        for name in ('ns."a.b".nothing', '"ns.a".b'):
            with pytest.raises(NoSuchTableError, match="there is no table or view"):
                catalog.query(f"SELECT * FROM {name}")


def test_each_face_of_an_answer(lake: icecore.Catalog) -> None:
    answer = lake.query("SELECT id, name FROM t WHERE id < $below ORDER BY id", {"below": 3}, namespace="ns")
    assert answer.columns == ["id", "name"]
    assert repr(answer) == "QueryAnswer(id: int64, name: string)"
    wanted = rows(0, 1, 2)
    assert answer.to_arrow() == wanted
    assert answer.arrow_reader(2).read_all() == wanted
    assert pa.table(answer) == wanted
    assert answer.to_polars().equals(pl.DataFrame(wanted.to_pydict()))
    assert len(answer.to_pandas()) == 3
    twice = lake.query("SELECT id, id FROM ns.t WHERE id = 5")
    assert twice.arrow_reader().read_all() == twice.to_arrow()
    assert lake.query("SELECT id FROM ns.t WHERE id = ? OR id = ?", [5, 6]).to_arrow()["id"].to_pylist() == [5, 6]
    assert lake.query("SELECT sum(id) AS s FROM ns.t").to_arrow()["s"].to_pylist() == [422]


def test_time_travel_by_parameters_and_of_the_catalog(lake: icecore.Catalog) -> None:
    first = lake.load_table("ns.t").history()[0].snapshot_id
    sql = "SELECT count(*) FROM ns.t AT (VERSION => $v) WHERE id > $low"
    assert lake.query(sql, {"v": first, "low": 4}).fetchall() == [(5,)]
    numpys = {"v": np.array([first])[0], "low": np.float32(4)}
    assert lake.query(sql, numpys).fetchall() == [(5,)]
    assert lake.query("SELECT len($ids), $yes", {"ids": [np.int8(1)], "yes": np.True_}).fetchall() == [(1, True)]
    for ids in (np.int8(1),), [{"id": np.int8(1)}]:
        assert lake.query("SELECT len($ids)", {"ids": ids}).fetchall() == [(1,)]
    assert lake.sql("SELECT $1 + 1 AS n", [np.int64(1)])["n"].to_pylist() == [2]
    created = next(e["position"] for e in lake.log("ns.t").to_pylist())
    assert lake.at(created + 1).query("SELECT count(*) FROM ns.t").fetchall() == [(10,)]


@pytest.mark.parametrize(
    ("sql", "error", "text"),
    [
        ("SELECT * FROM ns.tt", NoSuchTableError, "did you mean 'ns.t'"),
        (
            "SELECT * FROM other",
            NoSuchTableError,
            "before it, as in 'namespace.table'; the log and the metadata of all tables are read by `sql`; "
            "did you mean 'names.other'",
        ),
        ("SELECT nam FROM ns.t", ValidationError, 'Candidate bindings: "name"'),
        ('SELECT * FROM ns.t WHERE name IN ("it\'s")', ValidationError, "as a text it is 'it''s'"),
        ("SELECT * FROM ns.t AT (VERSION => 'none')", NoSuchSnapshotError, "none"),
        ("SELECT * FROM ns.t AT (VERSION => '²')", NoSuchSnapshotError, "²"),
        ("SELECT * FROM ns.v AT (VERSION => 1)", ValidationError, "AT is for tables"),
        ("SELECT * FROM ns.t AT (VERSION => 1.5)", ValidationError, "AT takes a snapshot id"),
        ("SELECT * FROM ns.t AT (VERSION => $v)", ValidationError, "can't be computed"),
        ("WITH t AS (FROM ns.t) SELECT * FROM t AT (VERSION => 'all')", ValidationError, "AT is for tables"),
        ("SELECT _pos FROM ns.t, names.t", ValidationError, "write ns.t._pos or names.t._pos"),
        ("SELECT _pos FROM ns.v", ValidationError, "_pos"),
        ("PIVOT ns.t ON name USING sum(id)", ValidationError, "PIVOT needs the values"),
        ("SHOW TABLES", ValidationError, "`icecore ls`"),
        ("SHOW TABLES FROM ns", ValidationError, "`icecore ls`"),
        ("SELECT * FROM (SHOW ALL TABLES)", ValidationError, "`icecore ls`"),
        ("EXPLAIN ANALYZE FROM ns.t", ValidationError, "one SELECT: `icecore plan` tells which files"),
        ("DELETE FROM ns.t", ValidationError, "must be one SELECT: SQL changes nothing"),
        ("CREATE TABLE x AS SELECT 1", ValidationError, "must be one SELECT"),
        ("COPY (SELECT 1) TO 'x.csv'", ValidationError, "must be one SELECT"),
        ("ATTACH 'x.db'", ValidationError, "must be one SELECT"),
        ("INSTALL httpfs", ValidationError, "must be one SELECT"),
        ("SELECT 1; SELECT 2", ValidationError, "found 2 statements"),
        ("SELEC 1", ValidationError, "syntax error"),
        ("SELECT * FROM read_text('/etc/hostname')", ValidationError, "disabled"),
        ("SELECT * FROM '/etc/hostname'", NoSuchTableError, "hostname"),
        ("SELECT * FROM glob('/etc/*')", ValidationError, "disabled"),
    ],
)
def test_what_is_refused(lake: icecore.Catalog, sql: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        lake.query(sql).fetchall()
    assert text in str(raised.value)
    assert "__icecore" not in str(raised.value)


def test_only_files_of_the_tables_that_it_names_can_be_read(lake: icecore.Catalog) -> None:
    """Those of another table neither, although DuckDB reads some files of the warehouse for it."""
    [task] = lake.load_table("names.other").scan().plan_files()
    path = task.file.file_path.removeprefix("file://")
    with pytest.raises(ValidationError, match="disabled"):
        lake.query(f"SELECT * FROM ns.t, read_parquet('{path}')").fetchall()


def test_a_stream_that_fails_after_its_first_rows_says_it_as_the_whole_answer_does(lake: icecore.Catalog) -> None:
    """Arrow's reader has DuckDB's words in an OSError, with the text of the query, whatever it was."""
    endless = lake.query("SELECT i FROM range(1000000000000) r(i)", timeout=0.5).arrow_reader()
    assert endless.read_next_batch().num_rows
    with pytest.raises(QueryLimitError, match=r"timeout of 0\.5 s"):
        for _ in endless:
            pass
    late = lake.query("SELECT CASE WHEN i = 5000000 THEN 'x' ELSE '1' END::INT AS v FROM range(5000001) r(i)")
    reader = late.arrow_reader(2048)
    assert reader.read_next_batch().num_rows
    with pytest.raises(ValidationError, match="Could not convert") as told:
        reader.read_all()
    assert "LINE" not in str(told.value)


def test_limits(lake: icecore.Catalog) -> None:
    slow = lake.query("SELECT count(*) FROM ns.t, range(1000000000000) WHERE random() < 0", timeout=0.05)
    with pytest.raises(QueryLimitError, match=r"timeout of 0\.05 s"):
        slow.fetchall()
    with pytest.raises(QueryLimitError, match="memory limit of 30MB"):
        lake.query("SELECT list(i ORDER BY random()) FROM range(10000000) r(i)", memory_limit="30MB").fetchall()
    with pytest.raises(ValidationError, match="memory_limit must be a size"):
        lake.query("SELECT 1", memory_limit="much")
    with pytest.raises(ValidationError, match="timeout must be"):
        lake.query("SELECT 1", timeout=0)


def test_a_scan_of_no_columns_is_no_view(lake: icecore.Catalog) -> None:
    with pytest.raises(ValidationError, match="without columns"):
        lake.load_table("ns.t").scan(selected_fields=()).to_duckdb("t")


def test_a_connection_that_may_read_no_files_is_given_rows(lake: icecore.Catalog) -> None:
    connection = duckdb.connect(config={"enable_external_access": "false"})
    assert lake.load_table("ns.t").scan("id > 11").to_duckdb("found", connection) is connection
    for _ in range(2):
        assert connection.sql("SELECT count(*), min(id) FROM found").fetchall() == [(17, 12)]


def _count(path: str, answer: Any, out: Any) -> None:
    out.put((answer.fetchall(), icecore.open(path, read_only=True).query("SELECT count(*) FROM ns.t").fetchall()))


def test_a_forked_process_asks_by_itself(lake: icecore.Catalog) -> None:
    answer = lake.query("SELECT count(*) FROM ns.t")
    assert answer.fetchall() == [(29,)]
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    process = context.Process(target=_count, args=(str(lake.path), answer, out))
    process.start()
    assert out.get(timeout=60) == ([(29,)], [(29,)])
    process.join(60)
    assert process.exitcode == 0
