"""Filters over columns whose names mean something else in SQL, or differ from another's in nothing but case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import icecore
from icecore.engine.expression.build import EqualTo
from icecore.engine.spec.transform import BucketTransform
from icecore.engine.spec.types import LongType

ROWS = 4
NAMES = ["a", "A", "ä", "Ä", "data_rows", "DATA_ROWS", "rowid", "selected", "x y", 'q"t', "n'", "a.b", "true", "null"]
NAMES += ["$p0", "p0", "{condition}", "\x00", "main", "🦆", " lead", "", "-1", "select", "c1", "b1_0"]
STRUCT = pa.struct(
    [("a", pa.int32()), ("A", pa.int32()), ("data_rows", pa.struct([("id", pa.int64())])), ("d.e", pa.int32())]
)
SCHEMA = pa.schema([("id", pa.int64()), *((n, pa.int32()) for n in NAMES), ("st", STRUCT), ("data", STRUCT)])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Table]:
    folder: Path = tmp_path_factory.mktemp("names")
    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        made = catalog.create_table("ns.t", SCHEMA)
        inner = [{"a": k, "A": 10 + k, "data_rows": {"id": 20 + k}, "d.e": 30 + k} for k in range(ROWS)]
        made.append(
            pa.Table.from_pylist(
                [
                    {"id": k, **{n: k * 100 + j for j, n in enumerate(NAMES)}, "st": inner[k], "data": None}
                    for k in range(ROWS)
                ],
                schema=SCHEMA,
            )
        )
        yield made


def quoted(*path: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in path)


def ids(scan: icecore.DataScan) -> list[int]:
    found: list[int] = scan.to_arrow()["id"].to_pylist()
    assert scan.count() == len(found)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_filter_reads_the_column_of_exactly_that_name(table: icecore.Table, name: str) -> None:
    value = 200 + NAMES.index(name)
    assert ids(table.scan(f"{quoted(name)} = {value}")) == [2]
    assert ids(table.scan(EqualTo(name, value))) == [2]
    assert ids(table.scan(f"{quoted(name)} IN ({value}, -5) AND id <> 0")) == [2]


@pytest.mark.parametrize(
    ("path", "value"), [(("a",), 2), (("A",), 12), (("data_rows", "id"), 22), (("d.e",), 32)], ids=str
)
def test_fields_of_structs_too(table: icecore.Table, path: tuple[str, ...], value: int) -> None:
    assert ids(table.scan(f"{quoted('st', *path)} = {value}")) == [2]
    assert ids(table.scan(EqualTo(".".join(("st", *path)), value))) == [2]
    # Every struct of this column is null, and so is all in it.
    assert ids(table.scan(f"{quoted('data', *path)} IS NULL OR id = 9")) == [0, 1, 2, 3]
    assert ids(table.scan(f"{quoted('data', *path)} <> 1")) == []


def test_rows_are_tested_by_bucket(table: icecore.Table) -> None:
    bucket = BucketTransform(1000).apply(LongType(), 2)
    assert ids(table.scan(f"bucket(1000, id) = {bucket}")) == [2]
    assert ids(table.scan(f"bucket(1000, id) <> {bucket} AND bucket(2, id) >= 0")) == [0, 1, 3]


def test_a_delete_removes_rows_by_the_column_that_it_names(tmp_path: Path) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("a", pa.int64()), ("A", pa.int64())]))
        table.append(pa.table({"a": [1, 2, 3], "A": [3, 2, 1]}))
        table.delete('"A" = 3')
        assert table.scan().to_arrow()["a"].to_pylist() == [2, 3]
