"""Files written by an earlier attempt of a commit, for use again where their source files are unchanged.

A commit that lost a race is planned anew on the new state; most of its files were not touched by the winner, so that
the rows found in them, and the files written from them, still hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from attrs import define, field

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import Expression
from icecore.engine.operations.merge_on_read import Selected
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata

FileKey = tuple[str, int | None]
TaskKey = tuple[str, int | None, tuple[FileKey, ...], Expression]


def task_key(task: FileScanTask) -> TaskKey:
    """A key that is equal for tasks with the same rows: the path, first row id, deletes, and residual."""
    deletes = sorted(((d.file_path, d.content_offset) for d in task.delete_files), key=lambda k: (k[0], k[1] or 0))
    return task.file.file_path, task.file.first_row_id, tuple(deletes), task.residual


def table_shape(metadata: TableMetadata) -> tuple[Any, ...]:
    """A key that is equal for metadata under which files are read and written alike."""
    return (
        metadata.format_version,
        metadata.location,
        metadata.schema(),
        metadata.partition_specs,
        metadata.default_spec_id,
        metadata.sort_order(),
        dict(metadata.properties),
    )


@define
class ReusableFiles:
    """The rows selected in each source file, the files that replace it, its deletes; the files of inserted rows."""

    selected: dict[TaskKey, Selected] = field(factory=dict)
    rewritten: dict[TaskKey, tuple[ContentFile, ...]] = field(factory=dict)
    deletes: dict[TaskKey, ContentFile] = field(factory=dict)
    inserted: dict[Hashable, tuple[ContentFile, ...]] = field(factory=dict)
    _shape: Any = None

    def use(self, metadata: TableMetadata) -> None:
        """Forgets everything if files would be read or written otherwise under this metadata."""
        shape = table_shape(metadata)
        if self._shape != shape:
            self.forget()
            self._shape = shape

    def is_new(self, task: FileScanTask) -> bool:
        """Whether the rows of a file have to be selected."""
        return task_key(task) not in self.selected

    def forget(self) -> None:
        """Forgets everything, as after the files were deleted."""
        self.selected, self.rewritten, self.deletes, self.inserted = {}, {}, {}, {}

    def note_deletes(self, tasks: Sequence[FileScanTask], written: Sequence[ContentFile]) -> None:
        """Notes delete files that are about one data file each; shared ones depend on what else was deleted."""
        by_path: dict[str | None, list[ContentFile]] = {}
        for file in written:
            by_path.setdefault(file.referenced_data_file, []).append(file)
        for task in tasks:
            found = by_path.get(task.file.file_path, [])
            if len(found) == 1 and None not in by_path:
                self.deletes[task_key(task)] = found[0]
