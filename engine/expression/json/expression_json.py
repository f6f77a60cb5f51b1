"""Iceberg's expression JSON, as REST catalogs exchange it.

Spec: Expressions (E1 to E4), Appendix B. JSON predicates are two-valued where SQL's are not: `not-eq(x, 1)` is true of
a null, `x <> 1` selects no null. Writing adds the null tests that keep the rows the same, and reading takes them back.
NaN too: the spec's `gt` leaves NaN out, SQL's includes it, so `gt` of a bound float or double is written with `is-nan`
beside it. Reading includes NaN in both `gt(x, 1)` and `not(gt(x, 1))`, because engines mean one and the spec the other.
"""

from __future__ import annotations

from typing import Any

from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.depth import check_depth, too_deep
from icecore.engine.expression.json.expression_reader import ExpressionReader
from icecore.engine.expression.json.expression_writer import ExpressionWriter
from icecore.engine.expression.nodes import Expression
from icecore.engine.spec.schema import Schema


def to_json(expression: Expression, *, children: bool = False, inclusive: bool = False) -> Any:
    """The JSON value of a bound expression, or of an unbound one without transforms of times.

    With `children` the keys are `child`, `left` and `right`; otherwise `term` and `value`, which older services know.
    LIKE and infinities have no JSON form: where `inclusive`, what is written selects more rows, otherwise
    ExpressionError is raised.
    """
    check_depth(expression)
    try:
        return ExpressionWriter(children, inclusive).write(expression, False)
    except RecursionError:
        raise too_deep() from None


def from_json(obj: Any, schema: Schema | None = None, case_sensitive: bool = True) -> Expression:
    """The unbound expression of a JSON value in either spelling; it selects the rows for which the JSON is true.

    A schema is needed for references by id, for binary literals, and for numbers that stand for dates and times, as
    Java's clients send them; names are looked up in it in any case unless `case_sensitive`. Raises ExpressionError for
    anything that is no expression.
    """
    try:
        expression = ExpressionReader(schema, case_sensitive).read(obj, False)
        check_depth(expression)
        return expression
    except ExpressionError:
        raise
    except ValidationError as e:
        raise ExpressionError(f"not an expression: {e}") from e
    except RecursionError:
        raise too_deep() from None
