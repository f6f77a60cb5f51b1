"""Segment files: what is made once, kept through schema changes, merged, lost, damaged, and shared by processes."""

from __future__ import annotations

import os
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from clean_processes import exit_codes_of

import icecore
from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.queries import duck
from icecore.projections.entries.manifest_entries import ManifestEntries
from icecore.projections.segments import entry_expansion, entry_tables, segment_merging
from icecore.projections.segments.entry_tables import EntryTables
from icecore.projections.segments.entry_typing import EntryTyping, StoredTypes
from icecore.projections.segments.segment_files import NOTHING, SUFFIX, Growing, SegmentFolder

SCHEMA = pa.schema([("id", pa.int32()), ("d", pa.date32()), ("name", pa.string())])
Open = Callable[[], icecore.Catalog]


@pytest.fixture
def expanded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths of the manifests that plans expand."""
    found: list[str] = []
    real = ManifestEntries.canonical

    def canonical(self: ManifestEntries, stream: str, listed: Any, *args: Any) -> pa.Table:
        found.append(listed.manifest.manifest_path)
        return real(self, stream, listed, *args)

    def for_plans(self: EntryTables, growing: Any, table: Any, missing: Any, storage: Any) -> None:
        monkeypatch.setattr(ManifestEntries, "canonical", canonical)
        try:
            fill(self, growing, table, missing, storage)
        finally:
            monkeypatch.setattr(ManifestEntries, "canonical", real)

    fill = EntryTables._fill
    monkeypatch.setattr(EntryTables, "_fill", for_plans)
    yield found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written for every two manifests."""
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 2)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "d": [None] * len(ids), "name": [f"n{i}" for i in ids]}, schema=SCHEMA)


def made(catalog: icecore.Catalog, appends: int, **properties: str) -> icecore.Table:
    table = catalog.create_table(
        "ns.t", SCHEMA, format_version=3, properties={"commit.manifest-merge.enabled": "false", **properties}
    )
    for i in range(appends):
        table.append(rows(2 * i, 2 * i + 1))
    return table


def planned(table: icecore.Table, condition: str | None = None) -> int:
    return int(table.scan(condition).plan().to_arrow().num_rows)


def segments(warehouse: Path) -> list[Path]:
    return sorted((warehouse / ".icecore" / "segments").glob(f"*/*{SUFFIX}"))


def test_a_schema_change_expands_nothing_again(
    catalog: icecore.Catalog, open_again: Open, small: None, expanded: list[str]
) -> None:
    """T7: columns that are added, promoted, renamed and dropped; here, and in a process that comes later."""
    table = made(catalog, 3)
    assert planned(table, "id >= 4") == 1 and len(expanded) == 3
    with table.update_schema() as update:
        update.add_column("more", "double").update_column("id", "long").update_column("d", "timestamp")
    with table.update_schema() as update:
        update.rename_column("name", "called").delete_column("d")
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]")
    assert planned(table, "id >= 4 AND id < 5000000000") == 1
    assert planned(table, "more IS NOT NULL") == 3 and planned(table, "called = 'n2'") == 1
    again = open_again().load_table("ns.t")
    assert planned(again, "id >= 4") == 1 and len(expanded) == 3
    again.append(pa.table({"id": [9], "called": ["x"], "more": [1.5]}))
    assert planned(again, "more = 1.5") == 4, "old files have no bounds of a column that they do not have"
    assert planned(again, "more = 1.5 AND id = 9") == 1
    assert len(expanded) == 4


def test_metrics_of_a_field_that_was_not_known_are_found_when_it_is(
    catalog: icecore.Catalog, small: None, expanded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may list files with metrics of fields that the metadata they give us lacks."""
    table = made(catalog, 2)
    real = EntryTyping.of

    def without_id(metadata: Any, latest: Any) -> Any:
        typing = real(metadata, latest)
        fields = tuple(f for f in typing.schema.fields if f.field_id != 1)
        return type(typing)(type(typing.schema)(fields), typing.specs, typing.partitions, typing.ambiguous)

    with monkeypatch.context() as patch:
        patch.setattr(EntryTyping, "of", without_id)
        assert planned(table, "id = 1") == 2
    assert len(expanded) == 2
    table.append(rows(5))
    assert planned(table, "id = 1") == 1
    assert len(expanded) == 5


def test_many_manifests_are_few_files(
    catalog: icecore.Catalog, open_again: Open, expanded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts, not seconds: how many files a new process opens, and what one more commit costs."""
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 4)
    table = made(catalog, 25)
    assert planned(table) == 25 and len(expanded) == 25
    assert len(segments(Path(catalog.path))) == 1
    again = open_again().load_table("ns.t")
    again.append(rows(1000))
    assert planned(again) == 26 and len(expanded) == 26
    for i in range(10):
        again.append(rows(2000 + i))
        assert planned(again, f"id = {2000 + i}") == 1
    assert len(expanded) == 36
    assert len(segments(Path(catalog.path))) <= 4
    assert planned(open_again().load_table("ns.t"), "id >= 2000") == 10
    # What was still in memory when the other one ended.
    assert len(expanded) < 36 + segment_merging.MANIFESTS_IN_MEMORY


