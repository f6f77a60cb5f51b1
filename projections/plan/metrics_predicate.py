"""A predicate over a column as SQL over the column's bounds and counts.

A condition may be built for a data file from its column metrics, or for a manifest from a partition field's summary.
Bounds hold all values but nulls and NaNs between them and may be wider than the values, as truncated strings are; NaN
is greater than every number. An unknown is never a reason to leave a file out.

`x <= v OR x IS NULL` rather than `IS NOT FALSE`: DuckDB pushes the former into the scan and its zone maps.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, assert_never

from attrs import frozen

from icecore.engine.expression.nodes import Predicate, PredicateOperator
from icecore.engine.expression.sql.duckdb_sql import COMPARISONS, INLINE_LITERALS
from icecore.engine.expression.sql.fragment import (
    ALWAYS,
    NEVER,
    Fragment,
    conjunction,
    disjunction,
    joined,
    literal,
    sql,
)
from icecore.engine.expression.strings import like_prefix, string_successor
from icecore.engine.spec.types import FLOATING_TYPES, DecimalType, Type, UUIDType
from icecore.projections.segments.duckdb_types import raw_type

MAX_RANGES = 32
"""The most ranges as which IN is checked against bounds: 32 cost 40 ms over a million files, 1000 literals 2.5 s."""
_FEW_RANGES = 4

_Op = PredicateOperator


def stored_as(columns: Mapping[str, str], name: str, iceberg_type: Type) -> bool:
    """Whether a column of that name has values that compare with raw values of the type."""
    found, wanted = columns.get(name, "").upper().replace(" ", ""), raw_type(iceberg_type)
    if not found or wanted is None:
        return False
    if isinstance(iceberg_type, DecimalType):
        return found.startswith("DECIMAL(")
    # A column from before a promotion holds the same numbers, except where it was a date.
    narrower = {"LONG": "INTEGER", "DOUBLE": "FLOAT"}.get(str(iceberg_type).upper())
    return found in (wanted, narrower)


def literal_of(iceberg_type: Type, value: Any) -> Fragment:
    """A raw literal of a type that planning tables have."""
    return literal(_type_of(iceberg_type), _raw(value))


def among(column: str, iceberg_type: Type, values: tuple[Any, ...]) -> Fragment:
    """`column IN values`."""
    if len(values) <= INLINE_LITERALS:
        return sql(f"{column} IN (?)", joined(", ", [literal_of(iceberg_type, v) for v in values]))
    listed = literal(f"{_type_of(iceberg_type)}[]", tuple(map(_raw, values)))
    return sql(f"{column} IN (SELECT unnest(?))", listed)


def _type_of(iceberg_type: Type) -> str:
    raw = raw_type(iceberg_type)
    assert raw is not None
    return raw


def _raw(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


@frozen
class Bounds:
    """The bounds and counts of a column, as SQL over one row of a table.

    `lower` and `upper` are columns, or None. The `may_` conditions are never NULL, and true where it is not known; the
    others are true only where it is known, else false or NULL.
    """

    type: Type
    lower: str | None = None
    upper: str | None = None
    may_have_nulls: Fragment = ALWAYS
    may_have_values: Fragment = ALWAYS
    may_have_nans: Fragment = ALWAYS
    may_have_numbers: Fragment = ALWAYS
    no_nulls: Fragment = NEVER
    no_nans: Fragment = NEVER
    only_nulls: Fragment = NEVER
    only_nans: Fragment = NEVER

    @property
    def is_floating(self) -> bool:
        """Whether the column is of floating-point numbers."""
        return isinstance(self.type, FLOATING_TYPES)


def might_match(p: Predicate, b: Bounds) -> Fragment:
    """A condition, never NULL, that holds of each file with a row that satisfies the leaf."""
    some = conjunction(b.may_have_values, b.may_have_numbers)
    match p.op:
        case _Op.IS_NULL:
            return b.may_have_nulls
        case _Op.NOT_NULL | _Op.NOT_LIKE:
            return b.may_have_values
        case _Op.IS_NAN:
            return conjunction(b.may_have_nans, b.may_have_values)
        case _Op.NOT_NAN:
            return some
        case _Op.LT | _Op.LT_EQ:
            return conjunction(_lower_may(b, COMPARISONS[p.op], p.literals[0]), some)
        case _Op.GT | _Op.GT_EQ:
            upper = _upper_may(b, COMPARISONS[p.op], p.literals[0])
            return conjunction(disjunction(upper, b.may_have_nans), b.may_have_values)
        case _Op.EQ | _Op.IN:
            return conjunction(_in_range(b, p.literals), some)
        case _Op.NOT_EQ | _Op.NOT_IN:
            return conjunction(disjunction(_not_only(b, p.literals), b.may_have_nans), b.may_have_values)
        case _Op.STARTS_WITH | _Op.LIKE:
            prefix = like_prefix(*p.literals) if p.op is _Op.LIKE else p.literals[0]
            return conjunction(_may_start_with(b, prefix), b.may_have_values)
        case _Op.NOT_STARTS_WITH:
            return conjunction(_may_not_start_with(b, p.literals[0]), b.may_have_values)
        case _:
            assert_never(p.op)


def all_match(p: Predicate, b: Bounds) -> Fragment:
    """A condition, maybe NULL, that holds only where every value satisfies the leaf."""
    numbers = conjunction(b.no_nulls, b.no_nans)
    match p.op:
        case _Op.IS_NULL:
            return b.only_nulls
        case _Op.NOT_NULL:
            return b.no_nulls
        case _Op.IS_NAN:
            return b.only_nans
        case _Op.NOT_NAN:
            return numbers
        case _Op.LT | _Op.LT_EQ:
            return conjunction(numbers, _upper_is(b, COMPARISONS[p.op], p.literals[0]))
        case _Op.GT | _Op.GT_EQ:
            # NaN is greater than every number.
            lower = _lower_is(b, COMPARISONS[p.op], p.literals[0])
            return conjunction(b.no_nulls, disjunction(lower, b.only_nans))
        case _Op.EQ | _Op.IN:
            return conjunction(numbers, _is_one_of(b, p.literals))
        case _Op.NOT_EQ | _Op.NOT_IN:
            outside = conjunction(*(_outside(b, a, z) for a, z in literal_ranges(p.literals)))
            return conjunction(b.no_nulls, disjunction(outside, b.only_nans))
        case _Op.STARTS_WITH:
            return conjunction(b.no_nulls, _all_start_with(b, p.literals[0]))
        case _Op.NOT_STARTS_WITH | _Op.NOT_LIKE:
            prefix = like_prefix(*p.literals) if p.op is _Op.NOT_LIKE else p.literals[0]
            return conjunction(b.no_nulls, _none_starts_with(b, prefix))
        case _Op.LIKE:
            return NEVER
        case _:
            assert_never(p.op)


def literal_ranges(literals: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Ranges that hold all of the sorted literals: one for each if they are few, else cut at the widest gaps."""
    if len(literals) <= MAX_RANGES:
        return [(v, v) for v in literals]
    first = literals[0]
    if isinstance(first, (int, float, Decimal)):
        gaps = sorted(range(1, len(literals)), key=lambda i: literals[i - 1] - literals[i])[: MAX_RANGES - 1]
        cuts = [0, *sorted(gaps), len(literals)]
    else:
        cuts = sorted({len(literals) * i // MAX_RANGES for i in range(MAX_RANGES + 1)})
    return [(literals[a], literals[z - 1]) for a, z in pairwise(cuts)]


def _lower_may(b: Bounds, op: str, value: Any) -> Fragment:
    """`lower op value`, or not known."""
    if b.lower is None or (isinstance(b.type, UUIDType) and b.upper is None):
        return ALWAYS
    if isinstance(b.type, UUIDType):
        return _uuid_may(b, sql(f"{b.lower} <= ?", literal_of(b.type, _last_uuid(value))))
    unknown = f"{b.lower} IS NULL"
    if b.is_floating:
        # A NaN bound comes from a writer that did not leave NaN out: it says nothing.
        unknown += f" OR {b.lower} > 'Infinity'::{raw_type(b.type)}"
    return sql(f"({b.lower} {op} ? OR {unknown})", literal_of(b.type, value))


def _upper_may(b: Bounds, op: str, value: Any) -> Fragment:
    """`upper op value`, or not known; a NaN bound passes every such test."""
    if b.upper is None or (isinstance(b.type, UUIDType) and b.lower is None):
        return ALWAYS
    if isinstance(b.type, UUIDType):
        return _uuid_may(b, sql(f"{b.upper} >= ?", literal_of(b.type, _first_uuid(value))))
    return sql(f"({b.upper} {op} ? OR {b.upper} IS NULL)", literal_of(b.type, value))


def _uuid_may(b: Bounds, test: Fragment) -> Fragment:
    """Java orders UUIDs as two signed longs, the spec as unsigned bytes; either may have made the bounds.

    Where the first halves have different signs the two orders disagree, which shows as bounds that are the wrong way
    round. Otherwise they agree on the first half, and the second is not looked at. One bound alone doesn't show it.
    """
    unknown = f"{b.lower} IS NULL OR {b.upper} IS NULL"
    return sql(f"(? OR {unknown} OR {b.lower} > {b.upper})", test)


def _first_uuid(value: uuid.UUID) -> uuid.UUID:
    return uuid.UUID(bytes=value.bytes[:8] + b"\x00" * 8)


def _last_uuid(value: uuid.UUID) -> uuid.UUID:
    return uuid.UUID(bytes=value.bytes[:8] + b"\xff" * 8)


def _in_range(b: Bounds, literals: tuple[Any, ...]) -> Fragment:
    def within(first: Any, last: Any) -> Fragment:
        return conjunction(_lower_may(b, "<=", last), _upper_may(b, ">=", first))

    ranges = literal_ranges(literals)
    whole = within(ranges[0][0], ranges[-1][1])
    each = disjunction(*(within(a, z) for a, z in ranges))
    return each if len(ranges) <= _FEW_RANGES else conjunction(whole, each)


def _not_only(b: Bounds, literals: tuple[Any, ...]) -> Fragment:
    """A condition that there may be a value beside the literals; equal bounds leave room for a single value."""
    if b.lower is None or b.upper is None:
        return ALWAYS
    unknown = f"{b.lower} IS NULL OR {b.upper} IS NULL"
    if len(literals) == 1:
        value = literal_of(b.type, literals[0])
        return sql(f"({b.lower} <> ? OR {b.upper} <> ? OR {unknown})", value, value)
    return sql(f"({b.lower} <> {b.upper} OR {unknown} OR NOT (?))", among(b.lower, b.type, literals))


def _may_start_with(b: Bounds, prefix: str) -> Fragment:
    if not prefix:
        return ALWAYS
    after = string_successor(prefix)
    lower = ALWAYS if after is None else _lower_may(b, "<", after)
    return conjunction(lower, _upper_may(b, ">=", prefix))


def _may_not_start_with(b: Bounds, prefix: str) -> Fragment:
    after = string_successor(prefix)
    lower = _lower_may(b, "<", prefix)
    return lower if after is None else disjunction(lower, _upper_may(b, ">=", after))


def _upper_is(b: Bounds, op: str, value: Any) -> Fragment:
    if b.upper is None or isinstance(b.type, UUIDType):
        return NEVER
    return sql(f"{b.upper} {op} ?", literal_of(b.type, value))


def _lower_is(b: Bounds, op: str, value: Any) -> Fragment:
    if b.lower is None or isinstance(b.type, UUIDType):
        return NEVER
    test = sql(f"{b.lower} {op} ?", literal_of(b.type, value))
    return sql(f"(? AND {b.lower} <= 'Infinity'::{raw_type(b.type)})", test) if b.is_floating else test


def _is_one_of(b: Bounds, literals: tuple[Any, ...]) -> Fragment:
    """Equal bounds that are a literal leave room for that value alone."""
    if b.lower is None or b.upper is None:
        return NEVER
    if len(literals) == 1:
        value = literal_of(b.type, literals[0])
        return sql(f"({b.lower} = ? AND {b.upper} = ?)", value, value)
    return sql(f"({b.lower} = {b.upper} AND ?)", among(b.lower, b.type, literals))


def _outside(b: Bounds, first: Any, last: Any) -> Fragment:
    return disjunction(_upper_is(b, "<", first), _lower_is(b, ">", last))


def _all_start_with(b: Bounds, prefix: str) -> Fragment:
    after = string_successor(prefix)
    upper = ALWAYS if after is None else _upper_is(b, "<", after)
    return conjunction(_lower_is(b, ">=", prefix), upper)


def _none_starts_with(b: Bounds, prefix: str) -> Fragment:
    after = string_successor(prefix)
    if not prefix:
        return NEVER
    above = NEVER if after is None else _lower_is(b, ">=", after)
    return disjunction(_upper_is(b, "<", prefix), above)
