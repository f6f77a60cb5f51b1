"""Operations as values, and the context that a transaction plans any of them in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from attrs import evolve, field, frozen

from icecore.engine.commit.decide import Command, StaleRemovals
from icecore.engine.metadata.fold import TableState
from icecore.engine.properties.table_properties import MIB
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage
from icecore.projections.plan.planning import Planning

if TYPE_CHECKING:
    from icecore.projections.plan.planner import Planner

LOCKED_BYTES = 8 * MIB
"""The most bytes of files that a plan may read while others wait for the write lock.

If rows take a tenth of their size in memory on disk, they are written again in some seconds.
"""

LOCKED_WAIT_S = 0.5
"""The seconds that a plan in the write lock waits for other threads' plans: one may be expanding a million files."""


@frozen
class PlanContext:
    """The table that an operation is planned on, and the means to read it.

    `state` is the latest; `metadata` is the state's with the transaction's changes: filters are over its schema, and
    new files are written by it.
    """

    repository: Repository
    planning: Planning
    state: TableState
    metadata: TableMetadata
    storage: Storage

    @property
    def planner(self) -> Planner:
        """The planner of the table's files; in the write lock it raises StaleRemovals where other plans take long."""
        planner = self.planning.planner
        return planner.waiting(LOCKED_WAIT_S, StaleRemovals) if self.is_locked else planner

    @property
    def is_locked(self) -> bool:
        """Whether others wait for the write lock meanwhile."""
        return self.repository.store.connection().in_transaction

    def head(self, branch: str) -> Snapshot | None:
        """The snapshot at the branch's head, as `TableMetadata.head_for_commit`. Raises NoSuchSnapshotError."""
        return self.state.metadata.head_for_commit(branch)

    def check_reading(self, size: int, *, is_elsewhere: bool = False) -> None:
        """Raises StaleRemovals inside of the write lock if `size` is too much to read there, so that it is read before.

        A read `elsewhere`, as by a Spark job that waits for executors, may take any time, so no size is allowed.
        """
        if size > (0 if is_elsewhere else LOCKED_BYTES) and self.is_locked:
            raise StaleRemovals


class Action(Protocol):
    """An operation on a table."""

    def plan(self, at: PlanContext) -> Command | None:
        """The command for the table as it is now, None for nothing to do; planned again where a commit came first.

        Raises ValidationError, ConflictingCommitsError; files that it wrote are deleted then.
        """
        ...


@frozen
class SnapshotTarget:
    """The branch, id and summary properties of a snapshot to be made."""

    branch: str
    snapshot_id: int
    summary: Mapping[str, str] = field(factory=dict)

    def with_summary(self, properties: Mapping[str, str]) -> SnapshotTarget:
        """The target with more properties."""
        return evolve(self, summary={**self.summary, **properties})
