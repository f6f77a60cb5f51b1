"""Entries of files whose paths change; delete files that name data files by path are written anew."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from icecore.engine.common.location import LocationMapping
from icecore.engine.data.write.relocated_deletes import relocated_delete
from icecore.engine.events.relocated_entries import moved_entries
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, files_to_arrow, row_to_file
from icecore.engine.spec.content_file import DataFileContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage

_KEPT = ("status", "snapshot_id", "sequence_number", "file_sequence_number", "partition")


@define
class MovedDeletes:
    """The delete files of a table as they are written to the mapped paths, each once.

    They are read from `source` and written to `target`; those whose folder stays are written `elsewhere` where that is
    named. `written` has the new entry of each, by its path and offset.
    """

    metadata: TableMetadata
    mapping: LocationMapping
    source: Storage
    target: Storage
    elsewhere: str | None = None
    written: dict[str, dict[str, Any]] = field(factory=dict)

    def moved(self, entries: pa.Table) -> pa.Table:
        """Canonical entries with mapped paths, and new files of live position deletes. Raises StorageError."""
        moved = moved_entries(entries, self.mapping)
        is_delete = pc.equal(entries["content"], int(DataFileContent.POSITION_DELETES))
        if not pc.any(is_delete).as_py():
            return moved
        rows = moved.to_pylist()
        for row, old in zip(rows, entries.to_pylist(), strict=True):
            # A file that is gone from the table may be gone from its folder.
            if old["content"] == int(DataFileContent.POSITION_DELETES) and old["status"] != ManifestEntryStatus.DELETED:
                row.update(self._rewritten(old))
        return pa.Table.from_pylist(rows, schema=ENTRY_SCHEMA)

    def _rewritten(self, row: dict[str, Any]) -> dict[str, Any]:
        """The fields of a delete file's entry for the file that replaces it."""
        key = f"{row['file_path']}\x00{row['content_offset']}"
        if key not in self.written:
            metadata = self.metadata
            spec, schema = metadata.spec_by_id(row["spec_id"]), metadata.all_fields
            file = row_to_file(row, spec, schema)
            new = relocated_delete(self.source, self.target, file, self.mapping, self.elsewhere)
            [entry] = files_to_arrow([new], metadata.specs, schema, status=row["status"]).to_pylist()
            self.written[key] = {k: v for k, v in entry.items() if k not in _KEPT}
        return self.written[key]
