"""The SQL prompt: what it reads, what it is answered without, what may be asked of it, and how long."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import SCHEMA, local, make_table, rows

import icecore
from icecore.engine.errors import QueryLimitError, UnreadableTableWarning, ValidationError
from icecore.engine.storage.file_io import Storage
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS, AUDIT_TABLES


@pytest.fixture
def adopted(tmp_path: Path) -> Iterator[icecore.Catalog]:
    """A warehouse with the tables ns.good and ns.bad of another one, whose files it reads; those of ns.bad are gone."""
    with icecore.open(tmp_path / "theirs") as theirs, icecore.open(tmp_path / "ours") as ours:
        for catalog in (theirs, ours):
            catalog.create_namespace("ns")
        for name in ("good", "bad"):
            table = make_table(theirs, name)
            table.append(rows(1, 2))
            assert table.metadata_location is not None
            if name == "bad":
                for manifest in (local(table.location()) / "metadata").glob("*.avro"):
                    manifest.unlink()
            ours.register_table(("ns", name), table.metadata_location)
        yield ours


@pytest.mark.parametrize("audit_table", ["files", "manifests"])
def test_a_table_that_cant_be_read_is_left_out_with_a_warning(adopted: icecore.Catalog, audit_table: str) -> None:
    with pytest.warns(UnreadableTableWarning, match=r"^1 table can't be read and is left out .*: ns\.bad; ") as said:
        found = adopted.sql(f"SELECT DISTINCT name FROM {audit_table}")
    assert found["name"].to_pylist() == ["good"]
    assert [w.filename for w in said] == [__file__]
    assert "\n" not in str(said[0].message)


def test_what_a_query_does_not_need_is_neither_read_nor_warned_of(
    adopted: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files of the table that is named are opened."""
    opened: list[str] = []
    read = Storage.read_bytes

    def count(self: Storage, path: str, *args: Any, **options: Any) -> bytes:
        opened.append(path)
        return read(self, path, *args, **options)

    monkeypatch.setattr(Storage, "read_bytes", count)
    good = adopted.load_table("ns.good").location()
    opened.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query = "SELECT count(*) AS n FROM files JOIN manifests USING (namespace, name) WHERE name = $name"
        assert adopted.sql(query, {"name": "good"}).to_pylist() == [{"n": 1}]
        uuid = adopted.load_table("ns.good").metadata.table_uuid
        assert adopted.sql("SELECT * FROM problems WHERE table_uuid = ?", [uuid]).num_rows == 0
        assert adopted.sql("SELECT name FROM tables ORDER BY ALL")["name"].to_pylist() == ["bad", "good"]
        assert adopted.sql("SELECT count(*) FROM columns").num_rows == 1
    assert opened and all(path.startswith(good) for path in opened)


def test_problems_say_why(adopted: icecore.Catalog) -> None:
    """A row for each table that can't be read, and no warning, as the answer says it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (problem,) = adopted.sql("SELECT * FROM problems").to_pylist()
        assert adopted.sql("SELECT count(*) AS n FROM files, problems").to_pylist() == [{"n": 1}]
        assert adopted.sql("SELECT * FROM problems WHERE name = 'good'").num_rows == 0
    assert problem["namespace"] == "ns" and problem["name"] == "bad" and problem["kind"] == "MissingFileError"
    assert problem["table_uuid"] == adopted.load_table("ns.bad").metadata.table_uuid
    assert "there is no such file" in problem["message"]


def test_a_warning_names_a_few_tables(adopted: icecore.Catalog) -> None:
    for number in range(4):
        adopted.register_table(f"ns.b{number}", str(adopted.load_table("ns.bad").metadata_location))
    with pytest.warns(UnreadableTableWarning, match=r"^5 tables can't .*: ns\.b0, ns\.b1, ns\.b2 and 2 more; "):
        adopted.sql("SELECT * FROM files")


def test_files_are_read_once_for_all_queries(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is a new snapshot, or another schema, which partitions may be shown by."""
    from icecore.projections.inspect import live_files

    table = make_table(catalog, partition_spec=["name"])
    table.append(rows(1, 2))
    reads: list[object] = []
    read = live_files.of_manifests

    def count(*args: Any) -> pa.Table:
        reads.append(args)
        return read(*args)

    monkeypatch.setattr(live_files, "of_manifests", count)
    query = "SELECT partition FROM files ORDER BY ALL"
    for _ in range(3):
        assert catalog.sql(query)["partition"].to_pylist() == ["name=n1", "name=n2"]
    assert len(reads) == 1
    with table.update_schema() as change:
        change.rename_column("name", "label")
    table.append(rows(3).rename_columns(["id", "label"]))
    assert catalog.sql(query).num_rows == 3
    assert len(reads) == 2


# What may be asked


