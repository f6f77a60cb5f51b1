"""One statement of the SQL prompt: whether it may be asked, and which tables it is about."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from icecore.engine.common.text import parser_words
from icecore.engine.errors import ExpressionError, ValidationError

_QUESTIONS = (exp.Query, exp.Values, exp.Pivot, exp.Describe, exp.Summarize, exp.Show)
_CHANGES = (exp.DML, exp.DDL, exp.Merge, exp.Command)


def parse_statement(query: str) -> exp.Expression:
    """The only statement of a text, by its tree.

    Raises ExpressionError where it can't be parsed, ValidationError where there are more, or where it asks nothing.
    """
    try:
        with _quiet():
            statements = [s for s in sqlglot.parse(query, dialect="duckdb") if s is not None]
    except (sqlglot.errors.SqlglotError, RecursionError) as e:
        raise ExpressionError(f"the query can't be parsed: {parser_words(e)}") from e
    if len(statements) != 1:
        raise ValidationError(f"expected one SQL statement, found {len(statements)}")
    _check(statements[0], query)
    return statements[0]


def is_about_columns(statement: exp.Expression) -> bool:
    """Whether it asks for the names of tables or columns, so that no row is needed: SHOW and DESCRIBE."""
    return isinstance(statement, exp.Show | exp.Describe) or _is_show(statement)


def as_run(statement: exp.Expression, query: str) -> str:
    """The text for DuckDB, which takes `DESCRIBE tables` for `SHOW TABLES`: there a SELECT stands for the table."""
    about = statement.this
    if isinstance(statement, exp.Describe | exp.Summarize) and isinstance(about, exp.Table):
        return str(type(statement)(this=exp.select("*").from_(about)).sql("duckdb"))
    return query


def _check(statement: exp.Expression, query: str) -> None:
    changes = (type(c).__name__.upper() for c in statement.find_all(*_CHANGES) if not isinstance(c, exp.Query))
    if _is_show(statement):
        return
    if not isinstance(statement, _QUESTIONS):
        word = sqlglot.tokenize(query, dialect="duckdb")[0].text.upper()
        raise ValidationError(f"{word} can't be run: {_ALLOWED}")
    if (change := next(changes, None)) is not None:
        raise ValidationError(f"{change} can't be run inside of a query: {_ALLOWED}")


_ALLOWED = "SQL changes nothing here, it can be SELECT, SHOW TABLES, SUMMARIZE or DESCRIBE"


def _is_show(statement: exp.Expression) -> bool:
    """Whether it is a SHOW of one table, a command that sqlglot does not take apart."""
    return isinstance(statement, exp.Command) and str(statement.this).upper() == "SHOW"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A context without sqlglot's warnings of statements that it does not take apart."""
    log = logging.getLogger("sqlglot")
    was = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = was
