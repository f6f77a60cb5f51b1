"""Files that are there already, described by Spark's tasks: the table that takes them in is the engine's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import CorruptFileError, MissingFileError, ValidationError  # noqa: E402
from icecore.engine.spark.read import routing  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("x", pa.float64())])


@pytest.fixture(scope="module", autouse=True)
def active(spark: Any) -> Iterator[None]:
    yield


@pytest.fixture
def tables(catalog: icecore.Catalog) -> tuple[icecore.Table, icecore.Table]:
    """One for Spark, one for the engine."""
    made = [
        catalog.create_table(name, SCHEMA, partition_spec=["city"], format_version=3) for name in ("ns.t", "ns.other")
    ]
    return made[0], made[1]


def written(folder: Path, number: int, **more: Any) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    rows = {"id": [number, number + 100], "x": [number / 2, None], **more}
    path = folder / f"{number}.parquet"
    pq.write_table(pa.table({k: pa.array(v, SCHEMA.field(k).type) for k, v in rows.items()}), path)
    return str(path)


def described(table: icecore.Table) -> list[Any]:
    return [t.file for t in table.scan().plan_files()]


def test_files_are_taken_in_as_the_engine_does(
    catalog: icecore.Catalog, tables: tuple[icecore.Table, icecore.Table], tmp_path: Path
) -> None:
    """Metrics, partitions of Hive's paths and of rows, the name mapping, row ids and their order."""
    mine, other = tables
    paths = [written(tmp_path / f"city={'Oslo' if i % 2 else 'S%C3%A3o'}", i) for i in range(9)]
    paths.insert(3, written(tmp_path / "plain", 50, city=["Rome", "Rome"]))
    told: list[tuple[int, int]] = []
    position = catalog.position
    outcome = mine.spark.add_files(paths, dry_run=True)
    assert outcome is not None and catalog.position == position
    mine.spark.add_files(iter(paths), message="of the lake before", on_progress=lambda *n: told.append(n))
    other.add_files(paths)
    assert described(mine) == described(other) and len(described(mine)) == 10
    assert told[-1][0] == told[-1][1] > 0
    names = ("id", "city", "x", "_row_id")
    assert mine.scan(selected_fields=names).to_arrow().equals(other.scan(selected_fields=names).to_arrow())
    assert mine.properties == other.properties and "schema.name-mapping.default" in mine.properties
    assert catalog.verify(deep=True).ok


def test_what_does_not_fit_is_told_as_the_engine_does(
    tables: tuple[icecore.Table, icecore.Table], tmp_path: Path
) -> None:
    """A file of two partitions, one that is no Parquet, one that is not there, and one that is in the table."""
    mine, other = tables
    good = written(tmp_path / "city=Oslo", 1)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    wrong: list[tuple[str, type[Exception]]] = [
        (written(tmp_path, 2, city=["Oslo", "Rome"]), ValidationError),
        (str(tmp_path / "bad.parquet"), CorruptFileError),
        (str(tmp_path / "none.parquet"), MissingFileError),
    ]
    for path, kind in wrong:
        with pytest.raises(kind) as theirs:
            other.add_files([good, path])
        with pytest.raises(kind) as ours:
            mine.spark.add_files([good, path])
        assert str(ours.value).split("\n")[0] == str(theirs.value).split("\n")[0]
    assert mine.refresh().current_snapshot() is None
    mine.spark.add_files([good])
    with pytest.raises(ValidationError, match="in the table already"):
        mine.spark.add_files([good])
    mine.spark.add_files([])
    assert len(described(mine)) == 1


def test_a_file_with_the_name_of_one_of_ours_may_have_no_ids(
    spark: Any, catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """As other programs copy it: it is read by names, by Spark as by Python."""
    table, other = (catalog.create_table(name, SCHEMA) for name in ("ns.mine", "ns.theirs"))
    table.append([{"id": 1, "city": "Rome", "x": 0.5}])
    mine = Path(described(table)[0].file_path.removeprefix("file://"))
    copy = tmp_path / mine.name
    duckdb.sql(f"COPY (FROM '{mine}') TO '{copy}' (FORMAT parquet)")
    other.add_files([str(copy)])
    assert [tuple(r) for r in other.scan().to_spark(spark).collect()] == [(1, "Rome", 0.5)]


def test_files_without_ids_in_a_table_without_mapping(spark: Any, catalog: icecore.Catalog, tmp_path: Path) -> None:
    """As Impala and Dremio write them. Files with the names that Iceberg's writers give are not opened to see that."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append([{"id": 1, "city": "Rome", "x": 0.5}])
    path = tmp_path / "000000_0"
    pq.write_table(pa.table({"id": [2], "city": ["Oslo"], "x": [1.5]}), path)
    with table.transaction() as transaction:
        transaction.add_files([str(path)])
        transaction.remove_properties("schema.name-mapping.default")
    assert sorted(tuple(r) for r in table.scan().to_spark(spark).collect()) == [(1, "Rome", 0.5), (2, "Oslo", 1.5)]
    uuid = "0b7e5c9e-6f0a-4d3c-9a57-0a1d2c3b4a59"
    for name in (f"00000-0-{uuid}-00001", f"20260123_130501_00052_wuch8-{uuid}", uuid):
        assert routing.NAMED_BY_ICEBERG.search(f"/{name}.parquet")
    for name in (f"part-00000-{uuid}-c000.snappy", f"20260123_130501_00052_wuch8_{uuid}", f"{uuid}-000", "000000_0"):
        assert not routing.NAMED_BY_ICEBERG.search(f"/{name}.parquet")
