"""The reader of partition and sort terms: `month(ts)`, `bucket(8, id) AS shard`, `ts DESC NULLS LAST`.

sqlglot parses them in a dialect that knows no function by name and takes both double quotes and backticks around names.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from icecore.engine.errors import ValidationError


@frozen
class ParsedTerm:
    """A term in pieces: the arguments of its function, or the one column where `function` is None.

    An argument is a column's name, a whole number, or None for what is neither. `name` is what stood after AS;
    `descending` and `nulls_first` are those of a sort term.
    """

    function: str | None
    arguments: tuple[str | int | None, ...]
    name: str | None = None
    descending: bool = False
    nulls_first: bool = True


def read_term(text: str) -> ParsedTerm:
    """A column or a transform of one, with or without a name. Raises ValidationError naming the text."""
    node = _parse(text, _EXPRESSION)
    has_as = any(t.token_type == tokens.TokenType.ALIAS for t in _DIALECT.tokenize(text))
    if has_as != isinstance(node, exp.Alias):
        raise ValidationError(f"term {text!r}: a name needs the word AS before it, and AS a name after it")
    return ParsedTerm(*_call(node.this), node.alias) if has_as else ParsedTerm(*_call(node))


def read_sort_term(text: str) -> ParsedTerm:
    """A column or a transform of one with an order. Raises ValidationError naming the text."""
    node = _parse(text, exp.Ordered)
    nulls_first = bool(node.args.get("nulls_first"))
    return ParsedTerm(*_call(node.this), descending=bool(node.args.get("desc")), nulls_first=nulls_first)


class _TermDialect(Dialect):  # type: ignore[misc]  # sqlglot is untyped here
    """Columns and calls, nothing else: with no function known by name, every call comes out as it was written."""

    NULL_ORDERING = "nulls_are_small"

    class Tokenizer(tokens.Tokenizer):  # type: ignore[misc]  # as above
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012  # sqlglot's own form

    class Parser(parser.Parser):  # type: ignore[misc]  # as above
        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012  # sqlglot's own form
        FUNCTION_PARSERS: dict[str, Any] = {}  # noqa: RUF012  # sqlglot's own form
        NO_PAREN_FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012  # sqlglot's own form
        NO_PAREN_FUNCTION_PARSERS: dict[str, Any] = {}  # noqa: RUF012  # sqlglot's own form


_DIALECT = _TermDialect()
_MOST_DIGITS = 20
# The base of all nodes has had two names in sqlglot; it stands for "any expression, with or without a name".
_EXPRESSION: Any = getattr(exp, "Expr", exp.Expression)


def _parse(text: str, into: Any) -> Any:
    try:
        found = _DIALECT.parse_into(into, text)
    except (SqlglotError, RecursionError) as e:
        raise ValidationError(f"term {text!r} can't be parsed; write it like 'x', 'day(ts)' or 'bucket(8, id)'") from e
    if len(found) != 1 or found[0] is None:
        raise ValidationError(f"a term must be one column or transform, found {text!r}")
    return found[0]


def _call(node: Any) -> tuple[str | None, tuple[str | int | None, ...]]:
    if isinstance(node, exp.Anonymous):
        return node.name.lower(), tuple(map(_argument, node.expressions))
    return None, (_argument(node),)


def _argument(node: Any) -> str | int | None:
    if isinstance(node, exp.Literal):
        # Python refuses to make a number of some thousand digits.
        is_number = not node.is_string and node.name.isdecimal() and len(node.name) <= _MOST_DIGITS
        return int(node.name) if is_number else None
    parts = node.parts if isinstance(node, (exp.Column, exp.Dot)) else ()
    if not parts or not all(isinstance(p, exp.Identifier) for p in parts):
        return None
    return ".".join(p.name for p in parts)
