"""Filters from SQL text, in DuckDB's dialect.

Understood are comparisons of a column with a literal on either side, IN, BETWEEN, LIKE, IS [NOT] NULL, IS [NOT]
DISTINCT FROM, IS [NOT] TRUE, `isnan`, `x IS NAN`, `starts_with`, AND, OR, NOT, boolean columns alone, the transforms
`bucket(16, x)`, `truncate(4, x)`, `year`, `month`, `day` and `hour` (also `years` and so on; `CAST(x AS DATE)` is
`day(x)`), literals of every type with or without a cast, and the parameters `$name`, `:name`, `$1` and `?`. Nested
fields are dotted. Numbers with a point are decimals and those with an exponent doubles, as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.nodes import TRUE, AlwaysFalse, AlwaysTrue, And, Expression, Not, Or, Predicate

_NODES = (AlwaysTrue, AlwaysFalse, And, Or, Not, Predicate)


class PyIcebergExpression(Protocol):
    """A filter made with `pyiceberg.expressions`."""

    def __invert__(self) -> Any: ...

    def model_dump_json(self) -> str: ...


FilterLike: TypeAlias = str | Expression | PyIcebergExpression | None


def check_given(delete_filter: object) -> None:
    """Raises ExpressionError where the filter of a delete is None, which would mean all rows."""
    if delete_filter is None:
        raise ExpressionError("a delete takes a filter, found None: delete('true') deletes all rows")


def parse_filter(text: FilterLike, parameters: Mapping[str, Any] | Sequence[Any] | None = None) -> Expression:
    """The unbound expression of a SQL condition or a PyIceberg filter; None is every row, an expression stays as it is.

    `parameters` gives the values of `$name` and `:name` by name, or those of `?` and `$1` by position; a list fits
    after IN. Raises ExpressionError naming the piece that is not understood.
    """
    if text is None:
        return TRUE
    if isinstance(text, _NODES):
        return text
    if not isinstance(text, str):
        from icecore.engine.expression.given.pyiceberg_expression import expression_of, is_pyiceberg_expression

        if is_pyiceberg_expression(text):
            return expression_of(text)
        raise ExpressionError(f"a filter must be SQL text or an expression, found {type(text).__name__}")
    # Loading the parser takes longer than many programs that read a whole table.
    from icecore.engine.expression.sql.sql_reader import condition_of

    return condition_of(text, parameters)
