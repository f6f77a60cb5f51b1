"""The writer of expression JSON, with the null and NaN tests that keep the rows the same."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any, assert_never

from attrs import frozen

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.comparison import negated
from icecore.engine.expression.depth import operands
from icecore.engine.expression.json.expression_operators import GREATER, LIKES, SETS, TRUE_OF_NULL, UNARY
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
    Reference,
    Term,
    TypedValue,
)
from icecore.engine.expression.strings import like_prefix
from icecore.engine.spec import single_value
from icecore.engine.spec.transform import BucketTransform, IdentityTransform, TruncateTransform
from icecore.engine.spec.types import FLOATING_TYPES


@frozen
class ExpressionWriter:
    """A writer of expression JSON. `children` chooses the keys, `inclusive` lets what has none become weaker."""

    children: bool
    inclusive: bool

    def write(self, e: Expression, negate: bool) -> Any:
        """The JSON value of an expression, or of its opposite."""
        match e:
            case AlwaysTrue() | AlwaysFalse():
                return isinstance(e, AlwaysTrue) is not negate
            case Not(child=child):
                return self.write(child, not negate)
            case And() | Or():
                word = "and" if isinstance(e, And) is not negate else "or"
                return _balanced(word, [self.write(c, negate) for c in operands(e)])
            case Predicate():
                return self._leaf(e, negate)
            case _:
                assert_never(e)

    def _leaf(self, p: Predicate, negate: bool) -> Any:
        op = negated(p.op) if negate else p.op
        literals = tuple(v for v in p.literals if v is not None)
        if len(literals) < len(p.literals) and (op is not PredicateOperator.IN or not literals):
            return False
        if op in SETS and not literals:
            return op is PredicateOperator.NOT_IN
        if self.inclusive and any(isinstance(_value(v), float) and not math.isfinite(_value(v)) for v in literals):
            return True
        if op in LIKES:
            op, literals = self._weaker(op, literals)
        written = self._predicate(op, p.term, literals)
        if op in TRUE_OF_NULL:
            return _balanced("and", [self._predicate(PredicateOperator.NOT_NULL, p.term, ()), written])
        if op in GREATER and isinstance(p.term, BoundTerm) and isinstance(p.term.result_type, FLOATING_TYPES):
            return _balanced("or", [written, self._predicate(PredicateOperator.IS_NAN, p.term, ())])
        return written

    def _weaker(self, op: PredicateOperator, literals: tuple[Any, ...]) -> tuple[PredicateOperator, tuple[Any, ...]]:
        if not self.inclusive:
            raise ExpressionError(f"LIKE {literals[0]!r} has no JSON form")
        prefix = like_prefix(*literals) if op is PredicateOperator.LIKE else ""
        return (PredicateOperator.STARTS_WITH, (prefix,)) if prefix else (PredicateOperator.NOT_NULL, ())

    def _predicate(self, op: PredicateOperator, term: Term, literals: tuple[Any, ...]) -> dict[str, Any]:
        first, second = ("left", "right") if self.children and op not in (*UNARY, *SETS) else ("term", "value")
        if self.children and op in (*UNARY, *SETS):
            first = "child"
        out = {"type": str(op), first: self._term(term)}
        if op in SETS:
            return {**out, "values": [_literal(term, v) for v in literals]}
        return {**out, second: _literal(term, literals[0])} if literals else out

    def _term(self, term: Term) -> Any:
        reference = {"type": "reference", "name": term.name} if self.children else term.name
        transform = IdentityTransform() if isinstance(term, Reference) else term.transform
        match transform:
            case IdentityTransform():
                return reference
            case BucketTransform() | TruncateTransform() if self.children:
                name, number = str(transform).rstrip("]").split("[")
                return {"type": "apply", "function": name, "arguments": [int(number), reference]}
            case BucketTransform() | TruncateTransform():
                return {"type": "transform", "transform": str(transform), "term": reference}
            case _:
                raise ExpressionError(f"{transform}({term.name}) has no JSON form before it is bound")


def _balanced(word: str, parts: list[Any]) -> Any:
    """A chain as a balanced tree, so that a long one is not deep."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return {"type": word, "left": _balanced(word, parts[:middle]), "right": _balanced(word, parts[middle:])}


def _value(literal: Any) -> Any:
    return literal.value if isinstance(literal, TypedValue) else literal


def _literal(term: Term, value: Any) -> Any:
    if isinstance(value, TypedValue):
        out = single_value.to_json(value.type, value.value)
    elif isinstance(term, BoundTerm):
        out = single_value.to_json(term.result_type, value)
    else:
        out = _plain(value)
    if isinstance(out, float) and not math.isfinite(out):
        raise ExpressionError(f"{out} has no JSON form")
    return out


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | float() | str():
            return value
        case Decimal():
            return format(value, "f")
        case dt.date() | dt.time():
            return value.isoformat()
        case uuid.UUID():
            return str(value)
        case bytes():
            return value.hex()
        case _:
            raise ExpressionError(f"{value!r} has no JSON form")
