"""Binding: names become fields, literals become values of the column's type, NOT is pushed down to the leaves.

A bound expression has no Not and selects the rows for which the SQL condition is true, null tests and NaN included. A
leaf compares a column, or a bucket of one, with values of its type; comparisons that no value or every value satisfies
are folded. Predicates on year, month, day, hour and truncate of a column become ranges of the column itself.
"""

from __future__ import annotations

from typing import Any, assert_never

from attrs import frozen

from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.comparison import compare, in_values, negated
from icecore.engine.expression.depth import check_depth, operands, too_deep
from icecore.engine.expression.literal_values import plain
from icecore.engine.expression.literals import text_of
from icecore.engine.expression.nodes import (
    FALSE,
    TRUE,
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Not,
    Or,
    Predicate,
    PredicateOperator,
    Term,
    TransformTerm,
    TypedValue,
)
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.strings import like_parts
from icecore.engine.expression.unwrap import unwrap_predicate
from icecore.engine.expression.walk import rewrite
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform, IdentityTransform, Transform, UnknownTransform, VoidTransform
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    GeographyType,
    GeometryType,
    StringType,
    Type,
    UnknownType,
    VariantType,
)

_LONGEST_SHOWN = 200
_NULL_TESTS = (PredicateOperator.IS_NULL, PredicateOperator.NOT_NULL)
_NAN_TESTS = (PredicateOperator.IS_NAN, PredicateOperator.NOT_NAN)
_TEXT_TESTS = (
    PredicateOperator.STARTS_WITH,
    PredicateOperator.NOT_STARTS_WITH,
    PredicateOperator.LIKE,
    PredicateOperator.NOT_LIKE,
)


def bind(expression: Expression, schema: Schema, case_sensitive: bool = True) -> Expression:
    """The bound form of an expression; a bound one stays as it is.

    Raises ExpressionError where a column is missing or inside a list or map, a literal does not fit its type, a
    transform or operator does not apply to it, or the expression is deeper than `depth.MAX_DEPTH`. Literals of other
    types are compared as `literals` documents; dates and timestamps follow the zone rules of `temporal`.

    With transforms: `year(x)` is the calendar year; `month(x)` is compared with a date (its month is taken) or
    `'YYYY-MM'`, `day(x)` with a date, `hour(x)` with a timestamp (its hour is taken) or `'YYYY-MM-DD-HH'`.
    """
    check_depth(expression)
    try:
        return _Binder(schema, case_sensitive).bind(expression, False)
    except RecursionError:
        raise too_deep() from None


def is_comparable(field_type: Type) -> bool:
    """Whether a column's values can be compared; other columns can only be tested for null."""
    unordered = (UnknownType, VariantType, GeometryType, GeographyType)
    return field_type.is_primitive and not isinstance(field_type, unordered)


def can_be_null(schema: Schema, field_id: int) -> bool:
    """Whether a field, or a struct around it, is optional."""
    return schema.get_field(field_id) is None or any(schema.find_field(i).optional for i in schema.id_path(field_id))