def test_files_of_like_size_become_one(catalog: icecore.Catalog, small: None) -> None:
    table = made(catalog, 0)
    for i in range(24):
        table.append(rows(i))
        assert planned(table) == i + 1
        assert len(segments(Path(catalog.path))) <= segment_merging.MOST_FILES
    assert sorted(table.scan("id < 3").to_arrow()["id"].to_pylist()) == [0, 1, 2]


class Said:
    """A connection that knows the statements that looked at incoming rows."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.statements: list[str] = []

    def execute(self, sql: str) -> Any:
        # Rows are found by their name in the frame that asks for them.
        incoming = sys._getframe(1).f_locals.get("incoming")
        if incoming is not None and "incoming" in sql:
            self.statements.append(sql.split()[0])
        return self.connection.execute(sql)


def test_the_first_entries_make_their_table_by_the_one_statement_that_takes_them_in() -> None:
    """Each look at rows of Arrow costs a small table's plan a tenth of its time."""
    said = Said()
    growing = Growing(said, "memory.main.entries")  # type: ignore[arg-type]
    types = StoredTypes({}, frozenset(), frozenset(), {})
    growing.add(pa.table({"m": [0, 0], "part_1000": ["a", "b"]}), types, ["one"])
    assert said.statements == ["CREATE"]
    assert growing.info.columns == {"m": "BIGINT", "part_1000": "VARCHAR"}
    growing.add(pa.table({"m": [1], "later": [2.5]}), types, ["two"])
    assert said.statements == ["CREATE", "DESCRIBE", "INSERT"]
    assert growing.info.columns == {"m": "BIGINT", "part_1000": "VARCHAR", "later": "DOUBLE"}
    assert (growing.info.rows, growing.info.manifests) == (3, ("one", "two"))
    found = said.connection.execute("SELECT m, part_1000, later FROM entries ORDER BY ALL").fetchall()
    assert found == [(0, "a", None), (0, "b", None), (1, None, 2.5)]


def test_what_nobody_looks_for_is_left_behind_by_merges(catalog: icecore.Catalog, small: None) -> None:
    table = made(catalog, 0)
    for i in range(16):
        table.overwrite(rows(i))
        assert planned(table) == 1
    kept = catalog._warehouse.planning.planner._tables._tables[table.state.stream].loaded.where
    assert len(kept) < 13
    first = table.snapshots()[0]
    assert table.scan(snapshot_id=first.snapshot_id).to_arrow()["id"].to_pylist() == [0]


