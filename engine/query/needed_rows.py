"""The rows and columns that a query needs of its tables, by DuckDB's plan of the query over tables without rows.

The plan has the conditions that rows of a table must meet, wherever the query says them: in a common table expression,
a view, through a join. The conditions only leave files out: DuckDB compares the rows again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
from attrs import frozen

from icecore.engine.common.text import number_in
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import TRUE, Expression, Predicate, Reference
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.sql.sql_reader import understood_conditions
from icecore.engine.expression.walk import predicates, rewrite
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.scan.relation.file_footers import SQL
from icecore.engine.scan.relation.registered_scan import drop_view, make_view
from icecore.engine.scan.relation.scan_relation import column_names
from icecore.engine.spec.reserved import FILE, SPEC_ID
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FloatType

PLANS = "query/plans.sql"
FILE_COLUMNS = Schema((FILE, SPEC_ID))
"""The metadata columns that are the same in all rows of a file."""
_FILTER, _SCAN = "FILTER", "PYTHON_ARROW_SCAN"
_NO_COLUMN = "none"
"""The first column of stand-ins, whose name no other has: a plan that needs no column reads the first."""


@frozen
class NeededRows:
    """The condition that the rows of a table must meet to matter, bound to its schema, and the columns by their ids.

    `columns` of None are all; where it is empty, only the number of rows matters. `of_file` is the condition that
    the file of a row must meet, bound to FILE_COLUMNS.
    """

    condition: Expression = TRUE
    columns: frozenset[int] | None = None
    of_file: Expression = TRUE


@contextmanager
def stand_in(con: duckdb.DuckDBPyConnection, name: str, schema: Schema) -> Iterator[None]:
    """A context with a table of a schema, without rows, whose columns a plan tells apart from all others."""
    arrow = pa.schema([pa.field(_NO_COLUMN, pa.bool_()), *schema_to_arrow(schema, with_ids=False)])
    hidden = [f"{name}_{f.field_id}" for f in schema.fields]
    columns = [f"{h} AS {quote(n)}" for h, n in zip(hidden, column_names(schema), strict=True)]
    rows = query(SQL, "given_rows", columns=", ".join(columns), rows=quote(f"{name}_rows"))
    with duck.registered(con, f"{name}_rows", no_rows(arrow).rename_columns([f"{name}_{_NO_COLUMN}", *hidden])):
        make_view(con, name, rows)
        try:
            yield
        finally:
            drop_view(con, name)


def needed_rows(
    con: duckdb.DuckDBPyConnection, sql: str, schemas: Mapping[str, Schema], parameters: Mapping[str, Any] | None
) -> dict[str, NeededRows]:
    """The rows and columns that a query needs of each stand-in. Raises duckdb.Error where DuckDB can't plan it."""
    ((_, plan),) = duck.rows(con, query(PLANS, "explained", query=sql), parameters)
    found: dict[str, list[tuple[list[str], set[int]]]] = {name: [] for name in schemas}
    for node, conditions in _scans(json.loads(plan), ()):
        columns = _texts(node["extra_info"].get("Projections"))
        owners = {name for name in schemas for c in columns if c.startswith(f"{name}_")}
        if len(owners) != 1:
            return {name: NeededRows() for name in schemas}
        (name,) = owners
        places = {c.removeprefix(f"{name}_").partition(".")[0] for c in columns}
        ids = {int(place) for place in places - {_NO_COLUMN}}
        found[name].append((conditions, ids))
    return {name: _together(name, schema, found[name]) for name, schema in schemas.items()}


def _scans(nodes: Sequence[dict[str, Any]], conditions: Sequence[str]) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """The scans of stand-ins, each with the conditions right above it."""
    for node in nodes:
        if node["name"] == _SCAN:
            yield node, list(conditions)
        # A plan has each line of a text by itself: a line of a literal would be read as a condition.
        own = ["\n".join(_texts(node["extra_info"].get("Expression")))] if node["name"] == _FILTER else []
        yield from _scans(node["children"], own)


def _texts(info: Any) -> list[str]:
    return [info] if isinstance(info, str) else list(info or [])


def _together(name: str, schema: Schema, scans: Sequence[tuple[list[str], set[int]]]) -> NeededRows:
    """The needs of all scans of a table; a common table expression may make several."""
    if not scans:
        return NeededRows()
    conditions, of_file = (
        or_(*(and_(*(c for text in texts for c in _conditions(name, columns, text))) for texts, _ in scans))
        for columns in (schema, FILE_COLUMNS)
    )
    return NeededRows(conditions, frozenset[int]().union(*(ids for _, ids in scans)), of_file)


def _conditions(name: str, schema: Schema, text: str) -> Iterator[Expression]:
    """The conditions in a text that are on columns of a schema and that this engine takes as DuckDB does."""
    try:
        understood = understood_conditions(text)
    except ExpressionError:
        return
    for condition in understood:
        ids = [_field_id(name, p) for p in predicates(condition)]
        if any(
            i is None or i not in schema.field_ids or isinstance(schema.find_field(i).field_type, FloatType)
            for i in ids
        ):
            # A plan shows the digits of a number, not whether they are those of a float or a double.
            continue
        try:
            yield bind(rewrite(condition, lambda p: _renamed(name, schema, p)), schema)
        except ValidationError:
            continue


def _field_id(name: str, predicate: Predicate) -> int | None:
    term = predicate.term
    return number_in(term.name.removeprefix(f"{name}_")) if isinstance(term, Reference) else None


def _renamed(name: str, schema: Schema, predicate: Predicate) -> Predicate:
    field_id = _field_id(name, predicate)
    return Predicate(predicate.op, Reference(schema.name_of(field_id or 0)), predicate.literals)
