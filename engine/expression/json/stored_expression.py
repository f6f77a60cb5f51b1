"""Unbound expressions as JSON values that outlive changes of the schema.

A column is kept by its id, so that it may be renamed. Literals are kept as they were given, not as they were bound:
`i > 3e9` is false of every int, but not of the long that the column may become; `x IS NULL` is false of a required
column, but not once it is optional.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, assert_never
from uuid import UUID

from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.depth import check_depth, operands
from icecore.engine.expression.literal_values import plain
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
    Reference,
    Term,
    TransformTerm,
    TypedValue,
)
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform, parse_transform
from icecore.engine.spec.types import parse_primitive


def to_kept(expression: Expression, schema: Schema, case_sensitive: bool = True) -> Any:
    """The JSON value of an expression whose names are those of the schema.

    A bound leaf is kept with the types of its literals. Raises ExpressionError for an unknown column, and for a literal
    of a type that can't be kept.
    """

    def kept(e: Expression) -> Any:
        match e:
            case AlwaysTrue():
                return True
            case AlwaysFalse():
                return False
            case And() | Or():
                return ["and" if isinstance(e, And) else "or", *map(kept, operands(e))]
            case Not(child=child):
                return ["not", kept(child)]
            case Predicate():
                return _leaf(e, schema, case_sensitive)
            case _:
                assert_never(e)

    check_depth(expression)
    return kept(expression)


def from_kept(value: Any, schema: Schema) -> Expression:
    """The unbound expression, with the names that its columns have in the schema.

    Raises ExpressionError where a column is gone, and for what `to_kept` never gave.
    """
    match value:
        case bool():
            return TRUE if value else FALSE
        case ["and" | "or" as word, *children]:
            operands = tuple(from_kept(c, schema) for c in children)
            return And(operands) if word == "and" else Or(operands)
        case ["not", child]:
            return Not(from_kept(child, schema))
        case {"op": op, "id": int(field_id), "column": name, "literals": list(literals), **rest}:
            if schema.get_field(field_id) is None:
                raise ExpressionError(f"the column {name!r} (id {field_id}) is gone")
            try:
                term: Term = Reference(schema.name_of(field_id))
                if "transform" in rest:
                    term = TransformTerm(term.name, parse_transform(str(rest["transform"])))
                return Predicate(PredicateOperator(op), term, tuple(map(_value, literals)))
            except (ValueError, TypeError, AttributeError, InvalidOperation) as e:
                raise ExpressionError(f"{value!r} is no kept leaf of an expression: {e}") from e
        case _:
            raise ExpressionError(f"{value!r} is no kept expression")


def _leaf(p: Predicate, schema: Schema, case_sensitive: bool) -> dict[str, Any]:
    term, literals = p.term, p.literals
    try:
        found = term.field if isinstance(term, BoundTerm) else schema.find_field(term.name, case_sensitive)
    except ValidationError as e:
        raise ExpressionError(str(e)) from e
    if isinstance(term, BoundTerm):
        literals = tuple(TypedValue(term.result_type, v) for v in literals)
    out = {"op": str(p.op), "id": found.field_id, "column": term.name, "literals": [value_to_kept(v) for v in literals]}
    transform = IdentityTransform() if isinstance(term, Reference) else term.transform
    return out if isinstance(transform, IdentityTransform) else {**out, "transform": str(transform)}


_WRITTEN: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
    (bool, "bool", bool),
    (int, "int", str),
    (float, "float", float.hex),
    (Decimal, "decimal", str),
    (str, "string", str),
    (bytes, "bytes", bytes.hex),
    (dt.datetime, "datetime", dt.datetime.isoformat),
    (dt.date, "date", dt.date.isoformat),
    (dt.time, "time", dt.time.isoformat),
    (UUID, "uuid", str),
)
"""The first type that fits a literal is its kind: to Python a bool is an int too, and a datetime a date."""


def value_to_kept(value: Any) -> list[Any]:
    """A literal, or a value of a column, as its kind and text. Raises ExpressionError for other types."""
    value = plain(value)
    if value is None:
        return ["null"]
    if isinstance(value, TypedValue):
        return ["typed", str(value.type), value_to_kept(value.value)]
    for kind, name, write in _WRITTEN:
        if isinstance(value, kind):
            return [name, write(value)]
    raise ExpressionError(f"a literal of type {type(value).__name__} can't be kept")


def _value(tagged: Any) -> Any:
    match tagged:
        case ["null"]:
            return None
        case ["typed", kind, inner]:
            return TypedValue(parse_primitive(kind), _value(inner))
        case ["bool", bool(v)] | ["string", str(v)]:
            return v
        case ["int", text]:
            return int(text)
        case ["float", text]:
            return float.fromhex(text)
        case ["decimal", text]:
            return Decimal(text)
        case ["bytes", text]:
            return bytes.fromhex(text)
        case ["datetime", text]:
            return dt.datetime.fromisoformat(text)
        case ["date", text]:
            return dt.date.fromisoformat(text)
        case ["time", text]:
            return dt.time.fromisoformat(text)
        case ["uuid", text]:
            return UUID(text)
        case _:
            raise ValueError(f"{tagged!r} is no literal")
