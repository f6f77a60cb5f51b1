"""The columns of a view's query as those of the view's schema: names, types, and no value changed on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.nested import list_parts, map_parts, no_rows, struct_children
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
    try:
        return pa.Table.from_batches((_cast(b, wanted) for b in rows.rename_columns(wanted.names).to_batches()), wanted)
    except (ValueError, pa.ArrowNotImplementedError) as e:  # Arrow's for a value, and for types that have no cast
        raise ValidationError(f"{owner}: what its query gives doesn't fit its schema: {e}; replace the view") from e


def _cast(rows: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The rows in other types. Raises ValueError for a value that becomes another, which Arrow does not always do."""
    made = rows.cast(wanted)
    for name, found, column in zip(wanted.names, rows.columns, made.columns, strict=True):
        for before, after in _cast_parts(found, column):
            if len(changed := before.filter(_is_other(before, after))):
                raise ValueError(f"{changed[0]} in {name!r} has no equal as {after.type}")
    return made


def _cast_parts(found: pa.Array, made: pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The values of a column before and after a cast of which Arrow does not check all, at any depth.

    A struct may lose fields, as the rows of a table do. Raises ValueError where it lacks one, which would be null.
    """
    if found.type == made.type:
        return
    if pa.types.is_struct(made.type) and pa.types.is_struct(found.type):
        own = dict(zip(found.type.names, struct_children(found), strict=True))
        if lacks := [f.name for f in made.type if f.name not in own]:
            raise ValueError(f"the fields {lacks} of a struct are not there")
        pairs = [(own[f.name], child) for f, child in zip(made.type, struct_children(made), strict=True)]
    elif pa.types.is_map(made.type):
        pairs = list(zip(map_parts(found)[1:], map_parts(made)[1:], strict=True))
    elif pa.types.is_list(made.type):
        pairs = [(list_parts(found)[1], list_parts(made)[1])]
    else:
        yield from [(found, made)] if _is_unchecked(found.type, made.type) else []
        return
    for pair in pairs:
        yield from _cast_parts(*pair)


def _is_unchecked(found: pa.DataType, made: pa.DataType) -> bool:
    """Whether a cast may change values: Arrow checks those to integers, and texts are spelled by who makes them.

    Raises ValueError for a cast between numbers and times, which have no equals.
    """
    both = [pa.types.is_temporal(t) for t in (found, made) if _is_plain(t)]
    if both in ([True, False], [False, True]):
        raise ValueError(f"{found} is not {made}")
    return (len(both) == 2 and not pa.types.is_integer(made)) or (found, made) == (pa.string(), pa.float32())


def _is_plain(t: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(t) or pa.types.is_decimal(t))


def _is_other(found: pa.Array, made: pa.Array) -> pa.Array:
    """The mask of the values that are others when they are cast back; a decimal's equal is the float of its digits."""
    if pa.types.is_string(found.type) or pa.types.is_decimal(found.type) != pa.types.is_decimal(made.type):
        made = made.cast(pa.string())
    if pa.types.is_string(found.type):
        found = found.cast(pa.float64())
    back = made.cast(found.type)
    same = pc.equal(back, found)
    if pa.types.is_floating(found.type):
        same = pc.or_(same, pc.and_(pc.is_nan(back), pc.is_nan(found)))
    return pc.invert(pc.fill_null(same, True))


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
