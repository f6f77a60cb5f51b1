"""The operators of expression JSON, which are two-valued, and where they differ from SQL's.

JSON's `not-eq(x, 1)` is true of a null, SQL's `x <> 1` selects no null; the spec's `gt` leaves NaN out, SQL's has it.
"""

from __future__ import annotations

from icecore.engine.expression.nodes import Operation

UNARY = (Operation.IS_NULL, Operation.NOT_NULL, Operation.IS_NAN, Operation.NOT_NAN)
SETS = (Operation.IN, Operation.NOT_IN)
LIKES = (Operation.LIKE, Operation.NOT_LIKE)
"""JSON has no form of these."""
TRUE_OF_NULL = (Operation.NOT_EQ, Operation.NOT_IN, Operation.NOT_NAN, Operation.NOT_STARTS_WITH)
"""True of a null in JSON, not in SQL."""
GREATER = (Operation.GT, Operation.GT_EQ)
"""True of NaN in SQL, not in JSON."""
