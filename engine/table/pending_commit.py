"""What a transaction gathers: commands for the commit to be, and the files that are written for it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Container, Iterable
from typing import Any

from attrs import evolve

from icecore.engine.commit.decide import ChangeMetadata, Command, ProduceSnapshot
from icecore.engine.commit.dry_run import DryRun, paths_of
from icecore.engine.commit.ref_updates import forwarded
from icecore.engine.commit.single_use import UsedOnce
from icecore.engine.common.ids import new_snapshot_id
from icecore.engine.data.arrow.to_arrow import to_arrow
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.expression.nodes import Expression
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.metadata_builder import MetadataBuilder, Update
from icecore.engine.metadata.requirements import Requirement, requirements_for
from icecore.engine.metadata.write_audit_publish import branch_for
from icecore.engine.operations.conflict_validation import CommitBase, isolation_level
from icecore.engine.operations.delete_by_filter import SnapshotTarget
from icecore.engine.operations.reusable_files import ReusableFiles
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.properties.table_properties import KnownProperty
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, SnapshotRefType
from icecore.engine.storage.file_io import Storage
from icecore.engine.table.commit_options import PinnedChangeOptions, RowChangeOptions, is_pinned
from icecore.projections.plan.planner import Planner

Prepared = Callable[[TableState], Command | None]
# Updates that give out the ids of columns, partition fields and orders, which files written after them carry.
RESHAPING = frozenset(
    {"add-schema", "set-current-schema", "add-spec", "set-default-spec", "add-sort-order", "set-default-sort-order"}
)


class PendingCommit(UsedOnce):
    """The commands of a transaction in the making, on the table's latest state."""

    def __init__(
        self,
        repository: Repository,
        planner: Planner,
        state: TableState,
        provenance: Provenance,
        committed: Callable[[TableState], None],
        dry_run: bool = False,
    ) -> None:
        self._repository = repository
        self._planner = planner
        self._stream = state.stream
        # What the caller's table showed, which may be older than the latest state.
        self._seen = state.metadata
        self._provenance = provenance
        self._committed = committed
        self._state = repository.live_state(state.stream)
        self._metadata = self._state.metadata
        self._commands: list[Prepared] = []
        # The event of an earlier call with the same idempotency key: then nothing is done again.
        self._answered = repository.already(provenance)
        self._snapshot_ids: set[int] = set()
        self._reshaping: list[Update] = []
        self._requirements: list[Requirement] = []
        self._is_dry = dry_run
        self._written: list[str] = []
        # Files that planning wrote, in all its attempts, and what the next attempt may take of them.
        self._planned: set[str] = set()
        self._written_at_once: set[str] = set()
        self._before = ReusableFiles()
        # Branches that were not there, to be made from main by this transaction.
        self._audited: set[str] = set()
        self._outcome: DryRun | None = None

    @property
    def outcome(self) -> DryRun | None:
        """What a dry run found, once it ended; None of a transaction that is none."""
        return self._outcome

    @property
    def metadata(self) -> TableMetadata:
        """The metadata as the changes so far leave it; snapshots of this transaction are not in it yet."""
        return self._metadata

    def _check_first_change(self) -> None:
        self._check_open()
        if self._snapshot_ids:
            raise ValidationError(
                "a delete, overwrite, upsert or cherry-pick can't see a transaction's other changes of rows, so it "
                "must be the first of them"
            )

    def _pin(
        self,
        branch: str,
        options: PinnedChangeOptions,
        known: KnownProperty[str],
        conflict_filter: str | Expression | None = None,
    ) -> CommitBase:
        """What a decision rests on: the snapshot that is named, else the one that the caller's table showed."""
        base, level = options.get("base_snapshot_id"), options.get("isolation_level")
        if base is None:
            seen = self._seen.refs.get(branch) or self._seen.refs.get(MAIN_BRANCH)
            base = None if seen is None else seen.snapshot_id
        else:
            self._metadata.find_snapshot(base)
        return CommitBase(base, isolation_level(self._metadata.properties, known, level), conflict_filter)

    def _pin_if_asked(self, branch: str, options: PinnedChangeOptions, known: KnownProperty[str]) -> CommitBase | None:
        """No pin unless the caller names a base or a level: then a change is of the rows that are there by then."""
        return self._pin(branch, options, known) if is_pinned(options) else None

    def _target(self, branch: str, options: RowChangeOptions) -> SnapshotTarget:
        """A new snapshot on the branch."""
        return SnapshotTarget(branch, self._new_snapshot_id(), dict(options.get("snapshot_properties") or {}))

    def _plan(
        self,
        plan: Callable[[TableState, TableMetadata], ProduceSnapshot | None],
        given: Iterable[ContentFile] = (),
    ) -> None:
        """Adds a command that is planned on the latest state, and on what this transaction makes of its metadata.

        All files that it adds are written by it or by this transaction, but for those `given` by the caller.
        """
        from_caller = {f.file_path for f in given}
        self._rely_on_shape()
        reshaped = self._metadata if self._reshaping else None

        def prepare(state: TableState) -> Command | None:
            metadata = state.metadata
            if MAIN_BRANCH in metadata.refs and (missing := self._audited - metadata.refs.keys()):
                refs = {**metadata.refs, **dict.fromkeys(missing, metadata.refs[MAIN_BRANCH])}
                state = evolve(state, metadata=evolve(metadata, refs=refs))
            command = plan(state, reshaped or state.metadata)
            if command is None:
                return None
            own = [p for p in paths_of(command.added, ManifestEntryStatus.ADDED) if p not in from_caller]
            self._planned.update(p for p in own if p not in self._written_at_once)
            self._written += own
            return command

        self._commands.append(prepare)

    def _write(self, data: Any) -> list[ContentFile]:
        files = self._write_files(data)
        self._written += [f.file_path for f in files]
        self._written_at_once.update(f.file_path for f in files)
        return files

    def _write_files(self, data: Any) -> list[ContentFile]:
        metadata = self._metadata
        if self._answered is not None:
            return []
        self._rely_on_shape()
        if is_spark(data):
            from icecore.engine.spark.spark_write import write_data_files as write_with_spark

            return write_with_spark(
                data,
                schema=metadata.schema(),
                spec=metadata.spec(),
                sort_order=metadata.sort_order(),
                location=DataLocations.of(metadata.location, metadata.properties),
                properties=metadata.properties,
                file_prefix=str(uuid.uuid4()),
                storage=self._storage,
            )
        return write_data_files(
            to_arrow(data, metadata.schema()),
            schema=metadata.schema(),
            spec=metadata.spec(),
            location=DataLocations.of(metadata.location, metadata.properties),
            storage=self._storage,
            properties=metadata.properties,
            file_prefix=f"00000-0-{uuid.uuid4()}",
            sort_order=metadata.sort_order(),
        )

    def _rely_on_shape(self) -> None:
        """Notes that files have ids which this transaction gave out: another writer must not take them meanwhile."""
        self._requirements = requirements_for(self._state.metadata, self._reshaping)

    def discard(self, committed: Container[str] = ()) -> None:
        """Deletes what planning wrote and the commit does not have, once it is known what became of the commit."""
        for path in sorted(self._planned):
            if path not in committed:
                with contextlib.suppress(IcecoreError):
                    self._storage.delete(path)
        self._planned.clear()
        self._before.forget()

    def keep_planned(self) -> None:
        """Leaves what planning wrote where it is: a commit of unknown outcome may have it."""
        self._planned.clear()
        self._written.clear()
        self._before.forget()

    @property
    def _storage(self) -> Storage:
        return self._repository.storage_of(self._state)

    def _new_snapshot_id(self) -> int:
        while (snapshot_id := new_snapshot_id(self._metadata.snapshots_by_id)) in self._snapshot_ids:
            pass
        self._snapshot_ids.add(snapshot_id)
        return snapshot_id

    def _branch(self, options: RowChangeOptions) -> str:
        """The branch that a change of rows goes to; one that is not there yet is made from main, as Java does."""
        self._check_open()
        properties = string_properties(options.get("snapshot_properties"), "snapshot properties")
        wanted = branch_for(self._metadata, options.get("branch", MAIN_BRANCH), properties)
        if not isinstance(wanted, str) or not wanted:
            raise ValidationError(f"a branch is named by text that is not empty, found {wanted!r}")
        if wanted not in self._metadata.refs and MAIN_BRANCH in self._metadata.refs:
            self._audited.add(wanted)
            self.add(
                ChangeMetadata(
                    lambda m: [] if wanted in m.refs else forwarded(m, wanted, MAIN_BRANCH, only_forward=False)
                )
            )
        self._check_branch(wanted)
        return wanted

    def _check_branch(self, branch: str) -> None:
        self._check_open()
        self._metadata.snapshot_by_ref(branch)
        ref = self._metadata.refs.get(branch)
        if ref is not None and ref.type is SnapshotRefType.TAG:
            raise ValidationError(f"{branch!r} is a tag; commits go to branches")

    def add(self, command: ChangeMetadata) -> None:
        """Adds a change of metadata. Raises ValidationError at once where it does not fit what is there."""
        self._check_open()
        updates = command.updates_for(self._metadata)
        builder = MetadataBuilder(self._metadata)
        builder.apply(updates, self._metadata.last_updated_ms)
        self._metadata = builder.build()
        self._reshaping += [u for u in updates if u["action"] in RESHAPING]
        self._commands.append(lambda _: command)


def is_spark(data: Any) -> bool:
    """Whether the data is a Spark DataFrame, told without importing Spark."""
    return any(c.__module__.startswith("pyspark.sql") and c.__name__ == "DataFrame" for c in type(data).__mro__)
