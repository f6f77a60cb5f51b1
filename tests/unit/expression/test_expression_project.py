"""Projections onto partitions, with PyIceberg as a peer."""

from __future__ import annotations

import itertools
from typing import Any

import pyiceberg.expressions as pe
import pytest
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection, strict_projection
from pyiceberg.partitioning import PartitionSpec as PeerSpec
from pyiceberg.schema import Schema as PeerSchema
from pyiceberg.typedef import Record

from icecore.engine.expression import build
from icecore.engine.expression.bind import bind
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.nodes import (
    FALSE,
    TRUE,
    BoundTerm,
    Expression,
    Or,
    Predicate,
    PredicateOperator,
    TypedValue,
)
from icecore.engine.expression.project import project_inclusive, project_strict
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
)

DAY = 86_400_000_000
# Times around 1970 are apart: PyIceberg does not know of the files that Java wrote wrongly.
VALUES: dict[str, list[Any]] = {
    "int": [-21, -20, -1, 0, 1, 9, 10, 11, 500],
    "long": [-21, -20, -1, 0, 1, 9, 10, 11, 2**40],
    "string": ["", "a", "ab", "abc", "abcd", "abd", "b", "é"],
    "date": [800, 821, 822, 852, 1095, 1096, 19723],
    "timestamp": [800 * DAY + v for v in (0, 1, 3_600_000_000, DAY - 1, DAY, DAY + 1, 31 * DAY, 366 * DAY)],
}
TYPES: dict[str, PrimitiveType] = {
    "int": IntegerType(),
    "long": LongType(),
    "string": StringType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}
CASES = [
    *itertools.product(["int", "long"], ["identity", "bucket[4]", "truncate[10]", "void"]),
    *itertools.product(["string"], ["identity", "bucket[4]", "truncate[2]"]),
    *itertools.product(["date"], ["year", "month", "day", "bucket[4]"]),
    *itertools.product(["timestamp"], ["year", "month", "day", "hour"]),
]
COMPARISONS = ("EqualTo", "NotEqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")


def spec_of(transform: str) -> PartitionSpec:
    return PartitionSpec((PartitionField((1,), 1000, parse_transform(transform), "p"),))


def project(text: str, schema: Schema, spec: PartitionSpec) -> tuple[Expression, Expression]:
    bound = bind(parse_filter(text), schema)
    return project_inclusive(bound, spec, schema), project_strict(bound, spec, schema)


def part(field_type: PrimitiveType) -> BoundTerm:
    return BoundTerm(NestedField(1000, "p", field_type), "p")


@pytest.mark.parametrize(("kind", "transform"), CASES)
def test_partitions_are_selected_as_pyiceberg_selects_them(kind: str, transform: str) -> None:
    """SP1, SP8: every comparison with every value, over every partition."""
    source, values = TYPES[kind], VALUES[kind]
    schema, spec = Schema((NestedField(1, "c", source),)), spec_of(transform)
    peer_schema = PeerSchema.model_validate(schema.to_dict())
    peer_spec = PeerSpec.model_validate(spec.to_dict())
    peer_type = PeerSchema(*peer_spec.partition_type(peer_schema).fields)
    partitions = [spec.fields[0].transform.apply(source, v) for v in values] + [None]
    names: list[tuple[str, Any]] = [(name, v) for name in COMPARISONS for v in values]
    names += [(name, (values[i], values[-1])) for name in ("In", "NotIn") for i in range(3)]
    if kind == "string":
        names += [(name, v) for name in ("StartsWith", "NotStartsWith") for v in values if v]
    for name, value in names:
        plain = [TypedValue(source, v) for v in value] if isinstance(value, tuple) else TypedValue(source, value)
        ours = bind(getattr(build, name)("c", plain), schema)
        theirs = getattr(pe, name)("c", value)
        pairs = ((project_inclusive, inclusive_projection), (project_strict, strict_projection))
        for index, (ours_of, theirs_of) in enumerate(pairs):
            projected = ours_of(ours, spec, schema)
            test = expression_evaluator(peer_type, theirs_of(peer_schema, peer_spec)(theirs), case_sensitive=True)
            for p in partitions[: len(values)]:
                mine_says = evaluate(projected, lambda _, p=p: p)  # type: ignore[misc]
                # Ours may be the sharper: prune more, promise more.
                assert mine_says == test(Record(p)) or mine_says is bool(index), (name, value, p, projected)


