"""Files as Hive and Spark lay them out, whose partition columns only their path has (P1, PT1)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import pyiceberg_catalog, sorted_rows

import icecore
from icecore.engine.errors import ValidationError

NULL = "__HIVE_DEFAULT_PARTITION__"
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


def made(catalog: icecore.Catalog, schema: pa.Schema = SCHEMA, spec: Sequence[str] = ("city",)) -> icecore.Table:
    catalog.create_namespace("hive")
    table: icecore.Table = catalog.create_table("hive.t", schema, partition_spec=spec)
    return table


def written(folder: Path, rows: pa.Table, name: str = "a.parquet") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / name)
    return str(folder / name)


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def test_p1_a_column_that_only_the_path_has_is_read_from_there(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Percent-encoded as Hive does, null by its name; filters, deletes, DuckDB and PyIceberg see the values."""
    table = made(catalog)
    texts = {"Oslo": "Oslo", "S%C3%A3o%20Paulo%2F1": "São Paulo/1", NULL: None, "a=b": "a=b", "100%": "100%"}
    texts["at 10%3A30 today"] = "at 10:30 today"
    paths = [written(tmp_path / f"city={text}", ids(i)) for i, text in enumerate(texts)]
    table.add_files(paths)
    expected = sorted(enumerate(texts.values()))
    assert sorted(sorted_rows(table.scan().to_arrow())) == expected
    assert table.scan("city = 'Oslo'").to_arrow()["id"].to_pylist() == [0]
    assert len(list(table.scan("city = 'Oslo'").plan_files())) == 1
    assert table.scan("city IS NULL").count() == 1
    assert table.scan().aggregate("null_count(city)", "min(city)").values == {
        "null_count(city)": 1,
        "min(city)": "100%",
    }
    peer = pyiceberg_catalog(catalog.path)
    assert sorted(sorted_rows(peer.load_table("hive.t").scan().to_arrow())) == expected
    peer.close()
    table.delete("city = 'a=b' OR id = 1")
    assert sorted(sorted_rows(table.scan().to_arrow())) == [expected[i] for i in (0, 2, 4, 5)]
    assert catalog.verify().ok


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.int32(), "-7", -7),
        (pa.int64(), "7000000000", 7000000000),
        (pa.float64(), "1.5", 1.5),
        (pa.bool_(), "True", True),
        (pa.date32(), "2024-02-29", dt.date(2024, 2, 29)),
        (pa.timestamp("us"), "2024-02-29 10%3A11%3A12", dt.datetime(2024, 2, 29, 10, 11, 12)),
        (pa.decimal128(9, 2), "1.50", Decimal("1.50")),
        (pa.string(), "", ""),
    ],
)
def test_every_type_that_a_path_can_say(
    catalog: icecore.Catalog, tmp_path: Path, kind: pa.DataType, text: str, value: Any
) -> None:
    """Also under names in lower case, as Hive writes them, and with folders that say nothing of the table."""
    table = made(catalog, pa.schema([("id", pa.int64()), ("Key", kind)]), ["Key"])
    table.add_files([written(tmp_path / "env=prod" / f"key={text}", ids(1, 2))])
    assert sorted_rows(table.scan().to_arrow()) == [(1, value), (2, value)]


def test_what_path_and_file_both_say_must_agree(catalog: icecore.Catalog, tmp_path: Path) -> None:
    table = made(catalog)
    both = [
        written(tmp_path / "city=Oslo", ids(1).append_column("city", pa.array(["Oslo"]))),
        written(tmp_path / f"city={NULL}", ids(2).append_column("city", pa.array([None], pa.string()))),
        written(tmp_path / f"city={NULL}", ids(3).append_column("city", pa.array([""])), "b.parquet"),
    ]
    table.add_files(both)
    assert sorted_rows(table.scan().to_arrow()) == [(1, "Oslo"), (2, None), (3, "")]
    other = written(tmp_path / "city=Bergen", ids(1).append_column("city", pa.array(["Oslo"])))
    with pytest.raises(ValidationError, match="it says that 'city' is 'Bergen', the file says 'Oslo'"):
        table.add_files([other])
    with pytest.raises(ValidationError, match="two values of 'city'"):
        table.add_files([written(tmp_path / "city=Oslo" / "city=Bergen", ids(1))])


@pytest.mark.parametrize(
    ("spec", "folder", "problem"),
    [
        (["city"], "elsewhere", "partitioned by identity of 'city', which is neither a column of the file nor"),
        (["bucket(4, city)"], "elsewhere", r"partitioned by bucket\[4\] of 'city', which is neither"),
        (["bucket(4, city)"], "city=Oslo", "says a value of 'city', which the file has no column of"),
        ([], "city=Oslo", "says a value of 'city', which the file has no column of"),
    ],
)
def test_rows_that_would_lose_their_value_are_refused(
    catalog: icecore.Catalog, tmp_path: Path, spec: list[str], folder: str, problem: str
) -> None:
    table = made(catalog, spec=spec)
    position = catalog.position
    with pytest.raises(ValidationError, match=problem):
        table.add_files([written(tmp_path / folder, ids(1))])
    assert catalog.position == position


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (pa.date32(), ("yesterday", "2024-13-01")),
        (pa.int32(), ("ten", "1_0", " 10", "\uff11\uff10", "2147483648")),
        (pa.float64(), ("1_0.5", "\uff11")),
        (pa.decimal128(9, 2), ("1_0.00", "1.505")),
    ],
)
def test_a_value_that_is_none_of_its_type_is_refused(
    catalog: icecore.Catalog, tmp_path: Path, kind: pa.DataType, texts: tuple[str, ...]
) -> None:
    """Also what only Python takes for a number."""
    table = made(catalog, pa.schema([("id", pa.int64()), ("key", kind)]), ["key"])
    for text in texts:
        with pytest.raises(ValidationError, match=f"'{text}' is no .* for 'key'"):
            table.add_files([written(tmp_path / f"key={text}", ids(1))])


def test_other_transforms_of_what_the_path_says_are_worked_out(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Beside the identity that the column is read from; transforms of the file's own columns as ever."""
    table = made(catalog, spec=["city", "truncate(2, city)", "bucket(4, id)"])
    table.add_files([written(tmp_path / "city=Oslo", ids(1))])
    [task] = table.scan().plan_files()
    assert task.file.partition[:2] == ("Oslo", "Os") and isinstance(task.file.partition[2], int)
    assert sorted_rows(table.scan().to_arrow()) == [(1, "Oslo")]
