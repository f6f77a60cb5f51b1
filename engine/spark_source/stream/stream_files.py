"""The data files that a stream reads, in the order of snapshots, and its offsets in them.

The rules are those of Iceberg's own streams: appends are read, rewrites hold nothing new, overwrites and deletes end
the stream unless it is told to skip them. Files come in the order of their paths, so that an offset means the same
files whenever it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from attrs import define, evolve, field, frozen

from icecore.engine.common.ids import signed
from icecore.engine.data.read.rows_of_commits import CommitFiles
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.expression.timestamps import to_epoch_ms
from icecore.engine.repository.ancestors import parent_id
from icecore.engine.scan.changelog import IncrementalChangelogScan
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spark_source.source_scan import changes_of
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation, Snapshot
from icecore.engine.table.table import Table

Piece = FileScanTask | CommitFiles
"""The unit that a stream reads: a file or, in a changelog, a commit's file, or all of them where rows are compared."""

_SKIPS = {
    Operation.OVERWRITE: "streaming-skip-overwrite-snapshots",
    Operation.DELETE: "streaming-skip-delete-snapshots",
}

# The most snapshots whose files are kept from one micro-batch to the next.
_MOST_SNAPSHOTS = 32

# The id that stands for no snapshot, as in Iceberg's metadata.
_NONE = -1


@frozen
class Offset:
    """A place in a stream: the first `files` files of a snapshot were read, all of them where `is_done`.

    The files of a snapshot are all its live ones where `is_whole`, else those that it added. Before the first snapshot
    the id is None; a stream from a future time goes on with the first snapshot at or after `since_ms`.
    """

    snapshot_id: int | None = None
    files: int = 0
    is_whole: bool = False
    is_done: bool = True
    since_ms: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Offset:
        """The offset that Spark kept."""
        return cls(given["snapshot-id"], given["files"], given["whole"], given["done"], given.get("since-ms"))

    def to_dict(self) -> dict[str, Any]:
        """The form in which Spark keeps it; the same offset is always the same text."""
        kept = {"snapshot-id": self.snapshot_id, "files": self.files, "whole": self.is_whole, "done": self.is_done}
        return kept if self.since_ms is None else {**kept, "since-ms": self.since_ms}


@frozen
class Limits:
    """The most files and rows of a micro-batch; one file is read in any case."""

    files: int | None = None
    rows: int | None = None

    def have_room(self, files: int, rows: int) -> bool:
        """Whether a micro-batch may have as many."""
        return (self.files is None or files <= self.files) and (self.rows is None or rows <= self.rows)


