"""What bounds and counts say of a predicate, as SQL.

A condition may be built for a data file from its column metrics, or for a manifest from a partition field's summary.
Bounds hold all values but nulls and NaNs between them and may be wider than the values, as truncated strings are; NaN
is greater than every number. What is not known is never a reason to leave a file out.

`x <= v OR x IS NULL` rather than `IS NOT FALSE`: DuckDB pushes the former into the scan and its zone maps.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any, assert_never

from attrs import define, field, frozen

from icecore.engine.expression.nodes import Predicate, PredicateOperator
from icecore.engine.expression.sql.duckdb_sql import COMPARISONS, INLINE_LITERALS, add_parameter
from icecore.engine.expression.strings import like_prefix, string_successor
from icecore.engine.spec.types import FLOATING_TYPES, DecimalType, Type, UUIDType
from icecore.projections.segments.duckdb_types import raw_type

MAX_RANGES = 32
"""IN is checked against bounds as so many ranges at most: 32 cost 40 ms over a million files, 1000 literals 2.5 s."""
_FEW_RANGES = 4

_Op = PredicateOperator


def stored_as(columns: Mapping[str, str], name: str, iceberg_type: Type) -> bool:
    """Whether there is a column of that name with values that compare with raw values of the type."""
    found, wanted = columns.get(name, "").upper().replace(" ", ""), raw_type(iceberg_type)
    if not found or wanted is None:
        return False
    if isinstance(iceberg_type, DecimalType):
        return found.startswith("DECIMAL(")
    # A column from before a promotion holds the same numbers, except where it was a date.
    narrower = {"LONG": "INTEGER", "DOUBLE": "FLOAT"}.get(str(iceberg_type).upper())
    return found in (wanted, narrower)


@define
class Values:
    """Raw literals as parameters; the same value of a type is bound once."""

    parameters: dict[str, Any] = field(factory=dict)
    prefix: str = "p"
    _known: dict[tuple[str, str], str] = field(factory=dict)

    def one(self, iceberg_type: Type, value: Any) -> str:
        """A literal as `$p0::BIGINT`."""
        raw = raw_type(iceberg_type)
        assert raw is not None
        key = (raw, repr(value))
        if key not in self._known:
            self._known[key] = f"{add_parameter(self.parameters, _raw(value), self.prefix)}::{raw}"
        return self._known[key]

    def among(self, column: str, iceberg_type: Type, values: tuple[Any, ...]) -> str:
        """`column IN values`."""
        if len(values) <= INLINE_LITERALS:
            return f"{column} IN ({', '.join(self.one(iceberg_type, v) for v in values)})"
        raw = raw_type(iceberg_type)
        ref = add_parameter(self.parameters, [_raw(v) for v in values], self.prefix)
        return f"{column} IN (SELECT unnest({ref}::{raw}[]))"


def _raw(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def conjunction(*parts: str) -> str:
    """AND, with constants folded."""
    kept = [p for p in dict.fromkeys(parts) if p != "TRUE"]
    if "FALSE" in kept:
        return "FALSE"
    return f"({' AND '.join(kept)})" if len(kept) > 1 else kept[0] if kept else "TRUE"


def disjunction(*parts: str) -> str:
    """OR, with constants folded."""
    kept = [p for p in dict.fromkeys(parts) if p != "FALSE"]
    if "TRUE" in kept:
        return "TRUE"
    return f"({' OR '.join(kept)})" if len(kept) > 1 else kept[0] if kept else "FALSE"


@frozen
class Bounds:
    """What is known of a column in one row of a table: SQL over that row.

    `lower` and `upper` are columns, or None. The `may_` conditions are never NULL and true where it is not known; the
    others are true or NULL where they may be and false or NULL elsewhere.
    """

    type: Type
    lower: str | None = None
    upper: str | None = None
    may_have_nulls: str = "TRUE"
    may_have_values: str = "TRUE"
    may_have_nans: str = "TRUE"
    may_have_numbers: str = "TRUE"
    no_nulls: str = "FALSE"
    no_nans: str = "FALSE"
    only_nulls: str = "FALSE"
    only_nans: str = "FALSE"

    @property
    def is_floating(self) -> bool:
        return isinstance(self.type, FLOATING_TYPES)


def might_match(p: Predicate, b: Bounds, values: Values) -> str:
    """A condition, never NULL, that holds of all rows with a value that satisfies the leaf."""
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
            return conjunction(_lower_may(b, COMPARISONS[p.op], p.literals[0], values), some)
        case _Op.GT | _Op.GT_EQ:
            upper = _upper_may(b, COMPARISONS[p.op], p.literals[0], values)
            return conjunction(disjunction(upper, b.may_have_nans), b.may_have_values)
        case _Op.EQ | _Op.IN:
            return conjunction(_in_range(b, p.literals, values), some)
        case _Op.NOT_EQ | _Op.NOT_IN:
            return conjunction(disjunction(_not_only(b, p.literals, values), b.may_have_nans), b.may_have_values)
        case _Op.STARTS_WITH | _Op.LIKE:
            prefix = like_prefix(*p.literals) if p.op is _Op.LIKE else p.literals[0]
            return conjunction(_may_start_with(b, prefix, values), b.may_have_values)
        case _Op.NOT_STARTS_WITH:
            return conjunction(_may_not_start_with(b, p.literals[0], values), b.may_have_values)
        case _:
            assert_never(p.op)


def all_match(p: Predicate, b: Bounds, values: Values) -> str:
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
            return conjunction(numbers, _upper_is(b, COMPARISONS[p.op], p.literals[0], values))
        case _Op.GT | _Op.GT_EQ:
            # NaN is greater than every number.
            lower = _lower_is(b, COMPARISONS[p.op], p.literals[0], values)
            return conjunction(b.no_nulls, disjunction(lower, b.only_nans))
        case _Op.EQ | _Op.IN:
            return conjunction(numbers, _is_one_of(b, p.literals, values))
        case _Op.NOT_EQ | _Op.NOT_IN:
            outside = conjunction(*(_outside(b, a, z, values) for a, z in literal_ranges(p.literals)))
            return conjunction(b.no_nulls, disjunction(outside, b.only_nans))
        case _Op.STARTS_WITH:
            return conjunction(b.no_nulls, _all_start_with(b, p.literals[0], values))
        case _Op.NOT_STARTS_WITH:
            return conjunction(b.no_nulls, _none_starts_with(b, p.literals[0], values))
        case _Op.NOT_LIKE:
            return conjunction(b.no_nulls, _none_starts_with(b, like_prefix(*p.literals), values))
        case _Op.LIKE:
            return "FALSE"
        case _:
            assert_never(p.op)


def literal_ranges(literals: tuple[Any, ...], most: int = MAX_RANGES) -> list[tuple[Any, Any]]:
    """Sorted literals as ranges that hold them all, each its own where they are few, else cut at the widest gaps."""
    if len(literals) <= most:
        return [(v, v) for v in literals]
    first = literals[0]
    if isinstance(first, (int, float, Decimal)):
        gaps = sorted(range(1, len(literals)), key=lambda i: literals[i - 1] - literals[i])[: most - 1]
        cuts = [0, *sorted(gaps), len(literals)]
    else:
        cuts = sorted({len(literals) * i // most for i in range(most + 1)})
    return [(literals[a], literals[z - 1]) for a, z in pairwise(cuts)]


def _lower_may(b: Bounds, op: str, value: Any, values: Values) -> str:
    """`lower op value`, or not known."""
    if b.lower is None or (isinstance(b.type, UUIDType) and b.upper is None):
        return "TRUE"
    if isinstance(b.type, UUIDType):
        return _uuid_may(b, f"{b.lower} <= {values.one(b.type, _last_uuid(value))}")
    test = f"{b.lower} {op} {values.one(b.type, value)} OR {b.lower} IS NULL"
    # A NaN bound comes from a writer that did not leave NaN out: it says nothing.
    return f"({test} OR {b.lower} > 'Infinity'::{raw_type(b.type)})" if b.is_floating else f"({test})"


def _upper_may(b: Bounds, op: str, value: Any, values: Values) -> str:
    """`upper op value`, or not known; a NaN bound passes every such test."""
    if b.upper is None or (isinstance(b.type, UUIDType) and b.lower is None):
        return "TRUE"
    if isinstance(b.type, UUIDType):
        return _uuid_may(b, f"{b.upper} >= {values.one(b.type, _first_uuid(value))}")
    return f"({b.upper} {op} {values.one(b.type, value)} OR {b.upper} IS NULL)"


def _uuid_may(b: Bounds, test: str) -> str:
    """Java orders UUIDs as two signed longs, the spec as unsigned bytes; either may have made the bounds.

    Where the first halves have different signs the two orders disagree, which shows as bounds that are the wrong way
    round. Otherwise they agree on the first half, and the second is not looked at. One bound alone doesn't show it.
    """
    unknown = f"{b.lower} IS NULL OR {b.upper} IS NULL"
    return f"({test} OR {unknown} OR {b.lower} > {b.upper})"


def _first_uuid(value: uuid.UUID) -> uuid.UUID:
    return uuid.UUID(bytes=value.bytes[:8] + b"\x00" * 8)


def _last_uuid(value: uuid.UUID) -> uuid.UUID:
    return uuid.UUID(bytes=value.bytes[:8] + b"\xff" * 8)


def _in_range(b: Bounds, literals: tuple[Any, ...], values: Values) -> str:
    def within(first: Any, last: Any) -> str:
        return conjunction(_lower_may(b, "<=", last, values), _upper_may(b, ">=", first, values))

    ranges = literal_ranges(literals)
    whole = within(ranges[0][0], ranges[-1][1])
    each = disjunction(*(within(a, z) for a, z in ranges))
    return each if len(ranges) <= _FEW_RANGES else conjunction(whole, each)


def _not_only(b: Bounds, literals: tuple[Any, ...], values: Values) -> str:
    """Whether there may be a value that is none of the literals; equal bounds leave room for a single value."""
    if b.lower is None or b.upper is None:
        return "TRUE"
    unknown = f"{b.lower} IS NULL OR {b.upper} IS NULL"
    if len(literals) == 1:
        literal = values.one(b.type, literals[0])
        return f"({b.lower} <> {literal} OR {b.upper} <> {literal} OR {unknown})"
    return f"({b.lower} <> {b.upper} OR {unknown} OR NOT ({values.among(b.lower, b.type, literals)}))"


def _may_start_with(b: Bounds, prefix: str, values: Values) -> str:
    if not prefix:
        return "TRUE"
    after = string_successor(prefix)
    lower = "TRUE" if after is None else _lower_may(b, "<", after, values)
    return conjunction(lower, _upper_may(b, ">=", prefix, values))


def _may_not_start_with(b: Bounds, prefix: str, values: Values) -> str:
    after = string_successor(prefix)
    lower = _lower_may(b, "<", prefix, values)
    return lower if after is None else disjunction(lower, _upper_may(b, ">=", after, values))


def _upper_is(b: Bounds, op: str, value: Any, values: Values) -> str:
    if b.upper is None or isinstance(b.type, UUIDType):
        return "FALSE"
    return f"{b.upper} {op} {values.one(b.type, value)}"


def _lower_is(b: Bounds, op: str, value: Any, values: Values) -> str:
    if b.lower is None or isinstance(b.type, UUIDType):
        return "FALSE"
    test = f"{b.lower} {op} {values.one(b.type, value)}"
    return f"({test} AND {b.lower} <= 'Infinity'::{raw_type(b.type)})" if b.is_floating else test


def _is_one_of(b: Bounds, literals: tuple[Any, ...], values: Values) -> str:
    """Equal bounds that are a literal leave room for that value alone."""
    if b.lower is None or b.upper is None:
        return "FALSE"
    if len(literals) == 1:
        literal = values.one(b.type, literals[0])
        return f"({b.lower} = {literal} AND {b.upper} = {literal})"
    return f"({b.lower} = {b.upper} AND {values.among(b.lower, b.type, literals)})"


def _outside(b: Bounds, first: Any, last: Any, values: Values) -> str:
    return disjunction(_upper_is(b, "<", first, values), _lower_is(b, ">", last, values))


def _all_start_with(b: Bounds, prefix: str, values: Values) -> str:
    after = string_successor(prefix)
    upper = "TRUE" if after is None else _upper_is(b, "<", after, values)
    return conjunction(_lower_is(b, ">=", prefix, values), upper)


def _none_starts_with(b: Bounds, prefix: str, values: Values) -> str:
    after = string_successor(prefix)
    if not prefix:
        return "FALSE"
    above = "FALSE" if after is None else _lower_is(b, ">=", after, values)
    return disjunction(_upper_is(b, "<", prefix, values), above)
