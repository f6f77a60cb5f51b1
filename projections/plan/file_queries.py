"""The statements of a plan: data files by a predicate, and counts.

Spec: Scan Planning (SP2 to SP7). `entries` is a condition in SQL over the entries `e`, without parameters, that
data files have to satisfy besides the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import duckdb
import pyarrow as pa

from icecore.engine.expression.sql.fragment import BoundParameters, conjunction, sql
from icecore.engine.formats import arrays
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.projections.plan.predicate import PlanPredicate
from icecore.projections.plan.wide_filters import bit_columns
from icecore.projections.segments.manifest_selection import ManifestSelection, used_columns

FILES = "plan/files.sql"
DATA_COLUMNS = (
    "ordinal",
    "status",
    "content",
    "snapshot_id",
    "file_path",
    "file_format",
    "spec_id",
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


def data_files(
    connection: duckdb.DuckDBPyConnection,
    scope: ManifestSelection,
    predicate: PlanPredicate,
    entries: str,
    more: Collection[str] = (),
    most: int | None = None,
) -> pa.Table:
    """The data files that may hold a row of the filter, with flags of the leaves that a row may, or all do, satisfy.

    `more` are further columns of the wide entries, null where missing. Where there are more files than `most`, only one
    more than that is given.
    """
    parameters = BoundParameters()
    statement, _ = data_files_statement(scope.columns(), scope.relation, predicate, parameters, entries, more)
    if most is not None:
        statement = query(FILES, "some_files", files=statement, most=str(most + 1))
    files = duck.arrow(connection, statement, parameters.values)
    index = files.schema.get_field_index("first_row_id")
    row_ids = scope.row_ids(files["m"], files["first_row_id"], files["row_offset"])
    return files.set_column(index, "first_row_id", row_ids)


def data_files_statement(
    columns: Mapping[str, str],
    relation: Callable[[Iterable[str]], str],
    predicate: PlanPredicate,
    parameters: BoundParameters,
    entries: str = "TRUE",
    more: Iterable[str] = (),
) -> tuple[str, list[str]]:
    """The statement of `data_files`, whose values go to `parameters`, and the columns that it looks at.

    `columns` are those that there are, `relation` gives a query in brackets for some of them.
    """
    where = parameters.write(conjunction(sql(entries), predicate.where))
    might = parameters.write(bit_columns("might", predicate.might_of_planned))
    surely = parameters.write(bit_columns("all", predicate.leaf_all))
    names = list(dict.fromkeys((*DATA_COLUMNS, *used_columns((where, might, surely), columns), *more)))
    parts = {"where": where, "might": might, "all": surely, "more": _selected(more)}
    return query(FILES, "data_files", entries=relation(names), **parts), names


def columns_of_files(
    connection: duckdb.DuckDBPyConnection, scope: ManifestSelection, files: pa.Table, names: Collection[str]
) -> pa.Table:
    """Columns of the wide entries of planned files, in their order; their `m` has the places of their manifests."""
    places = arrays.numbers(range(files.num_rows))
    wanted = pa.table({"m": scope.numbers_at(files["m"]), "ordinal": files["ordinal"], "place": places})
    with duck.registered(connection, "planned_files", wanted):
        relation = scope.relation(dict.fromkeys(("ordinal", *names)))
        return duck.arrow(connection, query(FILES, "columns_of_files", entries=relation, columns=_selected(names)))


def count_by_manifest(
    connection: duckdb.DuckDBPyConnection, scope: ManifestSelection, predicate: PlanPredicate, entries: str
) -> pa.Table:
    """The number of `files` that may hold a row, for each manifest `m` that has any."""
    parameters = BoundParameters()
    where = parameters.write(conjunction(sql(entries), predicate.where))
    names = dict.fromkeys((*COUNTED_COLUMNS, *used_columns((where,), scope.columns()), "ordinal"))
    statement = query(FILES, "count_by_manifest", entries=scope.relation(names), where=where)
    return duck.arrow(connection, statement, parameters.values)


def count_files(
    connection: duckdb.DuckDBPyConnection, scope: ManifestSelection, by_partition: PlanPredicate, entries: str
) -> tuple[int, int, int]:
    """Live data files, their rows, and the files that a predicate over partition values leaves."""
    parameters = BoundParameters()
    statement, _ = count_files_statement(scope.columns(), scope.relation, by_partition, parameters, entries)
    files, rows, left = duck.rows(connection, statement, parameters.values)[0]
    return files, rows, left


def count_files_statement(
    columns: Mapping[str, str],
    relation: Callable[[Iterable[str]], str],
    by_partition: PlanPredicate,
    parameters: BoundParameters,
    entries: str = "TRUE",
) -> tuple[str, list[str]]:
    """The statement of `count_files` and the columns that it looks at, as of `data_files_statement`."""
    where = parameters.write(by_partition.where)
    names = list(dict.fromkeys((*COUNTED_COLUMNS, *used_columns((where,), partition_columns(columns)))))
    return query(FILES, "count_files", entries=relation(names), where=entries, by_partition=where), names


def partition_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The columns, with their DuckDB types, that hold partition values."""
    return {n: t for n, t in columns.items() if n.startswith("part_") or n == "spec_id"}


def _selected(names: Iterable[str]) -> str:
    return "".join(f", e.{quote(n)}" for n in names)
