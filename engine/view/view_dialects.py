"""A view's SQL in a dialect: the stored one, or one transpiled with sqlglot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlglot
from attrs import frozen
from sqlglot.dialects import Dialects

from icecore.engine.errors import ValidationError
from icecore.engine.spec.view import ViewRepresentation, ViewVersion


@frozen
class ViewSql:
    """A query and its dialect; `transpiled_from` names the dialect it was translated from, None where it is stored."""

    sql: str
    dialect: str
    transpiled_from: str | None = None

    def __str__(self) -> str:
        return self.sql


def sql_for(version: ViewVersion, dialect: str, view_name: str) -> ViewSql:
    """The SQL of a version in a dialect, whatever its case: stored, else translated from the first that can be.

    Raises ValidationError where there is none and none can be translated; the message says why.
    """
    if not isinstance(dialect, str) or not dialect:
        raise ValidationError(f"a dialect must be a name, found {dialect!r}")
    stored = [r for r in version.representations if r.type == "sql" and r.sql is not None and r.dialect is not None]
    for r in stored:
        if r.dialect is not None and r.dialect.lower() == dialect.lower():
            return ViewSql(r.sql or "", r.dialect)
    return _transpiled(stored, dialect, view_name)


def _transpiled(stored: Iterable[ViewRepresentation], dialect: str, view_name: str) -> ViewSql:
    why = []
    for r in stored:
        source = r.dialect or ""
        try:
            return ViewSql(transpile(r.sql or "", source, dialect), dialect, transpiled_from=source)
        except ValidationError as e:
            why.append(str(e))
    reasons = "; ".join(why) or "it has no SQL at all"
    raise ValidationError(f"the view {view_name} has no SQL for {dialect}, and none can be made: {reasons}")


def transpile(sql: str, source: str, target: str) -> str:
    """One query in another dialect. Raises ValidationError for what sqlglot doesn't know or can't say there."""
    for name in (source, target):
        check_known(name)
    try:
        found = sqlglot.transpile(
            sql, read=source.lower(), write=target.lower(), unsupported_level=sqlglot.ErrorLevel.RAISE, pretty=True
        )
    except (sqlglot.errors.SqlglotError, RecursionError) as e:
        raise ValidationError(f"the {source} SQL can't be translated to {target}: {e}") from e
    if len(found) != 1:
        raise ValidationError(f"the {source} SQL must be one query, found {len(found)} statements")
    text: str = found[0]
    return text


def check_known(dialect: str) -> None:
    """Raises ValidationError for a dialect that sqlglot does not know."""
    known = sorted(d.value for d in Dialects if d.value)
    if dialect.lower() not in known:
        raise ValidationError(f"{dialect!r} is no dialect that can be translated; those are {', '.join(known)}")


def representations_of(
    sql: str | None, dialect: str, others: Mapping[str, str] | None
) -> tuple[ViewRepresentation, ...]:
    """The representations of a new version: the first query, then others by dialect.

    Raises ValidationError where there is none, or one is empty. Two of one dialect are refused when they are added
    (V1).
    """
    queries = ([] if sql is None else [(dialect, sql)]) + list((others or {}).items())
    if not queries:
        raise ValidationError("a view needs a query in at least one dialect")
    for name, text in queries:
        for what, value in (("dialect", name), ("query", text)):
            if not isinstance(value, str) or not value.strip():
                raise ValidationError(f"a view's {what} must be a string that is not empty, found {value!r}")
    return tuple(ViewRepresentation("sql", text, name) for name, text in queries)
