"""The commands that undo one commit to a table: metadata set back, added files removed, removed files brought back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icecore.engine.commit.decide import ChangeMetadata, Command
from icecore.engine.common.ids import new_snapshot_id
from icecore.engine.errors import CommitConflictError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.revert_conflicts import later_commits
from icecore.engine.revert.revert_metadata import Kinds, check_undoable, undone_metadata
from icecore.engine.revert.revert_rows import net_changes, undo_rows
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import SetDefaultSortOrder, SetDefaultSpec, TableUpdate


def revert_commands(
    repository: Repository, event: Event, before: TableState, after: TableState
) -> Callable[[TableState], Sequence[Command]]:
    """A maker of the commands on the present state, as `Repository.commit` takes it.

    They raise CommitConflictError naming later commits where something was changed again, and ValidationError for what
    has no way back.
    """
    check_undoable(table_updates(event), event.position)
    rows = net_changes(repository, event)
    branches = frozenset(r.branch for r in rows)
    snapshot_ids: set[int] = {s.snapshot_id for s in after.metadata.snapshots}

    def refuse(why: str, kinds: Kinds) -> CommitConflictError:
        def touches(later: Event) -> bool:
            return any(isinstance(u, kinds) for u in table_updates(later))

        named = later_commits(repository.store, event, touches)
        return CommitConflictError(f"position {event.position} can't be reverted: {why}{named}")

    def updates_for(metadata: TableMetadata) -> list[TableUpdate]:
        return undone_metadata(before.metadata, after.metadata, metadata, branches, refuse)

    def check_shape(metadata: TableMetadata) -> list[TableUpdate]:
        """The spec and order of the moment may use columns that only the reverted schema has."""
        try:
            metadata.spec().check(metadata.schema())
            metadata.sort_order().check(metadata.schema())
        except ValidationError as e:
            raise refuse(str(e), (SetDefaultSpec, SetDefaultSortOrder)) from e
        return []

    def prepare(state: TableState) -> Sequence[Command]:
        taken = snapshot_ids | {s.snapshot_id for s in state.metadata.snapshots}
        commands: list[Command] = [ChangeMetadata(updates_for), ChangeMetadata(check_shape)]
        for change in rows:
            snapshot_id = new_snapshot_id(taken)
            taken.add(snapshot_id)
            commands.append(undo_rows(repository, event, change, before, state, snapshot_id, refuse))
        return commands

    return prepare
