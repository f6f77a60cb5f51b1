"""Views in Spark: their SQL for Spark, over DataFrames of the tables and views that it names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, assert_never

import sqlglot
from attrs import define, field
from sqlglot import exp

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError
from icecore.engine.query.source_names import (
    Lookup,
    TableSource,
    ViewQuery,
    ViewSource,
    check_no_cycle,
    find_source,
    shortened,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

DIALECT = "spark"


@define
class SparkViews:
    """The DataFrames of views. Spark knows the names in their SQL as temporary views while it parses it."""

    _session: SparkSession
    _lookup: Lookup
    _known: dict[Identifier, DataFrame] = field(factory=dict)

    def frame(self, view: ViewQuery, path: tuple[Identifier, ...] = ()) -> DataFrame:
        """The view's rows, with the names and types of its schema.

        Raises ValidationError where its SQL can't be had for Spark or views form a cycle, NoSuchTableError.
        """
        check_no_cycle(path, view.name())
        if view.name() not in self._known:
            self._known[view.name()] = self._frame(view, (*path, view.name()))
        return self._known[view.name()]

    def _frame(self, view: ViewQuery, path: tuple[Identifier, ...]) -> DataFrame:
        owner = view.scope().owner
        template, names, has_star = spark_template(view.sql_for(DIALECT).sql, owner)
        frames = {placeholder: self._source(view, parts, path) for placeholder, parts in names.items()}
        return _conformed(self._session.sql(template, **frames), view, has_star)

    def _source(self, view: ViewQuery, parts: Identifier, path: tuple[Identifier, ...]) -> DataFrame:
        match find_source(parts, view.scope(), self._lookup):
            case TableSource(table):
                if table.name() not in self._known:
                    self._known[table.name()] = table.scan().to_spark(self._session)
                return self._known[table.name()]
            case ViewSource(inner):
                return self.frame(inner, path)
            case other:
                assert_never(other)


def spark_template(sql: str, owner: str) -> tuple[str, dict[str, Identifier], bool]:
    """A query for `SparkSession.sql` with placeholders for its tables, what they stand for, and whether it has a star.

    Raises ValidationError where it is no single query.
    """
    try:
        statements = sqlglot.parse(sql, dialect=DIALECT)
    except (sqlglot.errors.SqlglotError, RecursionError) as e:
        raise ValidationError(f"{owner}: its Spark SQL can't be parsed: {e}") from e
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise ValidationError(f"{owner}: its Spark SQL must be one query, found {sql[:80]!r}")
    tree = statements[0]
    prefix = _unused_prefix(sql)
    names: dict[Identifier, str] = {}
    for table in [t for t in tree.find_all(exp.Table) if is_name(t) and not is_common_table(t)]:
        parts = tuple(p.name for p in table.parts)
        if table.args.get("version") is not None:
            raise ValidationError(f"{owner}: AS OF is not supported in a view's query, found at {'.'.join(parts)}")
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(parts[-1], quoted=True)))
        table.set("this", exp.to_identifier(names.setdefault(parts, f"{prefix}{len(names)}_")))
        table.set("db", None)
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):
        _shorten(column, names)
    text = tree.sql(dialect=DIALECT)
    if names:
        text = text.replace("{", "{{").replace("}", "}}")
    for placeholder in names.values():
        text = text.replace(placeholder, f"{{{placeholder}}}")
    return text, {placeholder: parts for parts, placeholder in names.items()}, tree.is_star


def _unused_prefix(sql: str) -> str:
    prefix = "icecore_source_"
    while prefix in sql.lower():
        prefix += "_"
    return prefix


def is_name(table: exp.Table) -> bool:
    """Whether it is a named source of rows: neither a table function nor a name in a hint."""
    return all(isinstance(p, exp.Identifier) for p in table.parts) and not is_in_hint(table)


def is_in_hint(node: exp.Expression) -> bool:
    """Whether it is said in a hint, as `/*+ BROADCAST(t) */`. Its place in the text is not known."""
    return node.find_ancestor(exp.Hint) is not None


def _shorten(column: exp.Column, tables: Iterable[Identifier]) -> None:
    parts = column.parts
    kept = shortened(tuple(p.name for p in parts), tables, str.lower)
    for key in ("catalog", "db", "table")[: 4 - len(kept)]:
        column.set(key, None)
    for key, part in zip(("this", "table", "db"), reversed(parts[-len(kept) :]), strict=False):
        column.set(key, part)


def is_common_table(table: exp.Table) -> bool:
    """Whether the name is one of a common table expression that can be seen from where it stands."""
    if table.args.get("db"):
        return False
    inside: exp.Expression | None = table
    own: exp.CTE | None = None
    while inside is not None:
        if isinstance(inside, exp.CTE):
            own = inside
        with_ = inside.args.get("with_")
        if with_ is not None and table.name.lower() in _visible(with_, own):
            return True
        inside = inside.parent
    return False


def _visible(with_: exp.With, own: exp.CTE | None) -> set[str]:
    """The names of a WITH that can be seen from one of its own expressions, or from behind it."""
    names = [c.alias.lower() for c in with_.expressions]
    for i, c in enumerate(with_.expressions):
        if c is own:
            return set(names[: i + 1] if with_.recursive else names[:i])
    return set(names)


def _conformed(frame: DataFrame, view: ViewQuery, has_star: bool) -> DataFrame:
    """The rows with the columns of the view's schema, found by position, or by name where the query has a star."""
    from icecore.engine.spark.spark_types import schema_to_spark

    wanted = schema_to_spark(view.schema())
    found = list(frame.columns)
    if not has_star or any(found.count(n) != 1 for n in wanted.names):
        if len(found) != len(wanted.names):
            raise ValidationError(
                f"{view.scope().owner}: its query gives the columns {found}, its schema has {wanted.names}; "
                "replace the view"
            )
        frame = frame.toDF(*wanted.names)
    types = {f.name: f.dataType for f in frame.schema.fields}
    return frame.select(*(_column(f.name, types[f.name], f.dataType, view.scope().owner) for f in wanted))


