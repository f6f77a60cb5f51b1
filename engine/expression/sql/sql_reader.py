"""The reader of a SQL condition's syntax tree; `parse.py` describes the syntax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from icecore.engine.common.text import parser_words
from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.build import Not
from icecore.engine.expression.comparison import flipped
from icecore.engine.expression.nodes import (
    FALSE,
    TRUE,
    Expression,
    Predicate,
    PredicateOperator,
    Reference,
    TransformTerm,
)
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.sql.sql_literals import NOT_A_LITERAL, Parameters, literal_value
from icecore.engine.expression.walk import predicates
from icecore.engine.spec.transform import (
    TIMES_BY_NAME,
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
)


def condition_of(text: str, parameters: Mapping[str, Any] | Sequence[Any] | None) -> Expression:
    """The unbound expression of a condition. Raises ExpressionError naming the piece that is not understood."""
    try:
        root = _parse(text)
        return _Reader(Parameters.of(parameters, root)).condition(root)
    except RecursionError:
        raise ExpressionError(f"the filter is nested too deeply: {text[:80]!r}...") from None


def understood_conditions(text: str) -> list[Expression]:
    """The conditions of a conjunction, as DuckDB prints it in a plan, that compare whole columns with literals.

    Others are left out: functions have other meanings in a plan than in a filter. So is a NOT around a BETWEEN, because
    DuckDB prints one that excludes its bounds the same. Raises ExpressionError where the text can't be parsed.
    """
    try:
        root = _parse(text)
    except RecursionError:
        raise ExpressionError("the condition is nested too deeply") from None
    reader = _Reader(Parameters.of(None, root))
    found: list[Expression] = []
    for node in _spine(root.unnest(), exp.And):
        if any(n.find(exp.Between) for n in node.find_all(exp.Not)):
            continue
        try:
            condition = reader.condition(node)
        except (ValidationError, RecursionError):
            continue
        if all(isinstance(p.term, Reference) for p in predicates(condition)):
            found.append(condition)
    return found


class IcecoreFilter(DuckDB):  # type: ignore[misc]  # sqlglot is not typed for us
    """DuckDB's dialect with binary literals, `X'AB'`."""

    class Tokenizer(DuckDB.Tokenizer):  # type: ignore[misc]  # as above
        """DuckDB's tokens, with `X'AB'` as binary and `?::` as a parameter that is cast."""

        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012  # sqlglot's own form
        # sqlglot would otherwise take the `?::` of `?::DATE` for an operator of another dialect.
        KEYWORDS = {k: v for k, v in DuckDB.Tokenizer.KEYWORDS.items() if k != "?::"}  # noqa: RUF012  # likewise


@lru_cache(maxsize=256)
def _parse(text: str) -> exp.Expression:
    """The tree of a condition; it is shared, so nothing may change it."""
    try:
        return sqlglot.parse_one(text, dialect=IcecoreFilter, into=exp.Condition)
    except SqlglotError as e:
        raise ExpressionError(f"can't parse the filter {text[:200]!r}: {parser_words(e)}") from e


_COMPARISONS: dict[type[exp.Expression], PredicateOperator] = {
    exp.EQ: PredicateOperator.EQ,
    exp.NEQ: PredicateOperator.NOT_EQ,
    exp.LT: PredicateOperator.LT,
    exp.LTE: PredicateOperator.LT_EQ,
    exp.GT: PredicateOperator.GT,
    exp.GTE: PredicateOperator.GT_EQ,
}
_TRANSFORMS = {**TIMES_BY_NAME, "identity": IdentityTransform()}


