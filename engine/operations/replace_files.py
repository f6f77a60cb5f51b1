"""Overwrites and rewrites of named files, and changes of rows already written, as the caller decided on a base.

Spec: Commit Conflict Resolution (C2, C3), Sequence Numbers (M3), Deletion Vectors (D2), Snapshots (L4: replace changes
no row).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, field, frozen

from icecore.engine.commit.added_files import check_data_files
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.common.location import path_fault
from icecore.engine.errors import ConflictingCommitsError, ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.expression.sql.parse import FilterLike
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.conflict_validation import Check, CommitBase
from icecore.engine.operations.file_effects import FileEffects, produce
from icecore.engine.operations.reusable_files import FileKey
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.snapshot import Operation

_SEQUENCE_NUMBER = ENTRY_SCHEMA.get_field_index("sequence_number")


@frozen
class FileChange:
    """Data files to remove, delete files to remove without them (`dropped`), and data files to add in their place.

    `data_sequence_number` is that of the added files, None for the commit's.
    """

    target: SnapshotTarget
    base: CommitBase
    removed: tuple[str, ...]
    added: tuple[ContentFile, ...]
    dropped: tuple[FileKey, ...] = ()
    is_rewrite: bool = False
    data_sequence_number: int | None = None

    @classmethod
    def of(
        cls,
        target: SnapshotTarget,
        base: CommitBase,
        removed: Iterable[str | ContentFile],
        added: Iterable[ContentFile],
        *,
        is_rewrite: bool = False,
        data_sequence_number: int | None = None,
    ) -> FileChange:
        """The change of files.

        Raises ValidationError for a file that is named twice, or can't be changed in this way.
        """
        gone: list[str] = []
        dropped: list[FileKey] = []
        for f in removed:
            if not isinstance(f, (str, ContentFile)):
                raise ValidationError(f"files that go are named by a path or a ContentFile, found {f!r:.100}")
            if isinstance(f, str) or f.content is DataFileContent.DATA:
                gone.append(f if isinstance(f, str) else f.file_path)
            elif is_rewrite:
                dropped.append((f.file_path, f.content_offset))
            else:
                raise ValidationError(f"{f.file_path}: an overwrite removes data files, found {f.content.name}")
        for path in gone:
            if text := path_fault(path):
                raise ValidationError(f"the path of a file to remove {text}")
        added = check_data_files(added)
        twice = [p for p, n in Counter([*gone, *(f.file_path for f in added)]).items() if n > 1]
        if twice:
            raise ValidationError(f"{twice[0]} is named twice")
        if is_rewrite and not (gone or dropped):
            raise ValidationError("a rewrite needs files that it takes the place of")
        if is_rewrite and added and not gone:
            raise ValidationError("a rewrite that adds data files needs data files that they take the place of")
        return cls(target, base, tuple(gone), added, tuple(dropped), is_rewrite, data_sequence_number)

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        """The command for the head of the branch as it is now.

        Raises ConflictingCommitsError where a file to remove was removed or got deletes since the base and, for a
        serializable overwrite, where rows that were read changed; ValidationError for files that were never there.
        """
        check = Check.of(at, self.base, self.target.branch)
        if not self.is_rewrite:
            check.read(TRUE)
        number = self.data_sequence_number
        check.touched(self.removed, replacing=None if number is None else (number, self.added), vectors=False)
        effects = FileEffects(False, gone=list(self.removed), dropped=list(self.dropped))
        command = produce(at, self.target, self.added, effects, Operation.REPLACE if self.is_rewrite else None)
        if number is None:
            return command
        _check_number(at, self.base, number, command)
        assert command.added is not None, "there are files"
        return evolve(command, added=with_sequence_number(command.added, number))


@frozen
class DecidedRows:
    """Data files to remove (`gone`) or to delete rows of by position (`marked`), files to add, and what was read.

    `row_filter` selects the rows that were read, None for all; `summary` is added to the snapshot's.
    """

    gone: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    added: tuple[ContentFile, ...] = field(default=(), repr=False)
    row_filter: FilterLike = None
    summary: Mapping[str, str] = field(factory=dict)


@frozen
class DecidedChange:
    """A change that was decided on a base, in a table of `format_version`."""

    target: SnapshotTarget
    base: CommitBase
    format_version: int
    rows: DecidedRows

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        """The command for the head of the branch as it is now.

        Raises ConflictingCommitsError where the files that it touches, or under `serializable` the rows read, have
        changed since the base, and where the format version was raised since.
        """
        rows, version = self.rows, at.metadata.format_version
        check = Check.of(at, self.base, self.target.branch)
        check.read(rows.row_filter)
        check.touched([*rows.gone, *rows.marked], vectors=bool(rows.marked))
        if version != self.format_version:
            raise ConflictingCommitsError(
                f"the files were written for format version {self.format_version}, and the table has {version} now"
            )
        effects = FileEffects(bool(rows.marked), gone=list(rows.gone), added=list(rows.added), marked=list(rows.marked))
        if version >= 3:
            effects.superseded = list(rows.marked)
        return produce(at, self.target.with_summary(rows.summary), (), effects)


def with_sequence_number(entries: pa.Table, number: int) -> pa.Table:
    """Entries to be added under a data sequence number that is older than their commit's (M3)."""
    numbers = pa.repeat(pa.scalar(number, pa.int64()), entries.num_rows)
    return entries.set_column(_SEQUENCE_NUMBER, ENTRY_SCHEMA.field(_SEQUENCE_NUMBER), numbers)


def _check_number(at: PlanContext, pinned: CommitBase, number: int, command: ProduceSnapshot) -> None:
    """Raises ValidationError for a number by which deletes would apply that did not, or later ones would not apply."""
    if at.metadata.format_version < 2:
        raise ValidationError("a v1 table has no sequence numbers")
    base_id = pinned.base_snapshot_id
    base = None if base_id is None else at.state.metadata.find_snapshot(base_id)
    newest = base.sequence_number if base is not None else 0
    removed = [r.removed.filter(pc.equal(r.removed["content"], 0))["sequence_number"] for r in command.removals]
    oldest = max((pc.max(c).as_py() or 0 for c in removed), default=0)
    if not oldest <= number <= newest:
        raise ValidationError(
            f"the data sequence number must be from {oldest}, the newest of the rewritten files, to {newest}, that of "
            f"the base; found {number}"
        )
