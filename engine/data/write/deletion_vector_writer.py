"""The writer of deletion vectors: one Puffin file with a blob for each data file.

Spec: Deletion Vectors (D2, D5), Puffin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyroaring
from attrs import field, frozen

from icecore.engine.data.read.deletion_vector import BLOB_TYPE, Positions, bitmap_of, encode_deletion_vector
from icecore.engine.formats.puffin import Blob, write_puffin
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.reserved import POS
from icecore.engine.storage.file_io import Storage

UNKNOWN_UNTIL_COMMIT = -1


@frozen
class DeletedRows:
    """The deleted positions of a data file, in any order, and the partition that the file is in."""

    positions: pyroaring.BitMap64 | Positions | Iterable[int] = field(repr=False)
    spec_id: int
    partition: tuple[Any, ...]


def write_deletion_vectors(storage: Storage, location: str, deletes: Mapping[str, DeletedRows]) -> list[ContentFile]:
    """Writes the deletion vectors of data files, by their path, into the new Puffin file `location`.

    A vector replaces the earlier position deletes of its data file, so its positions must include those (D2). Results
    are sorted by path. A data file without positions gets no vector, and without any vector no file is written. The
    file is durable when the call returns.

    Raises ValidationError for a negative position, FileExistsInStorageError, StorageError.
    """
    bitmaps = {path: bitmap_of(rows.positions) for path, rows in sorted(deletes.items())}
    bitmaps = {path: bitmap for path, bitmap in bitmaps.items() if len(bitmap)}
    if not bitmaps:
        return []
    puffin = write_puffin(_blob(path, bitmap) for path, bitmap in bitmaps.items())
    storage.create(location, puffin.data)
    return [
        ContentFile(
            DataFileContent.POSITION_DELETES,
            location,
            FileFormat.PUFFIN,
            deletes[path].spec_id,
            deletes[path].partition,
            len(bitmap),
            puffin.footer.file_size_in_bytes,
            referenced_data_file=path,
            content_offset=stored.offset,
            content_size_in_bytes=stored.length,
        )
        for (path, bitmap), stored in zip(bitmaps.items(), puffin.footer.blobs, strict=True)
    ]


def _blob(path: str, bitmap: pyroaring.BitMap64) -> Blob:
    return Blob(
        BLOB_TYPE,
        (POS.field_id,),
        UNKNOWN_UNTIL_COMMIT,
        UNKNOWN_UNTIL_COMMIT,
        encode_deletion_vector(bitmap),
        properties={"referenced-data-file": path, "cardinality": str(len(bitmap))},
    )
