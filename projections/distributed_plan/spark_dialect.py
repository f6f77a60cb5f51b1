"""Statements of `sql/plan/`, which are DuckDB's, as Spark SQL that says the same.

sqlglot turns the dialect. What it does not know, or what means something else in Spark, is rewritten here on the tree;
a function that neither knows is refused. Values become typed literals whose text no setting of a session reads
otherwise, so that a statement needs no parameters.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import sqlglot
from attrs import frozen
from sqlglot import exp
from sqlglot.errors import SqlglotError

from icecore.engine.errors import ValidationError

# The base of all nodes has had two names in sqlglot.
Expr: TypeAlias = Any
# Functions of the statements that sqlglot has no node for: none is left after the rewriting.
_OVER_LISTS = ("list_bool_or", "list_bool_and", "list_sum")
_WILD = "%_"
_ESCAPES = "!~^#|@&;:?"


@frozen
class Values:
    """The values of a statement's parameters, with their DuckDB types."""

    values: Mapping[str, Any]
    types: Mapping[str, str]

    def literal(self, name: str) -> Expr:
        """A parameter as a literal; a list as an array of them."""
        kind = self.types[name]
        if kind.endswith("[]"):
            item = exp.Array(expressions=self.items(name))
            return exp.cast(item, exp.DataType.build(f"{_spark_type(kind[:-2])}[]", dialect="duckdb"))
        return _literal(kind, self.values[name])

    def items(self, name: str) -> list[Expr]:
        """The values of a list as literals."""
        kind = self.types[name].removesuffix("[]")
        return [_literal(kind, v) for v in self.values[name]]