@pytest.mark.parametrize(
    ("text", "inclusive", "strict"),
    [
        ("c < DATE '1969-12-01'", (PredicateOperator.LT_EQ, -1), (PredicateOperator.LT, -1)),
        ("c < DATE '1970-01-01'", (PredicateOperator.LT_EQ, 0), (PredicateOperator.LT, 0)),
        ("c <= DATE '1970-03-31'", (PredicateOperator.LT_EQ, 2), (PredicateOperator.LT, 3)),
        ("c > DATE '1969-12-01'", (PredicateOperator.GT_EQ, -1), (PredicateOperator.GT, 0)),
        ("c > DATE '1969-10-31'", (PredicateOperator.GT_EQ, -2), (PredicateOperator.GT, -2)),
        ("c >= DATE '1969-12-01'", (PredicateOperator.GT_EQ, -1), (PredicateOperator.GT, -1)),
        ("c > DATE '1970-02-28'", (PredicateOperator.GT_EQ, 2), (PredicateOperator.GT, 1)),
        ("c = DATE '1969-12-15'", (PredicateOperator.IN, -1, 0), None),
        ("c = DATE '1970-01-15'", (PredicateOperator.EQ, 0), None),
        ("c <> DATE '1969-11-15'", None, (PredicateOperator.NOT_IN, -2, -1)),
        ("c IN (DATE '1969-11-15', DATE '1970-02-15')", (PredicateOperator.IN, -2, -1, 1), None),
    ],
)
def test_months_before_1970_match_files_that_were_rounded_up(text: str, inclusive: Any, strict: Any) -> None:
    """Java up to 0.10 wrote month -1 as 0: both readings must match, and neither may promise too much."""
    schema, spec, p = Schema((NestedField(1, "c", DateType()),)), spec_of("month"), part(IntegerType())
    wanted = [
        default if case is None else Predicate(case[0], p, tuple(case[1:]))
        for case, default in ((inclusive, TRUE), (strict, FALSE))
    ]
    assert list(project(text, schema, spec)) == wanted


def test_every_partition_field_of_a_column_counts() -> None:
    """The inclusive projection is their AND, the strict one their OR."""
    schema = Schema((NestedField(1, "c", TimestampType()),))
    fields = tuple(
        PartitionField((1,), 1000 + i, parse_transform(t), t) for i, t in enumerate(("year", "day", "void", "zorder"))
    )
    inclusive, strict = project("c > TIMESTAMP '2024-01-01 05:00:00'", schema, PartitionSpec(fields))
    assert len(inclusive.children) == 2 and isinstance(strict, Or)  # type: ignore[union-attr]
    assert {p.term.field.field_id for p in strict.children} == {1000, 1001}  # type: ignore[union-attr]


def test_a_predicate_on_the_partitions_own_transform_is_taken_as_it_is() -> None:
    """PT6, SP1: bucket(16, c) = 3 under bucket[16], and nothing under bucket[8] or under two arguments."""
    schema = Schema((NestedField(1, "c", LongType()), NestedField(2, "d", LongType())))
    wanted = Predicate(PredicateOperator.EQ, part(IntegerType()), (3,))
    assert project("bucket(16, c) = 3", schema, spec_of("bucket[16]")) == (wanted, wanted)
    assert project("bucket(16, c) = 3", schema, spec_of("bucket[8]")) == (TRUE, FALSE)
    many = PartitionSpec((PartitionField((1, 2), 1000, parse_transform("bucket[16]"), "p"),))
    assert project("c = 3", schema, many) == (TRUE, FALSE)


@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[2]"])
def test_nulls_are_in_the_null_partition(transform: str) -> None:
    schema, spec = Schema((NestedField(1, "c", StringType()),)), spec_of(transform)
    for found in project("c IS NULL", schema, spec):
        assert isinstance(found, Predicate) and found.op is PredicateOperator.IS_NULL
    assert project("c IS NULL", schema, spec_of("void")) == (TRUE, FALSE)


def test_a_partition_value_beyond_its_type_is_no_reason_to_prune() -> None:
    """Truncating the least int leaves the range of int."""
    schema, spec = Schema((NestedField(1, "c", IntegerType()),)), spec_of("truncate[10]")
    assert project("c = -2147483647", schema, spec) == (TRUE, FALSE)


@pytest.mark.parametrize(
    ("kind", "transform", "value", "partition"),
    [
        ("int", "truncate[10]", -(2**31), 2147483646),
        ("int", "truncate[3]", -(2**31) + 1, 2147483647),
        ("long", "truncate[10]", -(2**63) + 3, 9223372036854775806),
        ("long", "truncate[3]", -(2**63) + 1, 9223372036854775807),
        ("long", "truncate[10]", -(2**31), 2147483646),
        ("long", "truncate[3]", -(2**31) + 1, 2147483647),
    ],
)
def test_the_least_numbers_may_be_in_a_high_partition(kind: str, transform: str, value: int, partition: int) -> None:
    """PT5, SP1, SP8: the partitions are those of Iceberg 1.11.0, whose truncation leaves the range and wraps around.

    T7: a long may have been an int when its file was written.
    """
    source = TYPES[kind]
    schema, spec = Schema((NestedField(1, "c", source),)), spec_of(transform)
    for name, other in itertools.product(COMPARISONS, (value, value + 1, -21, 0, 11, 2**31 - 1)):
        bound = bind(getattr(build, name)("c", TypedValue(source, other)), schema)
        inclusive, strict = project_inclusive(bound, spec, schema), project_strict(bound, spec, schema)
        if evaluate(bound, lambda _: value):
            assert evaluate(inclusive, lambda _: partition), (name, other)
        elif evaluate(strict, lambda _: partition):
            raise AssertionError((name, other))
    below, above = project("c < 0", schema, spec)[0], project("c > 0", schema, spec)[1]
    assert evaluate(below, lambda _: -30) and not evaluate(below, lambda _: 30)
    assert evaluate(above, lambda _: 30) and not evaluate(above, lambda _: -30)
