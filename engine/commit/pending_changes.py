"""The metadata changes that a transaction has gathered, applied to metadata before the commit is decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import evolve

from icecore.engine.commit.decide import ChangeMetadata, Command, accepted_updates
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import TableUpdate

Prepared = Callable[[TableState, TableMetadata], Command | None]
"""The planning of an operation on a state, and on its metadata with the changes that come before the operation."""


def changed(metadata: TableMetadata, command: ChangeMetadata) -> tuple[list[TableUpdate], TableMetadata]:
    """The updates of a change, and the metadata after it. Raises ValidationError where it does not fit."""
    updates = accepted_updates(metadata, command.updates_for(metadata))
    if not updates:
        return [], metadata
    builder = MetadataBuilder(metadata)
    builder.apply(updates, metadata.last_updated_ms)
    return updates, builder.build()


def with_moved_refs(metadata: TableMetadata, command: ChangeMetadata) -> TableMetadata:
    """The metadata with branches and tags as the change leaves them, and all else as it is. Raises as `changed`."""
    return _with_refs_of(changed(metadata, command)[1], metadata)


def planned(state: TableState, commands: Iterable[Prepared | ChangeMetadata]) -> list[Command]:
    """The commands in order, each operation planned on what the changes before it make of this state.

    The state has the branches and tags that they leave, and else what is there. Raises ValidationError,
    NoSuchSnapshotError, and what the planning raises.
    """
    out: list[Command] = []
    after, waiting, there = state.metadata, list[ChangeMetadata](), state
    for command in commands:
        if isinstance(command, ChangeMetadata):
            waiting.append(command)
            out.append(command)
            continue
        if waiting:
            for change in waiting:
                _, after = changed(after, change)
            waiting.clear()
            there = evolve(state, metadata=_with_refs_of(after, state.metadata))
        if (made := command(there, after)) is not None:
            out.append(made)
    return out


def _with_refs_of(after: TableMetadata, metadata: TableMetadata) -> TableMetadata:
    if after.refs == metadata.refs or not all(r.snapshot_id in metadata.snapshots_by_id for r in after.refs.values()):
        return metadata
    return evolve(metadata, refs=after.refs, current_snapshot_id=after.current_snapshot_id)
