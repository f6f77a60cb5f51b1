"""A query made ready: parsed, its names looked up, its columns known, and how much of each table it needs.

No row is read for this, and no file planned. A view is a query within the query: what is needed of its rows is needed
of its tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any

import duckdb
import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.common import fork_safety
from icecore.engine.common.identifiers import Identifier
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.queries.query_limits import limited_connection, parameters_by_name, timeout_seconds
from icecore.engine.query.kept_queries import key_of
from icecore.engine.query.kept_query import KeptQuery, Meaning
from icecore.engine.query.kept_relations import KeptRelations
from icecore.engine.query.named_tables import named_tables
from icecore.engine.query.needed_rows import PLANS, needed_rows, stand_in
from icecore.engine.query.plain_rows import plain
from icecore.engine.query.query_answer import Held, PreparedQuery, QueryAnswer, reason
from icecore.engine.query.query_sources import ArrowRows, QueryCatalog, RowsOf, TableRows, names_in, rows_of
from icecore.engine.query.source_names import (
    LoadedOnce,
    Lookup,
    NameScope,
    ViewQuery,
    ViewSource,
    check_no_cycle,
)
from icecore.engine.query.told_time import tell_time, told_time
from icecore.engine.query.view_columns import conformed, view_schema, view_sql
from icecore.engine.scan.relation.registered_scan import drop_view, make_view
from icecore.engine.spec.view import DUCKDB

_OWNER = "the query"
_MOST_READS = 64
"""The most mentions of tables in a view and the views in it. A view with more is computed once: each layer of views
that name the one below twice would make DuckDB's plan twice as large."""


def prepare_query(
    catalog: QueryCatalog,
    sql: str,
    parameters: Mapping[str, Any] | Sequence[Any] | None,
    namespace: Identifier,
    timeout: float | None,
    memory_limit: str | None,
) -> QueryAnswer:
    """The answer of one SELECT: see `catalog_query.query`."""
    values = parameters_by_name(parameters)
    seconds = timeout_seconds(timeout)
    if memory_limit is not None:
        limited_connection(memory_limit).close()
    scope = NameScope(namespace, None, _OWNER)
    all_names = partial(names_in, catalog)
    kept = None if memory_limit is not None else catalog._kept_queries
    key = None if kept is None else key_of(sql, namespace, values)
    known = None if kept is None or key is None else kept.find(key)
    if isinstance(known, KeptQuery) and (again := known.answer(catalog, all_names, seconds)) is not None:
        return again
    shared = None if kept is None else kept.relations
    with _preparation(catalog, all_names, seconds, memory_limit, shared) as preparation:
        answer = preparation.answer(preparation.query(sql, scope, values), _OWNER)
    if kept is not None and key is not None and preparation.is_for_later():
        kept.put(key, KeptQuery.of(answer, preparation.meanings))
    return answer


def query_in(lookup: Lookup, sql: str, parameters: Mapping[str, Any] | None, namespace: Identifier) -> QueryAnswer:
    """The answer of one SELECT over what a look-up finds: see `catalog_query.query`."""
    with _preparation(lookup) as preparation:
        scope = NameScope(namespace, None, _OWNER)
        return preparation.answer(preparation.query(sql, scope, parameters_by_name(parameters)), _OWNER)


def view_rows(lookup: Lookup, view: ViewQuery) -> pa.Table:
    """The rows of a view, with the columns of its schema.

    Raises ValidationError where its SQL can't be run, gives columns that don't fit the schema any more, or views form a
    cycle; NoSuchTableError; and what computing an answer does.
    """
    with _preparation(lookup) as preparation:
        rows = preparation.whole_view(view, preparation.query_of(view, ()))
    return rows.read()


def query_schema(lookup: Lookup, name: Identifier, sql: str, scope: NameScope) -> pa.Schema:
    """The columns of a query that is to be a view of that name. Raises ValidationError, NoSuchTableError."""
    with _preparation(lookup) as preparation:
        return preparation.answer(preparation.query(sql, scope, None, (name,)), scope.owner).schema


