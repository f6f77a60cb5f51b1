"""A scan gives exactly the rows that DuckDB would select of all rows, whatever happened to the table before."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from budgets import examples
from core_tables import respec
from hypothesis import given
from hypothesis import strategies as st

import icecore

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("n", pa.decimal128(12, 2)),
        ("ts", pa.timestamp("us")),
        ("b", pa.bool_()),
    ]
)
SPECS: list[list[str]] = [
    [],
    ["bucket(3, id)"],
    ["s"],
    ["x"],
    ["truncate(1, s)", "b"],
    ["day(ts)"],
    ["month(d)", "truncate(100, n)"],
    ["year(ts)", "bucket(2, s)"],
    ["truncate(5, id)"],
]
XS = [None, 0.0, -0.0, 1.5, -3.25, math.nan, math.inf, -math.inf, 1e300]
STRINGS = [None, "", "a", "ab", "abcdefghijklmnopqrstuvwxyz", "b\U0010ffff", "é", "a_c", "a%c", "😀" * 20]
DATES = [
    None,
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
]
DECIMALS = [
    None,
    Decimal("0.00"),
    Decimal("-0.01"),
    Decimal("4.99"),
    Decimal("9999999999.99"),
    Decimal("-9999999999.00"),
    Decimal("-9999999999.99"),
]
TIMES = [None, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 1, 1), dt.datetime(2024, 6, 30, 12, 30)]

rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.integers(-20, 20), st.sampled_from([-(2**63), 2**63 - 1])),
            "x": st.sampled_from(XS),
            "s": st.sampled_from(STRINGS),
            "d": st.sampled_from(DATES),
            "n": st.sampled_from(DECIMALS),
            "ts": st.sampled_from(TIMES),
            "b": st.sampled_from([None, True, False]),
        }
    ),
    max_size=8,
)
leaves = st.sampled_from(
    [
        "id = 3",
        "id > 5",
        "id IN (1, 2, -7)",
        "id NOT IN (0, 1)",
        "id <> 4",
        "id BETWEEN -3 AND 3",
        "x > 1",
        "x < 0",
        "x = 0",
        "x >= 'Infinity'",
        "x IS NULL",
        "isnan(x)",
        "x <> 1.5",
        "s = 'a'",
        "s LIKE 'a%'",
        "s LIKE 'a\\_%' ESCAPE '\\'",
        "s NOT LIKE 'a%'",
        "s >= 'ab'",
        "s IS NOT NULL",
        "s IN ('', 'é')",
        "d < DATE '1970-01-01'",
        "d = '2024-02-29'",
        "d IS NULL",
        "n > 4.985",
        "n <= -0.01",
        "n = 0",
        "ts >= TIMESTAMP '2024-01-01 00:00:00'",
        "ts < '1970-01-01'",
        "b",
        "NOT b",
        "b IS NULL",
    ]
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]} AND {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} OR {p[1]})"),
        inner.map(lambda f: f"NOT ({f})"),
    ),
    max_leaves=4,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), rows),
        st.tuples(st.just("append"), rows),
        st.tuples(st.just("delete"), filters),
        st.tuples(st.just("overwrite"), st.tuples(filters, rows)),
        st.tuples(st.just("spec"), st.sampled_from(SPECS)),
        st.tuples(st.just("rename"), st.just(None)),
    ),
    min_size=1,
    max_size=6,
)


class Model:
    """All rows, in DuckDB."""

    def __init__(self) -> None:
        self.con = duckdb.connect(":memory:")
        self.con.execute("SET TimeZone = 'UTC'")
        self.con.register("empty", SCHEMA.empty_table())
        self.con.execute("CREATE TABLE t AS SELECT * FROM empty").fetchall()

    def insert(self, data: pa.Table) -> None:
        self.con.register("incoming", data)
        self.con.execute("INSERT INTO t SELECT * FROM incoming").fetchall()

    def delete(self, condition: str) -> None:
        self.con.execute(f"DELETE FROM t WHERE {condition}").fetchall()

    def select(self, condition: str) -> list[str]:
        return canonical(self.con.sql(f"SELECT * FROM t WHERE {condition}").to_arrow_table())


def canonical(table: pa.Table) -> list[str]:
    """Rows as sorted text; NaN and both zeros by their bits."""
    return sorted(repr([float(v).hex() if isinstance(v, float) else v for v in r.values()]) for r in table.to_pylist())


@pytest.mark.parametrize(
    ("format_version", "delete_mode"),
    [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")],
)
@examples(3, new=56)
@given(first=rows, history=steps, wanted=st.lists(filters, min_size=2, max_size=4), spec=st.sampled_from(SPECS))
def test_SP1_SP8_scan_equals_duckdb(
    format_version: int,
    delete_mode: str,
    first: list[dict[str, Any]],
    history: list[tuple[str, Any]],
    wanted: list[str],
    spec: list[str],
) -> None:
    """After any history of appends, deletes, overwrites and evolved specs, a filtered scan equals DuckDB's answer."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t",
            SCHEMA,
            partition_spec=spec,
            format_version=format_version,
            properties={"write.delete.mode": delete_mode},
        )
        model = Model()
        for action, argument in [("append", first), *history]:
            apply(table, model, action, argument)
        assert canonical(table.scan().to_arrow()) == model.select("TRUE")
        for condition in wanted:
            scan = table.scan(condition)
            assert canonical(scan.to_arrow()) == model.select(condition), condition
            assert scan.count() == len(model.select(condition)), condition
        assert catalog.verify().problems == ()


def apply(table: icecore.Table, model: Model, action: str, argument: Any) -> None:
    match action:
        case "append":
            data = pa.Table.from_pylist(argument, schema=SCHEMA)
            table.append(data)
            model.insert(data)
        case "delete":
            table.delete(argument)
            model.delete(argument)
        case "overwrite":
            condition, argument = argument
            data = pa.Table.from_pylist(argument, schema=SCHEMA)
            table.overwrite(data, condition)
            model.delete(condition)
            model.insert(data)
        case "spec":
            respec(table, argument)
        case "rename":
            table.update_schema().rename_column("s", "other").commit()
            table.update_schema().rename_column("other", "s").commit()
