"""A table that leaves the catalog with all its files, for another catalog to register."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CommitFailedError, MissingFileError, name_text
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.name_events import Dropped
from icecore.engine.joint_commit.joint_commit import CommitTargets
from icecore.engine.joint_commit.joint_names import NameChange
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState


@define
class Unregistration(NameChange):
    """The drop of a table whose last metadata file is there, and tells all."""

    @classmethod
    def of(cls, name: Identifier) -> Unregistration:
        """The part for a table. At commit: NoSuchTableError, MissingFileError, CommitFailedError."""
        return cls(Dropped(name, True), lambda repository: repository.models.table_stream(name), False)

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        if self._base is not None:
            self._check_whole(desk, desk.repository.states.forward(self._base))
        return super().append(desk, transaction, provenance)

    def _check_whole(self, desk: CommitTargets, state: TableState) -> None:
        if state.pending:
            raise CommitFailedError(f"{name_text(self.name)} was committed to while it was unregistered")
        location = state.metadata_location
        if location is None or not desk.repository.storage_of(state).exists(location):
            raise MissingFileError(
                f"the metadata file {location} of {name_text(self.name)} is not there, so no catalog could register "
                "it: `icecore rebuild` writes it again"
            )
