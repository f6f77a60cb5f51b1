"""Schemas as people write them: `id long not null, ts timestamptz, tags list<string>, at struct<x: double, y: double>`.

The types are Iceberg's own (T1, T2), the usual SQL names of them are taken too. The text is parsed by sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import sqlglot
from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from icecore.engine.common.text import number_in, parser_words
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FixedType, ListType, MapType, NestedField, StructType, Type, parse_primitive


def parse_schema(text: str) -> Schema:
    """The schema of a list of columns: a name, a type, then `not null` and `comment 'words'` where wanted.

    Names that are no plain words stand in double quotes or backticks. Field ids count from 1, those of a struct's
    fields before those inside of them. Raises ValidationError naming the column that can't be understood.
    """
    columns = _parse(text)
    if not columns:
        raise ValidationError("a schema needs at least one column, as in 'id long, name string'")
    ids = count(1)
    numbered = [(c, next(ids)) for c in columns]
    return Schema(tuple(_column(c, i, ids) for c, i in numbered))


class _Dialect(Dialect):  # type: ignore[misc]  # sqlglot is untyped here
    """Standard SQL with Iceberg's types: those that SQL lacks are parsed as types of other databases."""

    class Tokenizer(tokens.Tokenizer):  # type: ignore[misc]  # as above
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012  # sqlglot's own form
        KEYWORDS = {  # noqa: RUF012  # sqlglot's own form
            **tokens.Tokenizer.KEYWORDS,
            "FIXED": tokens.TokenType.FIXEDSTRING,
            "TIMESTAMP_NS": tokens.TokenType.TIMESTAMP_NS,
            "TIMESTAMPTZ_NS": tokens.TokenType.TIMESTAMP_S,
        }


_FIXED = exp.DataType.Type.FIXEDSTRING
_SQL_NAMES = {
    exp.DataType.Type.TIMESTAMP_NS: "timestamp_ns",
    exp.DataType.Type.TIMESTAMP_S: "timestamptz_ns",
    exp.DataType.Type.BIGINT: "long",
    exp.DataType.Type.BOOLEAN: "boolean",
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.DOUBLE: "double",
    exp.DataType.Type.FLOAT: "float",
    exp.DataType.Type.GEOGRAPHY: "geography",
    exp.DataType.Type.GEOMETRY: "geometry",
    exp.DataType.Type.INT: "int",
    exp.DataType.Type.TEXT: "string",
    exp.DataType.Type.TIME: "time",
    exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamptz",
    exp.DataType.Type.TIMESTAMPLTZ: "timestamptz",
    exp.DataType.Type.UNKNOWN: "unknown",
    exp.DataType.Type.UUID: "uuid",
    exp.DataType.Type.BINARY: "binary",
    exp.DataType.Type.VARBINARY: "binary",
    exp.DataType.Type.VARCHAR: "string",
    exp.DataType.Type.VARIANT: "variant",
}
_WITH_WORDS = (exp.DataType.Type.GEOMETRY, exp.DataType.Type.GEOGRAPHY)
_LISTS = (exp.DataType.Type.LIST, exp.DataType.Type.ARRAY)


def _parse(text: str) -> list[Any]:
    try:
        statements = sqlglot.parse(f"CREATE TABLE t (\n{_quoted_crs(text)}\n)", dialect=_Dialect)
    except (SqlglotError, RecursionError) as e:
        raise ValidationError(f"the schema {text!r} can't be understood: {parser_words(e)}") from e
    if len(statements) != 1 or not isinstance(statements[0], exp.Create):
        raise ValidationError(f"the schema {text!r} can't be understood")
    columns: list[Any] = statements[0].this.expressions
    return columns


# Text in quotes of any kind, or the reference system of a geometry or geography without quotes.
_QUOTED_OR_CRS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\b(geometry|geography)(\s*\(\s*)(\w+:\w+)""", re.IGNORECASE
)


def _quoted_crs(text: str) -> str:
    """The text with `srid:4326` and the like in quotes: without, SQL gives a number behind a colon another meaning."""
    return _QUOTED_OR_CRS.sub(lambda m: f"{m[1]}{m[2]}'{m[3]}'" if m[3] else m[0], text)


def _column(node: Any, field_id: int, ids: Iterator[int]) -> NestedField:
    if not isinstance(node, exp.ColumnDef) or node.args.get("kind") is None:
        raise ValidationError(f"column {node.sql()!r} needs a name and a type, as in 'id long'")
    required, doc = False, None
    for constraint in node.args.get("constraints") or ():
        match constraint.kind:
            case exp.NotNullColumnConstraint() if not constraint.kind.args.get("allow_null"):
                required = True
            case exp.CommentColumnConstraint():
                doc = constraint.kind.name
            case other:
                raise ValidationError(f"column {node.name!r}: a schema can't say {other.sql()!r}")
    return NestedField(field_id, node.name, _type(node.args["kind"], node.name, ids), required, doc)


def _type(node: Any, column: str, ids: Iterator[int]) -> Type:
    kind = node.this
    if kind is _FIXED:
        return _fixed(node, node.expressions, column)
    if kind in _LISTS and node.args.get("values") and node.expressions[0].this is _FIXED:
        # sqlglot reads `fixed[16]` as an array with a length.
        return _fixed(node, node.args["values"], column)
    if kind in _LISTS and len(node.expressions) == 1 and not node.args.get("values"):
        element_id = next(ids)
        return ListType(element_id, _type(node.expressions[0], column, ids))
    if kind is exp.DataType.Type.MAP and len(node.expressions) == 2:
        key_id, value_id = next(ids), next(ids)
        key, value = (_type(n, column, ids) for n in node.expressions)
        return MapType(key_id, key, value_id, value)
    if kind in (exp.DataType.Type.STRUCT, exp.DataType.Type.OBJECT) and node.expressions:
        numbered = [(n, next(ids)) for n in node.expressions]
        return StructType(tuple(_column(n, i, ids) for n, i in numbered))
    return _primitive(node, column)


def _primitive(node: Any, column: str) -> Type:
    kind = node.this
    words = [p.name for p in node.expressions]
    if kind is exp.DataType.Type.DECIMAL and words:
        precision, scale = (*words, "0")[:2]
        text = f"decimal({precision}, {scale})"
    elif kind is exp.DataType.Type.USERDEFINED:
        text = str(node.args["kind"])
    elif kind in _SQL_NAMES and (not words or kind in _WITH_WORDS):
        text = _SQL_NAMES[kind] + (f"({', '.join(words)})" if words else "")
    else:
        text = node.sql()
    try:
        return parse_primitive(text)
    except ValidationError as e:
        raise ValidationError(f"column {column!r}: {e}") from e


def _fixed(node: Any, length: list[Any], column: str) -> FixedType:
    """`fixed[16]`, or `fixed(16)`."""
    number = number_in(length[0].name) if len(length) == 1 else None
    if number is None:
        raise ValidationError(f"column {column!r}: unknown type {node.sql()!r}; a fixed type is written 'fixed[16]'")
    return FixedType(number)
