"""Filters over rows in Arrow: DuckDB decides, so that a row is selected here exactly as SQL would select it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa

from icecore.engine.data.partition_arrow import transformed_column
from icecore.engine.expression.bind import predicates, references
from icecore.engine.expression.nodes import FALSE, TRUE, BoundTerm, Expression
from icecore.engine.expression.to_sql import to_sql
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform
from icecore.engine.sql_files import query, quote

_local = threading.local()


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's in-memory DuckDB."""
    found: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if found is None:
        found = _local.connection = duckdb.connect(":memory:")
        found.execute("SET TimeZone = 'UTC'")
    return found


def keep_rows(rows: pa.Table, bound: Expression, schema: Schema, *, selected: bool = True) -> pa.Table:
    """The rows that a filter bound to `schema` selects, or with `selected=False` those that it does not, in order.

    `rows` has the schema's columns by name, as far as the filter needs them. A filter that is neither true nor false
    for a row does not select it.
    """
    if bound == TRUE:
        return rows if selected else rows.slice(0, 0)
    if bound == FALSE:
        return rows.slice(0, 0) if selected else rows
    parameters: dict[str, Any] = {}
    condition = to_sql(
        bound,
        lambda term: ".".join(quote(part) for part in schema.path(term.field.field_id)),
        parameters,
        bucket=lambda term: quote(_bucket_name(term)),
    )
    name = "selected" if selected else "not_selected"
    con = connection()
    con.register("data_rows", _with_buckets(rows, bound, schema))
    try:
        sql = query("plan/rows.sql", name).format(condition=condition)
        mask: pa.Table = con.sql(sql, params=parameters).to_arrow_table()
    finally:
        con.unregister("data_rows")
    return rows.filter(mask["selected"])


def _bucket_name(term: BoundTerm) -> str:
    return f"\x00{term.transform}({term.field.field_id})"


def _with_buckets(rows: pa.Table, bound: Expression, schema: Schema) -> pa.Table:
    """The rows with a column for each bucket term of the filter, since DuckDB can't compute them."""
    for p in predicates(bound):
        term = p.term
        if isinstance(term, BoundTerm) and isinstance(term.transform, BucketTransform):
            name = _bucket_name(term)
            if name not in rows.column_names:
                _, buckets = transformed_column(rows, schema, term.field.field_id, term.transform)
                rows = rows.append_column(name, buckets)
    return rows


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
        root = field_id
        while (parent := schema.parent_id(root)) is not None:
            root = parent
        chosen[root] = schema.find_field(root)
    return Schema(tuple(chosen.values()), schema.schema_id)