@frozen
class InternalQuery:
    """A query over internal names, which stand for rows, or for queries of views over such names.

    `has_star` is true where the columns of its answer follow from those of its tables. `reads` is the number of times
    that it names a table, itself and by its views.
    """

    sql: str
    parameters: Mapping[str, Any] | None
    rows: Mapping[str, RowsOf]
    views: Mapping[str, str]
    has_star: bool
    reads: int


@define
class _Preparation:
    """A query and the views in it, in a connection where tables without rows stand for all that is named."""

    con: duckdb.DuckDBPyConnection
    lookup: Lookup
    all_names: Callable[[], Iterable[Identifier]]
    timeout: float | None
    memory_limit: str | None
    shared: KeptRelations | None
    stand_ins: ExitStack
    numbers: Iterator[int] = field(factory=itertools.count)
    views: dict[Identifier, InternalQuery] = field(factory=dict)
    whole: dict[Identifier, ArrowRows] = field(factory=dict)
    now: str | None = None
    meanings: list[Meaning] = field(factory=list)
    is_at_value: bool = False

    def is_for_later(self) -> bool:
        """Whether the answer follows from the text and what its names mean: not from a time, or rows made already."""
        is_made = any(isinstance(m.found, ArrowRows) for m in self.meanings) or bool(self.whole)
        return self.now is None and not is_made and not self.is_at_value

    def query(
        self, sql: str, scope: NameScope, values: Mapping[str, Any] | None, path: tuple[Identifier, ...] = ()
    ) -> InternalQuery:
        """A query with all that it names; `path` has the views that lead to it."""
        with _duckdb_refusals(scope.owner):
            self.tell_time(sql)
            named = named_tables(self.con, sql, scope.owner, values, self.numbers)
        self.is_at_value |= named.computes_at
        rows: dict[str, RowsOf] = {}
        schemas: dict[str, pa.Schema] = {}
        within: list[InternalQuery] = []
        for internal, mention in named.mentions.items():
            if path and mention.unit is not None:
                at = ".".join(mention.parts)
                raise ValidationError(f"{scope.owner}: AT is not supported in a view's query, found at {at}")
            found = rows_of(mention, scope, self.lookup, self.all_names)
            self.meanings.append(Meaning.of(mention, scope, found))
            if isinstance(found, ViewSource):
                schemas[internal] = view_schema(found.view.schema())
                within.append(self.expanded(internal, found.view, path))
            else:
                schemas[internal] = found.schema
                rows[internal] = found
        with _duckdb_refusals(scope.owner):
            tables = {n: r for n, r in rows.items() if isinstance(r, TableRows)}
            metadata: dict[str, list[str]] = {}
            columns = {n: schema.names for n, schema in schemas.items()}
            named.check_cases(columns)
            named.check_fields(schemas.values())
            if not path:
                metadata = named.metadata_columns(columns, tables)
                rows |= {n: tables[n].with_metadata(names) for n, names in metadata.items()}
            for internal, found in rows.items():
                self.stand_for(internal, found)
            text = named.sql(self.con, metadata)
        views = {n: sql for inner in within for n, sql in inner.views.items()}
        reads = len(rows) + sum(inner.reads for inner in within)
        for inner in within:
            rows |= inner.rows
        return InternalQuery(text, named.parameters(text, values), rows, views, named.has_star, reads)

    def query_of(self, view: ViewQuery, path: tuple[Identifier, ...]) -> InternalQuery:
        """The query of a view. Raises ValidationError where the view is in its path."""
        check_no_cycle(path, view.name())
        if view.name() not in self.views:
            self.views[view.name()] = self.query(view.sql_for(DUCKDB).sql, view.scope(), None, (*path, view.name()))
        return self.views[view.name()]

    def expanded(self, internal: str, view: ViewQuery, path: tuple[Identifier, ...]) -> InternalQuery:
        """The query over internal names that stands for a view; if none can, one for all its rows, computed."""
        inner = self.query_of(view, path)
        owner = view.scope().owner
        with _duckdb_refusals(owner):
            is_small = inner.reads <= _MOST_READS
            sql = view_sql(self.con, inner.sql, view.schema(), owner, inner.has_star) if is_small else None
            if sql is None:
                rows = self.whole_view(view, inner)
                self.stand_for(internal, rows)
                return InternalQuery("", None, {internal: rows}, {}, False, 1)
            make_view(self.con, internal, sql)
            self.stand_ins.callback(drop_view, self.con, internal)
        return InternalQuery(sql, None, inner.rows, {**inner.views, internal: sql}, False, inner.reads)

    def whole_view(self, view: ViewQuery, inner: InternalQuery) -> ArrowRows:
        """All rows of a view, computed once; each value is checked as it is cast to the schema."""
        if view.name() not in self.whole:
            owner, schema = view.scope().owner, view.schema()
            answer = self.answer(inner, owner)
            read = cache(lambda: conformed(answer.to_arrow(), schema, owner, inner.has_star))
            self.whole[view.name()] = ArrowRows(view_schema(schema), read)
        return self.whole[view.name()]

    def stand_for(self, internal: str, rows: RowsOf) -> None:
        """Gives a table without rows a name of the query."""
        if isinstance(rows, TableRows):
            self.stand_ins.enter_context(stand_in(self.con, internal, rows.scan.projection))
        else:
            self.stand_ins.enter_context(duck.registered(self.con, internal, no_rows(rows.schema)))

    def tell_time(self, sql: str) -> None:
        """Sets one time for all of the query, where something in it asks for the time."""
        if self.now is None:
            self.now = told_time(sql)
            tell_time(self.con, self.now)

    def answer(self, named: InternalQuery, owner: str) -> QueryAnswer:
        """The answer of a query, which errors call `owner`."""
        schemas = {n: r.scan.schema for n, r in named.rows.items() if isinstance(r, TableRows)}
        with _duckdb_refusals(owner):
            needed = needed_rows(self.con, named.sql, schemas, named.parameters)
            relation = self.con.sql(named.sql, params=dict(named.parameters) if named.parameters else None)
            # A limit gives columns of one name numbers.
            columns = relation.limit(0).to_arrow_table().rename_columns(relation.columns)
            schema = plain(columns, owner).schema
        limits = self.timeout, self.memory_limit
        prepared = PreparedQuery(owner, named.sql, named.parameters, named.rows, named.views, needed, *limits, self.now)
        return QueryAnswer(schema, prepared, Held(self.shared))


