"""The need of a query for columns that take long to make.

It is read from the names in the query: a star, or a table's name where a column could stand, needs all columns.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp


def names_any(statement: exp.Expression, columns: Collection[str]) -> bool:
    """Whether a statement may ask for one of the columns, of any table."""
    wanted = {c.lower() for c in columns}
    if any(i.name.lower() in wanted for i in statement.find_all(exp.Identifier)):
        return True
    return (
        any(map(_is_star, statement.find_all(exp.Star, exp.Columns))) or _names_a_row(statement) or _is_open(statement)
    )


def _is_star(star: exp.Expression) -> bool:
    """Whether it stands for columns: not in `count(*)`."""
    return not isinstance(star.parent, exp.Count)


def _names_a_row(statement: exp.Expression) -> bool:
    """Whether a table stands for its row, as in `SELECT f FROM files AS f`."""
    tables = {t.alias_or_name.lower() for t in statement.find_all(exp.Table)}
    return any(c.name.lower() in tables for c in statement.find_all(exp.Column))


def _is_open(statement: exp.Expression) -> bool:
    """Whether the tables' columns decide which ones are meant, as in PIVOT or a NATURAL JOIN."""
    if isinstance(statement, exp.Summarize | exp.Pivot) or statement.find(exp.Pivot, exp.Summarize) is not None:
        return True
    if any(not isinstance(t.this, exp.Identifier) for t in statement.find_all(exp.Table)):
        return True
    return any((j.args.get("method") or "").upper() == "NATURAL" for j in statement.find_all(exp.Join)) or any(
        t.args.get("alias") is not None and t.args["alias"].args.get("columns") for t in statement.find_all(exp.Table)
    )
