"""The rows of a scan task: columns by field id, deletes applied.

Spec: Column Projection (P1, P2), Row-level Deletes (D2 to D5), Row Lineage (RL5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.equality import EqualityKeys
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.column_resolution import Node, Resolver, make, needed_leaves
from icecore.engine.data.read.deletion_vector import Positions
from icecore.engine.data.read.file_sources import BATCH_ROWS, TO_THE_END, FileBatch, open_source
from icecore.engine.data.read.table_columns import Identification, ResolvedColumn
from icecore.engine.data.read.written_schema import check_written
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.formats.arrays import Mask
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.reserved import DELETED, PARTITION_ID, partition_struct
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import UnknownType, walk
from icecore.engine.storage.file_io import Storage


def read_task(
    task: FileScanTask,
    *,
    projection: Schema,
    table_schema: Schema,
    specs: Mapping[int, PartitionSpec],
    storage: Storage,
    name_mapping: NameMapping | None = None,
    table_schemas: tuple[Schema, ...] = (),
    deletes: DeleteCache | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The rows of a task that are not deleted, in the order of the file, as batches of `projection`'s columns.

    Batches have exactly `schema_to_arrow(projection, with_ids=False)`; empty ones are left out. The projection may
    hold the reserved columns `_file`, `_pos`, `_deleted`, `_spec_id`, `_partition`, `_row_id` and
    `_last_updated_sequence_number` by their ids. With `_deleted` deleted rows are included and marked true in it, as in
    Java's readers. The residual is not applied: `row_filter.filter_batches` does that. `table_schema` identifies the
    columns of files without ids and types the keys of equality deletes; keys that were dropped since are looked up in
    `table_schemas`, all schemas of the table. Tasks that share delete files should share `deletes`.

    Raises, naming the file: MissingFileError, CorruptFileError, StorageError, and ValidationError where a required
    column without default is missing.
    """
    file = task.file
    source = open_source(storage, file.file_path, file.file_format)
    identification = Identification(table_schema, name_mapping, table_schemas)
    fields = identification.identified(source.fields, file)
    identity = identity_values(file, specs)
    wants_partition = any(f.field_id == PARTITION_ID for f in projection.fields)
    partition = partition_struct(specs[file.spec_id], file.partition) if wants_partition else None
    resolver = Resolver(file, task.data_sequence_number, identity, partition)
    marked = next((i for i, f in enumerate(projection.fields) if f.field_id == DELETED.field_id), None)
    nodes = tuple(resolver.column(f, fields) for f in projection.fields)
    cache = deletes if deletes is not None else DeleteCache()
    positions = cache.deleted_positions(storage, file.file_path, task.delete_files)
    readers = cache.equality_keys(storage, task.delete_files, identification)
    keys = frozenset(r.leaf.field_id for of_keys, _ in readers for r in of_keys)
    check_written(source.fields, source.written_schema, file.file_path, keys | _stored_ids(projection))
    equality = [(tuple(r.resolved(file, fields, identity) for r in of_keys), values) for of_keys, values in readers]
    leaves = needed_leaves(nodes).union(*(c.leaves for columns, _ in equality for c in columns))
    schema = schema_to_arrow(projection, with_ids=False)
    # The last range goes to the end of the file, wherever that is: a size in a manifest may be wrong.
    is_last = task.start + task.length >= file.file_size_in_bytes
    for batch in source.batches(leaves, task.start, TO_THE_END if is_last else task.length, batch_rows):
        mask = _kept(batch, positions, equality)
        if marked is not None:
            made = _record_batch(nodes, schema, batch, None)
            yield made if mask is None else made.set_column(marked, schema.field(marked), pa.array(~mask))
        elif mask is None or mask.any():
            yield _record_batch(nodes, schema, batch, mask)


def _stored_ids(projection: Schema) -> frozenset[int]:
    """The ids of the fields of a projection that files can hold: all but those of type unknown (T2)."""
    return frozenset(f.field_id for f in walk(projection.fields) if not isinstance(f.field_type, UnknownType))


def identity_values(file: ContentFile, specs: Mapping[int, PartitionSpec]) -> dict[int, Any]:
    """The values of identity partition fields by source column id, for files that lack these columns (P1).

    Raises ValidationError where the file's spec is unknown, or has not as many fields as the partition has values.
    """
    spec = specs.get(file.spec_id)
    if spec is None:
        raise ValidationError(f"{file.file_path}: there is no partition spec {file.spec_id}")
    if len(spec.fields) != len(file.partition):
        raise ValidationError(
            f"{file.file_path}: partition spec {file.spec_id} has {len(spec.fields)} fields, "
            f"found {len(file.partition)} values"
        )
    pairs = zip(spec.fields, file.partition, strict=True)
    return {f.source_id: value for f, value in pairs if isinstance(f.transform, IdentityTransform)}


def _kept(
    batch: FileBatch, positions: Positions, equality: Sequence[tuple[tuple[ResolvedColumn, ...], EqualityKeys]]
) -> Mask | None:
    """A mask of the rows of a batch that are not deleted; None where none is deleted."""
    mask: Mask | None = None
    first, last = np.searchsorted(positions, [batch.first_position, batch.first_position + batch.length])
    if first < last:
        mask = np.ones(batch.length, dtype=np.bool_)
        mask[positions[first:last] - batch.first_position] = False
    for columns, keys in equality:
        values = [c.values(batch.columns, batch.first_position, batch.length) for c in columns]
        matched = keys.matches(values)
        if matched.any():
            mask = ~matched if mask is None else mask & ~matched
    return mask


def _record_batch(nodes: tuple[Node, ...], schema: pa.Schema, batch: FileBatch, kept: Mask | None) -> pa.RecordBatch:
    if not nodes:
        rows = batch.length if kept is None else int(kept.sum())
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    columns = [make(n, batch.columns, batch.first_position, batch.length) for n in nodes]
    made = pa.RecordBatch.from_arrays(columns, schema=schema)
    return made if kept is None else made.filter(pa.array(kept))
