"""Segments outlive every change of schema and spec: a plan from old ones is the plan from none, and loses no row."""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import parse_filter
from icecore.projections.plan.planner import Planner
from icecore.projections.segments import segment_merging

KINDS: dict[str, tuple[pa.DataType, list[Any], tuple[str, pa.DataType] | None]] = {
    "int": (pa.int32(), [-3, 0, 2, 7], ("long", pa.int64())),
    "long": (pa.int64(), [-(2**40), 0, 2, 7, 2**40], None),
    "float": (pa.float32(), [-1.5, 0.0, 2.25, float("nan")], ("double", pa.float64())),
    "double": (pa.float64(), [-1.5, 0.1, 2.25, float("nan")], None),
    "decimal(4, 2)": (pa.decimal128(4, 2), [Decimal("-1.25"), Decimal("2.00")], ("decimal(9, 2)", pa.decimal128(9, 2))),
    "decimal(9, 2)": (pa.decimal128(9, 2), [Decimal("-1.25"), Decimal("2.00"), Decimal("5000.00")], None),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29)], ("timestamp", pa.timestamp("us"))),
    "timestamp": (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12)], None),
    "string": (pa.string(), ["", "a", "ab"], None),
}
TEXT = {"date": "DATE '{}'", "timestamp": "TIMESTAMP '{}'", "string": "'{}'"}
OPERATORS = ("=", "<", ">=", "<>")


@define
class History:
    """A table under a random history, with what each row must be now."""

    draw: Any
    table: icecore.Table
    columns: dict[str, str]
    partitioned: set[str] = field(factory=set)
    rows: list[dict[str, Any]] = field(factory=list)
    names: int = 0

    def pick(self, values: Any) -> Any:
        return self.draw(st.sampled_from(sorted(values)))

    def append(self) -> None:
        schema = pa.schema([(n, KINDS[k][0]) for n, k in self.columns.items()])
        count = self.draw(st.integers(1, 3))
        # All columns but for some, so that a field is known that no file has a metric of.
        rows = [
            {n: self.draw(st.none() | st.sampled_from(KINDS[k][1])) for n, k in self.columns.items()}
            for _ in range(count)
        ]
        self.table.append(pa.Table.from_pylist(rows, schema=schema))
        self.rows += rows

    def add(self) -> None:
        self.names += 1
        name, kind = f"c{self.names}", self.pick(KINDS)
        with self.table.update_schema() as update:
            update.add_column(name, kind)
        self.columns[name] = kind
        for row in self.rows:
            row[name] = None

    def promote(self) -> None:
        able = {n for n, k in self.columns.items() if KINDS[k][2] and not (k == "date" and n in self.partitioned)}
        if not able:
            return
        name = self.pick(able)
        kind, _ = KINDS[self.columns[name]][2]  # type: ignore[misc]
        with self.table.update_schema() as update:
            update.update_column(name, kind)
        was, self.columns[name] = self.columns[name], kind
        for row in self.rows:
            if was == "date" and row.get(name) is not None:
                row[name] = dt.datetime.combine(row[name], dt.time())

    def rename(self) -> None:
        name = self.pick(self.columns)
        self.names += 1
        new = f"r{self.names}"
        with self.table.update_schema() as update:
            update.rename_column(name, new)
        self.columns = {new if n == name else n: k for n, k in self.columns.items()}
        self.partitioned = {new if n == name else n for n in self.partitioned}
        for row in self.rows:
            row[new] = row.pop(name)

    def drop(self) -> None:
        able = self.columns.keys() - self.partitioned
        if len(self.columns) < 2 or not able:
            return
        name = self.pick(able)
        with self.table.update_schema() as update:
            update.delete_column(name)
        del self.columns[name]
        for row in self.rows:
            row.pop(name)

    def partition(self) -> None:
        able = self.columns.keys() - self.partitioned
        if not able:
            return
        name = self.pick(able)
        transforms = {"identity"} if self.columns[name] in ("float", "double") else {"identity", "bucket[4]"}
        with self.table.update_spec() as update:
            update.add_field(name, self.pick(transforms))
        self.partitioned.add(name)

    def condition(self) -> tuple[str, set[int]]:
        """A filter, and the rows that satisfy it; comparisons with NaN are left to other tests."""
        name = self.pick(self.columns)
        if self.draw(st.booleans()) and self.draw(st.booleans()):
            return f"{name} IS NULL", {i for i, r in enumerate(self.rows) if r[name] is None}
        kind = self.columns[name]
        value = self.draw(st.sampled_from([v for v in KINDS[kind][1] if v == v]))
        operator = self.draw(st.sampled_from(OPERATORS))
        matching = {
            i
            for i, r in enumerate(self.rows)
            if r[name] is not None and r[name] == r[name] and _compare(r[name], operator, value)
        }
        return f"{name} {operator} {TEXT.get(kind, '{}').format(value)}", matching


def _compare(a: Any, operator: str, b: Any) -> bool:
    return bool({"=": a == b, "<": a < b, ">=": a >= b, "<>": a != b}[operator])


STEPS = ("append", "append", "append", "add", "promote", "promote", "rename", "drop", "partition")


@pytest.mark.parametrize("in_memory", [1, 100])
@examples(3, new=42)
@given(data=st.data())
def test_plans_from_old_segments_are_those_from_none(in_memory: int, data: st.DataObject) -> None:
    """SP1, T7: warm, from segments of the past in a fresh process, and without any."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # One: each manifest gets a file of its own, and files are merged all the time. Many: all stays in memory.
        patch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", in_memory)
        with icecore.open(folder) as catalog:
            catalog.create_namespace("ns")
            columns = {
                f"k{i}": k
                for i, k in enumerate(data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4)))
            }
            schema = pa.schema([(n, KINDS[k][0]) for n, k in columns.items()])
            table = catalog.create_table("ns.t", schema, format_version=3)
            history = History(data.draw, table, columns)
            history.append()
            for _ in range(data.draw(st.integers(1, 7))):
                getattr(history, data.draw(st.sampled_from(STEPS)))()
                _check(catalog, history)


def _check(catalog: icecore.Catalog, history: History) -> None:
    text, matching = history.condition()
    table = history.table
    state, snapshot = table.state, table.current_snapshot()
    schema = state.metadata.schema()
    bound = bind(parse_filter(text), schema)
    warm = catalog._warehouse.planning.planner
    assert warm.cache is not None
    plans = []
    for planner in (
        warm,
        Planner(catalog._warehouse.repository, Path(warm.cache)),
        Planner(catalog._warehouse.repository, None),
    ):
        tasks = planner.plan(state, snapshot, bound, schema).tasks()
        plans.append(sorted((t.file.file_path, t.file.partition, str(t.residual)) for t in tasks))
        if planner is not warm:
            planner.close()
    assert repr(plans[0]) == repr(plans[2]) and repr(plans[1]) == repr(plans[2]), text
    found = table.scan(text).to_arrow().to_pylist()
    floating = {n for n, k in history.columns.items() if k in ("float", "double")}
    expected = [history.rows[i] for i in sorted(matching)]
    # NaN is greater than all numbers: rows with it may come on top.
    name = text.split(" ")[0]
    found = [r for r in found if name not in floating or r[name] is None or r[name] == r[name]]
    assert sorted(map(_text, found)) == sorted(map(_text, expected)), text


def _text(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
