"""The builder of table metadata, which applies updates. Spec: the REST catalog's TableUpdate.

The builder is the fold's inner loop: it mutates in place, so that a replay of n events costs n steps, and gives an
immutable value at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from attrs import evolve

from icecore.engine.errors import CommitFailedError, ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.metadata_json import SUPPORTED_FORMAT_VERSIONS
from icecore.engine.spec.partition import INITIAL_SPEC_ID, PARTITION_FIELD_ID_START, PartitionSpec
from icecore.engine.spec.schema import Schema, check_format_version
from icecore.engine.spec.snapshot import MAIN_BRANCH, MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from icecore.engine.spec.sort import INITIAL_SORT_ORDER_ID, UNSORTED_ORDER_ID, SortOrder
from icecore.engine.spec.updates.metadata_update import (
    LAST_ADDED,
    UNASSIGNED,
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.table_update import (
    AddEncryptionKey,
    AddPartitionSpec,
    AddSnapshot,
    AddSortOrder,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
    TableUpdate,
)

RETRY = "Validation failed, please retry"


class MetadataBuilder:
    """Table metadata under construction.

    Every method raises ValidationError where the spec forbids the change, and CommitFailedError where the numbers of a
    snapshot are behind the table's, as those of a commit that lost a race are.
    """

    def __init__(self, base: TableMetadata | None = None) -> None:
        self._format_version = base.format_version if base else 0
        self._uuid = base.table_uuid if base else None
        self._location = base.location if base else ""
        self._last_updated_ms = base.last_updated_ms if base else 0
        self._last_column_id = base.last_column_id if base else 0
        self._schemas = {s.schema_id: s for s in base.schemas} if base else {}
        self._current_schema_id = base.current_schema_id if base else LAST_ADDED
        self._specs = {s.spec_id: s for s in base.partition_specs} if base else {}
        self._default_spec_id = base.default_spec_id if base else LAST_ADDED
        self._last_partition_id = base.last_partition_id if base else PARTITION_FIELD_ID_START - 1
        self._orders = {o.order_id: o for o in base.sort_orders} if base else {}
        self._default_order_id = base.default_sort_order_id if base else LAST_ADDED
        self._last_sequence_number = base.last_sequence_number if base else 0
        self._properties = dict(base.properties) if base else {}
        self._snapshots = dict(base.snapshots_by_id) if base else {}
        self._snapshot_log = list(base.snapshot_log) if base else []
        self._metadata_log = list(base.metadata_log) if base else []
        self._refs = dict(base.refs) if base else {}
        self._statistics = {s.snapshot_id: s for s in base.statistics} if base else {}
        self._partition_statistics = {s.snapshot_id: s for s in base.partition_statistics} if base else {}
        self._next_row_id = base.next_row_id if base else None
        self._keys = {k.key_id: k for k in base.encryption_keys} if base else {}
        self._extra = dict(base.extra) if base else {}
        self._last_added: dict[str, int] = {}
        self._added_snapshots: set[int] = set()

    def apply(self, updates: Iterable[TableUpdate], timestamp_ms: int) -> None:
        """Applies the updates of one commit, made at `timestamp_ms`; they count as one change (MD2, MD3).

        A table whose last change lies in the future, by another engine's clock, is never set back: readers refuse
        metadata that is older than what its logs say. Raises ValidationError.
        """
        self._last_added = {}
        self._added_snapshots = set()
        self._last_updated_ms = max(timestamp_ms, self._last_updated_ms)
        for update in updates:
            self._apply(update)
        self._drop_intermediate_log_entries()

    def log_previous_metadata(self, timestamp_ms: int, metadata_file: str, keep: int) -> None:
        """Notes the file that the next metadata file replaces; at most `keep` entries stay (MD2)."""
        self._metadata_log.append(MetadataLogEntry(timestamp_ms, metadata_file))
        del self._metadata_log[: max(0, len(self._metadata_log) - max(keep, 1))]

    @property
    def metadata_log(self) -> tuple[str, ...]:
        """The earlier metadata files, oldest first."""
        return tuple(entry.metadata_file for entry in self._metadata_log)

    @property
    def last_updated_ms(self) -> int:
        """The time of the last change in milliseconds."""
        return self._last_updated_ms

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties so far."""
        return self._properties

    @property
    def location(self) -> str:
        """The table's location so far."""
        return self._location

    def build(self) -> TableMetadata:
        """The metadata as it now is. Raises ValidationError where a schema, spec or sort order was never set."""
        for what, value in (("schema", self._schemas), ("partition spec", self._specs), ("sort order", self._orders)):
            if not value:
                raise ValidationError(f"a table needs a {what}")
        main = self._refs.get(MAIN_BRANCH)
        return TableMetadata.of_snapshots(
            self._snapshots.copy(),
            format_version=self._format_version,
            table_uuid=self._uuid,
            location=self._location,
            last_updated_ms=self._last_updated_ms,
            last_column_id=self._last_column_id,
            schemas=tuple(self._schemas.values()),
            current_schema_id=self._current_schema_id,
            partition_specs=tuple(self._specs.values()),
            default_spec_id=self._default_spec_id,
            last_partition_id=self._last_partition_id,
            sort_orders=tuple(self._orders.values()),
            default_sort_order_id=self._default_order_id,
            last_sequence_number=self._last_sequence_number,
            properties=dict(self._properties),
            current_snapshot_id=main.snapshot_id if main else None,
            snapshot_log=tuple(self._snapshot_log),
            metadata_log=tuple(self._metadata_log),
            refs=dict(self._refs),
            statistics=tuple(self._statistics.values()),
            partition_statistics=tuple(self._partition_statistics.values()),
            next_row_id=self._next_row_id,
            encryption_keys=tuple(self._keys.values()),
            extra=dict(self._extra),
        )

    def _apply(self, update: TableUpdate) -> None:  # noqa: C901  # one case an update
        match update:
            case AddSnapshot(snapshot=snapshot):
                self._add_snapshot(snapshot)
            case SetSnapshotRef():
                self._set_snapshot_ref(update.ref_name, update.ref)
            case AssignUuid():
                self._assign_uuid(update.uuid)
            case UpgradeFormatVersion():
                self._upgrade_format_version(update.format_version)
            case AddSchema():
                self._add_schema(update.schema)
            case SetCurrentSchema():
                self._current_schema_id = self._last(update.schema_id, "schema", "schema-id", self._schemas)
            case AddPartitionSpec():
                self._add_spec(update.spec)
            case SetDefaultSpec():
                self._default_spec_id = self._last(update.spec_id, "spec", "spec-id", self._specs)
            case AddSortOrder():
                self._add_sort_order(update.sort_order)
            case SetDefaultSortOrder(sort_order_id=order_id):
                self._default_order_id = self._last(order_id, "sort order", "sort-order-id", self._orders)
            case RemoveSnapshots():
                self._remove_snapshots(set(update.snapshot_ids))
            case RemoveSnapshotRef():
                self._refs.pop(update.ref_name, None)
            case SetLocation():
                self._location = update.location.rstrip("/")
            case SetProperties():
                self._properties.update(update.updates)
            case RemoveProperties():
                for key in update.removals:
                    self._properties.pop(key, None)
            case SetStatistics(statistics=file):
                self._statistics[file.snapshot_id] = file
            case RemoveStatistics():
                self._statistics.pop(update.snapshot_id, None)
            case SetPartitionStatistics(partition_statistics=partition_file):
                self._partition_statistics[partition_file.snapshot_id] = partition_file
            case RemovePartitionStatistics():
                self._partition_statistics.pop(update.snapshot_id, None)
            case RemovePartitionSpecs():
                self._remove_partition_specs(update.spec_ids)
            case RemoveSchemas():
                self._remove_schemas(update.schema_ids)
            case AddEncryptionKey(encryption_key=key):
                self._keys[key.key_id] = key
            case RemoveEncryptionKey():
                self._keys.pop(update.key_id, None)
            case _:
                assert_never(update)

    def _assign_uuid(self, uuid: str) -> None:
        if self._uuid is not None and self._uuid != uuid:
            raise ValidationError(f"the table's UUID is {self._uuid}, it can't become {uuid} (G1)")
        self._uuid = uuid

    def _upgrade_format_version(self, version: int) -> None:
        if version not in SUPPORTED_FORMAT_VERSIONS:
            raise ValidationError(f"can't upgrade to format version {version}; supported are 1, 2 and 3")
        if version < self._format_version:
            raise ValidationError(f"can't downgrade from format version {self._format_version} to {version}")
        if version >= 3 and self._next_row_id is None:
            self._next_row_id = 0
        self._format_version = version

    def _add_schema(self, schema: Schema) -> None:
        if schema.schema_id == UNASSIGNED:
            schema = evolve(schema, schema_id=len(self._schemas))
        check_format_version(schema, self._format_version or 2)
        known = self._schemas.get(schema.schema_id)
        if known is not None and not known.same_fields(schema):
            raise ValidationError(f"there is another schema {schema.schema_id} already")
        self._schemas[schema.schema_id] = schema
        self._last_column_id = max(self._last_column_id, schema.highest_field_id)
        self._last_added["schema"] = schema.schema_id

    def _add_spec(self, given: PartitionSpec) -> None:
        spec = self._with_ids(given)
        known = self._specs.get(spec.spec_id)
        if known is not None and known != spec:
            raise ValidationError(f"there is another partition spec {spec.spec_id} already")
        self._specs[spec.spec_id] = spec
        self._last_partition_id = max(self._last_partition_id, spec.last_assigned_field_id)
        self._last_added["spec"] = spec.spec_id

    def _with_ids(self, spec: PartitionSpec) -> PartitionSpec:
        """The spec with the next free ids where it, or a field, has none (PT1)."""
        fields, next_id = [], self._last_partition_id + 1
        for f in spec.fields:
            if f.field_id == UNASSIGNED:
                f = evolve(f, field_id=next_id)
                next_id += 1
            fields.append(f)
        free = max(self._specs, default=INITIAL_SPEC_ID - 1) + 1
        return evolve(spec, fields=tuple(fields), spec_id=free if spec.spec_id == UNASSIGNED else spec.spec_id)

    def _add_sort_order(self, order: SortOrder) -> None:
        if order.order_id == UNASSIGNED:
            free = max(self._orders, default=INITIAL_SORT_ORDER_ID - 1) + 1
            order = evolve(order, order_id=free if order.fields else UNSORTED_ORDER_ID)
        known = self._orders.get(order.order_id)
        if known is not None and known != order:
            raise ValidationError(f"there is another sort order {order.order_id} already")
        self._orders[order.order_id] = order
        self._last_added["sort order"] = order.order_id

    def _last(self, value: int, what: str, key: str, known: Mapping[int, object]) -> int:
        if value == LAST_ADDED:
            if what not in self._last_added:
                raise ValidationError(f"no {what} was added in this commit, so {key} can't be -1")
            value = self._last_added[what]
        if value not in known:
            raise ValidationError(f"there is no {what} {value}; there are {sorted(known)}")
        return value

    def _add_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.snapshot_id in self._snapshots:
            raise ValidationError(f"Snapshot already exists for id: {snapshot.snapshot_id}")
        if (
            self._format_version > 1
            and snapshot.sequence_number <= self._last_sequence_number
            and snapshot.parent_snapshot_id is not None
        ):
            raise CommitFailedError(
                f"{RETRY}: Cannot add snapshot with sequence number {snapshot.sequence_number} older than last "
                f"sequence number {self._last_sequence_number}"
            )
        if self._format_version >= 3:
            self._assign_rows(snapshot)
        self._last_sequence_number = max(self._last_sequence_number, snapshot.sequence_number)
        self._snapshots[snapshot.snapshot_id] = snapshot
        self._added_snapshots.add(snapshot.snapshot_id)

    def _assign_rows(self, snapshot: Snapshot) -> None:
        next_row_id = self._next_row_id or 0
        if snapshot.first_row_id is None or snapshot.added_rows is None:
            raise ValidationError(f"snapshot {snapshot.snapshot_id} of a v3 table needs first-row-id and added-rows")
        if snapshot.first_row_id < next_row_id:
            raise CommitFailedError(
                f"{RETRY}: Cannot add a snapshot, first-row-id is behind table next-row-id: "
                f"{snapshot.first_row_id} < {next_row_id} (RL1)"
            )
        self._next_row_id = max(next_row_id, snapshot.first_row_id) + snapshot.added_rows

    def _set_snapshot_ref(self, name: str, ref: SnapshotRef) -> None:
        if ref.snapshot_id not in self._snapshots:
            raise ValidationError(f"ref {name!r} can't be set to snapshot {ref.snapshot_id}, which is not there")
        if self._refs.get(name) == ref:
            return
        if name == MAIN_BRANCH:
            added = ref.snapshot_id in self._added_snapshots
            at_ms = self._snapshots[ref.snapshot_id].timestamp_ms if added else self._last_updated_ms
            if not self._snapshot_log or self._snapshot_log[-1].snapshot_id != ref.snapshot_id:
                self._snapshot_log.append(SnapshotLogEntry(at_ms, ref.snapshot_id))
        self._refs[name] = ref

    def _remove_snapshots(self, gone: set[int]) -> None:
        for snapshot_id in gone:
            self._snapshots.pop(snapshot_id, None)
            self._statistics.pop(snapshot_id, None)
            self._partition_statistics.pop(snapshot_id, None)
        self._refs = {name: r for name, r in self._refs.items() if r.snapshot_id in self._snapshots}
        entries: list[SnapshotLogEntry] = []
        for entry in self._snapshot_log:
            if entry.snapshot_id in self._snapshots:
                entries.append(entry)
            elif entry.snapshot_id in gone:
                entries.clear()
        self._snapshot_log = entries

    def _remove_partition_specs(self, spec_ids: Iterable[int]) -> None:
        for spec_id in spec_ids:
            if spec_id == self._default_spec_id:
                raise ValidationError("the default partition spec can't be removed")
            self._specs.pop(spec_id, None)

    def _remove_schemas(self, schema_ids: Iterable[int]) -> None:
        for schema_id in schema_ids:
            if schema_id == self._current_schema_id:
                raise ValidationError("the current schema can't be removed")
            self._schemas.pop(schema_id, None)

    def _drop_intermediate_log_entries(self) -> None:
        """Drops entries of snapshots that came and went within the commit: they were never current for a reader."""
        if len(self._added_snapshots) < 2:
            return
        main = self._refs.get(MAIN_BRANCH)
        current = main.snapshot_id if main else None
        self._snapshot_log = [
            e for e in self._snapshot_log if e.snapshot_id not in self._added_snapshots or e.snapshot_id == current
        ]
