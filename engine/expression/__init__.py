"""Filters: build or parse them, bind them to a schema, project, evaluate and write them."""

from typing import TYPE_CHECKING, Any

from icecore.engine.expression.build import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Like,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from icecore.engine.expression.nodes import Expression

if TYPE_CHECKING:
    from icecore.engine.expression.sql.parse import parse_filter

__all__ = [
    "AlwaysFalse",
    "AlwaysTrue",
    "And",
    "EqualTo",
    "Expression",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "IsNaN",
    "IsNull",
    "LessThan",
    "LessThanOrEqual",
    "Like",
    "Not",
    "NotEqualTo",
    "NotIn",
    "NotNaN",
    "NotNull",
    "NotStartsWith",
    "Or",
    "StartsWith",
    "parse_filter",
]


def __getattr__(name: str) -> Any:
    # The SQL parser takes as long to import as all the rest, and much that filters are needed for parses none.
    if name == "parse_filter":
        from icecore.engine.expression.sql.parse import parse_filter

        return parse_filter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
