"""Filters with many leaves: planned as the same filters in pieces are, whatever they are made of."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import icecore
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import FALSE, TRUE, Expression
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.sql.fragment import BoundParameters
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.expression.walk import predicates, rewrite
from icecore.engine.queries import duck
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import DoubleType, LongType, NestedField, PrimitiveType, StringType
from icecore.projections.plan import wide_filters
from icecore.projections.plan.predicate import plan_predicate
from icecore.projections.plan.residuals import residual

ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("n", pa.decimal128(12, 2)),
        ("d", pa.date32()),
        ("f", pa.float32()),
        ("b", pa.binary()),
    ]
)
ROWS = 400


def leaf(r: random.Random) -> str:
    i = r.randrange(-20, 120)
    return r.choice(
        [
            f"id = {i}",
            f"id {r.choice(['<', '<=', '>', '>=', '<>'])} {i}",
            f"id IN ({i}, {i + 7}, {i * 2})",
            f"id IN ({', '.join(str(i * 3 + k) for k in range(25))})",
            f"x {r.choice(['<', '>', '=', '<>', '>='])} {i / 4}",
            "isnan(x)",
            "x IS NULL",
            f"x >= {r.choice(['1e300', '-0.0', '0'])}",
            f"f < {i / 8}",
            f"s LIKE '{i}%'",
            f"s NOT LIKE '{i % 10}%'",
            f"s LIKE '%{i % 10}_' ESCAPE '!'",
            f"s >= '{i}'",
            f"s = 'é{i}😀'",
            f"n {r.choice(['<', '>='])} {i}.25",
            f"d {r.choice(['<', '>=', '='])} DATE '{1969 + i % 3}-0{1 + i % 9}-11'",
            f"b < '\\x{i % 256:02X}\\xFF'::BLOB",
        ]
    )


def wide_text(r: random.Random, shape: str) -> str:
    """A filter of some two to four times as many leaves as are written out."""
    match shape:
        case "pairs":
            return " OR ".join(f"({leaf(r)} AND {leaf(r)})" for _ in range(28))
        case "alike":
            a, b = r.randrange(100), r.randrange(100)
            return " OR ".join(f"(id = {i} AND x > {(i * a + b) % 50} AND s <> '{i}')" for i in range(28))
        case "and of ors":
            return " AND ".join(f"({leaf(r)} OR {leaf(r)} OR {leaf(r)} OR id < {i})" for i in range(26))
        case "not":
            return f"NOT ({' OR '.join(f'({leaf(r)} AND id > {i})' for i in range(28))})"
        case _:
            inner = [" OR ".join(leaf(r) for _ in range(26)) for _ in range(2)]
            return " OR ".join([f"(({inner[0]}) AND ({inner[1]}))", *(leaf(r) for _ in range(26))])


def some_rows(r: random.Random) -> list[dict[str, Any]]:
    ids = sorted(r.choices([None, *range(-10, 130)], k=ROWS), key=lambda v: (v is None, v))
    special = [None, float("nan"), float("inf"), -0.0]
    return [
        {
            "id": i,
            "x": r.choice([*special, float(r.randrange(30)), 1e300]) if r.random() < 0.3 else (i or 0) / 4,
            "s": r.choice([None, str(i), f"é{i}😀"]),
            "n": None if i is None else round(i * 1.25, 2),
            "d": None if r.random() < 0.1 else r.randrange(-400, 800),
            "f": r.choice([None, float("nan"), r.randrange(-50, 50) / 8]),
            "b": None if i is None else bytes([i % 256, r.randrange(256)]),
        }
        for i in ids
    ]


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {f.name: [row[f.name] for row in rows] for f in ARROW}
    numbers = pa.array(columns["n"], pa.float64()).cast(pa.decimal128(12, 2))
    return pa.table({n: numbers if n == "n" else pa.array(v, ARROW.field(n).type) for n, v in columns.items()})


PLAIN, HASHED, CUT = (), ("bucket(4, id)",), ("truncate(10, id)", "truncate(1, s)")


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A table of a dozen appends, each of some ids, with a spec that evolved on the way."""
    folder = tmp_path_factory.mktemp("wide")
    rows = arrow(some_rows(random.Random(str(request.param))))
    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        made = catalog.create_table("ns.t", ARROW)
        for start in range(0, ROWS, 40):
            if start == 80:
                with made.update_spec() as update:
                    for term in request.param:
                        update.add_field(term)
            made.append(rows.slice(start, 40))
        yield made, rows


