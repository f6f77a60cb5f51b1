"""Filters whose column names match in any case, rewritten with the names of the schema."""

from __future__ import annotations

from attrs import evolve

from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.nodes import BoundTerm, Expression, Predicate
from icecore.engine.expression.walk import rewrite
from icecore.engine.spec.schema import Schema


def with_exact_names(expression: Expression, schema: Schema) -> Expression:
    """The filter with each column called as in the schema. Raises ExpressionError where one is missing."""

    def exact(predicate: Predicate) -> Predicate:
        term = predicate.term
        if isinstance(term, BoundTerm):
            return predicate
        try:
            name = exact_name(term.name, schema)
        except ValidationError as e:
            raise ExpressionError(str(e)) from e
        return evolve(predicate, term=evolve(term, name=name))

    return rewrite(expression, exact)


def exact_name(name: str, schema: Schema) -> str:
    """The name of a column as the schema has it. Raises ValidationError for no column."""
    return schema.name_of(schema.find_field(name, case_sensitive=False).field_id)
