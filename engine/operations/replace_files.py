"""Changes that name files: data files overwritten or rewritten by others, decided on by the caller on a base.

Spec: Commit Conflict Resolution (C2, C3), Sequence Numbers (M3), Snapshots (L4: replace changes no row).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen

from icecore.engine.commit.added_files import check_data_files
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.common.location import path_fault
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.metadata.fold import TableState
from icecore.engine.operations.conflict_validation import Check, CommitBase
from icecore.engine.operations.delete_by_filter import FileChanges, SnapshotTarget, produce
from icecore.engine.operations.reusable_files import FileKey
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Operation
from icecore.projections.plan.planner import Planner

_SEQUENCE_NUMBER = ENTRY_SCHEMA.get_field_index("sequence_number")


@frozen
class FileChange:
    """Data files that go, delete files that go by themselves, and data files that take their place.

    `data_sequence_number` is that of the new files, where it is not to be the commit's.
    """

    target: SnapshotTarget
    pin: CommitBase
    removed: tuple[str, ...]
    added: tuple[ContentFile, ...]
    dropped: tuple[FileKey, ...] = ()
    is_rewrite: bool = False
    data_sequence_number: int | None = None

    @classmethod
    def of(
        cls,
        target: SnapshotTarget,
        pin: CommitBase,
        removed: Iterable[str | ContentFile],
        added: Iterable[ContentFile],
        *,
        is_rewrite: bool = False,
        data_sequence_number: int | None = None,
    ) -> FileChange:
        """Raises ValidationError for a file that is named twice, or can't be changed in this way."""
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
        return cls(target, pin, tuple(gone), added, tuple(dropped), is_rewrite, data_sequence_number)


def plan_file_change(
    repository: Repository, planner: Planner, state: TableState, metadata: TableMetadata, change: FileChange
) -> ProduceSnapshot:
    """The command for the head of the branch as it is now; where the branch moves, this is called again.

    Raises ConflictingCommitsError where the files that go are gone already or got deletes since the base and, for a
    serializable overwrite, where anything of concern changed; ValidationError for files that were never there.
    """
    check = Check.of(repository, planner, state, metadata, change.pin, change.target.branch)
    if not change.is_rewrite:
        check.read(TRUE)
    keeps_number = change.data_sequence_number is not None
    check.touched(change.removed, ignore_equality_deletes=keeps_number, vectors=False)
    effects = FileChanges(False, gone=list(change.removed), dropped=list(change.dropped))
    operation = Operation.REPLACE if change.is_rewrite else None
    command = produce(repository, state, metadata, change.target, change.added, effects, operation)
    if change.data_sequence_number is None:
        return command
    _check_number(state, metadata, change.pin, change.data_sequence_number, command)
    assert command.added is not None, "there are files"
    return evolve(command, added=with_sequence_number(command.added, change.data_sequence_number))


def with_sequence_number(entries: pa.Table, number: int) -> pa.Table:
    """Entries to be added under a data sequence number that is older than their commit's (M3)."""
    numbers = pa.repeat(pa.scalar(number, pa.int64()), entries.num_rows)
    return entries.set_column(_SEQUENCE_NUMBER, ENTRY_SCHEMA.field(_SEQUENCE_NUMBER), numbers)


def _check_number(
    state: TableState, metadata: TableMetadata, pin: CommitBase, number: int, command: ProduceSnapshot
) -> None:
    """An older number would let deletes apply that don't, a newer one keep deletes off that came since the base."""
    if metadata.format_version < 2:
        raise ValidationError("a v1 table has no sequence numbers")
    base = None if pin.base_snapshot_id is None else state.metadata.find_snapshot(pin.base_snapshot_id)
    newest = base.sequence_number if base is not None else 0
    removed = [r.removed.filter(pc.equal(r.removed["content"], 0))["sequence_number"] for r in command.removals]
    oldest = max((pc.max(c).as_py() or 0 for c in removed), default=0)
    if not oldest <= number <= newest:
        raise ValidationError(
            f"the data sequence number must be from {oldest}, the newest of the rewritten files, to {newest}, that of "
            f"the base; found {number}"
        )
