"""Planning predicates: many specs, missing columns, nested fields, residuals, long lists."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import duckdb
import pytest

from icecore.engine.expression.bind import bind
from icecore.engine.expression.build import In
from icecore.engine.expression.nodes import FALSE, TRUE, Predicate
from icecore.engine.expression.sql.fragment import ALWAYS, NEVER, BoundParameters
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)
from icecore.projections.plan.metrics_predicate import MAX_RANGES, literal_ranges
from icecore.projections.plan.predicate import manifest_predicate, plan_predicate
from icecore.projections.plan.residuals import residual

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType()),
        NestedField(2, "s", StringType()),
        NestedField(3, "ts", TimestampType()),
        NestedField(4, "f", DoubleType()),
        NestedField(5, "u", UUIDType()),
        NestedField(6, "need", IntegerType(), True),
        NestedField(7, "st", StructType((NestedField(8, "n", IntegerType()),))),
    )
)


def spec_of(spec_id: int, *fields: tuple[int, str]) -> PartitionSpec:
    parts = (PartitionField((i,), 1000 + k, parse_transform(t), f"p{k}") for k, (i, t) in enumerate(fields))
    return PartitionSpec(tuple(parts), spec_id)


def ask(
    text: str, row: Mapping[str, tuple[str, Any]], specs: Mapping[int, PartitionSpec] | None = None
) -> tuple[bool, list[bool], list[bool]]:
    """where, might and all for one file."""
    bound = bind(parse_filter(text), SCHEMA)
    row = {"spec_id": ("INTEGER", 0), **row}
    plan = plan_predicate(bound, specs or {}, SCHEMA, {n: k for n, (k, _) in row.items()})
    values = ", ".join(f'$v{i}::{kind} AS "{n}"' for i, (n, (kind, _)) in enumerate(row.items()))
    parameters = BoundParameters()
    select = ", ".join(map(parameters.write, (plan.where, *plan.leaf_might, *plan.leaf_all)))
    given = {f"v{i}": v for i, (_, v) in enumerate(row.values())}
    with duckdb.connect() as c:
        found = c.execute(f"SELECT {select} FROM (SELECT {values})", {**parameters.values, **given}).fetchone() or ()
    n = len(plan.leaves)
    return found[0], list(found[1 : n + 1]), list(found[n + 1 :])


def big(lower: Any, upper: Any, nulls: Any = 0, total: Any = 10, field_id: int = 1) -> dict[str, tuple[str, Any]]:
    kind = {1: "BIGINT", 2: "VARCHAR", 3: "BIGINT", 4: "DOUBLE", 5: "BLOB", 6: "INTEGER", 8: "INTEGER"}[field_id]
    counts = {f"nulls_{field_id}": ("BIGINT", nulls), f"values_{field_id}": ("BIGINT", total)}
    return {f"lower_{field_id}": (kind, lower), f"upper_{field_id}": (kind, upper), **counts}


def test_a_spec_applies_to_its_own_files_only() -> None:
    """SP1: the spec of each file's manifest; files of a spec that is not known are kept."""
    specs = {0: spec_of(0), 1: spec_of(1, (1, "bucket[4]")), 2: spec_of(2, (1, "identity"))}
    bucket = specs[1].fields[0].transform.apply(LongType(), 7)
    for spec_id, value, kept in (
        (0, None, True),
        (1, bucket, True),
        (1, (bucket + 1) % 4, False),
        (1, None, False),
        (2, 7, True),
        (2, 8, False),
        (9, None, True),
    ):
        row = {"spec_id": ("INTEGER", spec_id), "part_1000": ("BIGINT" if spec_id == 2 else "INTEGER", value)}
        assert ask("id = 7", row, {spec_id: specs[spec_id]} if spec_id in specs else specs)[0] is kept


def test_specs_with_the_same_projection_share_one_condition() -> None:
    bound = bind(parse_filter("id = 7"), SCHEMA)
    specs = {i: spec_of(i, (1, "identity")) for i in (0, 1, 2)}
    plan = plan_predicate(bound, specs, SCHEMA, {"part_1000": "BIGINT"})
    where = BoundParameters().write(plan.where)
    assert where == '(spec_id NOT IN (0, 1, 2) OR ("part_1000" = $p0::BIGINT AND "part_1000" IS NOT NULL))'
    assert plan.leaf_all[0].text.startswith("coalesce((spec_id IN (0, 1, 2) AND")


def test_what_is_not_known_is_kept_and_promises_nothing() -> None:
    of_id = ("id = 1", "id <> 1", "id IS NULL", "id IS NOT NULL", "id NOT IN (1, 2)")
    bounds = {"lower_1": ("BIGINT", None), "upper_1": ("BIGINT", None), "nulls_1": ("BIGINT", None)}
    # Of how many values nobody counted.
    counts = {"nulls_1": ("BIGINT", 5), "nans_4": ("BIGINT", 5)}
    for row in ({}, bounds, counts):
        for text in (*of_id, "NOT (f > 5)", "f = 1", "isnan(f)"):
            where, might, surely = ask(text, row)
            assert where is True and might == [True] and surely == [False], (text, row)