@contextmanager
def _preparation(
    lookup: Lookup,
    all_names: Callable[[], Iterable[Identifier]] = tuple,
    timeout: float | None = None,
    memory_limit: str | None = None,
    shared: KeptRelations | None = None,
) -> Iterator[_Preparation]:
    with ExitStack() as stand_ins:
        yield _Preparation(_planning.get(), LoadedOnce(lookup), all_names, timeout, memory_limit, shared, stand_ins)


@contextmanager
def _duckdb_refusals(owner: str) -> Iterator[None]:
    """A context in which DuckDB's errors, and those of too deep a query, become those of a wrong query."""
    try:
        with duck.ctrl_c():
            yield
    except duckdb.Error as e:
        raise ValidationError(f"{owner} can't be run: {reason(e)}") from e
    except RecursionError:
        raise ValidationError(f"{owner} is nested too deeply") from None


def _planning_connection() -> duckdb.DuckDBPyConnection:
    """A DuckDB that plans queries and runs none."""
    made = limited_connection(None)
    for setting in ("arrow_as_is", "no_python_names", "one_thread", "no_files"):
        duck.rows(made, query(duck.SETTINGS, setting))
    for setting in ("all_conditions", "no_more_settings"):
        duck.rows(made, query(PLANS, setting))
    return made


_planning = fork_safety.PerThread(_planning_connection)