def _column(name: str, found: DataType, wanted: DataType, owner: str) -> Column:
    """A column in the type of the schema; a value that has no equal there ends the query with an error."""
    from icecore.engine.spark.pyspark_api import functions as F
    from icecore.engine.spark.spark_sql_text import quote

    column, found, wanted = F.col(quote(name)), _nullable(found), _nullable(wanted)
    if found == wanted:
        return column.alias(name)
    cast = column.cast(wanted)
    if "variant" not in wanted.simpleString():
        what = f"{owner}: a value of column {name!r} has no equal as {wanted.simpleString()}, replace the view"
        is_equal = _comparable(cast.cast(found), found).eqNullSafe(_comparable(column, found))
        cast = F.when(is_equal, cast).otherwise(F.raise_error(F.lit(what)))
    return cast.alias(name)


def _nullable(t: DataType) -> DataType:
    """The type with nulls in all that is nested in it: Spark casts to no other."""
    from icecore.engine.spark.pyspark_api import types as T

    match t:
        case T.StructType():
            return T.StructType([T.StructField(f.name, _nullable(f.dataType)) for f in t])
        case T.ArrayType():
            return T.ArrayType(_nullable(t.elementType))
        case T.MapType():
            return T.MapType(_nullable(t.keyType), _nullable(t.valueType))
        case _:
            return t


def _comparable(value: Column, t: DataType) -> Column:
    """The value with lists of entries in place of its maps, which Spark does not compare."""
    from icecore.engine.spark.pyspark_api import functions as F
    from icecore.engine.spark.pyspark_api import types as T

    match t:
        case T.StructType() if "map<" in t.simpleString():
            return F.struct(*(_comparable(value.getField(f.name), f.dataType) for f in t))
        case T.ArrayType(elementType=inner) if "map<" in t.simpleString():
            return F.transform(value, lambda element: _comparable(element, inner))
        case T.MapType(valueType=inner):
            entries = F.map_entries(value)
            return F.transform(entries, lambda e: F.struct(e["key"], _comparable(e["value"], inner)))
        case _:
            return value
