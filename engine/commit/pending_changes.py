"""The changes of metadata that a transaction has gathered, on metadata that they are not decided on yet."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from icecore.engine.commit.decide import ChangeMetadata, accepted_updates
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import TableUpdate


def changed(metadata: TableMetadata, command: ChangeMetadata) -> tuple[list[TableUpdate], TableMetadata]:
    """The updates of a change, and the metadata after it. Raises ValidationError where it does not fit."""
    updates = accepted_updates(metadata, command.updates_for(metadata))
    builder = MetadataBuilder(metadata)
    builder.apply(updates, metadata.last_updated_ms)
    return updates, builder.build()


def with_moved_refs(metadata: TableMetadata, commands: Iterable[ChangeMetadata]) -> TableMetadata:
    """The metadata with branches and tags as the changes leave them, and all else as it is.

    An operation after them goes to such a branch. Raises ValidationError, NoSuchSnapshotError.
    """
    after = metadata
    for command in commands:
        _, after = changed(after, command)
    if after.refs == metadata.refs or not all(r.snapshot_id in metadata.snapshots_by_id for r in after.refs.values()):
        return metadata
    return evolve(metadata, refs=after.refs, current_snapshot_id=after.current_snapshot_id)
