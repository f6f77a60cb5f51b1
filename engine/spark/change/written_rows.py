"""Files that Spark's tasks wrote for a change of rows, and the data files that it concerns."""

from __future__ import annotations

from attrs import field, frozen

from icecore.engine.spec.content_file import ContentFile


@frozen
class WrittenRows:
    """The data files that are removed, those with rows that are deleted by position, and the files to add.

    The counts are of rows; rows of files that were removed without being read are not among the deleted ones.
    """

    gone: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    added: tuple[ContentFile, ...] = field(default=(), repr=False)
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_inserted: int = 0

    @property
    def touched(self) -> tuple[str, ...]:
        """The paths of data files that are removed or get deletes."""
        return (*self.gone, *self.marked)

    def __add__(self, other: WrittenRows) -> WrittenRows:
        return WrittenRows(
            (*self.gone, *other.gone),
            (*self.marked, *other.marked),
            (*self.added, *other.added),
            self.rows_updated + other.rows_updated,
            self.rows_deleted + other.rows_deleted,
            self.rows_inserted + other.rows_inserted,
        )
