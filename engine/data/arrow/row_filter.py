"""Filters over rows in Arrow, evaluated by DuckDB, so that a row is selected here exactly as SQL would select it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import lru_cache
from itertools import count
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.common import fork_safety
from icecore.engine.data.arrow.arrow_partitions import nested_column, transformed_column
from icecore.engine.data.arrow.arrow_schema import type_to_arrow
from icecore.engine.expression.bind import is_comparable
from icecore.engine.expression.nodes import FALSE, TRUE, BoundTerm, Expression
from icecore.engine.expression.sql.duckdb_sql import to_sql
from icecore.engine.expression.walk import references
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import ROWS_AT_HAND
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    TIMESTAMP_TYPES,
    DateType,
    TimeType,
)

# Types whose values are compared as their numbers: see `to_sql`.
_NUMBERED = (DateType, TimeType, *TIMESTAMP_TYPES)


def _connect() -> duckdb.DuckDBPyConnection:
    made = ROWS_AT_HAND.connect()
    made.execute(query(duck.SETTINGS, "utc"))
    return made


_connections = fork_safety.PerThread(_connect)


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection to DuckDB; a forked process has one of its own."""
    return _connections.get()


def keep_rows(rows: pa.Table, bound: Expression, schema: Schema) -> pa.Table:
    """The rows that a filter bound to `schema` selects, in order.

    `rows` has the schema's columns by name, as far as the filter needs them. A filter that is neither true nor false
    for a row does not select it.
    """
    if bound == TRUE:
        return rows
    if bound == FALSE:
        return rows.slice(0, 0)
    parameters: dict[str, Any] = {}
    columns = _Columns(rows, schema)
    con, numbers = connection(), count()
    with ExitStack() as names:

        def named(name: str, table: pa.Table) -> str:
            names.enter_context(duck.registered(con, name, table))
            return name

        def listed(values: tuple[Any, ...]) -> str:
            return named(f"filter_values_{next(numbers)}", _values(type(values[0]).__name__, values))

        condition = to_sql(bound, columns.column, parameters, columns.bucket, listed)
        named("data_rows", pa.table({**columns.found, "place": np.arange(rows.num_rows)}))
        sql = query("plan/rows.sql", "selected", condition=condition)
        places = duck.arrow(con, sql, parameters)
    mask = np.zeros(rows.num_rows, dtype=bool)
    mask[places["place"].to_numpy()] = True
    return rows.filter(pa.array(mask))


@lru_cache(8)
def _values(kind: str, values: tuple[Any, ...]) -> pa.Table:
    """The literals of an IN as a table, cached, since each batch of a scan has the same ones; uuids are their text.

    `kind` is their type, part of the cache's key: a double may equal a decimal in Python, but makes another table.
    """
    return pa.table({"value": [str(v) for v in values] if kind == UUID.__name__ else values})


@frozen
class _Columns:
    """The columns that a filter reads, under generated names.

    The schema's names would not do: DuckDB ignores their case, and may take `a.b` for column b of a table called a.
    """

    rows: pa.Table
    schema: Schema
    found: dict[str, pa.Array] = field(factory=dict)

    def column(self, term: BoundTerm) -> str:
        name = f"c{term.field.field_id}"
        if name not in self.found:
            values = nested_column(self.rows, self.schema.path(term.field.field_id))
            column_type = term.field.field_type
            if isinstance(column_type, _NUMBERED):
                wide = pa.int32() if isinstance(column_type, DateType) else pa.int64()
                values = values.cast(type_to_arrow(column_type)).cast(wide)
            # Types without an order are tested for null alone, and may be of a kind that DuckDB doesn't read.
            self.found[name] = values if is_comparable(column_type) else pc.if_else(values.is_valid(), True, None)
        return name

    def bucket(self, term: BoundTerm) -> str:
        """The bucket numbers, which DuckDB can't compute."""
        name = f"b{term.field.field_id}_{len(self.found)}"
        _, self.found[name] = transformed_column(self.rows, self.schema, term.field.field_id, term.transform)
        return name


def filter_batches(batches: Iterable[pa.RecordBatch], bound: Expression, schema: Schema) -> Iterator[pa.RecordBatch]:
    """The selected rows of each batch."""
    for batch in batches:
        yield from keep_rows(pa.Table.from_batches([batch]), bound, schema).to_batches()


def filter_columns(bound: Expression, schema: Schema, selected: Schema) -> Schema:
    """The columns to read for a scan: the selected ones, and whole top-level columns that the filter needs beside them.

    A selected column that the filter looks into is read whole.
    """
    chosen = {f.field_id: f for f in selected.fields}
    for field_id in sorted(references(bound)):
        root = schema.id_path(field_id)[0]
        chosen[root] = schema.find_field(root)
    return Schema(tuple(chosen.values()), schema.schema_id)
