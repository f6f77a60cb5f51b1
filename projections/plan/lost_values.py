"""Partitions that are the same though another engine lost some of their values.

A delete file and its data file that are listed by manifests of different ages are still of one partition: a null of a
field that may have lost values stands for any value (SP5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import duckdb
import pyarrow as pa

from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.entries.losable_fields import Losable, losable_fields, may_be_same
from icecore.projections.entries.partition_key import spec_id_of_key, values_of_key


def alike_partitions(
    connection: duckdb.DuckDBPyConnection, data: str, deletes: str, metadata: TableMetadata
) -> pa.Table | None:
    """The partitions of data files that those of delete files may be: `data_key` and `delete_key`, each pair once.

    `data` and `deletes` are names or queries in brackets with a `partition_key`. None where keys just have to be equal.
    """
    losable = losable_fields(metadata)
    if not losable:
        return None
    of_data, of_deletes = _keys(connection, data), _keys(connection, deletes)
    if not any_lost(of_data | of_deletes, metadata):
        return None
    pairs = sorted(_pairs(of_data, of_deletes, losable))
    columns = [pa.array([p[side] for p in pairs], pa.binary()) for side in range(2)]
    return pa.Table.from_arrays(columns, names=["data_key", "delete_key"])


def any_lost(keys: Iterable[bytes], metadata: TableMetadata) -> bool:
    """Whether some partitions, given by their keys, may have lost values."""
    losable = losable_fields(metadata)
    return any(_is_lost(key, losable) for key in keys)


def _keys(connection: duckdb.DuckDBPyConnection, files: str) -> set[bytes]:
    sql = query("plan/deletes.sql", "partition_keys", files=files)
    return {key for (key,) in duck.rows(connection, sql)}


def _is_lost(key: bytes, losable: Losable) -> bool:
    fields = losable.get(spec_id_of_key(key), ())
    return any(fields) and any(v is None and may_lack for v, may_lack in zip(values_of_key(key), fields, strict=True))


def _pairs(data: Collection[bytes], deletes: Collection[bytes], losable: Losable) -> set[tuple[bytes, bytes]]:
    found = {(key, key) for key in set(data) & set(deletes)}
    data_of, deletes_of = _by_spec(data, losable), _by_spec(deletes, losable)
    for spec_id, fields in losable.items():
        lost = {k for k in (*data_of[spec_id], *deletes_of[spec_id]) if _is_lost(k, losable)}
        for a in data_of[spec_id]:
            for b in deletes_of[spec_id] if a in lost else lost & deletes_of[spec_id].keys():
                if may_be_same(data_of[spec_id][a], deletes_of[spec_id][b], fields):
                    found.add((a, b))
    return found


def _by_spec(keys: Iterable[bytes], losable: Losable) -> Mapping[int, dict[bytes, tuple[bytes | None, ...]]]:
    found: dict[int, dict[bytes, tuple[bytes | None, ...]]] = defaultdict(dict)
    for key in keys:
        if (spec_id := spec_id_of_key(key)) in losable:
            found[spec_id][key] = values_of_key(key)
    return found
