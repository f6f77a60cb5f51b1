"""Which aggregates metadata answers, and which files have to be read."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import make_table, rows

import icecore
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.scan.aggregates import _State
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import DoubleType, LongType

NAN = float("nan")


def asked(table: icecore.Table, *aggregates: str, row_filter: str | None = None) -> tuple[dict[str, Any], int]:
    found = table.scan(row_filter).aggregate(*aggregates)
    return found.values, found.files_read


def test_numbers_and_counts_need_no_file(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(3, 1))
    table.append(rows(7))
    values, read = asked(table, "count(*)", "count(id)", "null_count(name)", "MIN(id)", "max( id )")
    assert values == {"count(*)": 3, "count(id)": 3, "null_count(name)": 0, "MIN(id)": 1, "max( id )": 7}
    assert read == 0
    found = table.scan().aggregate("min(id)", "count(*)")
    assert found.to_arrow().schema == pa.schema([("min(id)", pa.int64()), ("count(*)", pa.int64())])
    assert found.files_planned == 2


def test_an_empty_scan_counts_nothing(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    assert asked(table, "count(*)", "min(id)", "null_count(id)") == (
        {"count(*)": 0, "min(id)": None, "null_count(id)": 0},
        0,
    )
    table.append(rows(1))
    assert asked(table, "count(*)", "max(name)", row_filter="id > 5") == ({"count(*)": 0, "max(name)": None}, 0)


def test_strings_are_read_but_only_where_they_may_win(catalog: icecore.Catalog) -> None:
    """Bounds of strings may be cut short, so they only tell which files can't matter."""
    table = make_table(catalog)
    for name in ("m", "a", "z", "q"):
        table.append(pa.table({"id": [1], "name": [name * 30]}))
    found = table.scan().aggregate("min(name)")
    assert found["min(name)"] == "a" * 30
    assert found.files_read == 4, "four are read at once; a larger table shows what is left out"
    for i in range(20):
        table.append(pa.table({"id": [1], "name": [f"k{i:02d}" * 10]}))
    found = table.scan().aggregate("min(name)", "count(*)")
    assert (found["min(name)"], found["count(*)"], found.files_read, found.files_planned) == ("a" * 30, 24, 4, 24)
    assert table.scan().aggregate("max(name)")["max(name)"] == "z" * 30


def test_the_value_of_an_identity_partition_is_that_of_all_its_rows(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, partition_spec=["name"])
    long = "x" * 100
    table.append(pa.table({"id": [1, 2, 3], "name": [long, None, "b"]}))
    assert asked(table, "min(name)", "max(name)", "count(name)", "null_count(name)") == (
        {"min(name)": "b", "max(name)": long, "count(name)": 2, "null_count(name)": 1},
        0,
    )


def test_only_files_with_deletes_or_a_residual_are_read(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, format_version=2, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2, 3))
    table.append(rows(10, 11))
    table.delete("id = 3")
    assert asked(table, "count(*)", "max(id)", "min(id)") == ({"count(*)": 4, "max(id)": 11, "min(id)": 1}, 1)
    assert asked(table, "max(id)") == ({"max(id)": 11}, 0), "the deleted file's bounds can't win"
    assert asked(table, "count(*)", row_filter="id <> 10") == ({"count(*)": 3}, 2)
    assert asked(table, "count(*)", row_filter="id >= 10") == ({"count(*)": 2}, 0)


def test_nan_is_the_greatest_and_in_no_bounds(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.f", pa.schema([("x", pa.float64())]))
    table.append(pa.table({"x": [1.5, NAN, None]}))
    table.append(pa.table({"x": [-0.0, 2.0]}))
    values, read = asked(table, "min(x)", "max(x)", "count(x)")
    assert (values["min(x)"], values["count(x)"], read) == (0.0, 4, 0)
    assert values["max(x)"] != values["max(x)"], "it is NaN"
    only = catalog.create_table("ns.nan", pa.schema([("x", pa.float32())]))
    only.append(pa.table({"x": pa.array([NAN, NAN], pa.float32())}))
    values, read = asked(only, "min(x)")
    assert values["min(x)"] != values["min(x)"] and read == 0


def test_without_metrics_the_rows_tell(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"write.metadata.metrics.default": "none"})
    table.append(rows(4, 5))
    assert asked(table, "min(id)", "count(id)") == ({"min(id)": 4, "count(id)": 2}, 1)
    assert asked(table, "count(*)") == ({"count(*)": 2}, 0)


