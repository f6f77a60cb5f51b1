"""A loaded table: its metadata, and the commits that go through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self, Unpack

from icecore.engine.common.keyword_options import takes_options
from icecore.engine.errors import CommitConflictError
from icecore.engine.log.read_models import dotted
from icecore.engine.metadata.fold import Identifier, TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef
from icecore.engine.spec.sort import SortOrder
from icecore.engine.table.commit_options import CommitOptions, provenance_of
from icecore.projections.plan.planning import Planning

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.table.transaction import Transaction
    from icecore.projections.plan.planner import Planner


class TableHandle:
    """One table at one version. It stays as it was loaded until `refresh()` or a commit through it."""

    def __init__(self, repository: Repository, planning: Planning, state: TableState, actor: str | None) -> None:
        self._repository = repository
        self._planning = planning
        self._state = state
        self._actor = actor

    @property
    def _planner(self) -> Planner:
        return self._planning.planner

    def name(self) -> Identifier:
        """The identifier as a tuple."""
        return self._state.identifier

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata."""
        return self._state.metadata

    @property
    def metadata_location(self) -> str | None:
        """The location of the latest metadata file; None where none was written yet."""
        return self._state.metadata_location

    @property
    def state(self) -> TableState:
        """The table's state, with its stream and name."""
        return self._state

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.properties

    @property
    def format_version(self) -> int:
        """The format version, 1 to 3."""
        return self.metadata.format_version

    def location(self) -> str:
        """The table's location."""
        return self.metadata.location

    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """All schemas by id."""
        return {s.schema_id: s for s in self.metadata.schemas}

    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self.metadata.spec()

    def specs(self) -> dict[int, PartitionSpec]:
        """All partition specs by id."""
        return dict(self.metadata.specs)

    def sort_order(self) -> SortOrder:
        """The default sort order."""
        return self.metadata.sort_order()

    def sort_orders(self) -> dict[int, SortOrder]:
        """All sort orders by id."""
        return {o.order_id: o for o in self.metadata.sort_orders}

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, in the order of the metadata."""
        return list(self.metadata.snapshots)

    def current_snapshot(self) -> Snapshot | None:
        """The current snapshot; None for an empty table."""
        return self.metadata.current_snapshot()

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id; None where the table doesn't have it."""
        return self.metadata.snapshot_by_id(snapshot_id)

    def refs(self) -> dict[str, SnapshotRef]:
        """The branches and tags by name."""
        return dict(self.metadata.refs)

    def history(self) -> list[SnapshotLogEntry]:
        """The snapshot log: each snapshot that became current, and when."""
        return list(self.metadata.snapshot_log)

    def refresh(self) -> Self:
        """Brings the table up to date with later commits. Raises NoSuchTableError where it was dropped."""
        self._repository.foreign.adopt_or_warn(self._state.stream)
        self._state = self._repository.live_state(self._state.stream)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dotted(self.name())!r}, version {self._state.stream_version})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableHandle) and other._state == self._state

    __hash__ = None  # type: ignore[assignment]  # a table changes with refresh()

    @takes_options(CommitOptions)
    def transaction(self, **options: Unpack[CommitOptions]) -> Transaction:
        """Several changes as one commit and one event: all or nothing, made when the `with` block ends well.

        With `message` and `author` for the log; with an `idempotency_key` it is made once. With `dry_run` nothing is
        stored, and `outcome` says what the commit would be. Raises ReadOnlyError, NoSuchTableError.
        """
        from icecore.engine.table.transaction import Transaction

        self._repository.check_writable()
        who = provenance_of(self._actor, options)
        dry_run = options.get("dry_run", False)
        return Transaction(self._repository, self._planning, self._state, who, self._committed, dry_run)

    def _commit_with(self, change: Callable[[Transaction], object], **options: Unpack[CommitOptions]) -> DryRun | None:
        with self.transaction(**options) as transaction:
            change(transaction)
        return transaction.outcome

    def _committed(self, state: TableState) -> None:
        if state.stream != self._state.stream:
            raise CommitConflictError(
                f"the idempotency key was used for a commit to {dotted(state.identifier)} before, not to this table"
            )
        self._state = state
