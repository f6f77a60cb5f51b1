"""Scan tasks: one data file, or a part of one, with all that is needed to read its rows."""

from __future__ import annotations

from attrs import evolve, frozen

from icecore.engine.common.text import short_repr
from icecore.engine.expression.nodes import Expression
from icecore.engine.spec.content_file import ContentFile, without_metrics


@frozen
class FileScanTask:
    """A byte range of a data file, the delete files that apply to it, and what is left of the filter.

    `start` and `length` are bytes; rows belong to the range in which their row group (or block) starts. `residual` is
    a bound expression: a row of the file that satisfies it satisfies the scan's filter (Spec: SP8).
    `data_sequence_number` is the number after inheritance.
    """

    __repr__ = short_repr

    file: ContentFile
    delete_files: tuple[ContentFile, ...]
    residual: Expression
    start: int
    length: int
    data_sequence_number: int

    def slim(self) -> FileScanTask:
        """The task without the metrics of its files, which reading does not need."""
        deletes = tuple(without_metrics(d) for d in self.delete_files)
        return evolve(self, file=without_metrics(self.file), delete_files=deletes)