def test_show_and_describe_are_about_the_audit_tables(adopted: icecore.Catalog) -> None:
    """Nothing is read for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert adopted.sql("SHOW TABLES")["name"].to_pylist() == sorted(AUDIT_TABLES)
        for query in ("DESCRIBE files", "DESC files", "DESCRIBE SELECT * FROM files", "SHOW files", 'describe "FILES"'):
            assert adopted.sql(query)["column_name"].to_pylist() == AUDIT_SCHEMAS["files"].names, query
        assert adopted.sql("DESCRIBE tables")["column_name"].to_pylist() == AUDIT_SCHEMAS["tables"].names
    assert adopted.sql("SUMMARIZE tables").num_rows == len(AUDIT_SCHEMAS["tables"])


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("CREATE TABLE x AS SELECT 1", "CREATE"),
        ("-- a remark\ninsert into log VALUES (1)", "INSERT"),
        ("COPY log TO '/tmp/x'", "COPY"),
        ("ATTACH 'x.db'", "ATTACH"),
        ("DROP TABLE log", "DROP"),
        ("UPDATE log SET actor = 'x'", "UPDATE"),
        ("DELETE FROM log", "DELETE"),
        ("SET memory_limit = '1GB'", "SET"),
        ("PRAGMA version", "PRAGMA"),
        ("INSTALL httpfs", "INSTALL"),
        ("LOAD httpfs", "LOAD"),
        ("USE x", "USE"),
        ("BEGIN", "BEGIN"),
        ("CALL pragma_version()", "CALL"),
        ("WITH a AS (INSERT INTO log VALUES (1) RETURNING *) SELECT * FROM a", "INSERT"),
    ],
)
def test_what_changes_something_is_refused_in_one_line(
    catalog: icecore.Catalog, caplog: pytest.LogCaptureFixture, query: str, word: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        catalog.sql(query)
    assert str(refused.value).startswith(f"{word} can't be run")
    assert "\n" not in str(refused.value)
    assert caplog.text == ""


def test_suggestions_are_audit_tables(catalog: icecore.Catalog) -> None:
    with pytest.raises(ValidationError, match='Did you mean "manifests"'):
        catalog.sql("SELECT * FROM manifest")
    with pytest.raises(ValidationError, match=r";\nthe tables here are: .*problems"):
        catalog.sql("SELECT * FROM query_table('files')")
    for name in ("ns.t", '"ns.t"', "t", "ns.t.files", "log JOIN t USING (name)"):
        with pytest.raises(
            ValidationError, match=r"\nrows of a table are read by `query`; the tables here are: .*commits"
        ):
            catalog.sql(f"SELECT * FROM {name}")


def test_an_error_about_a_column_names_the_columns_that_there_are(catalog: icecore.Catalog) -> None:
    """Those of the tables that are named, not all tables; nothing where the names are right."""
    with pytest.raises(
        ValidationError, match=r"(?s)the columns of log are: position, .*the columns of refs are:"
    ) as found:
        catalog.sql("SELECT l.actr FROM log AS l JOIN Refs USING (namespace)")
    assert "the tables are" not in str(found.value)
    with pytest.raises(ValidationError, match="the columns of refs are:") as found:
        catalog.sql("WITH log AS (SELECT 1 AS one) SELECT two FROM log, refs")
    assert "the columns of log" not in str(found.value)
    with pytest.raises(ValidationError, match="as a text it is 'ann';\nthe columns of log are:"):
        catalog.sql('SELECT * FROM log WHERE actor = "ann"')
    with pytest.raises(ValidationError, match="Could not convert") as found:
        catalog.sql("SELECT CAST(kind AS INTEGER) FROM log UNION ALL SELECT CAST('x' AS INTEGER)")
    assert "the tables are" not in str(found.value) and "the columns of" not in str(found.value)


def test_no_column_has_a_name_that_needs_quotes() -> None:
    names = {name for schema in AUDIT_SCHEMAS.values() for name in schema.names}
    assert names.isdisjoint({"column", "table"})


# How long, and how much memory


def test_a_query_is_stopped_when_its_time_is_over(catalog: icecore.Catalog) -> None:
    endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = 3"
    with pytest.raises(QueryLimitError, match=r"longer than its timeout of 0\.2 s"):
        catalog.sql(endless, timeout=0.2)
    assert catalog.sql("SELECT 1 AS x", timeout=60).to_pylist() == [{"x": 1}]


def test_tables_are_not_read_past_the_timeout(catalog: icecore.Catalog) -> None:
    catalog.create_table("ns.t", SCHEMA)
    with pytest.raises(QueryLimitError, match="timeout"):
        catalog.sql("SELECT * FROM files", timeout=1e-9)


def test_a_query_is_stopped_at_its_memory_limit(catalog: icecore.Catalog) -> None:
    query = "SELECT len(list(x)) AS n FROM (SELECT range::VARCHAR AS x FROM range(3000000))"
    with pytest.raises(QueryLimitError, match="needs more than its memory limit of 20MB") as stopped:
        catalog.sql(query, memory_limit="20MB")
    assert "\n" not in str(stopped.value)
    assert catalog.sql(query, memory_limit="2GB").to_pylist() == [{"n": 3_000_000}]


@pytest.mark.parametrize("timeout", [0, -1, "1", True, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(catalog: icecore.Catalog, timeout: float) -> None:
    with pytest.raises(ValidationError, match="timeout must be"):
        catalog.sql("SELECT 1", timeout=timeout)


def test_a_memory_limit_is_a_size(catalog: icecore.Catalog) -> None:
    with pytest.raises(ValidationError, match="memory_limit must be a size"):
        catalog.sql("SELECT 1", memory_limit="lots")


def test_the_result_is_arrow(catalog: icecore.Catalog) -> None:
    assert isinstance(catalog.sql("SELECT 1 AS x"), pa.Table)
