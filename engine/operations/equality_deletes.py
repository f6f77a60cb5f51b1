"""Equality deletes: rows deleted by the values of key columns, without reading.

Spec: Equality Delete Files (D4, SP4).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.common.identifiers import Identifier, names_of
from icecore.engine.data.arrow.arrow_partitions import partition_batches
from icecore.engine.data.arrow.to_arrow import to_arrow
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.position_delete_writer import schema_of_data, write_equality_deletes
from icecore.engine.errors import ConflictingCommitsError, ValidationError, name_text
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.updates.table_update import TableUpdate
from icecore.engine.storage.file_io import Storage

Place = tuple[int, tuple[bytes | None, ...]]
"""The id of a spec, and the key of one of its partitions."""


def write_key_deletes(
    data: Any, key_columns: Sequence[str], metadata: TableMetadata, storage: Storage
) -> list[ContentFile]:
    """Writes equality delete files that delete the rows whose key columns equal those of a row of `data`.

    Without key columns the table's identifier fields are the keys. The files belong to the partitions of the default
    spec where `data` has all columns that it partitions by, else they apply to the whole table through an
    unpartitioned spec. Raises ValidationError where neither can be, for a v1 table, or for keys that can't be compared.
    """
    schema = metadata.schema()
    names = list(names_of(key_columns, "key_columns")) or schema.identifier_field_names()
    if not names:
        raise ValidationError("deletes by key need key columns: the table has no identifier fields")
    equality_ids = [schema.find_field(n).field_id for n in names]
    incoming = to_arrow(data, schema)
    rows = incoming.read_all() if isinstance(incoming, pa.RecordBatchReader) else incoming
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    spec = _spec_for(metadata, rows.column_names)
    # Values are cast first: one of another Arrow type may land in another partition, and delete nothing there.
    groups = partition_batches(conform(rows, schema_of_data(schema, rows.schema)), spec, schema)
    return [
        write_equality_deletes(
            storage,
            DataLocations.of(metadata.location, metadata.properties),
            group,
            equality_ids,
            schema=schema,
            spec=spec,
            partition=partition,
            properties=metadata.properties,
            file_prefix=f"00000-0-{uuid.uuid4()}-equality-deletes",
            format_version=metadata.format_version,
        )
        for partition, group in groups
    ]


def _spec_for(metadata: TableMetadata, columns: Sequence[str]) -> PartitionSpec:
    """The default spec where the columns tell the partition, else one without fields, whose deletes apply everywhere.

    Deletes in a partition of the default spec don't apply to files of other specs, so with several specs only the spec
    without fields will do.
    """
    schema, default = metadata.schema(), metadata.spec()
    if default.is_unpartitioned and not default.fields:
        return default
    needed = {schema.path(i)[0] for f in default.fields for i in f.source_ids if schema.get_field(i)}
    if needed <= set(columns) and len(metadata.partition_specs) == 1:
        return default
    for spec in metadata.partition_specs:
        if not spec.fields:
            return spec
    raise ValidationError(
        f"deletes by key need the partition columns {sorted(needed)} in the data, and no other partition spec in the "
        f"table, or an unpartitioned spec in it"
    )


def only_while_one_spec(
    files: Sequence[ContentFile], metadata: TableMetadata, table: Identifier
) -> ChangeMetadata | None:
    """A check that the table still has only the spec that deletes are partitioned by; None where they apply everywhere.

    Rows that were written again by another spec are not deleted by them (SP6): it raises ConflictingCommitsError.
    """
    if not files or metadata.specs[files[0].spec_id].is_unpartitioned:
        return None
    spec_id = files[0].spec_id

    def updates_for(now: TableMetadata) -> list[TableUpdate]:
        if now.specs.keys() != {spec_id}:
            raise ConflictingCommitsError(
                f"{name_text(table)}: keys were deleted in partitions of spec {spec_id} while it was the only one; now "
                f"there are {sorted(now.specs)}, so they have to be deleted again"
            )
        return []

    return ChangeMetadata(updates_for)


def places_of(files: Iterable[ContentFile], metadata: TableMetadata) -> set[Place]:
    """The partitions that files are of."""
    return {(f.spec_id, metadata.specs[f.spec_id].key(f.partition, metadata.all_fields)) for f in files}


def is_for_all(place: Place, of_files: set[Place], metadata: TableMetadata) -> bool:
    """Whether equality deletes of a partition apply to earlier files of all these partitions (SP6)."""
    return metadata.specs[place[0]].is_unpartitioned or of_files <= {place}
