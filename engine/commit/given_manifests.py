"""The checks of manifest lists and manifests that a client wrote: they must fit the table and each other.

Only what reading relies on is checked; where writers are known to differ, it is not. DuckDB, for one, says of each
manifest that it holds data and is of the default spec, and gives the manifest's own columns as the table's schema.
Spec: Manifest Lists (L1), Manifests (M1 to M5), Sequence Number Inheritance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.common.json_reader import loads
from icecore.engine.errors import CommitFailedError, IcecoreError, ValidationError
from icecore.engine.formats.avro_blocks import AvroHeader
from icecore.engine.formats.binary_columns import list_positions, select
from icecore.engine.formats.entry_arrow import METRICS
from icecore.engine.metadata.metadata_builder import RETRY
from icecore.engine.spec.content_file import (
    ALLOWED_CONTENT,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
)
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec, fields_from_list
from icecore.engine.spec.promotion import can_promote
from icecore.engine.spec.schema import MAX_FIELD_ID, Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.types import walk

DATA_FILE_FIELD = 2
"""The field id of `data_file` in manifest entries, which tells their schema from that of a table."""
_KINDS = {ManifestContent.DATA: "data files", ManifestContent.DELETES: "delete files"}
_STATUSES = {
    ManifestEntryStatus.ADDED: "added",
    ManifestEntryStatus.EXISTING: "existing",
    ManifestEntryStatus.DELETED: "deleted",
}


@frozen
class GivenCheck:
    """The check of one new snapshot's files against the table as it is after the commit."""

    metadata: TableMetadata
    snapshot: Snapshot
    moved_orders: Mapping[int, int] = field(factory=dict)

    def refusal(self, location: str, text: str) -> ValidationError:
        """The error of a file that doesn't fit."""
        named = text if location in text else f"{location}: {text}"
        return ValidationError(f"snapshot {self.snapshot.snapshot_id} can't be taken: {named}")

    # The list

    def check_list(self, header: AvroHeader, manifests: Iterable[ManifestFile]) -> None:
        """Raises ValidationError where the list or a record of it does not fit the snapshot, table or version."""
        location = self.snapshot.manifest_list or "its manifest list"
        self._check_version(header, location, exact=True)
        found = _number(header, "snapshot-id")
        if found is not None and found != self.snapshot.snapshot_id:
            raise self.refusal(location, f"the list is of snapshot {found}")
        paths = set[str]()
        for manifest in manifests:
            if manifest.manifest_path in paths:
                raise self.refusal(location, f"it lists {manifest.manifest_path} twice")
            paths.add(manifest.manifest_path)
            self.check_record(manifest)

    def check_record(self, manifest: ManifestFile) -> None:
        """Raises ValidationError where a list's record of a manifest does not fit the table."""
        path, spec_id = manifest.manifest_path, manifest.partition_spec_id
        spec = self.metadata.specs.get(spec_id)
        if spec is None:
            raise self.refusal(path, f"the table has no partition spec {spec_id}; it has {sorted(self.metadata.specs)}")
        summaries = manifest.partitions
        if summaries and len(summaries) != len(spec.fields):
            raise self.refusal(
                path, f"partition spec {spec_id} has {len(spec.fields)} fields, the list sums up {len(summaries)}"
            )
        if self.metadata.format_version == 1:
            if manifest.content is not ManifestContent.DATA:
                raise self.refusal(path, "format version 1 has no delete manifests")
            return
        self._check_number(path, "its sequence number", manifest.sequence_number)
        self._check_number(path, "its least sequence number", manifest.min_sequence_number)

    def check_same(self, manifest: ManifestFile, known: ManifestFile) -> None:
        """Raises ValidationError where the list contradicts the record that the table has of a manifest."""
        for name in ("content", "partition_spec_id", "sequence_number"):
            found, expected = getattr(manifest, name), getattr(known, name)
            if found != expected:
                text = f"the table has it with {name.replace('_', ' ')} {int(expected)}, the list with {int(found)}"
                raise self.refusal(manifest.manifest_path, text)

    def _check_number(self, path: str, what: str, number: int) -> None:
        if number > self.snapshot.sequence_number:
            raise self.refusal(path, f"{what} {number} is above the snapshot's, {self.snapshot.sequence_number}")

    def _check_version(self, header: AvroHeader, location: str, *, exact: bool) -> None:
        found, version = _number(header, "format-version"), self.metadata.format_version
        if found is not None and (found > version or (exact and found != version)):
            raise self.refusal(location, f"it is of format version {found}, the table of {version}")

    # A manifest

    def check_header(self, header: AvroHeader, manifest: ManifestFile) -> None:
        """Raises ValidationError where a manifest's header is of another version, spec or schema than the table."""
        path = manifest.manifest_path
        self._check_version(header, path, exact=False)
        spec = _spec_of(header)
        if spec is not None:
            own = self.metadata.specs.get(spec.spec_id)
            if own is None:
                raise self.refusal(path, f"it is of partition spec {spec.spec_id}, which the table does not have")
            if not _is_same_spec(spec, own):
                raise self.refusal(path, f"its partition spec {spec.spec_id} is {spec}, the table's is {own}")
        schema = _schema_of(header)
        if schema is not None:
            self._check_columns(path, schema)

    def _check_columns(self, path: str, schema: Schema) -> None:
        """Raises ValidationError for columns that the table never had, or had with another type."""
        version, known = self.metadata.format_version, self.metadata.all_fields
        for f in walk(schema.fields):
            if f.field_id > self.metadata.last_column_id:
                raise self.refusal(path, f"its column {f.name!r} has id {f.field_id}, which the table never gave")
            own = known.get_field(f.field_id)
            if own is None or not f.field_type.is_primitive:
                continue
            one, other = own.field_type, f.field_type
            if not can_promote(one, other, version) and not can_promote(other, one, version):
                raise self.refusal(path, f"its column {f.field_id} is {f.field_type}, the table's is {own.field_type}")

    def check_entries(self, manifest: ManifestFile, entries: pa.Table) -> None:
        """Raises ValidationError where a manifest's entries, as its file has them, don't fit its record.

        Raises CommitFailedError where they name a sort order of this commit by an id that another order has by now.
        """
        path = manifest.manifest_path
        for given in sorted(self.moved_orders.keys() & set(pc.unique(entries["sort_order_id"]).to_pylist())):
            raise CommitFailedError(
                f"{RETRY}: files of {path} are sorted by the order that this commit adds under id {given}, which would "
                f"be {self.moved_orders[given]} by now"
            )
        for text in self._faults(manifest, entries):
            raise self.refusal(path, text)

    def _faults(self, manifest: ManifestFile, entries: pa.Table) -> Iterator[str]:
        yield from _count_faults(manifest, entries)
        allowed = pa.array([int(c) for c in ALLOWED_CONTENT[manifest.content]], entries["content"].type)
        for f in entries.filter(pc.invert(pc.is_in(entries["content"], allowed))).slice(0, 1).to_pylist():
            yield f"the list says that it holds {_KINDS[manifest.content]}, it has {f['file_path']}"
        if self.metadata.format_version > 1:
            yield from self._number_faults(manifest, entries)
        yield from self._partition_faults(manifest, entries)
        yield from self._equality_faults(entries)
        yield from self._position_faults(entries)
        yield from self._metrics_faults(entries)

    def _number_faults(self, manifest: ManifestFile, entries: pa.Table) -> Iterator[str]:
        limit = self.snapshot.sequence_number
        for name in ("sequence_number", "file_sequence_number"):
            above = entries.filter(pc.fill_null(pc.greater(entries[name], limit), False))
            for e in above.slice(0, 1).to_pylist():
                yield f"{e['file_path']} has {name.replace('_', ' ')} {e[name]}, above the snapshot's, {limit}"
        is_existing = pc.equal(entries["status"], int(ManifestEntryStatus.EXISTING))
        lost = entries.filter(pc.and_(is_existing, pc.is_null(entries["sequence_number"])))
        if manifest.sequence_number:
            for e in lost.slice(0, 1).to_pylist():
                yield f"{e['file_path']} was there before, and has no sequence number"

    def _partition_faults(self, manifest: ManifestFile, entries: pa.Table) -> Iterator[str]:
        spec = self.metadata.specs[manifest.partition_spec_id]
        needed = {f.field_id for f in spec.fields if not isinstance(f.transform, VoidTransform)}
        others = {f.field_id for s in self.metadata.partition_specs for f in s.fields} - {
            f.field_id for f in spec.fields
        }
        column = entries["partition"].combine_chunks()
        _, positions = list_positions(column)
        found = set(pc.unique(select(column.keys, positions)).to_pylist())
        if entries.num_rows and (not needed <= found or found & others):
            yield f"its partitions have the fields {sorted(found)}, those of partition spec {spec.spec_id} are {spec}"

    def _equality_faults(self, entries: pa.Table) -> Iterator[str]:
        ids = pc.unique(pc.list_flatten(entries["equality_ids"])).to_pylist()
        if unknown := sorted(i for i in ids if i is not None and i > self.metadata.last_column_id):
            yield f"it has deletes by column {unknown[0]}, which the table does not have"

    def _position_faults(self, entries: pa.Table) -> Iterator[str]:
        """Position delete files that are new in a table that takes deletion vectors by now (D1)."""
        if self.metadata.format_version < 3:
            return
        is_added = pc.equal(entries["status"], int(ManifestEntryStatus.ADDED))
        deletes = entries.filter(
            pc.and_(is_added, pc.equal(entries["content"], int(DataFileContent.POSITION_DELETES)))
        ).select(["file_path", "file_format"])
        for f in deletes.to_pylist():
            if f["file_format"].upper() != FileFormat.PUFFIN:
                version = self.metadata.format_version
                yield f"it adds {f['file_path']}, and a v{version} table takes deletion vectors for deletes by position"

    def _metrics_faults(self, entries: pa.Table) -> Iterator[str]:
        """The metrics of field ids that the table has not given yet: a later column would take them for its own.

        Only added entries are checked, as a table that was registered may have such metrics.
        """
        added = entries.filter(pc.equal(entries["status"], int(ManifestEntryStatus.ADDED)))
        for name in METRICS:
            column = added[name].combine_chunks()
            if (pc.max(column.keys).as_py() or 0) <= self.metadata.last_column_id:
                continue
            _, positions = list_positions(column)
            ids = pc.unique(select(column.keys, positions)).to_pylist()
            if unknown := sorted(i for i in ids if self.metadata.last_column_id < i <= MAX_FIELD_ID):
                yield f"it has {name.replace('_', ' ')} of column {unknown[0]}, which the table never gave"


