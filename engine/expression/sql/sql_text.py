"""Bound expressions as text: SQL with the literals in place, for people."""

from __future__ import annotations

import math
from typing import Any, assert_never

from icecore.engine.expression.depth import check_depth, operands
from icecore.engine.expression.nodes import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Not,
    Or,
    Predicate,
    PredicateOperator,
)
from icecore.engine.expression.sql.duckdb_sql import COMPARISONS
from icecore.engine.spec.transform import IdentityTransform, human_string
from icecore.engine.spec.types import (
    DateType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

MAX_LITERALS = 8
"""The number of literals that are shown of a longer IN list."""

_WORDS: dict[type[PrimitiveType], str] = {
    DateType: "DATE ",
    TimeType: "TIME ",
    TimestampType: "TIMESTAMP ",
    TimestampNanoType: "",
    TimestamptzType: "TIMESTAMPTZ ",
    TimestamptzNanoType: "",
}
_QUOTED = (*_WORDS, StringType, UUIDType)


def expression_text(e: Expression) -> str:
    """The expression on one line, as `(city = 'Oslo' OR city IS NULL) AND day >= DATE '2024-02-01'`.

    Only the first literals of a long IN list are shown.
    """

    def text(e: Expression) -> str:
        match e:
            case AlwaysTrue():
                return "TRUE"
            case AlwaysFalse():
                return "FALSE"
            case And():
                return " AND ".join(f"({text(c)})" if isinstance(c, Or) else text(c) for c in operands(e))
            case Or():
                return " OR ".join(f"({text(c)})" if isinstance(c, And) else text(c) for c in operands(e))
            case Not(child=child):
                return f"NOT ({text(child)})"
            case Predicate():
                return _predicate(e)
            case _:
                assert_never(e)

    check_depth(e)
    return text(e)


def value_text(iceberg_type: PrimitiveType, value: Any) -> str:
    """An internal value as a SQL literal; null as NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"'{value}'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    text = human_string(IdentityTransform(), iceberg_type, value)
    if not isinstance(iceberg_type, _QUOTED):
        return text
    quoted = text.replace("'", "''")
    return f"{_WORDS.get(type(iceberg_type), '')}'{quoted}'"


def _predicate(p: Predicate) -> str:
    term = p.term
    if not isinstance(term, BoundTerm):
        return f"{term.name} {p.op} {', '.join(map(repr, p.literals))}".rstrip()
    column = term.name
    if not isinstance(term.transform, IdentityTransform):
        inside = str(term.transform).partition("[")[2].rstrip("]")
        column = f"{str(term.transform).partition('[')[0]}({f'{inside}, ' if inside else ''}{column})"
    literals = (
        []
        if p.op in (PredicateOperator.IS_NULL, PredicateOperator.NOT_NULL)
        else [value_text(term.result_type, v) for v in p.literals]
    )
    match p.op:
        case PredicateOperator.IS_NULL:
            return f"{column} IS NULL"
        case PredicateOperator.NOT_NULL:
            return f"{column} IS NOT NULL"
        case PredicateOperator.IS_NAN:
            return f"isnan({column})"
        case PredicateOperator.NOT_NAN:
            return f"NOT isnan({column})"
        case PredicateOperator.IN | PredicateOperator.NOT_IN:
            more = "" if len(literals) <= MAX_LITERALS else f", ... {len(literals) - MAX_LITERALS} more"
            word = "IN" if p.op is PredicateOperator.IN else "NOT IN"
            return f"{column} {word} ({', '.join(literals[:MAX_LITERALS])}{more})"
        case PredicateOperator.STARTS_WITH:
            return f"starts_with({column}, {literals[0]})"
        case PredicateOperator.NOT_STARTS_WITH:
            return f"NOT starts_with({column}, {literals[0]})"
        case PredicateOperator.LIKE | PredicateOperator.NOT_LIKE:
            word = "LIKE" if p.op is PredicateOperator.LIKE else "NOT LIKE"
            return f"{column} {word} {' ESCAPE '.join(literals)}"
        case (
            PredicateOperator.LT
            | PredicateOperator.LT_EQ
            | PredicateOperator.GT
            | PredicateOperator.GT_EQ
            | PredicateOperator.EQ
            | PredicateOperator.NOT_EQ
        ):
            return f"{column} {COMPARISONS[p.op]} {literals[0]}"
        case _:
            assert_never(p.op)
