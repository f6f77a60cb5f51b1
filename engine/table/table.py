"""Tables: metadata, changes and reads. The names are PyIceberg's where it has one.

The class is a table of contents. What a table says of its metadata is written here; each call that reads or changes
it is a function of the module named, whose first parameter is the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import rows_html
from icecore.engine.errors import NoSuchSnapshotError, name_text
from icecore.engine.metadata.fold import TableState
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef
from icecore.engine.spec.sort import SortOrder
from icecore.engine.table import table_commits, table_maintenance, table_reads, table_rows, table_statistics
from icecore.engine.table.method_names import methods_named
from icecore.projections.plan.planning import Planning

if TYPE_CHECKING:
    from icecore.engine.maintenance.maintenance import Maintenance
    from icecore.engine.table.by_spark.spark_changes import SparkChanges
    from icecore.projections.history.inspected_table import InspectedTable
    from icecore.projections.plan.planner import Planner

_TOTALS = ("records", "data_files")


@methods_named
class Table:
    """One table at one version. It stays as it was loaded until `refresh()` or a commit through it."""

    def __init__(self, repository: Repository, planning: Planning, state: TableState, actor: str | None) -> None:
        self._repository = repository
        self._planning = planning
        self._state = state
        self._actor = actor

    # Metadata

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

    def last_partition_id(self) -> int:
        """The highest partition field id that was given out."""
        return self.metadata.last_partition_id

    @property
    def last_sequence_number(self) -> int:
        """The sequence number of the last snapshot; 0 in a v1 table."""
        return self.metadata.last_sequence_number

    def name_mapping(self) -> NameMapping | None:
        """The mapping by which columns of files without field ids are found; None for none."""
        return NAME_MAPPING.find(self.metadata.properties)

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, in the order of the metadata."""
        return list(self.metadata.snapshots)

    def current_snapshot(self) -> Snapshot | None:
        """The current snapshot; None for an empty table."""
        return self.metadata.current_snapshot()

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id; None where the table doesn't have it."""
        return self.metadata.snapshot_by_id(snapshot_id)

    def snapshot_by_name(self, name: str) -> Snapshot | None:
        """The snapshot of a branch or tag; None where there is none of that name."""
        return self.metadata.snapshot_by_ref(name) if name in self.metadata.refs else None

    def snapshot_as_of_timestamp(self, timestamp_ms: int, inclusive: bool = True) -> Snapshot | None:
        """The snapshot that was current at a time, in milliseconds since 1970, or just before it; None for none."""
        try:
            return self.metadata.snapshot_as_of(timestamp_ms if inclusive else timestamp_ms - 1)
        except NoSuchSnapshotError:
            return None

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
        snapshot = self.current_snapshot()
        totals = {} if snapshot is None else snapshot.summary or {}
        told: dict[str, object] = {"format_version": self.format_version, "events": self._state.stream_version}
        told |= {n: totals.get(f"total-{n.replace('_', '-')}", 0 if snapshot is None else "?") for n in _TOTALS}
        return f"{type(self).__name__}({name_text(self.name())!r}, {', '.join(f'{n}={v}' for n, v in told.items())})"

    def _repr_html_(self) -> str:
        """The table in a notebook: its repr, and its columns below."""
        columns = [(f.name, f.field_type, "not null" if f.required else "", f.doc or "") for f in self.schema().fields]
        return rows_html((repr(self), "type", "", ""), columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and other._state == self._state

    __hash__ = None  # type: ignore[assignment]  # a table changes with refresh()

    # Reads
    scan = table_reads.scan
    to_polars = table_reads.to_polars
    to_daft = table_reads.to_daft
    incremental_append_scan = table_reads.incremental_append_scan
    incremental_changelog_scan = table_reads.incremental_changelog_scan
    blame = table_reads.blame
    diff = table_reads.diff
    manifests = table_reads.manifests
    files = table_reads.files
    live_entries = table_reads.live_entries
    partitions = table_reads.partitions

    @property
    def inspect(self) -> InspectedTable:
        """Iceberg's metadata tables of the table as loaded, and its history: `table.inspect.files()` and so on."""
        from icecore.projections.history.inspected_table import InspectedTable

        return InspectedTable(self._planner, self._state)

    # Plans that are stored under a name
    prefetch = table_reads.prefetch
    named_plan = table_reads.named_plan
    named_plans = table_reads.named_plans
    drop_named_plan = table_reads.drop_named_plan

    # Changes of rows, each as one commit
    append = table_rows.append
    overwrite = table_rows.overwrite
    dynamic_partition_overwrite = table_rows.dynamic_partition_overwrite
    upsert = table_rows.upsert
    delete = table_rows.delete
    delete_keys = table_rows.delete_keys
    add_files = table_rows.add_files
    append_files = table_rows.append_files
    row_delta = table_rows.row_delta
    overwrite_files = table_rows.overwrite_files
    rewrite_files = table_rows.rewrite_files

    # Changes of metadata, and several changes as one commit
    transaction = table_commits.transaction
    update_schema = table_commits.update_schema
    update_spec = table_commits.update_spec
    update_sort_order = table_commits.update_sort_order
    manage_snapshots = table_commits.manage_snapshots
    set_properties = table_commits.set_properties
    remove_properties = table_commits.remove_properties
    upgrade = table_commits.upgrade

    # Statistics
    statistics = table_statistics.statistics
    partition_statistics = table_statistics.partition_statistics
    compute_statistics = table_statistics.compute_statistics
    compute_partition_statistics = table_statistics.compute_partition_statistics
    update_statistics = table_statistics.update_statistics

    # Maintenance
    rewrite_data_files = table_maintenance.rewrite_data_files
    rewrite_position_delete_files = table_maintenance.rewrite_position_delete_files
    remove_dangling_deletes = table_maintenance.remove_dangling_deletes
    rewrite_manifests = table_maintenance.rewrite_manifests
    maintain = table_maintenance.maintain
    forget = table_maintenance.forget

    @property
    def maintenance(self) -> Maintenance:
        """The upkeep of the table: expiring snapshots, removing orphan files. Raises ReadOnlyError."""
        from icecore.engine.maintenance.maintenance import Maintenance

        self._repository.check_writable()
        return Maintenance(self._state.stream, self._repository, self._committed, self._actor)

    @property
    def spark(self) -> SparkChanges:
        """Changes of rows by Spark, of more than this process could hold. Raises MissingDependencyError."""
        from icecore.engine.table.by_spark.spark_changes import SparkChanges

        return SparkChanges(self)

    @property
    def _planner(self) -> Planner:
        return self._planning.planner

    def _committed(self, state: TableState) -> None:
        """Takes the state after a commit."""
        self._state = state
