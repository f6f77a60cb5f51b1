"""Content files: data and delete files as manifests describe them.

Spec: Manifests (M2 to M5). Metrics maps go from field id to a number or to a binary single value.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from icecore.engine.common.text import short_repr


class DataFileContent(enum.IntEnum):
    """The `content` of a data file in a manifest entry (Spec: M3)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class ManifestContent(enum.IntEnum):
    """The `content` of a manifest: data files or delete files (Spec: L1)."""

    DATA = 0
    DELETES = 1


ALLOWED_CONTENT = {
    ManifestContent.DATA: (DataFileContent.DATA,),
    ManifestContent.DELETES: (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES),
}
"""The files that a manifest of each kind may hold."""


class ManifestEntryStatus(enum.IntEnum):
    """The `status` of a manifest entry (Spec: M2)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class FileFormat(enum.StrEnum):
    """The formats of content files; `PUFFIN` is for deletion vectors alone."""

    PARQUET = "PARQUET"
    AVRO = "AVRO"
    ORC = "ORC"
    PUFFIN = "PUFFIN"


@frozen
class ContentFile:
    """A data file, position delete file, equality delete file or deletion vector.

    `partition` holds internal values in the order of the fields of spec `spec_id`. Sizes are in bytes, offsets in
    bytes from the start of the file. Metrics are None where the writer gave none.
    """

    __repr__ = short_repr

    content: DataFileContent
    file_path: str
    file_format: FileFormat
    spec_id: int
    partition: tuple[Any, ...]
    record_count: int
    file_size_in_bytes: int
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = field(default=None, repr=False)
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def is_deletion_vector(self) -> bool:
        """Whether the file is a deletion vector: position deletes in a Puffin blob."""
        return self.content is DataFileContent.POSITION_DELETES and self.file_format is FileFormat.PUFFIN


def without_metrics(file: ContentFile) -> ContentFile:
    """A content file without column metrics, the large part of it."""
    none: dict[str, Any] = dict.fromkeys(
        ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    )
    return evolve(file, **none)


@frozen
class FieldSummary:
    """The summary of one partition field over a manifest's files, as the manifest list has it (Spec: L1)."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@frozen
class ManifestFile:
    """One row of a manifest list (Spec: L1, fields 500 to 520). Counts are None where a v1 writer left them out."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = field(default=None, repr=False)
    first_row_id: int | None = None

    @property
    def has_live_files(self) -> bool:
        """Whether a scan must look inside; a missing count is taken as not zero (SP1)."""
        return self.added_files_count != 0 or self.existing_files_count != 0