def test_many_columns_that_come_later_come_together(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of nulls have no bounds: the columns of these come with the first values, in memory and in a file."""
    names = [f"c{i}" for i in range(60)]
    schema = pa.schema([(n, pa.int32()) for n in names])
    table = catalog.create_table("ns.t", schema, properties={"commit.manifest-merge.enabled": "false"})
    monkeypatch.setattr(entry_expansion, "ROWS_PER_INSERT", 1)

    def check(catalog: icecore.Catalog) -> None:
        with duck.recording() as statements:
            found = [planned(catalog.load_table("ns.t"), f) for f in ("c59 = 1", "c3 = 59 OR c0 IS NULL", "c0 = 7")]
        assert found == [2, 1, 3]
        assert sum("ADD COLUMN" in s.sql for s in statements) <= 16

    table.append(pa.table({"c0": pa.array([7, None], pa.int32())}))
    assert planned(table, "c0 = 8") == 0
    table.append(pa.table({n: [i, 59 - i] for i, n in enumerate(names)}, schema=schema))
    table.append(pa.table({n: [1, 7] for n in names}, schema=schema))
    check(catalog)
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 2)
    check(open_again())
    assert len(segments(Path(catalog.path))) == 1


def test_a_plan_reads_the_columns_of_its_filter_alone(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of columns with metrics; and where there are equality deletes, those that they compare."""
    names = [f"c{i}" for i in range(300)]
    schema = pa.schema([(n, pa.int32()) for n in names])
    table = catalog.create_table(
        "ns.t", schema, properties={"write.metadata.metrics.max-inferred-column-defaults": "2000"}
    )
    table.append(pa.table({n: [i] for i, n in enumerate(names)}, schema=schema))
    statements: list[str] = []
    real = duck.arrow

    def arrow(connection: Any, sql: str, parameters: Any = None) -> pa.Table:
        statements.append(sql)
        return real(connection, sql, parameters)

    monkeypatch.setattr(duck, "arrow", arrow)
    assert planned(table, "c7 = 7 AND c9 > 3") == 1 and planned(table, "c7 = 8") == 0
    assert len(segments(Path(catalog.path))) == 0, "one manifest of one file is not worth a segment"
    found = re.findall(r'"(?:lower|upper|values|nulls|nans)_(\d+)"', " ".join(statements))
    assert set(found) == {"8", "10"}
    assert len(catalog._warehouse.planning.planner._tables._tables[table.state.stream].loaded.columns) > 1200


@pytest.mark.parametrize("damage", ["gone", "empty", "text", "cut", "end", "scribbled", "info"])
def test_damaged_segments_are_made_again(
    catalog: icecore.Catalog, open_again: Open, small: None, expanded: list[str], damage: str
) -> None:
    made(catalog, 4)
    assert planned(catalog.load_table("ns.t")) == 4
    (path,) = segments(Path(catalog.path))
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        middle = len(data) // 2
        path.write_bytes(
            {
                "empty": b"",
                "text": b"what was here is gone",
                "cut": data[:middle],
                "end": data[:-20],
                "scribbled": data[:12288] + b"\x5a" * (len(data) - 12288),
                "info": data.replace(b'"manifests"', b'"manifestos'),
            }[damage]
        )
    again = open_again().load_table("ns.t")
    assert planned(again, "id >= 6") == 1 and planned(again) == 4
    assert sorted(again.scan().to_arrow()["id"].to_pylist()) == list(range(8))
    assert planned(open_again().load_table("ns.t")) == 4
    assert len(expanded) == 8


def test_damage_that_shows_while_a_plan_runs(
    catalog: icecore.Catalog, small: None, monkeypatch: pytest.MonkeyPatch, expanded: list[str]
) -> None:
    """What DuckDB can't read is dropped and made again, once."""
    import duckdb

    table = made(catalog, 4)
    assert planned(table) == 4
    real, failures = duck.arrow, [duckdb.IOException("checksum"), None]

    def arrow(connection: Any, sql: str, parameters: Any = None) -> pa.Table:
        error = failures.pop(0) if failures else None
        if error is not None:
            raise error
        return real(connection, sql, parameters)

    monkeypatch.setattr(duck, "arrow", arrow)
    assert planned(table, "id = 3") == 1
    assert len(expanded) == 8
    failures[:] = [duckdb.IOException("checksum")] * 2
    with pytest.raises(StorageError, match="checksum"):
        planned(table)


def test_a_folder_that_can_not_be_written_costs_no_plan(warehouse: Path, small: None) -> None:
    with icecore.open(warehouse) as catalog:
        catalog.create_namespace("ns")
        (warehouse / ".icecore").mkdir(exist_ok=True)
        (warehouse / ".icecore" / "segments").write_text("a file")
        table = made(catalog, 5)
        assert planned(table) == 5 and planned(table, "id = 3") == 1


def test_how_much_memory_is_a_size(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(entry_tables.MEMORY_VARIABLE, "300MB")
    with icecore.open(warehouse) as catalog:
        catalog.create_namespace("ns")
        table = made(catalog, 1)
        assert planned(table) == 1
        (limit,) = duck.rows(
            catalog._warehouse.planning.planner._tables.connection, "SELECT current_setting('memory_limit')"
        )[0]
        assert limit == "286.1 MiB"
    monkeypatch.setenv(entry_tables.MEMORY_VARIABLE, "much")
    with icecore.open(warehouse) as catalog, pytest.raises(ValidationError, match=r"ICECORE_CACHE_MEMORY.*'much'"):
        planned(catalog.load_table("ns.t"))


def test_tables_that_were_not_planned_for_longest_are_let_go(
    catalog: icecore.Catalog, small: None, monkeypatch: pytest.MonkeyPatch, expanded: list[str]
) -> None:
    monkeypatch.setattr(entry_tables, "MOST_TABLES", 2)
    tables = [catalog.create_table(f"ns.t{i}", SCHEMA) for i in range(3)]
    for table in tables:
        for i in range(2):
            table.append(rows(i))
        assert planned(table) == 2
    loaded = catalog._warehouse.planning.planner._tables
    assert len(loaded._tables) == 2
    attached = duck.rows(loaded.connection, "SELECT count(*) FROM duckdb_databases() WHERE readonly")
    assert attached == [(2,)]
    before = len(expanded)
    assert planned(tables[0]) == 2 and len(expanded) == before, "its segments are still on disk"


def append_and_plan(folder: Path, worker: int, each: int) -> None:
    """Appends a row at a time and plans for it, as a process of its own."""
    segment_merging.MANIFESTS_IN_MEMORY = 2
    with icecore.open(folder, actor=str(worker)) as catalog:
        table = catalog.load_table("ns.t")
        for number in range(1000 * worker, 1000 * worker + each):
            table.append(pa.table({"id": [number], "d": [None], "name": ["x"]}, schema=SCHEMA))
            table = catalog.load_table("ns.t")
            assert table.scan(f"id = {number}").plan().to_arrow().num_rows == 1
            paths = table.scan().plan().to_arrow()["file_path"].to_pylist()
            assert len(paths) == len(set(paths)) > number - 1000 * worker


def test_several_processes_plan_and_commit_over_one_folder(catalog: icecore.Catalog, open_again: Open) -> None:
    """Each sees its own rows at once; in the end nobody lost or doubled a file, and nothing unfinished lies about."""
    table = made(catalog, 3)
    each = 4
    assert exit_codes_of(*(partial(append_and_plan, catalog.path, n, each) for n in (1, 2, 3))) == [0, 0, 0]
    for catalog_again in (catalog, open_again()):
        table = catalog_again.load_table("ns.t")
        found = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert found == sorted([*range(6), *(1000 * n + i for n in (1, 2, 3) for i in range(each))])
    folder = Path(catalog.path) / ".icecore" / "segments"
    assert not list(folder.glob("*/unfinished*"))
    assert len(segments(Path(catalog.path))) <= 3 * segment_merging.MOST_FILES


def test_what_other_releases_left_goes_when_it_is_old(tmp_path: Path, small: None) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = made(catalog, 3)
        planned(table)
        (segment,) = segments(tmp_path)
        month = 31 * 24 * 3600
        left = {"v1-1.4.0-000000000001-ab.segment": month, "v1-1.4.0-000000000002-cd.segment": 0, "notes.txt": month}
        for name, age in left.items():
            other = segment.with_name(name)
            other.write_bytes(b"")
            os.utime(other, (time.time() - age,) * 2)
        os.utime(segment, (time.time() - month,) * 2)
        for i in (3, 4, 5):
            table.append(rows(2 * i))
        assert planned(table) == 6
        names = {p.name for p in segment.parent.iterdir()}
    assert names > {segment.name, *left} - {"v1-1.4.0-000000000001-ab.segment"}
    assert "v1-1.4.0-000000000001-ab.segment" not in names


def test_a_segment_takes_less_than_two_thirds_of_the_bytes_of_its_paths(tmp_path: Path) -> None:
    """A plan of all files holds what it has read of a segment, of which paths are nearly all."""
    writes = [uuid.uuid5(uuid.NAMESPACE_URL, str(i)) for i in range(500)]
    paths = [f"s3://lake/shop/orders/data/00000-{i}-{writes[i // 100]}.parquet" for i in range(50_000)]
    with duckdb.connect() as connection:
        folder = SegmentFolder(tmp_path)
        with folder.writing(connection, "made") as growing:
            growing.add(pa.table({"m": [0] * len(paths), "file_path": paths}), NOTHING.typed, ["a manifest"])
        (name,) = folder.names()
        assert (tmp_path / name).stat().st_size < sum(map(len, paths)) * 2 / 3
