"""Parquet files that Arrow refuses, read by DuckDB.

parquet-mr 1.11.0, which early Iceberg and Hive releases wrote with, marked the entries of maps with a logical type that
Arrow's reader does not accept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
from attrs import define, field

from icecore.engine.data.arrow.arrow_extensions import is_variant
from icecore.engine.data.arrow.arrow_schema import FIELD_ID_KEY, is_list_like
from icecore.engine.data.file.file_field import FileField, file_fields
from icecore.engine.errors import CorruptFileError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote

_SQL = "data/parquet.sql"


@define
class _Node:
    """One element of a Parquet schema."""

    name: str
    field_id: int | None
    children: list[_Node] = field(factory=list)


class DuckDBParquet:
    """A local Parquet file. Raises CorruptFileError where DuckDB can't read it either."""

    def __init__(self, path: str, location: str) -> None:
        self._path = path
        self._location = location
        self._connection = duckdb.connect(config={"threads": 1, "arrow_lossless_conversion": True})
        try:
            elements = duck.rows(self._connection, query(_SQL, "elements"), {"path": path})
            arrow = self._reader(query(_SQL, "all_columns"), 1).schema
        except duckdb.Error as e:
            raise CorruptFileError(f"{location} can't be decoded: {e}") from e
        root = _tree(iter(elements))
        fields = [_with_ids(f, n) for f, n in zip(arrow, root.children, strict=True)]
        self.fields: tuple[FileField, ...] = file_fields(pa.schema(fields))

    def _reader(self, sql: str, batch_rows: int) -> pa.RecordBatchReader:
        return self._connection.sql(sql, params={"path": self._path}).to_arrow_reader(batch_rows)

    def batches(self, names: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """All rows, in order, with whole columns and, last, the rows' positions. Raises CorruptFileError."""
        columns = "".join(f"{quote(n)}, " for n in names)
        sql = query(_SQL, "columns", columns=columns)
        try:
            with duck.ctrl_c():
                yield from self._reader(sql, batch_rows)
        except duckdb.Error as e:
            raise CorruptFileError(f"{self._location} can't be decoded: {e}") from e


def _tree(elements: Iterator[tuple[Any, ...]]) -> _Node:
    name, field_id, num_children = next(elements)
    return _Node(name, field_id, [_tree(elements) for _ in range(num_children or 0)])


def _with_ids(f: pa.Field, node: _Node) -> pa.Field:
    """The Arrow field with the ids of the schema element that it came from, at every level."""
    t = f.type
    if is_variant(f):
        # DuckDB has put the variant together; the columns that it was shredded into have no ids.
        pass
    elif pa.types.is_struct(t):
        t = pa.struct([_with_ids(c, n) for c, n in zip(t, node.children, strict=True)])
    elif pa.types.is_map(t):
        key, value = node.children[0].children
        t = pa.map_(_with_ids(t.key_field, key), _with_ids(t.item_field, value))
    elif is_list_like(t):
        t = pa.list_(_with_ids(t.value_field, _element(node, t.value_type)))
    metadata = None if node.field_id is None else {FIELD_ID_KEY: str(node.field_id).encode()}
    return pa.field(f.name, t, f.nullable, metadata)


def _element(node: _Node, element: pa.DataType) -> _Node:
    """The element of a list: below the repeated group, or that group itself in the old form with two levels."""
    repeated = node.children[0] if node.children else node
    is_element = pa.types.is_struct(element) and [c.name for c in repeated.children] == [c.name for c in element]
    return repeated if is_element or not repeated.children else repeated.children[0]