def test_every_type_comes_back_as_arrow_has_it(catalog: icecore.Catalog) -> None:
    one, two = uuid.UUID(int=1), uuid.UUID(int=2**127 + 5)
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "b": (pa.bool_(), [True, False]),
        "i": (pa.int32(), [5, -5]),
        "f": (pa.float32(), [1.5, -1.5]),
        "d": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1, 1, 1)]),
        "t": (pa.time64("us"), [dt.time(23, 59), dt.time(1)]),
        "ts": (pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(1969, 1, 1)]),
        "tz": (
            pa.timestamp("us", "UTC"),
            [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1969, 1, 1, tzinfo=dt.UTC)],
        ),
        "n": (pa.decimal128(20, 3), [Decimal("1.500"), Decimal("-2.000")]),
        "s": (pa.string(), ["b", "a"]),
        "y": (pa.binary(), [b"\xff", b""]),
        "u": (pa.uuid(), [two, one]),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    table = catalog.create_table("ns.types", schema)
    storage = {n: [v.bytes for v in vs] if n == "u" else vs for n, (_, vs) in columns.items()}
    arrays = [
        pa.ExtensionArray.from_storage(kind, pa.array(storage[n], pa.binary(16)))
        if n == "u"
        else pa.array(storage[n], kind)
        for n, (kind, _) in columns.items()
    ]
    table.append(pa.Table.from_arrays(arrays, schema=schema))
    for name, (_, (greatest, least)) in columns.items():
        values, _ = asked(table, f"min({name})", f"max({name})")
        assert values == {f"min({name})": least, f"max({name})": greatest}, name


def test_a_promoted_column_and_one_that_a_file_lacks(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.p", pa.schema([("i", pa.int32()), ("f", pa.float32())]))
    table.append(pa.table({"i": pa.array([1, 2], pa.int32()), "f": pa.array([0.5, 1.5], pa.float32())}))
    first = table.snapshots()[0].snapshot_id
    with table.update_schema() as update:
        update.update_column("i", LongType()).update_column("f", DoubleType()).add_column("new", LongType())
    table.append(pa.table({"i": [2**40], "f": [9.0], "new": [7]}))
    assert asked(table, "min(i)", "max(i)", "max(f)", "min(f)") == (
        {"min(i)": 1, "max(i)": 2**40, "max(f)": 9.0, "min(f)": 0.5},
        0,
    )
    assert asked(table, "count(new)", "max(new)", "null_count(new)") == (
        {"count(new)": 1, "max(new)": 7, "null_count(new)": 2},
        1,
    )
    old = table.scan(snapshot_id=first).aggregate("max(i)")
    assert (old["max(i)"], old.files_read, old.to_arrow().schema.types) == (2, 0, [pa.int32()])


def test_nested_columns(catalog: icecore.Catalog) -> None:
    """Values inside structs have bounds; how many nulls there are is read."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.int64()))])
    table = catalog.create_table("ns.n", schema)
    data = [{"id": 1, "s": {"a": 4}, "l": [1]}, {"id": 2, "s": None, "l": None}, {"id": 3, "s": {"a": None}, "l": []}]
    table.append(pa.Table.from_pylist(data, schema=schema))
    assert asked(table, "min(s.a)") == ({"min(s.a)": 4}, 0)
    assert asked(table, "count(s.a)", "count(s)", "count(l)") == ({"count(s.a)": 1, "count(s)": 2, "count(l)": 2}, 1)
    with pytest.raises(ValidationError, match="list or map"):
        table.scan().aggregate("min(l.element)")
    with pytest.raises(ValidationError, match="no order"):
        table.scan().aggregate("min(s)")


def test_what_is_no_aggregate_is_refused(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    nothing: Any = None
    for wrong in ("sum(id)", "min(*)", "min(nothing)", "id", "count(id", "", "count()", nothing):
        with pytest.raises(ValidationError):
            table.scan().aggregate(wrong)
    with pytest.raises(ValidationError, match="limit"):
        table.scan(limit=3).aggregate("count(*)")
    with pytest.raises(ValidationError, match="no aggregate"):
        table.scan().aggregate()


def test_names_in_quotes_and_of_any_case(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.q", pa.schema([("a (b)", pa.int64()), ('say "x"', pa.int64())]))
    table.append(pa.table({"a (b)": [1, 2], 'say "x"': [3, 4]}))
    found = table.scan().aggregate('max("a (b)")', "min(a (b))", 'max("say ""x""")')
    assert list(found.values.values()) == [2, 1, 4]
    assert table.scan(case_sensitive=False).aggregate("MAX(A (B))")["MAX(A (B))"] == 2


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...]]]:
    """Which files are read from now on, and which columns of them."""
    seen: list[tuple[str, tuple[str, ...]]] = []
    real = DataScan._read_one

    def noting(self: DataScan, task: FileScanTask, projection: Schema, deletes: Any) -> Any:
        seen.append((task.file.file_path, tuple(f.name for f in projection.fields)))
        return real(self, task, projection, deletes)

    monkeypatch.setattr(DataScan, "_read_one", noting)
    return seen


