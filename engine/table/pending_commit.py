"""The pending commit of a transaction: commands, and the files that are written for them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from icecore.engine.commit.decide import ChangeMetadata, Command, ProduceSnapshot
from icecore.engine.commit.dry_run import DryRun, paths_of
from icecore.engine.commit.pending_changes import Prepared, changed, planned, with_moved_refs
from icecore.engine.commit.ref_updates import made_from_main
from icecore.engine.common.ids import new_snapshot_id
from icecore.engine.data.arrow.to_arrow import to_arrow
from icecore.engine.data.spark_schema import is_spark
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import REFUSED, IcecoreError, MissingFileError, NoSuchSnapshotError, ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.evolution.manage_snapshots import CherryPick
from icecore.engine.expression.sql.parse import FilterLike
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.requirements import requirements_for
from icecore.engine.metadata.write_audit_publish import branch_for
from icecore.engine.operations.action import Action, PlanContext, SnapshotTarget
from icecore.engine.operations.add_files import AbsentFiles, AppendFiles, check_paths
from icecore.engine.operations.cherry_pick import PickSnapshot
from icecore.engine.operations.conflict_validation import CommitBase, isolation_level
from icecore.engine.operations.equality_deletes import only_while_one_spec, write_key_deletes
from icecore.engine.operations.reusable_files import ReusableFiles
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.properties.table_properties import KnownProperty
from icecore.engine.repository.repository import CommitResult, Repository, TablePart
from icecore.engine.spec.content_file import ContentFile, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, SnapshotRefType
from icecore.engine.spec.updates.metadata_update import AddSchema
from icecore.engine.spec.updates.requirement import TableRequirement
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    TableUpdate,
)
from icecore.engine.storage.file_io import Storage
from icecore.engine.table.commit_options import PinnedChangeOptions, RowChangeOptions, is_pinned
from icecore.engine.table.written_files import WrittenFiles, still_fitting
from icecore.projections.plan.planning import Planning

# Updates that give out the ids of columns, partition fields and orders, which files written after them carry.
RESHAPING = (AddSchema, SetCurrentSchema, AddPartitionSpec, SetDefaultSpec, AddSortOrder, SetDefaultSortOrder)


class PendingCommit:
    """The changes of a transaction so far, on the table's latest state, and the files written for them."""

    def __init__(
        self,
        repository: Repository,
        planning: Planning,
        state: TableState,
        provenance: Provenance,
        check_open: Callable[[], None],
    ) -> None:
        """`check_open` raises where the transaction has ended."""
        self.repository = repository
        self.planning = planning
        self.state = repository.live_state(state.stream)
        # As the changes so far leave it; snapshots of this transaction are not in it yet.
        self.metadata = self.state.metadata
        # The event of an earlier call with the same idempotency key: then nothing is done again.
        self.answered = repository.already(provenance)
        # Files that planning wrote, which its next attempt may use again.
        self.reusable = ReusableFiles()
        # For the summary of each snapshot; a change's own properties override them.
        self.snapshot_properties: dict[str, str] = {}
        self._stream = state.stream
        # The metadata of the caller's table, maybe older than the latest state; its refs move with the changes.
        self._seen = state.metadata
        self._provenance = provenance
        self._check_open = check_open
        self._commands: list[Prepared | ChangeMetadata] = []
        self._snapshot_ids: set[int] = set()
        self._reshaping: list[TableUpdate] = []
        self._requirements: list[TableRequirement] = []
        self._written: list[str] = []
        # Files that planning wrote, in all its attempts.
        self._planned: set[str] = set()
        self._written_at_once: set[str] = set()
        self._absent: list[AbsentFiles] = []
        self._checks: list[ChangeMetadata] = []

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.repository.storage_of(self.state)

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._commands)

    @property
    def has_snapshots(self) -> bool:
        """Whether rows or manifests were changed."""
        return bool(self._snapshot_ids)

    def told(self) -> list[str]:
        """The numbers of changes of metadata and of snapshots so far, and of files written for them."""
        changes = sum(isinstance(c, ChangeMetadata) for c in self._commands)
        counts = {"metadata": changes, "snapshots": len(self._snapshot_ids), "files": len(self._written)}
        return [f"{what}={count}" for what, count in counts.items() if count]

    # What a change needs

    def branch(self, options: RowChangeOptions) -> str:
        """The branch that a change of rows goes to; a new one is made from main, if there is one, as in Java.

        Raises ValidationError.
        """
        self._check_open()
        properties = string_properties(options.get("snapshot_properties"), "snapshot properties")
        wanted = branch_for(self.metadata, options.get("branch", MAIN_BRANCH), properties)
        if not isinstance(wanted, str) or not wanted:
            raise ValidationError(f"a branch is named by text that is not empty, found {wanted!r}")
        if wanted not in self.metadata.refs and wanted != MAIN_BRANCH:
            self.add(ChangeMetadata(lambda m: made_from_main(m, wanted)))
        if self.answered is None and self.metadata.head_for_commit(wanted) is not None:
            self.check_branch(wanted)
        return wanted

    def check_branch(self, branch: str) -> None:
        """Raises NoSuchSnapshotError for an unknown branch, ValidationError for a tag."""
        self._check_open()
        self.metadata.snapshot_by_ref(branch)
        ref = self.metadata.refs.get(branch)
        if ref is not None and ref.type is SnapshotRefType.TAG:
            raise ValidationError(f"{branch!r} is a tag; commits go to branches")

    def first_branch(self, options: RowChangeOptions) -> str:
        """As `branch`, for a change that must be the transaction's first of rows. Raises ValidationError."""
        branch = self.branch(options)
        self.check_first_change()
        return branch

    def check_first_change(self) -> None:
        """Raises ValidationError where rows were changed before."""
        self._check_open()
        if self._snapshot_ids:
            raise ValidationError(
                "a delete, overwrite, upsert or cherry-pick can't see a transaction's other changes of rows, so it "
                "must be the first of them"
            )

    def new_snapshot_id(self) -> int:
        """An id that no snapshot of the table has, nor one of this transaction."""
        while (snapshot_id := new_snapshot_id(self.metadata.snapshots_by_id)) in self._snapshot_ids:
            pass
        self._snapshot_ids.add(snapshot_id)
        return snapshot_id

    def target(self, branch: str, options: RowChangeOptions) -> SnapshotTarget:
        """A new snapshot on the branch."""
        summary = {**self.snapshot_properties, **(options.get("snapshot_properties") or {})}
        return SnapshotTarget(branch, self.new_snapshot_id(), summary)

    def base(
        self,
        branch: str,
        options: PinnedChangeOptions,
        default_level: KnownProperty[str],
        conflict_filter: FilterLike = None,
    ) -> CommitBase:
        """The base of a decision: the snapshot that is named, else the one that the caller's table showed.

        `default_level` is the property that says the isolation level where the caller names none.
        """
        base, level = options.get("base_snapshot_id"), options.get("isolation_level")
        if base is None:
            seen = self._seen.refs.get(branch) or self._seen.refs.get(MAIN_BRANCH)
            base = None if seen is None else seen.snapshot_id
        elif self.answered is None:
            self.metadata.find_snapshot(base)
        return CommitBase(base, isolation_level(self.metadata.properties, default_level, level), conflict_filter)

    def base_if_named(
        self, branch: str, options: PinnedChangeOptions, default_level: KnownProperty[str]
    ) -> CommitBase | None:
        """The base, if the caller names it or an isolation level; else None: the change is of the rows at commit."""
        return self.base(branch, options, default_level) if is_pinned(options) else None

    @property
    def context(self) -> PlanContext:
        """The table as this transaction sees it."""
        return self._context(self.state, self.metadata)

    # Changes

    def add(self, command: ChangeMetadata) -> None:
        """Adds a change of metadata. Raises ValidationError at once where it does not fit what is there."""
        self._check_open()
        if self.answered is None:
            # A change that was made already need not fit a second time.
            refs = self.metadata.refs
            updates, self.metadata = changed(self.metadata, command)
            if self.metadata.refs != refs:
                with contextlib.suppress(ValidationError, NoSuchSnapshotError):
                    self._seen = with_moved_refs(self._seen, command)
            self._reshaping += [u for u in updates if isinstance(u, RESHAPING)]
        self._commands.append(command)

    def add_action(self, action: Action) -> None:
        """Adds an operation that writes no files when it is planned."""
        if isinstance(action, AppendFiles):
            self._rely_on_shape()
        self._commands.append(self._plan_of(action))

    def check_new(self, file_paths: Sequence[str], branch: str, check_duplicate_files: bool) -> None:
        """Raises ValidationError where a file is given twice or is in the branch already; the commit does so too."""
        check_paths(self.context, file_paths)
        if check_duplicate_files and self.answered is None:
            absent = AbsentFiles.of(self.context, file_paths, branch)
            absent.check_apart(self._absent)
            self._absent.append(absent)

    def add_cherry_pick(self, pick: CherryPick) -> None:
        """Adds a cherry-pick, the first change of rows and refs. Raises ValidationError."""
        self.check_first_change()
        if self.metadata.refs != self.state.metadata.refs:
            raise ValidationError("a cherry-pick must be a transaction's first change of refs")
        self.add_action(PickSnapshot(pick, self.new_snapshot_id()))

    def add_writing(self, action: Action, given: Iterable[ContentFile] = ()) -> None:
        """Adds an operation that writes files when planned; all but `given` ones are its own or this commit's."""
        from_caller = {f.file_path for f in given}
        self._rely_on_shape()
        plan = self._plan_of(action)

        def prepare(state: TableState, metadata: TableMetadata) -> Command | None:
            command = plan(state, metadata)
            if isinstance(command, ProduceSnapshot):
                own = [p for p in paths_of(command.added, ManifestEntryStatus.ADDED) if p not in from_caller]
                self._planned.update(p for p in own if p not in self._written_at_once)
                self._written += own
            return command

        self._commands.append(prepare)

    def _plan_of(self, action: Action) -> Prepared:
        return lambda state, metadata: action.plan(self._context(state, metadata))

    def _context(self, state: TableState, metadata: TableMetadata) -> PlanContext:
        return PlanContext(self.repository, self.planning, state, metadata, self.storage)

    # Files

    def write(self, data: Any) -> list[ContentFile]:
        """Writes the rows into new data files. Raises ValidationError where they do not fit the schema."""
        files = self._write_files(data)
        if not isinstance(data, WrittenFiles):
            self.rely_on_columns(files)
        self.take_written(files)
        return files

    def rely_on_columns(self, files: Sequence[ContentFile]) -> None:
        """Makes the commit raise CommitFailedError where its columns are others than those of files written now."""
        if files:
            check = still_fitting(self.metadata.schema())
            # As an operation, since it is no change of metadata that anybody asked for.
            self._commands.append(lambda *_: check)

    def take_written(self, files: Iterable[ContentFile]) -> None:
        """Takes over files that were written for this commit: they are deleted if it is never made."""
        paths = [f.file_path for f in files]
        self._written += paths
        self._written_at_once.update(paths)

    def write_keys(self, keys: Any, key_columns: Sequence[str]) -> list[ContentFile]:
        """Writes the keys into equality delete files. Raises ValidationError for a v1 table."""
        files = [] if self.answered else write_key_deletes(keys, key_columns, self.metadata, self.storage)
        self._written += [f.file_path for f in files]
        if check := only_while_one_spec(files, self.metadata, self.state.identifier):
            self._checks.append(check)
        return files

    def _write_files(self, data: Any) -> list[ContentFile]:
        metadata = self.metadata
        if isinstance(data, WrittenFiles):
            return data.given_to(self)
        if self.answered is not None:
            return []
        self._rely_on_shape()
        of_table: dict[str, Any] = {
            "schema": metadata.schema(),
            "spec": metadata.spec(),
            "sort_order": metadata.sort_order(),
            "location": DataLocations.of(metadata.location, metadata.properties),
            "properties": metadata.properties,
            "storage": self.storage,
        }
        if is_spark(data):
            from icecore.engine.spark.spark_write import write_frame_files

            return write_frame_files(data, file_prefix=str(uuid.uuid4()), **of_table)
        rows = to_arrow(data, metadata.schema())
        return write_data_files(rows, file_prefix=f"00000-0-{uuid.uuid4()}", **of_table)

    def _rely_on_shape(self) -> None:
        """Notes that files have ids which this transaction gave out: another writer must not take them meanwhile."""
        self._requirements = requirements_for(self.state.metadata, self._reshaping)

    def discard(self, committed: Container[str] = ()) -> None:
        """Deletes files of planning that the commit does not have, once its outcome is known."""
        for path in sorted(self._planned):
            if path not in committed:
                with contextlib.suppress(IcecoreError):
                    self.storage.unwrite(path)
        self._planned.clear()
        self.reusable.forget()

    def keep_planned(self) -> None:
        """Leaves files of planning where they are: a commit of unknown outcome may have them."""
        self._planned.clear()
        self._written.clear()
        self.reusable.forget()

    def forget_files(self) -> None:
        """Deletes the files that were written for a commit that is never made."""
        self._commands = []
        for path in dict.fromkeys(self._written):
            with contextlib.suppress(MissingFileError):
                self.storage.unwrite(path)
        self._written = []

    # The end

    def part(self) -> TablePart:
        """The table's part of a commit, of this table or of several."""
        absent, checks, commands = tuple(self._absent), tuple(self._checks), tuple(self._commands)

        def prepare(state: TableState) -> list[Command]:
            try:
                absences = [a.plan(self._context(state, state.metadata)) for a in absent]  # Before anything is added.
                return [*absences, *checks, *planned(state, commands)]
            except REFUSED:
                # The same call may have been answered meanwhile.
                if self.repository.already(self._provenance) is None:
                    raise
                return []

        return TablePart(self._stream, prepare, tuple(self._requirements))

    def make_commit(self) -> TableState | None:
        """Commits, and returns the state after it; None where there is nothing to commit.

        Raises CommitConflictError, ValidationError, NoSuchTableError, ReusedKeyError; nothing is changed then.
        """
        if self.answered is not None:
            self.repository.check_answer(self.answered, self._stream)
            return self.repository.state(self._stream)
        if not self._commands:
            return None
        part = self.part()
        try:
            result = self.repository.commit(part.stream, part.prepare, self._provenance, requirements=part.requirements)
        except REFUSED:
            self.discard()
            # The commit is not tried again, so its files are of no use.
            with contextlib.suppress(IcecoreError):
                self.forget_files()
            raise
        except BaseException:
            self.keep_planned()
            raise
        self.end(result)
        return result.state

    def end(self, result: CommitResult) -> None:
        """Ends the transaction after its commit."""
        self._commands, self._snapshot_ids, self._reshaping, self._requirements = [], set(), [], []
        self._absent.clear()
        self._checks.clear()
        if self._planned:
            self.discard(self.repository.added_paths(result.event))
        self._written.clear()

    def dry_run(self) -> DryRun:
        """The outcome that the commit would have; the files that were written for it are deleted."""
        part = self.part()
        try:
            if self.answered is not None:
                self.repository.check_answer(self.answered, self._stream)
                return DryRun(self.answered.payload, self.metadata, is_done=True)
            return self.repository.dry_run(part.stream, part.prepare, requirements=part.requirements)
        finally:
            self.forget_files()
