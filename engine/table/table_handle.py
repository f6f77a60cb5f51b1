"""A loaded table as the functions of this folder take it: they are the methods of `Table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.plan.planning import Planning

if TYPE_CHECKING:
    from icecore.projections.plan.planner import Planner


class TableHandle(Protocol):
    """A loaded table: its state, what reads and changes it, and who commits through it."""

    _repository: Repository
    _planning: Planning
    _state: TableState
    _actor: str | None

    @property
    def _planner(self) -> Planner: ...

    @property
    def metadata(self) -> TableMetadata: ...

    def _committed(self, state: TableState) -> None:
        """Takes the state after a commit. Raises CommitConflictError where it is another table's."""
