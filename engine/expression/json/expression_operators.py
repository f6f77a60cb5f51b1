"""The operators of expression JSON, which are two-valued, and where they differ from SQL's.

JSON's `not-eq(x, 1)` is true of a null, SQL's `x <> 1` selects no null; the spec's `gt` leaves NaN out, SQL's has it.
"""

from __future__ import annotations

from icecore.engine.expression.nodes import PredicateOperator

UNARY = (PredicateOperator.IS_NULL, PredicateOperator.NOT_NULL, PredicateOperator.IS_NAN, PredicateOperator.NOT_NAN)
SETS = (PredicateOperator.IN, PredicateOperator.NOT_IN)
LIKES = (PredicateOperator.LIKE, PredicateOperator.NOT_LIKE)
"""JSON has no form of these."""
TRUE_OF_NULL = (
    PredicateOperator.NOT_EQ,
    PredicateOperator.NOT_IN,
    PredicateOperator.NOT_NAN,
    PredicateOperator.NOT_STARTS_WITH,
)
"""True of a null in JSON, not in SQL."""
GREATER = (PredicateOperator.GT, PredicateOperator.GT_EQ)
"""True of NaN in SQL, not in JSON."""
