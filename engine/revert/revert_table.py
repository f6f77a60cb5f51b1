"""The commands that undo commits to a table: metadata set back, added files removed, removed files brought back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icecore.engine.commit.decide import ChangeMetadata, Command
from icecore.engine.common.ids import new_snapshot_id
from icecore.engine.errors import CommitConflictError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.branch_files import BranchChange
from icecore.engine.revert.net_changes import net_changes
from icecore.engine.revert.revert_conflicts import later_commits, positions_text
from icecore.engine.revert.revert_metadata import Kinds, check_undoable, undone_metadata
from icecore.engine.revert.revert_rows import undo_rows
from icecore.engine.revert.revert_schema import values_check
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.spec.updates.table_update import (
    AddSnapshot,
    RemoveSnapshotRef,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetSnapshotRef,
    TableUpdate,
)


def revert_commands(
    repository: Repository, events: Sequence[Event], before: TableState, after: TableState
) -> Callable[[TableState], Sequence[Command]]:
    """A maker of the commands on the present state, as `Repository.commit` takes it; `events` are all between both.

    They raise CommitConflictError naming later commits where something was changed again, and ValidationError for what
    has no way back.
    """
    for event in events:
        check_undoable(table_updates(event), event.position)
    rows = net_changes(repository, events, before, after)
    if len(events) > 1:
        rows = _of_lasting_branches(events, rows, before, after)
    snapshot_ids: set[int] = {s.snapshot_id for s in after.metadata.snapshots}

    def refuse(why: str, kinds: Kinds) -> CommitConflictError:
        def touches(later: Event) -> bool:
            return any(isinstance(u, kinds) for u in table_updates(later))

        named = later_commits(repository.store, events[-1], touches)
        return CommitConflictError(f"{positions_text(events)} can't be reverted: {why}{named}")

    def is_only_made(branch: str, now: TableMetadata) -> bool:
        """Whether the commits made a branch to which nothing came since: then the ref alone is removed."""
        is_new = branch != MAIN_BRANCH and branch not in before.metadata.refs
        return is_new and now.refs.get(branch) == after.metadata.refs.get(branch)

    def check_shape(metadata: TableMetadata) -> list[TableUpdate]:
        """Raises where the present spec or sort order uses columns that only the reverted schema has."""
        try:
            metadata.spec().check(metadata.schema())
            metadata.sort_order().check(metadata.schema())
        except ValidationError as e:
            raise refuse(str(e), (SetDefaultSpec, SetDefaultSortOrder)) from e
        return []

    def prepare(state: TableState) -> Sequence[Command]:
        check_unmoved = values_check(repository, before, after, state, refuse)
        taken = snapshot_ids | {s.snapshot_id for s in state.metadata.snapshots}
        left = [r for r in rows if not is_only_made(r.branch, state.metadata)]
        branches = frozenset(r.branch for r in left)

        def updates_for(metadata: TableMetadata) -> list[TableUpdate]:
            return undone_metadata(before.metadata, after.metadata, metadata, branches, refuse)

        commands: list[Command] = [ChangeMetadata(f) for f in (check_unmoved, updates_for, check_shape)]
        for change in left:
            snapshot_id = new_snapshot_id(taken)
            taken.add(snapshot_id)
            commands.append(undo_rows(repository, change, before, after, state, snapshot_id, refuse))
        return commands

    return prepare


def _of_lasting_branches(
    events: Sequence[Event], rows: list[BranchChange], before: TableState, after: TableState
) -> list[BranchChange]:
    """The changes of branches that were there before and after; others come and go as refs.

    Raises ValidationError where such a branch was set to another snapshot between its commits.
    """
    kept = [r for r in rows if r.branch in after.metadata.refs and r.branch in {MAIN_BRANCH, *before.metadata.refs}]
    branches = {r.branch for r in kept}
    for event in events:
        updates = table_updates(event)
        made = {u.snapshot.snapshot_id for u in updates if isinstance(u, AddSnapshot)}
        for u in updates:
            if not isinstance(u, SetSnapshotRef | RemoveSnapshotRef) or u.ref_name not in branches:
                continue
            if isinstance(u, RemoveSnapshotRef) or u.ref.snapshot_id not in made:
                raise ValidationError(
                    f"{positions_text(events)} can't be reverted: {u.ref_name} was set to another snapshot at position "
                    f"{event.position}; restore the table to position {events[0].position - 1} instead"
                )
    return kept
