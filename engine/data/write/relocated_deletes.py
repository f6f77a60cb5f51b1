"""Delete files that name data files by their paths, rewritten after those paths changed.

Position delete files name data files in their rows, Puffin files name those of deletion vectors in their footers, and
other engines rely on these paths (D3, D2). Equality delete files name none. Deletion vectors keep their bytes and
offsets.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve

from icecore.engine.common.location import LocationMapping
from icecore.engine.data.file.metrics_mode import Full
from icecore.engine.data.read.apply_deletes import position_delete_rows
from icecore.engine.data.write.data_file_writer import DataFileWriter, file_kind
from icecore.engine.data.write.file_options import delete_file_options
from icecore.engine.data.write.position_delete_writer import (
    POSITION_DELETE_ARROW,
    POSITION_DELETE_SCHEMA,
    with_reference,
)
from icecore.engine.formats.puffin import StoredBlob, decode_footer, with_blobs
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.reserved import DELETE_PATH_ID, DELETE_POS_ID
from icecore.engine.storage.file_io import Storage

REFERENCED_DATA_FILE = "referenced-data-file"
_ROWS_AT_ONCE = 256 * 1024


def relocated_delete(
    source: Storage, target: Storage, file: ContentFile, mapping: LocationMapping, elsewhere: str | None = None
) -> ContentFile:
    """Writes a position delete file, or a Puffin file of deletion vectors, again with mapped paths, and describes it.

    It is read from `source` and written to `target`: into the folder of its mapped path or, if the mapping leaves its
    path as it is, into `elsewhere`. Its new name is made of the old and the mapped path, so that a repeated call writes
    the same file. Raises MissingFileError, CorruptFileError, StorageError.
    """
    location = _new_location(file.file_path, mapping, elsewhere)
    if file.is_deletion_vector:
        return _puffin(source, target, file, location, mapping)
    kind = file_kind(
        POSITION_DELETE_SCHEMA,
        target,
        delete_file_options({}),
        {DELETE_PATH_ID: Full(), DELETE_POS_ID: Full()},
        file.spec_id,
        None,
        DataFileContent.POSITION_DELETES,
        key_values={"delete-type": "position"},
    )
    writer = DataFileWriter(kind, f"{location}.{kind.extension}", file.partition)
    try:
        for paths, positions in position_delete_rows(source, file):
            rows = pa.table([_mapped(paths, mapping), positions], schema=POSITION_DELETE_ARROW)
            for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                writer.write_group(rows.slice(start, _ROWS_AT_ONCE))
        written = writer.close()
    except BaseException:
        writer.abort()
        raise
    return evolve(with_reference(written), sort_order_id=file.sort_order_id)


def _puffin(
    source: Storage, target: Storage, file: ContentFile, location: str, mapping: LocationMapping
) -> ContentFile:
    data = source.read_bytes(file.file_path)
    if file.content_offset is None:
        # Some early writers left out Puffin's frame, and the path with it.
        moved = data
    else:
        footer = decode_footer(data, file.file_path)
        moved = with_blobs(data, footer, [_moved_blob(b, mapping) for b in footer.blobs])
    path = f"{location}.puffin"
    target.write_atomic(path, moved)
    referenced = None if file.referenced_data_file is None else mapping.resolve(file.referenced_data_file)
    return evolve(file, file_path=path, file_size_in_bytes=len(moved), referenced_data_file=referenced)


def _moved_blob(blob: StoredBlob, mapping: LocationMapping) -> StoredBlob:
    properties = dict(blob.properties)
    if REFERENCED_DATA_FILE in properties:
        properties[REFERENCED_DATA_FILE] = mapping.resolve(properties[REFERENCED_DATA_FILE])
    return evolve(blob, properties=properties)


def _new_location(path: str, mapping: LocationMapping, elsewhere: str | None) -> str:
    """The location of the new file, without its extension."""
    moved = mapping.resolve(path)
    folder, _, name = moved.rpartition("/")
    if moved == path and elsewhere is not None:
        folder = elsewhere
    name = name.rpartition(".")[0] or name
    return f"{folder}/{name}-{hashlib.sha256(f'{path}>{moved}'.encode()).hexdigest()[:12]}"


def _mapped(paths: pa.Array, mapping: LocationMapping) -> pa.Array:
    encoded = paths.dictionary_encode()
    known = pa.array([mapping.resolve(p) for p in encoded.dictionary.to_pylist()], pa.string())
    return pc.take(known, encoded.indices)