class _Reader:
    """The visitor of sqlglot's tree that makes the expression."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    def condition(self, node: exp.Expression) -> Expression:  # noqa: C901  # one case a node
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return and_(*(self.condition(c) for c in _spine(node, exp.And)))
            case exp.Or():
                return or_(*(self.condition(c) for c in _spine(node, exp.Or)))
            case exp.Not():
                return Not(self.condition(node.this))
            case exp.Boolean():
                return TRUE if node.this else FALSE
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                return self.comparison(_COMPARISONS[type(node)], node.this, node.expression, node)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self.distinct(node)
            case exp.In():
                return self.in_list(node)
            case exp.Between():
                return self.between(node)
            case exp.Is():
                return self.is_test(node)
            case exp.Escape() | exp.Like():
                return self.like(node)
            case exp.IsNan():
                return Predicate(PredicateOperator.IS_NAN, self.term(node.this, node))
            case exp.StartsWith():
                return self.starts_with(node, node.this, node.expression)
            case exp.Anonymous() if node.name.lower() == "prefix" and len(node.expressions) == 2:
                return self.starts_with(node, *node.expressions)
            case exp.Column() | exp.Dot():
                return Predicate(PredicateOperator.EQ, self.term(node, node), (True,))
            case _:
                raise _unsupported(node, "is not a condition that a filter can have")

    def comparison(
        self, op: PredicateOperator, left_node: exp.Expression, right_node: exp.Expression, node: exp.Expression
    ) -> Expression:
        left, right = self.literal(left_node), self.literal(right_node)
        if left is NOT_A_LITERAL and right is NOT_A_LITERAL:
            raise _unsupported(node, f"must compare a column with a literal{_as_text(right_node)}")
        if left is NOT_A_LITERAL:
            return Predicate(op, self.term(left_node, node), (right,))
        if right is NOT_A_LITERAL:
            return Predicate(flipped(op), self.term(right_node, node), (left,))
        return _constant(op, left, right, node)

    def distinct(self, node: exp.Expression) -> Expression:
        # IS DISTINCT FROM is never null itself; the null test beside the comparison keeps that under NOT.
        equal = isinstance(node, exp.NullSafeEQ)
        op = PredicateOperator.EQ if equal else PredicateOperator.NOT_EQ
        predicate = self.comparison(op, node.this, node.expression, node)
        if not isinstance(predicate, Predicate):
            return predicate
        null = Predicate(PredicateOperator.IS_NULL, predicate.term)
        if predicate.literals == (None,):
            return null if equal else Not(null)
        return and_(Not(null), predicate) if equal else or_(null, predicate)

    def in_list(self, node: exp.In) -> Expression:
        if node.args.get("query") or node.args.get("unnest"):
            raise _unsupported(node, "is a subquery; IN takes a list of literals")
        items = node.expressions or [i for i in [node.args.get("field")] if i is not None]
        literals: list[Any] = []
        for item in items:
            value = self.parameters.many(item) if isinstance(item, exp.Placeholder) else None
            literals += value if value is not None else [self.needed_literal(item, node)]
        return Predicate(PredicateOperator.IN, self.term(node.this, node), tuple(literals))

    def between(self, node: exp.Between) -> Expression:
        if node.args.get("symmetric"):
            raise _unsupported(node, "is not supported: write the bounds in order")
        low, high = node.args["low"], node.args["high"]
        if self.literal(node.this) is not NOT_A_LITERAL:
            return and_(
                self.comparison(PredicateOperator.GT_EQ, node.this, low, node),
                self.comparison(PredicateOperator.LT_EQ, node.this, high, node),
            )
        term = self.term(node.this, node)
        return and_(
            Predicate(PredicateOperator.GT_EQ, term, (self.needed_literal(low, node),)),
            Predicate(PredicateOperator.LT_EQ, term, (self.needed_literal(high, node),)),
        )

    def is_test(self, node: exp.Is) -> Expression:
        match node.expression:
            case exp.Null():
                return Predicate(PredicateOperator.IS_NULL, self.term(node.this, node))
            case exp.Boolean() as value:
                term = self.term(node.this, node)
                not_null = Predicate(PredicateOperator.NOT_NULL, term)
                return and_(not_null, Predicate(PredicateOperator.EQ, term, (bool(value.this),)))
            case exp.Column() as name if name.name.lower() == "nan" and len(name.parts) == 1:
                return Predicate(PredicateOperator.IS_NAN, self.term(node.this, node))
            case _:
                raise _unsupported(node, "is not supported after IS: NULL, TRUE, FALSE and NAN are")

    def like(self, node: exp.Expression) -> Expression:
        escape: tuple[str, ...] = ()
        if isinstance(node, exp.Escape):
            escape = (self.text(node.expression, node),)
            node = node.this
        if not isinstance(node, exp.Like):
            raise _unsupported(node, "is not supported: LIKE is")
        term, pattern = self.term(node.this, node), self.literal(node.expression)
        if pattern is not None:
            pattern = self.text(node.expression, node)
        predicate = Predicate(PredicateOperator.LIKE, term, (pattern, *escape))
        return Not(predicate) if node.args.get("negate") else predicate

    def starts_with(self, node: exp.Expression, column: exp.Expression, prefix: exp.Expression) -> Expression:
        return Predicate(PredicateOperator.STARTS_WITH, self.term(column, node), (self.needed_literal(prefix, node),))

    def literal(self, node: exp.Expression) -> Any:
        return literal_value(node, self.parameters)

    def needed_literal(self, node: exp.Expression, inside: exp.Expression) -> Any:
        value = self.literal(node)
        if value is NOT_A_LITERAL:
            raise _unsupported(node, f"is not a literal, as {_sql(inside)} needs{_as_text(node)}")
        return value

    def text(self, node: exp.Expression, inside: exp.Expression) -> str:
        value = self.needed_literal(node, inside)
        if not isinstance(value, str):
            raise _unsupported(node, f"must be a string in {_sql(inside)}")
        return value

    def term(self, node: exp.Expression, inside: exp.Expression) -> Reference | TransformTerm:
        match node:
            case exp.Paren():
                return self.term(node.this, inside)
            case exp.Column() | exp.Dot():
                return Reference(".".join(_path(node)))
            case exp.Cast() if type(node) is exp.Cast and node.to.this is exp.DataType.Type.DATE:
                return self.transformed(DayTransform(), node.this, node)
            case exp.Year() | exp.Month() | exp.Day() | exp.Hour() | exp.Date() if isinstance(
                node.this, exp.Expression
            ):
                return self.transformed(_TRANSFORMS[type(node).__name__.lower()], node.this, node)
            case exp.Trunc():
                return self.parameterized("truncate", [node.this, node.args.get("decimals")], node)
            case exp.Anonymous() if node.name.lower() in ("bucket", "truncate"):
                return self.parameterized(node.name.lower(), node.expressions, node)
            case exp.Anonymous() if node.name.lower() in _TRANSFORMS and len(node.expressions) == 1:
                return self.transformed(_TRANSFORMS[node.name.lower()], node.expressions[0], node)
            case exp.Func():
                raise _unsupported(node, "is not a function that a filter can have")
            case _:
                raise _unsupported(node, "is not a column")

    def parameterized(self, name: str, arguments: list[Any], node: exp.Expression) -> Reference | TransformTerm:
        """`bucket(16, x)` and `truncate(4, x)`; the number may stand on either side."""
        if len(arguments) == 2 and all(arguments):
            first, second = (self.literal(a) for a in arguments)
            number, column = (first, arguments[1]) if second is NOT_A_LITERAL else (second, arguments[0])
            if type(number) is int:
                kind = BucketTransform if name == "bucket" else TruncateTransform
                return self.transformed(kind(number), column, node)
        raise _unsupported(node, f"must be {name}(<number>, <column>)")

    def transformed(
        self, transform: Transform, column: exp.Expression, node: exp.Expression
    ) -> Reference | TransformTerm:
        inner = self.term(column, node)
        if not isinstance(inner, Reference):
            raise _unsupported(node, "applies a transform to a transform")
        return inner if isinstance(transform, IdentityTransform) else TransformTerm(inner.name, transform)


def _spine(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of a chain such as `a AND b AND c`, which parses left-deep and may be long."""
    out: list[exp.Expression] = []
    while isinstance(node, kind):
        out.append(node.expression)
        node = node.this
    return [node, *reversed(out)]


