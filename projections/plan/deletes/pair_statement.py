"""The statement for pairs of a data file and a delete file that applies to it (Spec: Scan Planning, SP2 to SP7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb

from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.plan.deletes.delete_bounds import equality_bounds, path_bounds, plain_bounds
from icecore.projections.plan.deletes.delete_kinds import DELETES, DeleteKinds
from icecore.projections.plan.deletes.lost_values import alike_partitions


@contextmanager
def pairs_between(
    connection: duckdb.DuckDBPyConnection,
    data: str,
    deletes: str,
    columns: Mapping[str, str],
    kinds: DeleteKinds,
    metadata: TableMetadata,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The statement for pairs with its parameters, to be run inside of the block.

    `data` and `deletes` are queries in brackets or tables that have all of the columns; `deletes` has `plain_bounds`
    too.
    """
    alike = alike_partitions(connection, data, deletes, metadata)
    sql = pairs_statement(data, deletes, columns, kinds, is_by_key=alike is None)
    parameters = duck.used(sql, {"unpartitioned": unpartitioned_ids(metadata)})
    if alike is None:
        yield sql, parameters
        return
    with duck.registered(connection, "alike_partitions", alike):
        yield sql, parameters


def pairs_statement(data: str, deletes: str, columns: Mapping[str, str], kinds: DeleteKinds, *, is_by_key: bool) -> str:
    """The statement of `pairs_between`; `is_by_key` says that only partitions of equal keys are the same."""
    part = partial(query, DELETES)
    named = partial(part, named_key=path_key("d.referenced_data_file"), data_key=path_key("data.file_path"))
    same_partition, in_partition = part("equal_keys" if is_by_key else "alike_keys"), "deletes"
    more = ""
    if not is_by_key:
        more, in_partition = part("deletes_by_data_keys"), "deletes_of_alike"
    by_position = [named("named", same_partition=same_partition)] if kinds.named else []
    if kinds.positions:
        by_position.append(part("positions", path_bounds=path_bounds(columns), in_partition=in_partition))
    pairs = []
    if kinds.vectors:
        more += named("vectors", same_partition=same_partition)
        pairs.append(part("each_vector"))
        by_position = [part("without_vector", pairs=duck.union_all(by_position))] if by_position else []
    pairs += by_position
    if kinds.equality:
        bounds = equality_bounds(columns, kinds.equality_ids)
        pairs.append(part("equality", equality_bounds=bounds, in_partition=in_partition))
    found = duck.union_all(pairs or [part("nothing")])
    return part("pairs", data=data, deletes=deletes, more=more, pairs=found)


def live_deletes(entries: str, columns: Mapping[str, str], near: str = "") -> str:
    """A query in brackets for the live delete files among entries that are `near`, with their `plain_bounds`."""
    return f"({query(DELETES, 'live_deletes', deletes=entries, plain_bounds=plain_bounds(columns), near=near)})"


def near_some(data: str) -> str:
    """The `near` of `live_deletes` for those that can apply to data files of a table: see `DeleteEntries.near`."""
    keys = {"named_key": path_key("referenced_data_file"), "data_key": path_key("file_path")}
    return f" {query(DELETES, 'near', data=data, **keys)}"


def path_key(path: str) -> str:
    """An SQL expression of the text that all spellings of a path share."""
    return query(DELETES, "path_key", path=path)


def unpartitioned_ids(metadata: TableMetadata) -> list[int]:
    """The ids of the specs without partitions, whose equality deletes apply to all data files (SP6)."""
    return [s.spec_id for s in metadata.partition_specs if s.is_unpartitioned]
