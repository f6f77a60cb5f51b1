"""The statements of a plan: data files by a predicate, the delete files that may matter to them, and counts.

Spec: Scan Planning (SP2 to SP7). A condition `entries` in SQL over the entries `e`, without parameters, is one that
data files have to satisfy beside the predicate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats import arrays
from icecore.engine.sql_files import query, quote
from icecore.projections import duck
from icecore.projections.deletes import DeleteEntries
from icecore.projections.entry_scope import Scope, used_columns
from icecore.projections.metrics_predicate import conjunction
from icecore.projections.predicate import PlanPredicate
from icecore.projections.wide_filters import bit_columns

FILES = "plan/files.sql"
DATA_COLUMNS = (
    "ordinal",
    "status",
    "content",
    "snapshot_id",
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "partition_key",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "first_row_id",
    "row_offset",
    "sort_order_id",
    "split_offsets",
    "key_metadata",
)
COUNTED_COLUMNS = ("status", "content", "snapshot_id", "spec_id", "record_count")


def data_files(connection: duckdb.DuckDBPyConnection, scope: Scope, predicate: PlanPredicate, entries: str) -> pa.Table:
    """The data files that may hold a row, with the leaves of the filter that each might satisfy and surely does."""
    where = conjunction(entries, predicate.where_sql)
    parameters = dict(predicate.parameters)
    might = bit_columns("might", predicate.might_of_planned, parameters)
    surely = bit_columns("all", predicate.leaf_all, parameters)
    names = used_columns((where, might, surely), scope.columns())
    sql = query(FILES, "data_files").format(
        entries=scope.relation(dict.fromkeys((*DATA_COLUMNS, *names))), where=where, might=might, all=surely
    )
    files = _arrow(connection, sql, parameters)
    index = files.schema.get_field_index("first_row_id")
    row_ids = scope.row_ids(files["m"], files["first_row_id"], files["row_offset"])
    return files.set_column(index, "first_row_id", row_ids)


def delete_pairs(
    connection: duckdb.DuckDBPyConnection,
    data: Scope,
    deletes: DeleteEntries,
    predicate: PlanPredicate,
    entries: str,
    unpartitioned: Sequence[int],
) -> pa.Table:
    """Which delete file may matter to which data file; `unpartitioned` are the ids of specs without fields.

    Raises CorruptFileError where a delete file names a data file of another partition (SP7).
    """
    parameters = {**predicate.parameters, "unpartitioned": unpartitioned}
    pairs = deletes.pairs(connection, data, conjunction(entries, predicate.where_sql), parameters)
    _check_partitions(connection, data, deletes.scope, pairs)
    return pairs


def columns_of_files(
    connection: duckdb.DuckDBPyConnection, scope: Scope, files: pa.Table, names: Collection[str]
) -> pa.Table:
    """Columns of the wide entries of planned files, in the order of these."""
    places = arrays.numbers(range(files.num_rows))
    with duck.registered(connection, "planned_files", files.select(["m", "ordinal"]).append_column("place", places)):
        selected = "".join(f", e.{quote(n)}" for n in names)
        relation = scope.relation(dict.fromkeys(("ordinal", *names)))
        return _arrow(connection, query(FILES, "columns_of_files").format(entries=relation, columns=selected), {})


def count_files(
    connection: duckdb.DuckDBPyConnection, scope: Scope, by_partition: PlanPredicate, entries: str
) -> tuple[int, int, int]:
    """Live data files, their rows, and the files that a predicate over partition values leaves."""
    names = used_columns((by_partition.where_sql,), partition_columns(scope))
    sql = query(FILES, "count_files").format(
        entries=scope.relation(dict.fromkeys((*COUNTED_COLUMNS, *names))),
        where=entries,
        by_partition=by_partition.where_sql,
    )
    files, rows, left = duck.rows(connection, sql, duck.used(sql, by_partition.parameters))[0]
    return files, rows, left


def partition_columns(scope: Scope) -> dict[str, str]:
    """The columns of a scope that hold partition values, with their DuckDB types."""
    return {n: t for n, t in scope.columns().items() if n.startswith("part_") or n == "spec_id"}


def _arrow(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]) -> pa.Table:
    return duck.arrow(connection, sql, duck.used(sql, parameters))


def _check_partitions(connection: duckdb.DuckDBPyConnection, data: Scope, deletes: Scope, pairs: pa.Table) -> None:
    wrong = pairs.filter(pc.invert(pairs["same_partition"])).slice(0, 1)
    if wrong.num_rows:
        named = [
            columns_of_files(connection, scope, wrong.select(place).rename_columns(["m", "ordinal"]), ["file_path"])
            for scope, place in ((deletes, ["dm", "dordinal"]), (data, ["m", "ordinal"]))
        ]
        delete, file = (n["file_path"][0].as_py() for n in named)
        raise CorruptFileError(f"{delete} deletes rows of {file}, which is in another partition (SP7)")
