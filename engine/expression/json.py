"""Iceberg's expression JSON, as REST catalogs exchange it.

Spec: Expressions (E1 to E4), Appendix B. JSON predicates are two-valued where SQL's are not: `not-eq(x, 1)` is true of
a null, `x <> 1` selects no null. Writing adds the null tests that keep the rows the same, and reading takes them back.
NaN too: the spec's `gt` leaves NaN out, SQL's includes it, so `gt` of a bound float or double is written with `is-nan`
beside it. Reading includes NaN in both `gt(x, 1)` and `not(gt(x, 1))`, because engines mean one and the spec the other.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, assert_never

from attrs import frozen

from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.comparison import negated
from icecore.engine.expression.depth import check_depth, operands, too_deep
from icecore.engine.expression.nodes import (
    FALSE,
    TRUE,
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Not,
    Operation,
    Or,
    Predicate,
    Reference,
    Term,
    TransformTerm,
    TypedValue,
)
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.strings import like_prefix
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    YearTransform,
    parse_transform,
)
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    TIMESTAMP_TYPES,
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IntegerType,
    PrimitiveType,
    TimeType,
    parse_primitive,
)

_Op = Operation
_UNARY = (_Op.IS_NULL, _Op.NOT_NULL, _Op.IS_NAN, _Op.NOT_NAN)
_SETS = (_Op.IN, _Op.NOT_IN)
_LIKES = (_Op.LIKE, _Op.NOT_LIKE)
_TRUE_OF_NULL = (_Op.NOT_EQ, _Op.NOT_IN, _Op.NOT_NAN, _Op.NOT_STARTS_WITH)
_GREATER = (_Op.GT, _Op.GT_EQ)
_FLIPPED = {_Op.LT: _Op.GT, _Op.LT_EQ: _Op.GT_EQ, _Op.GT: _Op.LT, _Op.GT_EQ: _Op.LT_EQ}


def to_json(expression: Expression, *, children: bool = False, inclusive: bool = False) -> Any:
    """The JSON value of a bound expression, or of an unbound one without transforms of times.

    With `children` the keys are `child`, `left` and `right`; otherwise `term` and `value`, which older services know.
    LIKE has no JSON form: where `inclusive`, what is written selects more rows, otherwise ExpressionError is raised. It
    is raised for infinities too, which JSON can't hold.
    """
    check_depth(expression)
    try:
        return _Writer(children, inclusive).write(expression, False)
    except RecursionError:
        raise too_deep() from None


def from_json(obj: Any, schema: Schema | None = None) -> Expression:
    """The unbound expression of a JSON value in either spelling; what it selects is what the JSON's two values select.

    A schema is needed for references by id, for binary literals, and for numbers that stand for dates and times, as
    Java's clients send them. Raises ExpressionError for anything that is no expression.
    """
    try:
        expression = _Reader(schema).read(obj, False)
        check_depth(expression)
        return expression
    except ExpressionError:
        raise
    except ValidationError as e:
        raise ExpressionError(f"not an expression: {e}") from e
    except RecursionError:
        raise too_deep() from None


@frozen
class _Writer:
    children: bool
    inclusive: bool

    def write(self, e: Expression, negate: bool) -> Any:
        match e:
            case AlwaysTrue() | AlwaysFalse():
                return isinstance(e, AlwaysTrue) is not negate
            case Not(child=child):
                return self.write(child, not negate)
            case And() | Or():
                word = "and" if isinstance(e, And) is not negate else "or"
                return _balanced(word, [self.write(c, negate) for c in operands(e)])
            case Predicate():
                return self.leaf(e, negate)
            case _:
                assert_never(e)

    def leaf(self, p: Predicate, negate: bool) -> Any:
        op = negated(p.op) if negate else p.op
        literals = tuple(v for v in p.literals if v is not None)
        if len(literals) < len(p.literals) and (op is not _Op.IN or not literals):
            return False
        if op in _SETS and not literals:
            return op is _Op.NOT_IN
        if op in _LIKES:
            op, literals = self.weaker(op, literals)
        written = self.predicate(op, p.term, literals)
        if op in _TRUE_OF_NULL:
            return _balanced("and", [self.predicate(_Op.NOT_NULL, p.term, ()), written])
        if op in _GREATER and isinstance(p.term, BoundTerm) and isinstance(p.term.result_type, FLOATING_TYPES):
            return _balanced("or", [written, self.predicate(_Op.IS_NAN, p.term, ())])
        return written

    def weaker(self, op: Operation, literals: tuple[Any, ...]) -> tuple[Operation, tuple[Any, ...]]:
        if not self.inclusive:
            raise ExpressionError(f"LIKE {literals[0]!r} has no JSON form")
        prefix = like_prefix(*literals) if op is _Op.LIKE else ""
        return (_Op.STARTS_WITH, (prefix,)) if prefix else (_Op.NOT_NULL, ())

    def predicate(self, op: Operation, term: Term, literals: tuple[Any, ...]) -> dict[str, Any]:
        first, second = ("left", "right") if self.children and op not in (*_UNARY, *_SETS) else ("term", "value")
        if self.children and op in (*_UNARY, *_SETS):
            first = "child"
        out = {"type": str(op), first: self.term(term)}
        if op in _SETS:
            return {**out, "values": [_literal(term, v) for v in literals]}
        return {**out, second: _literal(term, literals[0])} if literals else out

    def term(self, term: Term) -> Any:
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


@frozen
class _Reader:
    schema: Schema | None

    def read(self, obj: Any, negate: bool) -> Expression:
        if isinstance(obj, bool):
            return TRUE if obj is not negate else FALSE
        if isinstance(obj, str) and obj.lower() in ("true", "false"):
            return self.read(obj.lower() == "true", negate)
        kind = _get(obj, "type")
        match kind:
            case "true" | "false":
                return self.read(kind == "true", negate)
            case "literal" if isinstance(obj.get("value"), bool):
                return self.read(obj["value"], negate)
            case "not":
                return self.read(_get(obj, "child"), not negate)
            case "and" | "or":
                sides = [self.read(o, negate) for o in _chain(obj, kind)]
                return _conjunction(sides) if (kind == "and") is not negate else or_(*sides)
            case _:
                return self.leaf(obj, kind, negate)

    def leaf(self, obj: dict[str, Any], kind: Any, negate: bool) -> Expression:
        try:
            op = _Op(kind)
        except ValueError:
            op = _Op.LIKE
        if op in _LIKES:
            raise ExpressionError(f"{kind!r} is not the type of an expression")
        term_json = obj.get("term", obj.get("child"))
        value_json = obj.get("value")
        if "left" in obj:
            term_json, value_json = _get(obj, "left"), _get(obj, "right")
            if _is_literal(term_json):
                term_json, value_json, op = value_json, term_json, _FLIPPED.get(op, op)
        if term_json is None:
            raise ExpressionError(f"the {kind} predicate has no term")
        term = self.term(term_json)
        return self.two_valued(op, term, self.literals(op, term, value_json, obj.get("values")), negate)

    def two_valued(self, op: Operation, term: Term, literals: tuple[Any, ...], negate: bool) -> Expression:
        predicate = Predicate(negated(op) if negate else op, term, literals)
        if op in (_Op.IS_NULL, _Op.NOT_NULL):
            return predicate
        if (op in _TRUE_OF_NULL) is negate:
            return predicate
        parts: list[Expression] = [predicate, Predicate(_Op.IS_NULL, Reference(term.name))]
        if op in _GREATER and self.is_floating(term):
            parts.append(Predicate(_Op.IS_NAN, term))
        return or_(*parts)

    def literals(self, op: Operation, term: Term, value: Any, values: Any) -> tuple[Any, ...]:
        if op in _UNARY:
            return ()
        if op not in _SETS:
            if value is None:
                raise ExpressionError(f"the {op} predicate on {term.name!r} has no value")
            return (self.literal(term, value),)
        data_type = None
        if isinstance(values, dict):
            data_type, values = values.get("data-type"), values.get("values")
        if not isinstance(values, list):
            raise ExpressionError(f"the {op} predicate on {term.name!r} has no list of values")
        return tuple(self.literal(term, v, data_type) for v in values)

    def literal(self, term: Term, value: Any, data_type: str | None = None) -> Any:
        if isinstance(value, dict):
            if value.get("type") != "literal":
                raise ExpressionError(f"{term.name!r} is compared with {value}, which is not a literal")
            data_type, value = value.get("data-type"), value.get("value")
        if value is None or isinstance(value, (dict, list)):
            raise ExpressionError(f"{term.name!r} is compared with {value!r}, which is not a literal")
        if data_type is not None:
            literal_type = parse_primitive(str(data_type))
            return TypedValue(literal_type, single_value.from_json(literal_type, value))
        if isinstance(term, TransformTerm) and isinstance(
            term.transform, (YearTransform, MonthTransform, HourTransform)
        ):
            # The result counts from 1970; a plain number would be a calendar year.
            return TypedValue(IntegerType(), single_value.from_json(IntegerType(), value))
        return _typed(self.result_type(term), value)

    def result_type(self, term: Term) -> PrimitiveType | None:
        """The type of a term, as far as it can be told."""
        transform = term.transform if isinstance(term, TransformTerm) else IdentityTransform()
        if isinstance(transform, (YearTransform, MonthTransform, HourTransform)):
            return IntegerType()
        if isinstance(transform, DayTransform):
            return DateType()
        if self.schema is None or not self.schema.has_name(term.name):
            return None
        field_type = self.schema.find_field(term.name).field_type
        return transform.result_type(field_type) if field_type.is_primitive else None  # type: ignore[arg-type]

    def is_floating(self, term: Term) -> bool:
        return isinstance(self.result_type(term), FLOATING_TYPES)

    def term(self, obj: Any) -> Term:
        if isinstance(obj, str):
            return Reference(obj)
        match _get(obj, "type"):
            case "reference":
                return Reference(self.reference(obj))
            case "transform":
                inner = self.term(_get(obj, "term"))
                return _transformed(parse_transform(str(_get(obj, "transform"))), inner)
            case "apply":
                return self.apply(obj)
            case kind:
                raise ExpressionError(f"{kind!r} is not the type of a term")

    def reference(self, obj: dict[str, Any]) -> str:
        if isinstance(field_id := obj.get("id"), int):
            if self.schema is None or self.schema.get_field(field_id) is None:
                raise ExpressionError(f"there is no column with id {field_id}")
            return self.schema.name_of(field_id)
        name = obj.get("term", obj.get("name"))
        if not isinstance(name, str):
            raise ExpressionError(f"a reference must have a name or an id, found {obj}")
        return name

    def apply(self, obj: dict[str, Any]) -> Term:
        function, arguments = _get(obj, "function"), _get(obj, "arguments")
        if isinstance(function, dict):
            if function.get("catalog") not in (None, "iceberg_functions"):
                raise ExpressionError(f"the function {function} is not known")
            function = function.get("identifier")
        name = function[-1] if isinstance(function, list) and function else function
        if isinstance(arguments, list) and len(arguments) == 1:
            return _transformed(parse_transform(str(name)), self.term(arguments[0]))
        if isinstance(arguments, list) and len(arguments) == 2:
            number = arguments[0].get("value") if isinstance(arguments[0], dict) else arguments[0]
            return _transformed(parse_transform(f"{name}[{number}]"), self.term(arguments[1]))
        raise ExpressionError(f"the function {function} with the arguments {arguments} is not known")


def _get(obj: Any, key: str) -> Any:
    if not isinstance(obj, dict) or obj.get(key) is None:
        raise ExpressionError(f"expected a JSON object with the key {key!r}, found {str(obj)[:120]}")
    return obj[key]


def _chain(obj: dict[str, Any], kind: str) -> list[Any]:
    """The operands of a chain of ANDs or ORs, which other engines write as a tree that is as deep as it is long."""
    out: list[Any] = []
    waiting = [obj]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict) and found.get("type") == kind:
            waiting += (_get(found, "right"), _get(found, "left"))
        else:
            out.append(found)
    return out


def _is_literal(obj: Any) -> bool:
    return not isinstance(obj, dict) or obj.get("type") == "literal"


def _transformed(transform: Transform, inner: Term) -> Term:
    if not isinstance(inner, Reference) or isinstance(transform, UnknownTransform):
        raise ExpressionError(f"the transform {transform} of {inner} is not known")
    return inner if isinstance(transform, IdentityTransform) else TransformTerm(inner.name, transform)


def _typed(result_type: PrimitiveType | None, value: Any) -> Any:
    """A JSON value that needs its column's type to be understood."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and isinstance(result_type, (DateType, TimeType, *TIMESTAMP_TYPES)):
        return TypedValue(result_type, value)
    if isinstance(value, str) and isinstance(result_type, (FixedType, BinaryType)):
        return TypedValue(result_type, single_value.from_json(result_type, value))
    if isinstance(value, str) and isinstance(result_type, DecimalType):
        return _decimal(value)
    return value


def _decimal(text: str) -> Decimal:
    """A decimal of any scale; the column's may be smaller."""
    try:
        return Decimal(text)
    except InvalidOperation as e:
        raise ExpressionError(f"{text!r} is not a decimal") from e


def _conjunction(sides: Iterable[Expression]) -> Expression:
    """AND, where `not-null(x)` on one side takes `is-null(x)` out of an OR on the other."""
    joined = and_(*sides)
    if not isinstance(joined, And):
        return joined
    terms = {c.term for c in joined.children if isinstance(c, Predicate) and c.op is _Op.NOT_NULL}

    def without(c: Expression) -> Expression:
        if not isinstance(c, Or):
            return c
        return or_(
            *(d for d in c.children if not (isinstance(d, Predicate) and d.op is _Op.IS_NULL and d.term in terms))
        )

    return and_(*(without(c) for c in joined.children))
