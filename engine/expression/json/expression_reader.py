"""The reader of expression JSON in either spelling; its two-valued predicates get tests for null and NaN."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from attrs import frozen

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.comparison import flipped, negated
from icecore.engine.expression.json.expression_operators import GREATER, LIKES, SETS, TRUE_OF_NULL, UNARY
from icecore.engine.expression.nodes import (
    FALSE,
    TRUE,
    And,
    Expression,
    Or,
    Predicate,
    PredicateOperator,
    Reference,
    Term,
    TransformTerm,
    TypedValue,
)
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
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
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    parse_primitive,
)


@frozen
class ExpressionReader:
    """A reader of expression JSON. `schema` resolves references by id, and types literals: see `from_json`."""

    schema: Schema | None
    case_sensitive: bool

    def read(self, obj: Any, negate: bool) -> Expression:
        """The expression of a JSON value, or its opposite. Raises ExpressionError, ValidationError."""
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
                return self._leaf(obj, kind, negate)

    def _leaf(self, obj: dict[str, Any], kind: Any, negate: bool) -> Expression:
        try:
            op = PredicateOperator(kind)
        except ValueError:
            op = PredicateOperator.LIKE
        if op in LIKES:
            raise ExpressionError(f"{kind!r} is not the type of an expression")
        term_json = obj.get("term", obj.get("child"))
        value_json = obj.get("value")
        if "left" in obj:
            term_json, value_json = _get(obj, "left"), _get(obj, "right")
            if _is_literal(term_json):
                term_json, value_json, op = value_json, term_json, flipped(op)
        if term_json is None:
            raise ExpressionError(f"the {kind} predicate has no term")
        term = self._term(term_json)
        return self._two_valued(op, term, self._literals(op, term, value_json, obj.get("values")), negate)

    def _two_valued(self, op: PredicateOperator, term: Term, literals: tuple[Any, ...], negate: bool) -> Expression:
        predicate = Predicate(negated(op) if negate else op, term, literals)
        if op in (PredicateOperator.IS_NULL, PredicateOperator.NOT_NULL):
            return predicate
        if (op in TRUE_OF_NULL) is negate:
            return predicate
        parts: list[Expression] = [predicate, Predicate(PredicateOperator.IS_NULL, Reference(term.name))]
        if op in GREATER and self._is_floating(term):
            parts.append(Predicate(PredicateOperator.IS_NAN, term))
        return or_(*parts)

    def _literals(self, op: PredicateOperator, term: Term, value: Any, values: Any) -> tuple[Any, ...]:
        if op in UNARY:
            return ()
        if op not in SETS:
            if value is None:
                raise ExpressionError(f"the {op} predicate on {term.name!r} has no value")
            return (self._literal(term, value),)
        data_type = None
        if isinstance(values, dict):
            data_type, values = values.get("data-type"), values.get("values")
        if not isinstance(values, list):
            raise ExpressionError(f"the {op} predicate on {term.name!r} has no list of values")
        return tuple(self._literal(term, v, data_type) for v in values)

    def _literal(self, term: Term, value: Any, data_type: str | None = None) -> Any:
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
        return _typed(self._result_type(term), value)

    def _result_type(self, term: Term) -> PrimitiveType | None:
        """The type of a term, as far as it can be told."""
        transform = term.transform if isinstance(term, TransformTerm) else IdentityTransform()
        if isinstance(transform, (YearTransform, MonthTransform, HourTransform)):
            return IntegerType()
        if isinstance(transform, DayTransform):
            return DateType()
        if self.schema is None or not self.schema.has_name(term.name, self.case_sensitive):
            return None
        source = self.schema.find_field(term.name, self.case_sensitive)
        return transform.result_type(source.primitive_type) if source.field_type.is_primitive else None

    def _is_floating(self, term: Term) -> bool:
        return isinstance(self._result_type(term), FLOATING_TYPES)

    def _term(self, obj: Any) -> Term:
        if isinstance(obj, str):
            return Reference(obj)
        match _get(obj, "type"):
            case "reference":
                return Reference(self._reference(obj))
            case "transform":
                inner = self._term(_get(obj, "term"))
                return _transformed(parse_transform(str(_get(obj, "transform"))), inner)
            case "apply":
                return self._apply(obj)
            case kind:
                raise ExpressionError(f"{kind!r} is not the type of a term")

    def _reference(self, obj: dict[str, Any]) -> str:
        if isinstance(field_id := obj.get("id"), int):
            if self.schema is None or self.schema.get_field(field_id) is None:
                raise ExpressionError(f"there is no column with id {field_id}")
            return self.schema.name_of(field_id)
        name = obj.get("term", obj.get("name"))
        if not isinstance(name, str):
            raise ExpressionError(f"a reference must have a name or an id, found {obj}")
        return name

    def _apply(self, obj: dict[str, Any]) -> Term:
        function, arguments = _get(obj, "function"), _get(obj, "arguments")
        if isinstance(function, dict):
            if function.get("catalog") not in (None, "iceberg_functions"):
                raise ExpressionError(f"the function {function} is not known")
            function = function.get("identifier")
        name = function[-1] if isinstance(function, list) and function else function
        if isinstance(arguments, list) and len(arguments) == 1:
            return _transformed(parse_transform(str(name)), self._term(arguments[0]))
        if isinstance(arguments, list) and len(arguments) == 2:
            number = arguments[0].get("value") if isinstance(arguments[0], dict) else arguments[0]
            return _transformed(parse_transform(f"{name}[{number}]"), self._term(arguments[1]))
        raise ExpressionError(f"the function {function} with the arguments {arguments} is not known")


def _get(obj: Any, key: str) -> Any:
    if not isinstance(obj, dict) or obj.get(key) is None:
        raise ExpressionError(f"expected a JSON object with the key {key!r}, found {str(obj)[:120]}")
    return obj[key]


def _chain(obj: dict[str, Any], kind: str) -> list[Any]:
    """The operands of a chain of ANDs or ORs, which other engines write as a tree as deep as the chain is long."""
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
    if whole and isinstance(result_type, (TimestampNanoType, TimestamptzNanoType)):
        # Microseconds, as for the other timestamps: Java's literal is the same long for both.
        return TypedValue(result_type, value * 1000)
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
    terms = {c.term for c in joined.children if isinstance(c, Predicate) and c.op is PredicateOperator.NOT_NULL}

    def without(c: Expression) -> Expression:
        if not isinstance(c, Or):
            return c
        return or_(
            *(
                d
                for d in c.children
                if not (isinstance(d, Predicate) and d.op is PredicateOperator.IS_NULL and d.term in terms)
            )
        )

    return and_(*(without(c) for c in joined.children))