def test_a_column_of_another_type_is_taken_as_not_there() -> None:
    """Bounds of what was a date are days, not microseconds; those of what was an int are numbers as before."""
    days = {"lower_3": ("INTEGER", 19723), "upper_3": ("INTEGER", 19723)}
    assert ask("ts < TIMESTAMP '1970-01-02'", days)[0] is True
    ints = {"lower_1": ("INTEGER", 5), "upper_1": ("INTEGER", 9)}
    assert ask("id > 9", ints)[0] is False


def test_bounds_of_a_column_say_nothing_of_what_a_transform_makes_of_it() -> None:
    for text in ("bucket(16, id) = 3", "bucket(16, id) <> 3"):
        assert ask(text, big(104, 104)) == (True, [True], [False]), text


def test_all_null_files_match_no_comparison() -> None:
    row = big(None, None, nulls=10)
    for text in ("id = 1", "id <> 1", "id < 1", "id NOT IN (1, 2)", "id IS NOT NULL"):
        assert ask(text, row)[0] is False
    assert ask("id IS NULL", row) == (True, [True], [True])
    assert ask("id IS NULL", big(1, 2))[0] is False


def test_equal_bounds_prove_equality_where_no_null_is_there() -> None:
    assert ask("id = 5", big(5, 5)) == (True, [True], [True])
    assert ask("id = 5", big(5, 5, nulls=1)) == (True, [True], [False])
    assert ask("id <> 5", big(5, 5, nulls=1))[0] is False
    assert ask("id IN (4, 5)", big(5, 5)) == (True, [True], [True])
    assert ask("id NOT IN (4, 5)", big(5, 5))[0] is False
    assert ask("id NOT IN (4, 9)", big(5, 8)) == (True, [True], [True])


def test_nan_bounds_say_nothing() -> None:
    """Old writers left NaN in; it must not look like a bound above all numbers."""
    nan = float("nan")
    row = {**big(nan, nan, field_id=4), "nans_4": ("BIGINT", 0)}
    for text in ("f = 1", "f < 1", "f > 1", "f <> 1", "f IN (1, 2)"):
        assert ask(text, row) == (True, [True], [False]), text


def test_nan_counts_decide_about_greater() -> None:
    row = big(1.0, 2.0, field_id=4)
    assert ask("f > 5", row)[0] is True
    assert ask("f > 5", {**row, "nans_4": ("BIGINT", 1)})[0] is True
    assert ask("f > 5", {**row, "nans_4": ("BIGINT", 0)})[0] is False
    assert ask("f < 5", {**row, "nans_4": ("BIGINT", 1)})[2] == [False]
    assert ask("f > 0", {**row, "nans_4": ("BIGINT", 1)})[2] == [True]


def test_uuid_bounds_in_javas_order_lose_no_row() -> None:
    """Java compares UUIDs as two signed longs: bounds of its files may be the wrong way round."""
    small, large, middle = (uuid.UUID(int=v << 120) for v in (0x10, 0xF0, 0x70))
    low, high = (uuid.UUID(int=(0x30 << 120) + v) for v in (2**63 + 5, 5))
    java = big(large.bytes, middle.bytes, field_id=5)
    for v in (small, large, middle):
        assert ask(f"u = '{v}'", java)[0] is True
    same_half = big(low.bytes, high.bytes, field_id=5)
    assert ask(f"u = '{uuid.UUID(int=(0x30 << 120) + 2**63 + 9)}'", same_half)[0] is True
    assert ask(f"u = '{small}'", big(middle.bytes, large.bytes, field_id=5))[0] is False
    assert ask(f"u < '{small}'", big(middle.bytes, large.bytes, field_id=5))[0] is False


def test_fields_in_structs_prune_and_promise_nothing() -> None:
    row = big(1, 5, field_id=8)
    assert ask("st.n = 7", row)[0] is False
    assert ask("st.n > 0", row) == (True, [True], [False])
    assert ask("st IS NULL", row) == (True, [True], [False])


@pytest.mark.parametrize(("rows", "kept"), [(10, False), (12, True), (None, True)])
def test_nulls_of_fields_in_structs_show_in_the_number_of_rows(rows: int | None, kept: bool) -> None:
    """Java counts nothing of a field in ORC where its struct is null."""
    count = {} if rows is None else {"record_count": ("BIGINT", rows)}
    assert ask("st.n IS NULL", big(1, 5, field_id=8) | count)[0] is kept