def planned(table: icecore.Table, text: str) -> tuple[Any, dict[str, Expression]]:
    scan = table.scan(text, selected_fields=("id", "s"))
    return scan, {t.file.file_path: t.residual for t in scan.plan_files()}


@pytest.mark.parametrize(
    ("table", "shape"),
    [
        (PLAIN, "mixed"),
        (PLAIN, "and of ors"),
        (HASHED, "alike"),
        (HASHED, "not"),
        (CUT, "pairs"),
        (CUT, "and of ors"),
    ],
    indirect=["table"],
    ids=str,
)
def test_SP1_SP8_wide_filters_plan_as_written_out(table: Any, monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """Files and residuals are those of the conditions one by one; the rows are DuckDB's.

    Each shape is asked of one kind of partitions, since what makes a filter wide knows of none: the longest of two.
    """
    made, rows = table
    text = wide_text(random.Random(shape), shape)
    scan, found = planned(made, text)
    with monkeypatch.context() as narrow:
        narrow.setattr(wide_filters, "WIDE", 10**9)
        other, written_out = planned(made, text)
    assert found == written_out
    assert scan.planned.counts.files_planned == other.planned.counts.files_planned
    con = duckdb.connect()
    con.register("rows", rows)
    expected = sorted(con.execute(f"SELECT id, s FROM rows WHERE {text}").fetchall(), key=repr)
    assert sorted(((row["id"], row["s"]) for row in scan.to_arrow().to_pylist()), key=repr) == expected
    assert scan.count() == len(expected)


def random_expression(r: random.Random, leaves: list[Expression], depth: int) -> Expression:
    if depth == 0 or r.random() < 0.2:
        return r.choice(leaves)
    return r.choice([and_, or_])(*(random_expression(r, leaves, depth - 1) for _ in range(r.randrange(2, 6))))


@pytest.mark.parametrize("seed", range(40))
def test_SP8_residuals_are_those_of_replaced_leaves(seed: int) -> None:
    """Against the plain definition: each leaf that is decided replaced by what it is."""
    r = random.Random(seed)
    texts = [f"{c} {op} {i}" for c in ("id", "x") for op in ("<", ">=", "=", "<>") for i in range(4)]
    leaves = [bind(parse_filter(t), schema()) for t in [*texts, "s IS NULL", "s LIKE 'a%'"]]
    bound = random_expression(r, leaves, r.randrange(5))
    different = predicates(bound)
    for _ in range(10):
        might = r.getrandbits(len(different)) | r.choice([0, r.getrandbits(len(different))])
        surely = r.getrandbits(len(different)) & r.getrandbits(len(different))
        decided: dict[Expression, Expression] = {
            p: FALSE if not might >> i & 1 else TRUE for i, p in enumerate(different) if (~might | surely) >> i & 1
        }
        plain = rewrite(bound, lambda p, decided=decided: decided.get(p, p)) if decided else bound  # type: ignore[misc]
        assert residual(bound, might, surely) == plain


def schema() -> Schema:
    fields: tuple[tuple[str, PrimitiveType], ...] = (("id", LongType()), ("x", DoubleType()), ("s", StringType()))
    return Schema(tuple(NestedField(i, n, t) for i, (n, t) in enumerate(fields, 1)), 0)


@pytest.mark.parametrize("table", [CUT], indirect=True, ids=str)
def test_wide_filters_are_little_text(table: Any) -> None:
    """DuckDB took some 3 ms for each leaf that was written out, which was 500 letters of SQL and more."""
    made, _ = table
    text = " OR ".join(f"(id = {i} AND x > {i + 0.5} AND s LIKE '{i}%')" for i in range(300))
    bound = bind(parse_filter(text), made.schema())
    made.scan("id = 1").plan_files()
    with duck.recording() as asked:
        made.scan(bound).plan_files()
    assert sum(len(statement.sql) for statement in asked) < 60_000
    where = plan_predicate(bound, made.specs(), made.schema(), {"lower_1": "BIGINT"}).where
    assert len(BoundParameters().write(where)) < 2000