@define
class StreamFiles:
    """The files of a table, at the version that it is loaded at, for the options of a stream.

    `last_snapshot_id` is the last snapshot that may be read, -1 where none may be, None where all may be.
    """

    table: Table
    options: SourceOptions
    last_snapshot_id: int | None = None
    _pieces: dict[tuple[int, bool], list[Piece]] = field(factory=dict)

    def end_here(self) -> None:
        """Keeps the stream to the snapshots that are there now."""
        history = self.history()
        self.last_snapshot_id = history[-1].snapshot_id if history else _NONE

    def history(self) -> list[Snapshot]:
        """The snapshots of the branch, oldest first, up to the last one that may be read.

        Raises ValidationError where that one is not there any more.
        """
        if self.last_snapshot_id == _NONE:
            return []
        metadata = self.table.metadata
        head = metadata.snapshot_by_ref(self.options.text("branch") or MAIN_BRANCH)
        found = list(metadata.ancestors(None if head is None else head.snapshot_id))[::-1]
        if self.last_snapshot_id is None:
            return found
        ids = [s.snapshot_id for s in found]
        if self.last_snapshot_id not in ids:
            raise ValidationError(
                f"{self._name}: snapshot {self.last_snapshot_id}, which the stream was to read up to, was expired or "
                "is not on its branch"
            )
        return found[: ids.index(self.last_snapshot_id) + 1]

    def first_offset(self) -> Offset:
        """The offset that the options ask for: after a snapshot, from a time on, or from the oldest snapshot whole.

        Raises ValidationError where they ask for two, or for a snapshot that is not on the branch.
        """
        history = self.history()
        start, moment = self.options.whole_number("start-snapshot-id"), self.options.moment("start-timestamp")
        if start is not None and moment is not None:
            raise ValidationError("a stream takes one of 'start-snapshot-id' and 'start-timestamp'")
        if start is not None:
            self._after(Offset(start), history)
            return Offset(start)
        if moment is not None:
            since = to_epoch_ms(moment, "start-timestamp")
            later = [s for s in history if s.timestamp_ms >= since]
            if later:
                return Offset(later[0].snapshot_id, is_done=False)
            return Offset(since_ms=since)
        return Offset(history[0].snapshot_id, is_whole=True, is_done=False) if history else Offset()

    def next_offset(self, start: Offset, limits: Limits) -> Offset:
        """The offset after as many files as there are, or as the limits allow.

        Raises ValidationError where the stream can't go on: see `pieces_of` and `between`.
        """
        at, files, rows = start, 0, 0
        for here, pieces in self._from(start, self.history()):
            for number, piece in enumerate(pieces[here.files :], here.files + 1):
                more = _tasks(piece)
                new_rows = sum(t.file.record_count for t in more)
                if files and not limits.have_room(files + len(more), rows + new_rows):
                    return at
                files, rows = files + len(more), rows + new_rows
                at = evolve(here, files=number, is_done=number == len(pieces))
            at = evolve(here, files=len(pieces), is_done=True)
        return at

    def between(self, start: Offset, end: Offset) -> list[Piece]:
        """The files after one offset, up to another. Raises ValidationError where one is not on the branch any more."""
        found: list[Piece] = []
        if start == end:
            return found
        for here, pieces in self._from(start, self.history()):
            if here.snapshot_id == end.snapshot_id:
                return [*found, *pieces[here.files : end.files]]
            found += pieces[here.files :]
        raise ValidationError(f"{self._name}: snapshot {end.snapshot_id} of the stream is not on its branch any more")

    def _from(self, start: Offset, history: list[Snapshot]) -> Iterator[tuple[Offset, list[Piece]]]:
        """Each snapshot from an offset on, with the files that it has for the stream."""
        if start.snapshot_id is not None and not start.is_done:
            snapshot = next((s for s in history if s.snapshot_id == start.snapshot_id), None)
            if snapshot is None:
                raise self._lost(start)
            yield start, self.pieces_of(snapshot, start.is_whole)
        for s in self._after(start, history):
            yield Offset(s.snapshot_id, is_done=False), self.pieces_of(s, False)

    def _after(self, start: Offset, history: list[Snapshot]) -> list[Snapshot]:
        if start.snapshot_id is None:
            return self._from_first(start.since_ms, history)
        for i, s in enumerate(history):
            if s.snapshot_id == start.snapshot_id:
                return history[i + 1 :]
            # The start's snapshot may have been expired, where all of it was read.
            if s.parent_snapshot_id == start.snapshot_id and start.is_done:
                return history[i:]
        raise self._lost(start)

    def _from_first(self, since_ms: int | None, history: list[Snapshot]) -> list[Snapshot]:
        passed = 0 if since_ms is None else len(list(takewhile(lambda s: s.timestamp_ms < since_ms, history)))
        if history and not passed and parent_id(self.table._repository, self.table.state, history[0]) is not None:
            raise ValidationError(f"{self._name}: the first snapshots, which the stream has not read, were expired")
        return history[passed:]

    def _lost(self, start: Offset) -> ValidationError:
        return ValidationError(
            f"{self._name}: snapshot {start.snapshot_id}, where the stream goes on, was expired or is not on its branch"
        )

    def pieces_of(self, snapshot: Snapshot, is_whole: bool) -> list[Piece]:
        """The files of a snapshot.

        Raises ValidationError for an overwrite or a delete that is not to be skipped and, of a changelog, where what a
        commit changed can't be told.
        """
        key = snapshot.snapshot_id, is_whole
        if key not in self._pieces:
            if len(self._pieces) >= _MOST_SNAPSHOTS:
                self._pieces.clear()
            planned = self._changed if self.options.is_changelog else self._planned
            self._pieces[key] = sorted(planned(snapshot, is_whole), key=lambda p: _tasks(p)[0].file.file_path)
        return self._pieces[key]

    def _changed(self, snapshot: Snapshot, is_whole: bool) -> list[Piece]:
        if is_whole:
            tasks = self.table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
            commits = [CommitFiles(0, signed(snapshot.snapshot_id), come=tuple(tasks))]
        else:
            commits = list(self.changes_of(snapshot.snapshot_id).commits())
        return [piece for commit in commits for piece in commit.pieces()]

    def changes_of(self, snapshot_id: int) -> IncrementalChangelogScan:
        """The changes of a snapshot, as the options have them. Raises ValidationError."""
        return changes_of(
            self.table, self.options, from_snapshot_id_inclusive=snapshot_id, to_snapshot_id_inclusive=snapshot_id
        )

    def _planned(self, snapshot: Snapshot, is_whole: bool) -> list[FileScanTask]:
        snapshot_id, operation = snapshot.snapshot_id, snapshot.operation
        if is_whole:
            return self.table.scan(snapshot_id=snapshot_id).plan_files()
        if operation == Operation.APPEND:
            added = self.table.incremental_append_scan(
                from_snapshot_id_inclusive=snapshot_id, to_snapshot_id_inclusive=snapshot_id
            )
            return added.plan_files()
        if operation == Operation.REPLACE:
            return []
        skip = next((option for of, option in _SKIPS.items() if of == operation), _SKIPS[Operation.OVERWRITE])
        if not self.options.flag(skip):
            raise ValidationError(
                f"{self._name}: snapshot {snapshot_id} is of the operation {operation!r}, which a stream of appends "
                f"can't tell of; the option {skip!r} skips it"
            )
        return []

    @property
    def _name(self) -> str:
        return name_text(self.table.name())


def _tasks(piece: Piece) -> Sequence[FileScanTask]:
    return piece.tasks if isinstance(piece, CommitFiles) else (piece,)


def numbered(commits: Iterable[CommitFiles]) -> list[CommitFiles]:
    """The commits of a micro-batch, their ordinals counted from its first one on."""
    found = list(commits)
    ordinals = {s: n for n, s in enumerate(dict.fromkeys(c.snapshot_id for c in found))}
    return [evolve(c, ordinal=ordinals[c.snapshot_id]) for c in found]
