"""Writers that bring columns to one table at once: each value is read under the column that it was written for."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from pyspark import TaskContext  # noqa: E402
from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import CommitConflictError, ValidationError  # noqa: E402
from icecore.engine.spark_source.batch_writer import TableWriter  # noqa: E402
from icecore.engine.spark_source.source_options import WRITING, SourceOptions  # noqa: E402

Row = dict[str, Any]
# A type of Arrow's and one value for each number.
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), int),
    "bigint": (pa.int64(), int),
    "float": (pa.float32(), float),
    "double": (pa.float64(), float),
    "string": (pa.string(), str),
    "struct<x:int>": (pa.struct([("x", pa.int32())]), lambda n: {"x": n}),
    "struct<y:int,x:bigint>": (pa.struct([("y", pa.int32()), ("x", pa.int64())]), lambda n: {"y": n, "x": n}),
}
names = st.sampled_from(["a", "b", "c"])
brought = st.dictionaries(names, st.sampled_from(["int", *sorted(TYPES)]), min_size=1, max_size=2)
begins = st.tuples(st.just("begin"), brought, st.booleans())
changes = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, 3)),
    st.tuples(st.just("commit"), st.integers(0, 3)),
    begins,
    st.tuples(st.just("add"), names, st.sampled_from(["int", "string"])),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("drop"), names),
)


class Written:
    """Rows that a task has written; they are not committed yet."""

    def __init__(self, warehouse: Path, number: int, columns: dict[str, str], overwrite: bool) -> None:
        made = {name: TYPES[kind] for name, kind in columns.items()}
        self.rows = [{"id": 10 * number + i} | {n: v(100 * number + i) for n, (_, v) in made.items()} for i in range(2)]
        self.overwrite = overwrite
        schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in made.items())])
        options = {"warehouse": str(warehouse), "path": "ns.t", "merge-schema": "true"}
        self.writer = TableWriter(SourceOptions.of(options, WRITING), from_arrow_schema(schema), overwrite)
        self.messages: Any = [self.writer.write(iter(pa.Table.from_pylist(self.rows, schema).to_batches()))]


def plain(row: Row) -> Row:
    """The row without nulls, which a column that came later fills."""
    found = {}
    for name, value in row.items():
        held = plain(value) if isinstance(value, dict) else value
        if held is not None:
            found[name] = held
    return found


def rows_of(table: icecore.Table) -> list[Row]:
    return [plain(row) for row in table.refresh().scan().to_arrow().sort_by("id").to_pylist()]


@contextlib.contextmanager
def a_task() -> Iterator[None]:
    context = SimpleNamespace(getLocalProperty=lambda name: None, partitionId=lambda: 0, taskAttemptId=lambda: 0)
    with mock.patch.object(TaskContext, "get", lambda: context):
        yield


@given(st.lists(begins, min_size=2, max_size=3), st.lists(changes, max_size=8), st.sampled_from([2, 3]))
@example([("begin", {"a": "int"}, False), ("begin", {"b": "int"}, False)], [], 2)
@examples(40)
def test_values_stay_in_their_columns(first: list[Any], steps: list[Any], version: int) -> None:
    """Or the commit is refused, and changes nothing."""
    with tempfile.TemporaryDirectory() as folder, a_task(), icecore.open(Path(folder) / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]), format_version=version)
        held: list[Row] = []
        open_writes: list[Written] = []
        number = 0
        for step in [*first, *steps, *[("commit", 0)] * 5]:
            match step:
                case "begin", columns, overwrite:
                    number += 1
                    with contextlib.suppress(ValidationError):
                        open_writes.append(Written(Path(folder) / "lake", number, columns, overwrite))
                case "commit", which:
                    if which < len(open_writes):
                        held = committed(table, open_writes.pop(which), held)
                case _:
                    held = changed(table.refresh(), step, held)
            assert rows_of(table) == sorted(held, key=lambda row: row["id"])


def committed(table: icecore.Table, write: Written, held: list[Row]) -> list[Row]:
    before = table.refresh().metadata
    try:
        write.writer.commit(write.messages)
    except CommitConflictError:
        write.writer.abort(write.messages)
        assert table.refresh().metadata == before
        return held
    return write.rows if write.overwrite else [*held, *write.rows]


def changed(table: icecore.Table, step: tuple[Any, ...], held: list[Row]) -> list[Row]:
    """A change of the schema by another writer, where the table takes it."""
    update = table.update_schema()
    try:
        match step:
            case "add", name, kind:
                update.add_column(name, kind).commit()
                return held
            case "rename", name, new:
                update.rename_column(name, new).commit()
                return [{new if n == name else n: v for n, v in row.items()} for row in held]
            case _, name:
                update.delete_column(name).commit()
                return [{n: v for n, v in row.items() if n != name} for row in held]
    except icecore.IcecoreError:
        return held
    raise AssertionError(step)