def _count_faults(manifest: ManifestFile, entries: pa.Table) -> Iterator[str]:
    for status, name in _STATUSES.items():
        of_status = entries.filter(pc.equal(entries["status"], int(status)))
        rows = pc.sum(of_status["record_count"]).as_py() or 0
        for what, found in (("files", of_status.num_rows), ("rows", rows)):
            listed = getattr(manifest, f"{name}_{what}_count")
            if listed is not None and listed != found:
                yield f"the list counts {listed} {name} {what}, it has {found}"


def _number(header: AvroHeader, key: str) -> int | None:
    try:
        return int(header.text(key) or "")
    except (ValueError, IcecoreError):
        return None


def _spec_of(header: AvroHeader) -> PartitionSpec | None:
    """The partition spec of a header; None where it has none that can be read."""
    spec_id = _number(header, "partition-spec-id")
    try:
        text = header.text("partition-spec")
        value = None if text is None else orjson.loads(text)
        fields = value["fields"] if isinstance(value, Mapping) else value
        return None if fields is None or spec_id is None else PartitionSpec(fields_from_list(fields), spec_id)
    except (IcecoreError, LookupError, TypeError, ValueError):
        return None


def _schema_of(header: AvroHeader) -> Schema | None:
    """The table's schema in a header; None where it can't be read, or is the schema of the manifest's entries."""
    try:
        text = header.text("schema")
        schema = None if text is None else Schema.from_dict(loads(text, "schema"))
    except (IcecoreError, LookupError, TypeError, ValueError):
        return None
    if (
        schema is not None
        and schema.has_name("data_file")
        and schema.find_field("data_file").field_id == DATA_FILE_FIELD
    ):
        return None
    return schema


def _is_same_spec(found: PartitionSpec, own: PartitionSpec) -> bool:
    """Whether a header's spec is the table's; field names may differ, as nothing is read by them."""
    return [(f.source_ids, f.field_id, f.transform) for f in found.fields] == [
        (f.source_ids, f.field_id, f.transform) for f in own.fields
    ]
