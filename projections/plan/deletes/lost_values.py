"""Partitions whose values another engine may have lost.

Once a partition's source column is dropped, Java and PyIceberg read the partition's values as nulls, and manifests that
they write again have nulls there. A delete file and its data file that are listed by manifests of different ages are
still of one partition: a null of such a field stands for any value (SP5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import duckdb
import pyarrow as pa
from attrs import evolve

from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import VoidTransform
from icecore.projections.entries.partition_key import spec_id_of_key, values_of_key

Losable = Mapping[int, tuple[bool, ...]]
"""Flags of the fields that may have lost values, by spec id; specs without such fields are left out."""


def losable_fields(metadata: TableMetadata) -> Losable:
    """The fields of each spec that may have lost values, by the spec's id."""
    found = {s.spec_id: tuple(_is_losable(f, metadata) for f in s.fields) for s in metadata.partition_specs}
    return {spec_id: fields for spec_id, fields in found.items() if any(fields)}


def _is_losable(field: PartitionField, metadata: TableMetadata) -> bool:
    """Whether a source column was dropped, even if it came back later."""
    return not isinstance(field.transform, VoidTransform) and any(_was_dropped(i, metadata) for i in field.source_ids)


def _was_dropped(field_id: int, metadata: TableMetadata) -> bool:
    if metadata.schema().get_field(field_id) is None:
        return True
    has = {s.schema_id: s.get_field(field_id) is not None for s in metadata.schemas}
    first = min(schema_id for schema_id, it_has in has.items() if it_has)
    return any(schema_id > first and not it_has for schema_id, it_has in has.items())


def telling_specs(metadata: TableMetadata) -> dict[int, PartitionSpec]:
    """The specs as far as partition values can be relied on: fields that may have lost values are void.

    That matters for a column that was dropped and came back.
    """
    losable = losable_fields(metadata)
    if not losable:
        return metadata.specs
    return {i: _without(s, losable[i]) if i in losable else s for i, s in metadata.specs.items()}


def _without(spec: PartitionSpec, losable: Sequence[bool]) -> PartitionSpec:
    fields = zip(spec.fields, losable, strict=True)
    return evolve(spec, fields=tuple(evolve(f, transform=VoidTransform()) if gone else f for f, gone in fields))


def may_be_same(one: Sequence[object], other: Sequence[object], losable: Sequence[bool]) -> bool:
    """Whether two tuples of a spec may be of one partition."""
    values = zip(one, other, losable, strict=True)
    return all(a == b or (may_lack and (a is None or b is None)) for a, b, may_lack in values)


def alike_partitions(
    connection: duckdb.DuckDBPyConnection, data: str, deletes: str, metadata: TableMetadata
) -> pa.Table | None:
    """The pairs of partitions of data files and delete files that may be the same: `data_key` and `delete_key`.

    `data` and `deletes` are names or queries in brackets with a `partition_key`. None where only
    equal keys are the same partition.
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
