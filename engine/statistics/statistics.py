"""Table statistics: the number of distinct values of each column of a snapshot, in a Puffin file.

Spec: Table Statistics (MD4), Puffin. Statistics are informational. The files are made from rows and named at random,
so unlike metadata files they can't be rebuilt from the log: a commit records where they are and what they say, and
one that is lost is computed again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from icecore.engine.common.text import number_in
from icecore.engine.data.arrow.arrow_partitions import nested_column
from icecore.engine.data.file.puffin_file import read_blob, read_footer
from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.formats.puffin import Blob, StoredBlob, write_puffin
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import BlobMetadata, StatisticsFile
from icecore.engine.spec.types import GeographyType, GeometryType, UnknownType, VariantType
from icecore.engine.statistics.theta_sketch import THETA_BLOB_TYPE, ThetaSketch, estimate_of
from icecore.engine.storage.file_io import Storage

NDV = "ndv"
_NOT_SKETCHED = (UnknownType, VariantType, GeometryType, GeographyType)


def sketched_columns(schema: Schema, columns: Iterable[str] | None) -> tuple[str, ...]:
    """The columns of a schema to compute statistics of: the named ones, or all primitive top-level ones.

    Raises ValidationError for an unknown column, and for one of a type or in a place that has no sketch.
    """
    if columns is None:
        fields = [f for f in schema.fields if f.field_type.is_primitive and not isinstance(f.field_type, _NOT_SKETCHED)]
        return tuple(f.name for f in fields)
    ids = dict.fromkeys(schema.find_field(name).field_id for name in columns)
    for field_id in ids:
        kind = schema.find_field(field_id).field_type
        if not kind.is_primitive or isinstance(kind, _NOT_SKETCHED) or schema.is_in_list_or_map(field_id):
            raise ValidationError(f"there are no statistics of column {schema.name_of(field_id)!r} of type {kind}")
    return tuple(schema.name_of(field_id) for field_id in ids)


def computed_statistics(scan: DataScan, columns: Iterable[str], folder: str) -> tuple[StatisticsFile, bytes]:
    """The statistics of columns from the rows of a scan: a new file in a folder, and the bytes that go into it.

    The scan is of one snapshot and selects the columns. Raises MissingDependencyError, StorageError, and
    NoSuchSnapshotError where the scan has no snapshot.
    """
    snapshot, schema = scan.snapshot, scan.schema
    if snapshot is None:
        raise NoSuchSnapshotError("statistics are of a snapshot, and the table has none yet")
    fields = [schema.find_field(name) for name in columns]
    sketches: list[Any] = [ThetaSketch(f.primitive_type) for f in fields]
    for batch in scan.to_arrow_batch_reader():
        for f, sketch in zip(fields, sketches, strict=True):
            sketch.add(nested_column(batch, schema.path(f.field_id)))
    blobs = [
        Blob(
            THETA_BLOB_TYPE,
            (f.field_id,),
            snapshot.snapshot_id,
            snapshot.sequence_number,
            sketch.serialize(),
            "zstd",
            {NDV: str(sketch.estimate())},
        )
        for f, sketch in zip(fields, sketches, strict=True)
    ]
    puffin = write_puffin(blobs)
    location = f"{folder}/{snapshot.snapshot_id}-{uuid.uuid4()}.stats"
    file = StatisticsFile(
        snapshot.snapshot_id,
        location,
        puffin.footer.file_size_in_bytes,
        puffin.footer.footer_size_in_bytes,
        tuple(_recorded(b) for b in puffin.footer.blobs),
    )
    return file, puffin.data


def distinct_values(metadata: TableMetadata, storage: Storage, snapshot_id: int | None = None) -> dict[str, int]:
    """The estimated number of distinct values by column, of a snapshot, by default the current one.

    Empty where nobody computed any. A blob that does not say its number is read from its file. Raises
    NoSuchSnapshotError; MissingFileError, CorruptFileError or MissingDependencyError where a file has to be read.
    """
    snapshot = metadata.snapshot_or_current(snapshot_id)
    if snapshot is None:
        return {}
    schema = metadata.schema() if snapshot.schema_id is None else metadata.schema_by_id(snapshot.schema_id)
    out: dict[str, int] = {}
    for file in metadata.statistics:
        for blob in file.blob_metadata if file.snapshot_id == snapshot.snapshot_id else ():
            is_column = blob.type == THETA_BLOB_TYPE and len(blob.fields) == 1
            if is_column and schema.get_field(blob.fields[0]) is not None:
                out[schema.name_of(blob.fields[0])] = _ndv(blob, file, storage)
    return out


def _recorded(blob: StoredBlob) -> BlobMetadata:
    return BlobMetadata(blob.type, blob.snapshot_id, blob.sequence_number, blob.fields, blob.properties)


def _ndv(blob: BlobMetadata, file: StatisticsFile, storage: Storage) -> int:
    known = _number(blob.properties)
    if known is not None:
        return known
    path = file.statistics_path
    for stored in read_footer(storage, path).blobs:
        if (stored.type, stored.fields, stored.snapshot_id) == (blob.type, blob.fields, blob.snapshot_id):
            found = _number(stored.properties)
            return estimate_of(read_blob(storage, path, stored), path) if found is None else found
    raise ValidationError(f"{path} has no {blob.type} blob of the fields {list(blob.fields)}")


def _number(properties: Mapping[str, str]) -> int | None:
    return number_in(properties.get(NDV, ""))