def test_a_summary_that_names_no_value_leaves_no_manifest_out() -> None:
    """Some writers fill summaries with nothing; nulls and bounds that are named are believed."""

    def kept(text: str, null: bool | None, nan: bool | None, lower: float | None) -> bool:
        bound = bind(parse_filter(text), SCHEMA)
        parameters = BoundParameters()
        where = parameters.write(manifest_predicate(bound, spec_of(0, (4, "identity")), SCHEMA))
        row = {"null": null, "nan": nan, "lower": lower}
        columns = (
            "$null::BOOLEAN AS pf0_contains_null, $nan::BOOLEAN AS pf0_contains_nan, $lower::DOUBLE AS pf0_lower, "
            "$lower::DOUBLE AS pf0_upper, $lower IS NULL AS pf0_no_bounds"
        )
        with duckdb.connect() as c:
            (found,) = c.execute(f"SELECT {where} FROM (SELECT {columns})", parameters.values | row).fetchone() or ()
        return bool(found)

    filters = ("f IS NULL", "f = 1", "isnan(f)")
    assert [[kept(f, *s) for f in filters] for s in ((False, None, None), (False, False, None))] == [[True] * 3] * 2
    assert [kept(f, True, False, None) for f in filters] == [True, False, False]
    assert [kept(f, False, False, 2.0) for f in filters] == [False, False, False]


def test_a_required_column_has_no_nulls() -> None:
    row = {n: v for n, v in big(1, 5, field_id=6).items() if not n.startswith("nulls")}
    assert ask("need > 0", row) == (True, [True], [True])


@pytest.mark.parametrize("value", ["a", 5, DateType()])
def test_literal_ranges_hold_every_literal(value: Any) -> None:
    literals = tuple(f"k{i:04d}" for i in range(500)) if value == "a" else tuple(i * i for i in range(500))
    ranges = literal_ranges(literals)
    assert len(ranges) <= MAX_RANGES
    assert all(any(a <= v <= z for a, z in ranges) for v in literals)
    assert ranges == sorted(ranges)


def test_long_in_lists_are_one_parameter_and_prune() -> None:
    """Buckets of the literals, and ranges cut at the widest gaps."""
    specs = {0: spec_of(0, (1, "bucket[100000]"))}
    literals = [*range(1000, 1300), *range(50_000, 50_300)]
    bound = bind(In("id", literals), SCHEMA)
    columns = {"part_1000": "INTEGER", "lower_1": "BIGINT", "upper_1": "BIGINT"}
    plan = plan_predicate(bound, specs, SCHEMA, columns)
    parameters = BoundParameters()
    where = parameters.write(plan.where)
    assert len(parameters.values) < 80 and len(where) < 8000
    bucket = specs[0].fields[0].transform.apply
    rows = [(bucket(LongType(), 1100), 1100, 1100), (bucket(LongType(), 1100), 20_000, 30_000), (-1, 1000, 1000)]
    with duckdb.connect() as c:
        c.execute("CREATE TABLE t (spec_id INTEGER, part_1000 INTEGER, lower_1 BIGINT, upper_1 BIGINT)")
        c.executemany("INSERT INTO t VALUES (0, ?, ?, ?)", rows)
        assert c.execute(f"SELECT lower_1 FROM t WHERE {where}", parameters.values).fetchall() == [(1100,)]


def test_residuals() -> None:
    """SP8: bits of the leaves in their order."""
    bound = bind(parse_filter("id > 1 AND (s = 'a' OR f < 2)"), SCHEMA)
    leaves = plan_predicate(bound, {}, SCHEMA, {}).leaves
    assert [p.term.name for p in leaves] == ["id", "s", "f"]
    assert residual(bound, 0b111, 0) == bound
    assert residual(bound, 0b110, 0) == FALSE
    assert residual(bound, 0b111, 0b101) == TRUE
    left = residual(bound, 0b101, 0b001)
    assert isinstance(left, Predicate) and left.term.name == "f"


def test_constant_filters_need_no_column() -> None:
    for e, constant in ((TRUE, ALWAYS), (FALSE, NEVER)):
        plan = plan_predicate(e, {0: spec_of(0)}, SCHEMA, {})
        assert (plan.where, plan.leaves) == (constant, ())
        assert manifest_predicate(e, spec_of(0), SCHEMA) == constant


def test_manifests_of_an_unknown_transform_are_kept() -> None:
    """PT6: the inclusive projection is true."""
    bound = bind(parse_filter("id = 1"), SCHEMA)
    assert manifest_predicate(bound, spec_of(0, (1, "zorder")), SCHEMA) == ALWAYS
    assert manifest_predicate(bound, spec_of(0, (1, "void")), SCHEMA) == ALWAYS
    condition = manifest_predicate(bound, spec_of(0, (2, "identity"), (1, "identity")), SCHEMA)
    assert "pf1_lower" in condition.text and "pf0" not in condition.text
    assert {v.value for v in condition.literals} == {1}
