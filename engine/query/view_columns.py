"""The columns of a view's query as those of the view's schema: names, types, and no value changed on the way."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb
import pyarrow as pa
from attrs import evolve

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.scan.relation.scan_relation import column_names
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FixedType, ListType, MapType, NestedField, StructType, Type

SQL = "query/views.sql"
_WANTED = "__icecore_wanted"
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")
# The one cast in which Arrow does not check what it loses.
_ROUNDING = (pa.float64(), pa.float32())


def nullable(schema: Schema) -> Schema:
    """The columns of a view's rows, all optional: nothing makes its query keep to what is required."""
    return Schema(tuple(map(_optional, schema.fields)), schema.schema_id)


def view_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the rows of a view."""
    return schema_to_arrow(nullable(schema), with_ids=False)


def _optional(f: NestedField) -> NestedField:
    return evolve(f, required=False, field_type=_optional_inside(f.field_type))


def _optional_inside(t: Type) -> Type:
    match t:
        case StructType():
            return StructType(tuple(map(_optional, t.fields)))
        case ListType():
            return evolve(t, element=_optional_inside(t.element), element_required=False)
        case MapType():
            return evolve(t, key=_optional_inside(t.key), value=_optional_inside(t.value), value_required=False)
        case _:
            return t


def view_sql(con: duckdb.DuckDBPyConnection, sql: str, schema: Schema, owner: str, has_star: bool) -> str | None:
    """The query of a view that gives the columns of its schema; None where Arrow has to check the values for that.

    The names of `sql` are known to the connection. Raises ValidationError where the columns don't fit the schema any
    more, duckdb.Error where DuckDB can't plan it.
    """
    if any(isinstance(schema.find_field(i).field_type, FixedType) for i in schema.field_ids):
        # To DuckDB all bytes are of one type, whatever their number.
        return None
    found = con.sql(sql)
    with duck.registered(con, _WANTED, no_rows(view_schema(schema))):
        wanted = [str(t) for t in con.sql(query(SQL, "all_of", rows=_WANTED)).types]
    given = [quote(f"column {i} of {owner}") for i in range(1, len(found.columns) + 1)]
    columns = []
    places = _places(found.columns, [f.name for f in schema.fields], owner, has_star)
    for place, name, type_ in zip(places, column_names(schema), wanted, strict=True):
        # DuckDB names the column of a value that it can't cast.
        given[place] = quote(f"{name} of {owner}")
        value = _as_type(given[place], str(found.types[place]), type_)
        if value is None:
            return None
        columns.append(f"{value} AS {quote(name)}")
    return query(SQL, "renamed", columns=", ".join(columns), query=sql, given=", ".join(given))


def conformed(rows: pa.Table, schema: Schema, owner: str, has_star: bool) -> pa.Table:
    """The rows with the columns of a view's schema. Raises ValidationError where they don't fit the schema any more."""
    wanted = view_schema(schema)
    rows = rows.select(_places(rows.column_names, wanted.names, owner, has_star))
    rounded = [f.name for f, found in zip(wanted, rows.schema, strict=True) if (found.type, f.type) == _ROUNDING]
    if rounded:
        raise ValidationError(f"{owner}: its query gives doubles for the floats {rounded}; replace the view")
    try:
        return rows.rename_columns(wanted.names).cast(wanted)
    except (ValueError, pa.ArrowNotImplementedError) as e:  # Arrow's for a value, and for types that have no cast
        raise ValidationError(f"{owner}: what its query gives doesn't fit its schema: {e}; replace the view") from e


def _places(found: Sequence[str], wanted: Sequence[str], owner: str, has_star: bool) -> list[int]:
    """The place of each wanted column: its own, as column aliases of the View spec go by position.

    A query with a star gives whatever columns its tables have now, so there they are found by name. Raises
    ValidationError where there are more or fewer.
    """
    if has_star and all(found.count(n) == 1 for n in wanted):
        return [found.index(n) for n in wanted]
    if len(found) != len(wanted):
        raise ValidationError(
            f"{owner}: its query gives the columns {list(found)}, its schema has {list(wanted)}; replace the view"
        )
    return list(range(len(wanted)))


def _as_type(column: str, found: str, wanted: str) -> str | None:
    """A column in a type that holds its values, or refuses one as Arrow does; None where there is no such cast."""
    if found == wanted:
        return column
    numbers = _DECIMAL.fullmatch(found), _DECIMAL.fullmatch(wanted)
    match numbers:
        case re.Match() as own, re.Match() as other:
            (precision, scale), (most, digits) = (map(int, m.groups()) for m in (own, other))
            holds = digits >= scale and most - digits >= precision - scale
        case None, re.Match():
            holds = (found, wanted) in {("HUGEINT", "DECIMAL(38,0)"), ("UBIGINT", "DECIMAL(20,0)")}
        case _:
            integers = found in _INTEGERS and wanted in _INTEGERS
            holds = integers or (found, wanted) in {("FLOAT", "DOUBLE"), ("JSON", "VARCHAR")}
    return f"CAST({column} AS {wanted})" if holds else None