def test_many_aggregates_read_a_file_once_and_only_what_metrics_lack(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twenty counts one is of a column that older files were written without: only these files, only that column."""
    names = [f"c{i}" for i in range(19)]
    table = catalog.create_table("ns.w", pa.schema([(n, pa.int64()) for n in names]))
    for value in (1, None):
        table.append(pa.table({n: pa.array([value], pa.int64()) for n in names}))
    table.update_schema().add_column("late", LongType()).commit()
    table.append(pa.table({n: [5] for n in (*names, "late")}))
    reads = reads_of(monkeypatch)
    together = table.scan().aggregate(*(f"null_count({n})" for n in (*names, "late")))
    assert (together.files_read, [columns for _, columns in reads]) == (2, [("late",), ("late",)])
    assert len({path for path, _ in reads}) == 2
    one_by_one = {t: v for n in (*names, "late") for t, v in table.scan().aggregate(f"null_count({n})").values.items()}
    assert together.values == one_by_one and together["null_count(late)"] == 2
    assert sorted(reads[2:]) == sorted(reads[:2])


def test_extremes_of_both_ends_and_of_several_columns_read_few_files(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each end has the files that promise most read early, and a file only for what it may change."""
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    table = catalog.create_table("ns.e", schema, properties={"commit.manifest-merge.enabled": "false"})
    for i in range(24):
        table.append(pa.table({"a": [f"{i:02d}" * 20], "b": [f"{(i * 7) % 24:02d}" * 20]}))
    reads = reads_of(monkeypatch)
    found = table.scan().aggregate("min(a)", "max(a)", "min(b)", "max(b)")
    assert found.values == {"min(a)": "00" * 20, "max(a)": "23" * 20, "min(b)": "00" * 20, "max(b)": "23" * 20}
    assert found.files_read == len(reads) == len({path for path, _ in reads}) <= 8


def test_each_open_file_is_looked_at_once(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: what is asked of files grows as they do, not faster."""
    table = catalog.create_table("ns.s", pa.schema([("s", pa.string())]))
    table.append(pa.table({"s": ["a"]}))
    file = next(iter(table.scan().plan_files())).file
    steps: list[int] = []
    real = _State.may_change

    def counted(self: _State, bounds: tuple[Any, Any]) -> bool:
        steps.append(1)
        return real(self, bounds)

    monkeypatch.setattr(_State, "may_change", counted)
    for more in (20, 100):
        steps.clear()
        table.append_files([evolve(file, file_path=f"{file.file_path}?{more}-{i}") for i in range(more)])
        monkeypatch.setattr(DataScan, "_read_one", lambda *_: iter([pa.record_batch({"s": ["a"]})]))
        files = table.scan().plan().to_arrow().num_rows
        found = table.scan().aggregate("min(s)", "count(s)")
        assert found["count(s)"] == files and found["min(s)"] == "a"
        assert len(steps) <= 2 * files