def _path(node: exp.Expression) -> list[str]:
    if isinstance(node, exp.Identifier):
        return [node.name]
    if isinstance(node, exp.Dot):
        return _path(node.this) + _path(node.expression)
    if isinstance(node, exp.Column) and all(isinstance(p, exp.Identifier) for p in node.parts):
        if node.args.get("join_mark"):
            raise _unsupported(node, "has an outer join mark")
        return [p.name for p in node.parts]
    raise _unsupported(node, "is not a column name")


def _constant(op: PredicateOperator, left: Any, right: Any, node: exp.Expression) -> Expression:
    """A comparison of two literals, such as `1 = 1`."""
    number = (int, float, Decimal)
    comparable = type(left) is type(right) or (
        isinstance(left, number) and isinstance(right, number) and bool not in (type(left), type(right))
    )
    if not comparable or not isinstance(left, (*number, str)):
        raise _unsupported(node, "compares two literals of different or unsupported types")
    held = {
        PredicateOperator.EQ: left == right,
        PredicateOperator.NOT_EQ: left != right,
        PredicateOperator.LT: left < right,
        PredicateOperator.LT_EQ: left <= right,
        PredicateOperator.GT: left > right,
        PredicateOperator.GT_EQ: left >= right,
    }[op]
    return TRUE if held else FALSE


def _sql(node: exp.Expression) -> str:
    text = node.sql(dialect="duckdb")
    return repr(text if len(text) <= 120 else text[:117] + "...")


def _as_text(node: exp.Expression) -> str:
    """A hint in case a name without quotes, or in double ones, was meant as a text: it is read as a column."""
    is_name = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and len(node.parts) == 1
    return (
        f": {node.sql()} is read as a column, as a text it is {exp.Literal.string(node.name).sql()}" if is_name else ""
    )


def _unsupported(node: exp.Expression, why: str) -> ExpressionError:
    return ExpressionError(f"{_sql(node)} {why}")