@frozen
class _Binder:
    schema: Schema
    case_sensitive: bool

    def bind(self, e: Expression, negate: bool) -> Expression:
        match e:
            case AlwaysTrue():
                return FALSE if negate else TRUE
            case AlwaysFalse():
                return TRUE if negate else FALSE
            case Not(child=child):
                return self.bind(child, not negate)
            case And() | Or():
                bound = [self.bind(c, negate) for c in operands(e)]
                # De Morgan holds for three values as well.
                return and_(*bound) if isinstance(e, And) is not negate else or_(*bound)
            case Predicate():
                return self.predicate(e, negate)
            case _:
                assert_never(e)

    def predicate(self, p: Predicate, negate: bool) -> Expression:
        op = negated(p.op) if negate else p.op
        if isinstance(p.term, BoundTerm):
            return Predicate(op, p.term, p.literals)
        term = self.term(p.term)
        if op in _NULL_TESTS:
            return self.null_test(op, term)
        if isinstance(term.field.field_type, UnknownType):
            return FALSE
        if not is_comparable(term.field.field_type):
            raise ExpressionError(f"column {term.name!r} of type {term.field.field_type} can only be tested for null")
        try:
            return self.keep_nulls(self.tested(op, term, p.literals), term)
        except ExpressionError as e:
            raise ExpressionError(f"column {term.name!r} of type {term.field.field_type}: {e}") from e

    def tested(self, op: PredicateOperator, term: BoundTerm, literals: tuple[Any, ...]) -> Expression:
        if op in _NAN_TESTS:
            if not isinstance(term.result_type, FLOATING_TYPES):
                raise ExpressionError("only float and double columns can be NaN")
            return Predicate(op, term)
        if op in (PredicateOperator.IN, PredicateOperator.NOT_IN) and not literals:
            return FALSE if op is PredicateOperator.IN else TRUE
        literals = tuple(map(plain, literals))
        if None in literals:
            literals = tuple(v for v in literals if v is not None)
            if op is not PredicateOperator.IN or not literals:
                return FALSE
        if op in _TEXT_TESTS:
            return _text_test(op, term, literals)
        if not isinstance(term.transform, (IdentityTransform, BucketTransform)):
            return unwrap_predicate(op, term, literals)
        return (
            in_values(op, term, literals)
            if op in (PredicateOperator.IN, PredicateOperator.NOT_IN)
            else compare(op, term, literals[0])
        )

    def keep_nulls(self, e: Expression, term: BoundTerm) -> Expression:
        """The expression, with the null tests that folding left decided if the column can't be null."""
        if can_be_null(self.schema, term.field.field_id):
            return e
        return rewrite(e, lambda p: self.null_test(p.op, p.term) if p.op in _NULL_TESTS else p)  # type: ignore[arg-type]  # bound

    def null_test(self, op: PredicateOperator, term: BoundTerm) -> Expression:
        if isinstance(term.field.field_type, UnknownType):
            return TRUE if op is PredicateOperator.IS_NULL else FALSE
        if not can_be_null(self.schema, term.field.field_id):
            return FALSE if op is PredicateOperator.IS_NULL else TRUE
        # A transform gives null for null, and for nothing else.
        return Predicate(op, BoundTerm(term.field, term.name))

    def term(self, term: Term) -> BoundTerm:
        if isinstance(term, BoundTerm):
            return term
        if len(term.name) > _LONGEST_SHOWN and not self.schema.has_name(term.name):
            raise ExpressionError(f"no column {term.name[:_LONGEST_SHOWN]!r}... in the schema")
        try:
            field = self.schema.find_field(term.name, self.case_sensitive)
        except ValidationError as e:
            raise ExpressionError(str(e)) from e
        name = self.schema.name_of(field.field_id)
        if self.schema.is_in_list_or_map(field.field_id):
            raise ExpressionError(f"column {name!r} is inside a list or map, which a filter can't test")
        transform = term.transform if isinstance(term, TransformTerm) else IdentityTransform()
        _check_transform(transform, name, field.field_type)
        return BoundTerm(field, name, transform)


def _check_transform(transform: Transform, name: str, field_type: Any) -> None:
    if isinstance(transform, IdentityTransform):
        return
    if isinstance(transform, (UnknownTransform, VoidTransform)):
        raise ExpressionError(f"the transform {transform} of column {name!r} can't be computed")
    if not transform.can_transform(field_type):
        raise ExpressionError(f"{transform} can't be applied to column {name!r} of type {field_type}")


def _text_test(op: PredicateOperator, term: BoundTerm, literals: tuple[Any, ...]) -> Expression:
    if not isinstance(term.source_type, StringType) or isinstance(term.transform, BucketTransform):
        raise ExpressionError(f"{op} needs a string")
    literals = tuple(v.value if isinstance(v, TypedValue) else v for v in literals)
    if not all(isinstance(v, str) for v in literals):
        raise ExpressionError(f"{op} needs a string, found {literals[0]!r}")
    literals = tuple(map(text_of, literals))
    if op in (PredicateOperator.LIKE, PredicateOperator.NOT_LIKE):
        op, literals = _plain_like(op, literals)
    if not isinstance(term.transform, IdentityTransform):
        return unwrap_predicate(op, term, literals)
    if op not in _TEXT_TESTS:
        return compare(op, term, literals[0])
    if op in (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH) and not literals[0]:
        return Predicate(PredicateOperator.NOT_NULL, term) if op is PredicateOperator.STARTS_WITH else FALSE
    return Predicate(op, term, literals)


def _plain_like(op: PredicateOperator, literals: tuple[str, ...]) -> tuple[PredicateOperator, tuple[str, ...]]:
    """LIKE without wildcards is equality, with one `%` at the end a prefix."""
    positive = op is PredicateOperator.LIKE
    parts = like_parts(*literals)
    texts = "".join(text for _, text in parts)
    match [kind for kind, _ in parts]:
        case [] | ["text"]:
            return (PredicateOperator.EQ if positive else PredicateOperator.NOT_EQ), (texts,)
        case ["%"] | ["text", "%"]:
            return (PredicateOperator.STARTS_WITH if positive else PredicateOperator.NOT_STARTS_WITH), (texts,)
        case _:
            return op, literals
