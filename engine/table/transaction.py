"""Several changes to one table as one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.commit.single_use import OnceInBlock
from icecore.engine.errors import (
    AlreadyExistsError,
    CommitConflictError,
    IcecoreError,
    MissingFileError,
    MovedWarehouseError,
    NamespaceNotEmptyError,
    NotFoundError,
    ValidationError,
)
from icecore.engine.evolution.manage_snapshots import CherryPick, ManageSnapshots, RefChange
from icecore.engine.evolution.metadata_commands import (
    changed_properties,
    evolved_schema,
    evolved_sort_order,
    evolved_spec,
)
from icecore.engine.evolution.terms import SortTerm
from icecore.engine.evolution.update_schema import SchemaOp, UpdateSchema
from icecore.engine.evolution.update_sort_order import UpdateSortOrder
from icecore.engine.evolution.update_spec import SpecOp, UpdateSpec
from icecore.engine.operations.cherry_pick import plan_cherry_pick
from icecore.engine.repository.repository import CommitResult, TablePart
from icecore.engine.statistics.update_statistics import UpdateStatistics
from icecore.engine.table.rewrites import Rewrites

# What says for sure that a commit was not made.
REFUSED = (
    CommitConflictError,
    ValidationError,
    NotFoundError,
    AlreadyExistsError,
    NamespaceNotEmptyError,
    MovedWarehouseError,
)


class Transaction(Rewrites, OnceInBlock):
    """Gathers changes; `commit()`, or the end of a `with` block, makes them one event: all or nothing.

    Data files are written when the call is made, the log is touched at the end. Later changes see the schema and spec
    that earlier ones leave.
    """

    # Metadata

    def update_schema(self, *, allow_incompatible_changes: bool = False) -> UpdateSchema:
        self._check_open()
        return UpdateSchema(lambda ops: self.change_schema(ops, allow_incompatible_changes=allow_incompatible_changes))

    def update_spec(self) -> UpdateSpec:
        self._check_open()
        return UpdateSpec(self.change_spec)

    def update_sort_order(self) -> UpdateSortOrder:
        self._check_open()
        return UpdateSortOrder(self.change_sort_order)

    def update_statistics(self) -> UpdateStatistics:
        self._check_open()
        return UpdateStatistics(self.change_statistics)

    def manage_snapshots(self) -> ManageSnapshots:
        self._check_open()
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
        self._check_open()
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
        self._check_open()
        for op in ops:
            self.add(op)

    # The end

    def commit(self) -> None:
        """Makes the commit. Raises CommitConflictError, ValidationError, NoSuchTableError; nothing is changed then.

        A dry run makes none: it sets `outcome`, and deletes the files that it wrote. Either uses the transaction up.
        """
        self._use_up()
        if self._is_dry:
            self._end_dry_run()
            return
        if self._answered is not None:
            self._committed(self._repository.state(self._answered.stream))
            return
        if not self._commands:
            return
        part = self.part()
        try:
            result = self._repository.commit(
                part.stream, part.prepare, self._provenance, requirements=part.requirements
            )
        except REFUSED:
            self.discard()
            # Nobody goes on with it, so that what was written for it is of no use.
            with contextlib.suppress(IcecoreError):
                self._forget_files()
            raise
        except BaseException:
            self.keep_planned()
            raise
        self.end(result)

    def commit_transaction(self) -> None:
        """As `commit`; PyIceberg's name for it."""
        self.commit()

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

    def end(self, result: CommitResult) -> None:
        """Takes in that the commit was made."""
        self._commands, self._snapshot_ids, self._reshaping, self._requirements = [], set(), [], []
        if self._planned:
            self.discard(self._repository.added_paths(result.event))
        self._written.clear()
        self._committed(result.state)

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

    def _abandon(self) -> None:
        super()._abandon()
        with contextlib.suppress(IcecoreError):
            self._forget_files()