def to_spark_sql(statement: str, values: Values, relations: Collection[str] = ()) -> str:
    """A DuckDB statement in Spark's dialect; the names of relations become `{name}`, which `session.sql` replaces.

    Raises ValidationError.
    """
    try:
        tree = sqlglot.parse_one(statement, dialect="duckdb")
        tree = _unrolled(tree, values)
        tree = tree.transform(lambda node: _rewritten(node, values, relations), copy=False)
        _check(tree)
        text: str = tree.sql(dialect="spark", comments=False, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except (SqlglotError, RecursionError, NotImplementedError) as e:
        raise ValidationError(f"the plan's query can't be said in Spark SQL: {e}") from e
    return text


def _rewritten(node: Expr, values: Values, relations: Collection[str]) -> Expr:
    """A node as Spark has it. The nodes above it were rewritten before."""
    match node:
        case exp.Placeholder():
            return values.literal(node.name)
        case exp.In() if node.args.get("query") is not None:
            return _one_of(node, values)
        case exp.In() if any(_is_floating(e, values) for e in node.expressions):
            return _equals_one(node, [values.literal(e.name) for e in node.expressions])
        case exp.Escape(this=exp.Like()):
            return _like(node, values, values.values[node.expression.name])
        case exp.Like() if not isinstance(node.parent, exp.Escape):
            return _like(exp.Escape(this=node.copy()), values, None)
        case exp.Bracket(expressions=[exp.Slice() as part]):
            length = int(part.expression.name) - int(part.this.name) + 1
            return exp.Substring(this=node.this, start=part.this, length=exp.Literal.number(length))
        case exp.CTE():
            node.set("materialized", None)
        case exp.Table() if node.name in relations:
            node.set("this", exp.to_identifier(f"{{{node.name}}}", quoted=False))
    return node


def _is_floating(node: Expr, values: Values) -> bool:
    return isinstance(node, exp.Placeholder) and values.types[node.name] in ("FLOAT", "DOUBLE")


def _one_of(node: exp.In, values: Values) -> Expr:
    """`x IN (SELECT unnest($list))` with the items written out."""
    found = list(node.args["query"].find_all(exp.Placeholder))
    if len(found) != 1 or not values.types[found[0].name].endswith("[]"):
        raise ValidationError(f"the plan's query can't be said in Spark SQL: {node.sql()[:80]}")
    items = values.items(found[0].name)
    if values.types[found[0].name] in ("FLOAT[]", "DOUBLE[]"):
        return _equals_one(node, items)
    node.set("query", None)
    node.set("expressions", items)
    return node


def _equals_one(node: exp.In, items: list[Expr]) -> Expr:
    """IN of floating-point numbers as comparisons: a long list becomes a set in Spark, in which -0.0 is not 0.0."""
    if node.args.get("negate"):
        raise ValidationError("NOT IN of floating-point numbers can't be said in Spark SQL")
    return exp.paren(exp.or_(*(exp.EQ(this=node.this.copy(), expression=i) for i in items), copy=False), copy=False)


def _like(node: exp.Escape, values: Values, escape: str | None) -> Expr:
    """A LIKE that names its escape character: Spark's own is the backslash, DuckDB has none unless it is said."""
    like = node.this
    text, character = _pattern(values.values[like.expression.name], escape)
    like.set("expression", _literal("VARCHAR", text))
    node.set("expression", exp.Literal.string(character))
    return node


def _pattern(text: str, escape: str | None) -> tuple[str, str]:
    """An equivalent pattern, and its escape character, which stands before wildcards alone."""
    new = next(c for c in (*_ESCAPES, *map(chr, range(0x2460, 0x2500))) if c not in text)
    out, characters = [], iter(text)
    for c in characters:
        if escape and c == escape:
            c = next(characters, "")
            out.append(f"{new}{c}" if c and c in _WILD else c)
        else:
            out.append(c)
    return "".join(out), new


def _unrolled(tree: Expr, values: Values) -> Expr:
    """The tree with conditions over lists of literals written out, one for each item: see `wide_filters`."""

    def unroll(node: Expr) -> Expr:
        if not (isinstance(node, exp.Anonymous) and node.name in _OVER_LISTS):
            return node
        (transform,) = node.expressions
        zipped, function = transform.this, transform.expression
        lists = [values.items(p.name) for p in zipped.expressions]
        item = function.expressions[0].name
        parts = [_with_item(function.this.copy(), item, row) for row in zip(*lists, strict=True)]
        match node.name:
            case "list_bool_or":
                return exp.paren(exp.or_(*parts, copy=False), copy=False)
            case "list_bool_and":
                return exp.paren(exp.and_(*parts, copy=False), copy=False)
            case _:
                return exp.paren(_sum(parts), copy=False)

    return tree.transform(unroll, copy=False)


def _with_item(condition: Expr, name: str, row: tuple[Expr, ...]) -> Expr:
    """A condition with the items of lists, `name[i]`, in the place of literals."""

    def item(node: Expr) -> Expr:
        if isinstance(node, exp.Bracket) and node.this.name == name:
            # sqlglot counts from 0, whatever the dialect.
            return row[int(node.expressions[0].name)].copy()
        return node

    return condition.transform(item, copy=False)


def _sum(parts: list[Expr]) -> Expr:
    """The sum of parts, not nested deeper than need be."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return exp.Add(this=exp.paren(_sum(parts[:middle])), expression=exp.paren(_sum(parts[middle:])))


def _check(tree: Expr) -> None:
    """Refuses what sqlglot passes through without knowing what it means."""
    for node in tree.find_all(exp.Anonymous, exp.Lambda, exp.Parameter, exp.Placeholder, exp.Star):
        if isinstance(node, exp.Star) and not node.args.get("replace"):
            continue
        raise ValidationError(f"the plan's query can't be said in Spark SQL: {node.sql()[:80]}")


def _literal(kind: str, value: Any) -> Expr:
    """A value of a DuckDB type as Spark's literal of it."""
    spark = _spark_type(kind)
    match spark:
        case "BOOLEAN":
            return exp.Boolean(this=bool(value))
        case "BLOB":
            return _bytes(value)
        case "VARCHAR":
            return exp.cast(_bytes(value.encode()), "STRING", dialect="spark")
        case "FLOAT" | "DOUBLE":
            return _cast(_cast(exp.Literal.string(_number(value)), "DOUBLE"), spark)
        case _:
            text = format(value, "f") if isinstance(value, Decimal) else str(int(value))
            return _cast(exp.Literal.string(text), spark)


def _cast(value: Expr, kind: str) -> Expr:
    return exp.Cast(this=value, to=exp.DataType.build(kind, dialect="duckdb"))


def _bytes(value: bytes) -> Expr:
    return exp.HexString(this=bytes(value).hex().upper())


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{'-' if value < 0 else ''}Infinity" if math.isinf(value) else repr(float(value))


def _spark_type(kind: str) -> str:
    """The DuckDB type, where there is a literal of it. Raises ValidationError."""
    if kind in ("BOOLEAN", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR", "BLOB") or kind.startswith("DECIMAL("):
        return kind
    raise ValidationError(f"there is no literal of the type {kind} in Spark SQL")
