"""Files in which a column has a name that the table gives to another: Spark's filters lose no row of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402

TABLE = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
SWAPPED = pa.schema([("b", pa.int64()), ("a", pa.int64()), ("s", pa.struct([("y", pa.int64()), ("x", pa.int64())]))])
FILTERS = {"a = 2": [(2, 200)], "b = 200": [(2, 200)], "s.x = 3": [(3, 300)], "s.y > 250": [(3, 300)]}


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """The rows (1, 100), (2, 200), (3, 300), of a file whose columns are called by each other's names."""
    source = catalog.create_table("ns.source", SWAPPED)
    source.append([{"b": i, "a": 100 * i, "s": {"y": i, "x": 100 * i}} for i in (1, 2, 3)])
    made = catalog.create_table("ns.t", TABLE)
    made.append_files([t.file for t in source.scan().plan_files()])
    return made


def pairs(frame: Any) -> list[tuple[int, int]]:
    return sorted((row["a"], row["b"]) for row in frame.collect())


def test_files_that_came_with_names_of_others(
    either_way: Any, catalog: icecore.Catalog, table: icecore.Table, tmp_path: Path
) -> None:
    """A filter of a scan, on a frame of it, on an exported plan's and in a query by name."""
    table.append([{"a": 9, "b": 900, "s": {"x": 9, "y": 900}}])
    all_rows = table.scan().to_spark(either_way)
    table.scan().export(tmp_path / "plan")
    planned = icecore.spark.load_plan(either_way, tmp_path / "plan")
    for text, expected in FILTERS.items():
        expected = [*expected, *([(9, 900)] if text == "s.y > 250" else [])]
        assert pairs(all_rows.where(text)) == expected, text
        assert pairs(table.scan(text).to_spark(either_way)) == expected, text
        assert pairs(planned.where(text)) == expected, text
        assert pairs(icecore.spark.sql(either_way, catalog, f"SELECT * FROM ns.t WHERE {text}")) == expected, text


CHANGES: dict[str, Any] = {
    "delete": lambda t, _: t.spark.delete("a = 2 AND abs(a) = 2"),
    "update": lambda t, _: t.spark.update({"b": "-1"}, "a = 2"),
    "upsert": lambda t, rows: t.spark.upsert(rows, ["a"]),
    "merge": lambda t, rows: (
        t.spark.merge(rows, on="target.a = source.a AND target.a = 2")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .commit()
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_files_with_names_of_others(spark: Any, table: icecore.Table, change: str) -> None:
    rows = spark.sql("SELECT 2L AS a, -1L AS b, named_struct('x', 2L, 'y', 200L) AS s")
    CHANGES[change](table, rows)
    expected = [(1, 100), *([] if change == "delete" else [(2, -1)]), (3, 300)]
    assert sorted((r["a"], r["b"]) for r in table.refresh().scan().to_arrow().to_pylist()) == expected


def test_files_of_schemas_that_are_gone(either_way: Any, catalog: icecore.Catalog) -> None:
    """Names swapped and swapped back: the first schema is the current one again, and the one between was removed."""
    table = catalog.create_table("ns.t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    swap(table, "a", "b")
    table.append([{"a": 100 * i, "b": i} for i in (1, 2, 3)])
    swap(table, "b", "a")
    scan = table.refresh().scan()
    current = tuple(s for s in table.metadata.schemas if s.schema_id == table.metadata.current_schema_id)
    assert [s.schema_id for s in current] == [0]
    frame = read_tasks(
        either_way,
        scan.plan_files(),
        projection=scan.projection,
        metadata=evolve(table.metadata, schemas=current),
        storage=scan.storage,
    )
    assert pairs(frame.where("a = 2")) == [(2, 200)]


def swap(table: icecore.Table, one: str, other: str) -> None:
    for old, new in ((one, "c"), (other, one), ("c", other)):
        table.update_schema().rename_column(old, new).commit()


def test_parts_of_columns_in_files_of_others(either_way: Any, catalog: icecore.Catalog) -> None:
    """What is asked of a struct, alone or below a list or a map, and whole ones that are shown with other parts."""
    struct = pa.struct([("x", pa.int64()), ("u", pa.uuid())])
    columns = pa.schema(
        [("id", pa.int64()), ("s", struct), ("l", pa.list_(struct)), ("m", pa.map_(pa.string(), struct))]
    )
    source, table = (catalog.create_table(f"ns.{name}", columns) for name in ("source", "t"))
    one = {"x": 7, "u": b"a" * 16}
    source.append([{"id": 1, "s": one, "l": [one, None], "m": {"k": one}}, {"id": 2, "s": {"x": None, "u": None}}])
    (task,) = source.scan().plan_files()
    path = Path(task.file.file_path.removeprefix("file://"))
    table.append_files([evolve(task.file, file_path=str(path.rename(path.with_name("of-another-writer.parquet"))))])
    text = "61616161-6161-6161-6161-616161616161"
    for names in (("*",), ("*", "_pos")):
        frame = table.scan(selected_fields=names).to_spark(either_way)
        first, second = sorted(frame.collect())
        assert (tuple(first.s), tuple(second.s), tuple(first.l[0])) == ((7, text), (None, None), (7, text))
        assert [tuple(r) for r in frame.select("s.x", "l.x", "m.k.u").collect()] == [(7, [7, None], text), (None,) * 3]
        assert [r.id for r in frame.where(f"s.x = 7 AND s.u = '{text}' AND exists(l, e -> e.x = 7)").collect()] == [1]
    table.append([{"id": 3, "l": [one], "m": {"k": one}}])
    rename = table.update_schema().rename_column(("l", "element", "x"), "y").rename_column(("m", "value", "x"), "y")
    rename.commit()
    found = table.scan().to_spark(either_way).where("id <> 2").selectExpr("l.y", "map_values(m).y").collect()
    assert sorted(map(tuple, found)) == [([7], [7]), ([7, None], [7])]
