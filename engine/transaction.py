"""Several changes to one table as one commit."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from icecore.engine.changes import changed_properties, evolved_schema, evolved_sort_order, evolved_spec
from icecore.engine.cherry_pick import plan_cherry_pick
from icecore.engine.data.incoming import to_arrow
from icecore.engine.data.write import write_data_files
from icecore.engine.decide import ChangeMetadata, Command, ProduceSnapshot
from icecore.engine.dry_run import DryRun, paths_of
from icecore.engine.dynamic_overwrite import PartitionOverwrite, plan_dynamic_overwrite
from icecore.engine.equality_deletes import write_key_deletes
from icecore.engine.errors import MissingFileError, ValidationError
from icecore.engine.events import Provenance
from icecore.engine.existing_files import describe_existing_files
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.ids import new_snapshot_id
from icecore.engine.manage_snapshots import CherryPick, ManageSnapshots, RefChange
from icecore.engine.metadata_builder import MetadataBuilder, Update
from icecore.engine.ref_updates import forwarded
from icecore.engine.removal import FilterRemoval, Target, plan_removal
from icecore.engine.repository import Repository, TablePart
from icecore.engine.requirements import Requirement, requirements_for
from icecore.engine.rewrite_manifests import plan_rewrite
from icecore.engine.schema_update import SchemaOp, UpdateSchema
from icecore.engine.sort_update import UpdateSortOrder
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import DEFAULT_NAME_MAPPING, NameMapping
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation, SnapshotRefType
from icecore.engine.spec_update import SpecOp, UpdateSpec
from icecore.engine.state import TableState, data_folder
from icecore.engine.storage import Storage
from icecore.engine.terms import SortTerm
from icecore.engine.update_statistics import UpdateStatistics
from icecore.engine.upsert import Upsert, plan_upsert, result_of
from icecore.engine.write_audit_publish import branch_for
from icecore.projections.planner import Planner

Prepared = Callable[[TableState], Command | None]
# Updates that give out the ids of columns, partition fields and orders, which files written after them carry.
RESHAPING = frozenset(
    {"add-schema", "set-current-schema", "add-spec", "set-default-spec", "add-sort-order", "set-default-sort-order"}
)


class Transaction:
    """Gathers changes; `commit()`, or the end of a `with` block, makes them one event: all or nothing.

    Data files are written when the call is made, the log is touched at the end. Later changes see the schema and spec
    that earlier ones leave.
    """

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
        # Branches that `wap.branch` names, to be made from main by this transaction.
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

    # Rows

    def append(
        self,
        data: Any,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Writes the data into new files, to be appended. Raises ValidationError where it does not fit the schema."""
        branch = self._branch(branch, snapshot_properties)
        self.append_files(self._write(data), branch=branch, snapshot_properties=snapshot_properties)

    def append_files(
        self,
        files: Iterable[ContentFile],
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Appends data files that were written already."""
        branch = self._branch(branch, snapshot_properties)
        added = files_to_arrow(files, self._metadata.specs, self._metadata.all_fields, status=ManifestEntryStatus.ADDED)
        command = ProduceSnapshot(
            Operation.APPEND, self._new_snapshot_id(), branch, added=added, summary=snapshot_properties or {}
        )
        self._commands.append(lambda _: command)

    def add_files(
        self,
        file_paths: Iterable[str],
        *,
        branch: str = MAIN_BRANCH,
        check_duplicate_files: bool = True,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Appends Parquet files that lie somewhere already, with metrics read from them.

        The table gets a name mapping where it has none, since such files may lack field ids.
        """
        branch = self._branch(branch, snapshot_properties)
        if DEFAULT_NAME_MAPPING not in self._metadata.properties:
            mapping = NameMapping.of_fields(self._metadata.schema().fields)
            self.set_properties({DEFAULT_NAME_MAPPING: mapping.to_json()})
        files = describe_existing_files(
            self._repository, self._state, self._metadata, tuple(file_paths), branch, check_duplicate_files
        )
        self.append_files(files, branch=branch, snapshot_properties=snapshot_properties)

    def row_delta(
        self,
        data_files: Iterable[ContentFile] = (),
        delete_files: Iterable[ContentFile] = (),
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Adds data files and equality delete files that were written already, in one snapshot.

        The deletes apply to what is there before, not to the data files that come with them. Raises ValidationError for
        deletes by position: those name files that another commit may replace, so they come from `delete`.
        """
        branch = self._branch(branch, snapshot_properties)
        deletes, added = tuple(delete_files), tuple(data_files)
        for f in deletes:
            if f.content is not DataFileContent.EQUALITY_DELETES:
                raise ValidationError(f"{f.file_path}: only equality deletes can be added, found {f.content.name}")
        files = files_to_arrow(
            (*added, *deletes), self._metadata.specs, self._metadata.all_fields, status=ManifestEntryStatus.ADDED
        )
        if added:
            operation = Operation.OVERWRITE if deletes else Operation.APPEND
        else:
            operation = Operation.DELETE
        command = ProduceSnapshot(
            operation, self._new_snapshot_id(), branch, added=files, summary=snapshot_properties or {}
        )
        self._commands.append(lambda _: command)

    def delete_keys(
        self,
        keys: Any,
        key_columns: Sequence[str] = (),
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Deletes the rows that equal one of `keys` in the key columns, by equality delete files: nothing is read."""
        branch = self._branch(branch, snapshot_properties)
        files = [] if self._answered else write_key_deletes(keys, key_columns, self._metadata, self._storage)
        self._written += [f.file_path for f in files]
        self.row_delta((), files, branch=branch, snapshot_properties=snapshot_properties)

    def delete(
        self,
        delete_filter: str | Expression,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Deletes the rows that match: whole files where all rows do, else the file is rewritten without them."""
        self._remove(delete_filter, (), branch, snapshot_properties)

    def overwrite(
        self,
        data: Any,
        overwrite_filter: str | Expression | None = None,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Replaces the rows that match, all rows without a filter, by the data."""
        branch = self._branch(branch, snapshot_properties)
        self._remove(overwrite_filter or TRUE, self._write(data), branch, snapshot_properties)

    def dynamic_partition_overwrite(
        self,
        data: Any,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Replaces the partitions that the data has, by the default spec, and leaves all others as they are.

        Raises ValidationError for an unpartitioned table.
        """
        branch = self._branch(branch, snapshot_properties)
        if self._metadata.spec().is_unpartitioned:
            raise ValidationError(
                "a dynamic partition overwrite needs a partitioned table; overwrite() replaces it all"
            )
        self._check_first_change()
        added = tuple(self._write(data))
        overwrite = PartitionOverwrite(Target(branch, self._new_snapshot_id(), dict(snapshot_properties or {})), added)
        self._plan(
            lambda state, metadata: plan_dynamic_overwrite(
                self._repository, self._planner, state, metadata, overwrite, self._storage
            )
        )

    def upsert(
        self,
        data: Any,
        join_cols: Sequence[str] | None = None,
        *,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> Upsert:
        """Updates the rows whose keys the data has and inserts the others; the answer's `result` is set at commit.

        The keys are `join_cols`, else the identifier fields. Rows that would stay the same are not written. Raises
        ValidationError where a key comes twice in the data, and at commit where a key to update is twice in the table.
        """
        branch = self._branch(branch, snapshot_properties)
        self._check_first_change()
        target = Target(branch, self._new_snapshot_id(), dict(snapshot_properties or {}))
        upsert = Upsert.of(
            data, join_cols, self._metadata.schema(), target, when_matched_update_all, when_not_matched_insert_all
        )
        if self._answered is not None:
            upsert.result = result_of(self._answered.payload)
        self._plan(
            lambda state, metadata: plan_upsert(self._repository, self._planner, state, metadata, upsert, self._storage)
        )
        return upsert

    def _check_first_change(self) -> None:
        if self._snapshot_ids:
            raise ValidationError(
                "a delete, overwrite, upsert or cherry-pick can't see a transaction's other changes of rows, so it "
                "must be the first of them"
            )

    def _remove(
        self,
        row_filter: str | Expression,
        added: Sequence[ContentFile],
        branch: str,
        snapshot_properties: Mapping[str, str] | None,
    ) -> None:
        branch = self._branch(branch, snapshot_properties)
        self._check_first_change()
        removal = FilterRemoval(
            row_filter, branch, self._new_snapshot_id(), tuple(added), dict(snapshot_properties or {})
        )
        self._plan(
            lambda state, metadata: plan_removal(
                self._repository, self._planner, state, metadata, removal, self._storage
            )
        )

    def _plan(self, plan: Callable[[TableState, TableMetadata], ProduceSnapshot]) -> None:
        """Adds a command that is planned on the latest state, and on what this transaction makes of its metadata.

        All files that it adds are written by it or by this transaction.
        """
        self._rely_on_shape()
        reshaped = self._metadata if self._reshaping else None

        def prepare(state: TableState) -> Command:
            metadata = state.metadata
            if MAIN_BRANCH in metadata.refs and (missing := self._audited - metadata.refs.keys()):
                refs = {**metadata.refs, **dict.fromkeys(missing, metadata.refs[MAIN_BRANCH])}
                state = evolve(state, metadata=evolve(metadata, refs=refs))
            command = plan(state, reshaped or state.metadata)
            self._written += paths_of(command.added, ManifestEntryStatus.ADDED)
            return command

        self._commands.append(prepare)

    def rewrite_manifests(self, *, branch: str = MAIN_BRANCH) -> None:
        """Puts the live data files of a branch into manifests sorted by partition, of the target size."""
        self._check_branch(branch)
        if self._snapshot_ids:
            raise ValidationError("manifests can't be rewritten in a transaction that has changed rows before")
        snapshot_id = self._new_snapshot_id()
        self._commands.append(lambda state: plan_rewrite(self._repository, state, branch, snapshot_id))

    def _write(self, data: Any) -> list[ContentFile]:
        files = self._write_files(data)
        self._written += [f.file_path for f in files]
        return files

    def _write_files(self, data: Any) -> list[ContentFile]:
        metadata = self._metadata
        if self._answered is not None:
            return []
        self._rely_on_shape()
        if is_spark(data):
            from icecore.engine.spark.write import write_data_files as write_with_spark

            return write_with_spark(
                data,
                schema=metadata.schema(),
                spec=metadata.spec(),
                sort_order=metadata.sort_order(),
                location=data_folder(metadata.location, metadata.properties),
                properties=metadata.properties,
                file_prefix=str(uuid.uuid4()),
                storage=self._storage,
            )
        return write_data_files(
            to_arrow(data),
            schema=metadata.schema(),
            spec=metadata.spec(),
            location=data_folder(metadata.location, metadata.properties),
            storage=self._storage,
            properties=metadata.properties,
            file_prefix=f"00000-0-{uuid.uuid4()}",
            sort_order=metadata.sort_order(),
        )

    def _rely_on_shape(self) -> None:
        """Notes that files have ids which this transaction gave out: another writer must not take them meanwhile."""
        self._requirements = requirements_for(self._state.metadata, self._reshaping)

    @property
    def _storage(self) -> Storage:
        return self._repository.storage_of(self._state)

    def _new_snapshot_id(self) -> int:
        taken = {s.snapshot_id for s in self._metadata.snapshots} | self._snapshot_ids
        snapshot_id = new_snapshot_id(taken)
        self._snapshot_ids.add(snapshot_id)
        return snapshot_id

    def _branch(self, branch: str, snapshot_properties: Mapping[str, str] | None) -> str:
        """The branch that a change of rows goes to; one that `wap.branch` names is made where there is none."""
        wanted = branch_for(self._metadata, branch, snapshot_properties or {})
        if wanted != branch and wanted not in self._metadata.refs:
            self._audited.add(wanted)
            self.add(
                ChangeMetadata(
                    lambda m: [] if wanted in m.refs else forwarded(m, wanted, MAIN_BRANCH, only_forward=False)
                )
            )
        self._check_branch(wanted)
        return wanted

    def _check_branch(self, branch: str) -> None:
        self._metadata.snapshot_by_ref(branch)
        ref = self._metadata.refs.get(branch)
        if ref is not None and ref.type is SnapshotRefType.TAG:
            raise ValidationError(f"{branch!r} is a tag; commits go to branches")

    # Metadata

    def update_schema(self, *, allow_incompatible_changes: bool = False) -> UpdateSchema:
        return UpdateSchema(lambda ops: self.change_schema(ops, allow_incompatible_changes=allow_incompatible_changes))

    def update_spec(self) -> UpdateSpec:
        return UpdateSpec(self.change_spec)

    def update_sort_order(self) -> UpdateSortOrder:
        return UpdateSortOrder(self.change_sort_order)

    def update_statistics(self) -> UpdateStatistics:
        return UpdateStatistics(self.change_statistics)

    def manage_snapshots(self) -> ManageSnapshots:
        return ManageSnapshots(self.change_refs)

    def set_properties(self, updates: Mapping[str, str]) -> None:
        self.add(changed_properties(updates, ()))

    def remove_properties(self, *keys: str) -> None:
        self.add(changed_properties({}, keys))

    def change_schema(self, ops: Sequence[SchemaOp], *, allow_incompatible_changes: bool = False) -> None:
        self.add(evolved_schema(ops, allow_incompatible_changes=allow_incompatible_changes))

    def change_spec(self, ops: Sequence[SpecOp]) -> None:
        self.add(evolved_spec(ops))

    def change_sort_order(self, terms: Sequence[SortTerm | str]) -> None:
        self.add(evolved_sort_order(terms))

    def change_refs(self, ops: Sequence[RefChange]) -> None:
        for op in ops:
            match op:
                case ChangeMetadata():
                    self.add(op)
                case CherryPick():
                    self._cherry_pick(op)

    def _cherry_pick(self, pick: CherryPick) -> None:
        self._check_first_change()
        if self._metadata.refs != self._state.metadata.refs:
            raise ValidationError("a cherry-pick must be a transaction's first change of refs")
        pick.source(self._metadata)
        snapshot_id = self._new_snapshot_id()
        self._commands.append(lambda state: plan_cherry_pick(self._repository, state, pick, snapshot_id))

    def change_statistics(self, ops: Sequence[ChangeMetadata]) -> None:
        for op in ops:
            self.add(op)

    def add(self, command: ChangeMetadata) -> None:
        """Adds a change of metadata. Raises ValidationError at once where it does not fit what is there."""
        updates = command.updates_for(self._metadata)
        builder = MetadataBuilder(self._metadata)
        builder.apply(updates, self._metadata.last_updated_ms)
        self._metadata = builder.build()
        self._reshaping += [u for u in updates if u["action"] in RESHAPING]
        self._commands.append(lambda _: command)

    # The end

    def commit(self) -> None:
        """Makes the commit. Raises CommitConflictError, ValidationError, NoSuchTableError; nothing is changed then.

        A dry run makes none: it sets `outcome`, and deletes the files that it wrote.
        """
        if self._is_dry:
            self._end_dry_run()
            return
        if self._answered is not None:
            self._committed(self._repository.state(self._answered.stream))
            return
        if not self._commands:
            return
        part = self.part()
        result = self._repository.commit(part.stream, part.prepare, self._provenance, requirements=part.requirements)
        self.end(result.state)

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self._commands)

    def part(self) -> TablePart:
        """What a commit, of this table or of several, does to this table."""
        prepared = tuple(self._commands)
        return TablePart(
            self._stream,
            lambda state: [command for prepare in prepared if (command := prepare(state)) is not None],
            tuple(self._requirements),
        )

    def end(self, state: TableState) -> None:
        """Takes in that the commit was made."""
        self._commands, self._snapshot_ids, self._reshaping, self._requirements = [], set(), [], []
        self._committed(state)

    def _end_dry_run(self) -> None:
        part = self.part()
        try:
            if self._answered is not None:
                self._outcome = DryRun(self._answered.payload, self._metadata, is_done=True)
            else:
                self._outcome = self._repository.dry_run(part.stream, part.prepare, requirements=part.requirements)
        finally:
            self._forget_files()

    def _forget_files(self) -> None:
        """Deletes the files that were written for a commit that is never made."""
        self._commands = []
        for path in dict.fromkeys(self._written):
            with contextlib.suppress(MissingFileError):
                self._storage.delete(path)
        self._written = []

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.commit()
        elif self._is_dry:
            self._forget_files()


def is_spark(data: Any) -> bool:
    """Whether the data is a Spark DataFrame, told without importing Spark."""
    return any(c.__module__.startswith("pyspark.sql") and c.__name__ == "DataFrame" for c in type(data).__mro__)
