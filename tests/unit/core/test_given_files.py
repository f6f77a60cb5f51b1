"""What a client wrote for its commit is looked at first: what can't be read or does not fit gets into no log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from attrs import evolve
from client_writes import CLIENT, ClientCatalog, Updates, commit_updates
from core_tables import ids_of, local, make_table, repository_of, rows

import icecore
from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.commit.given_manifests import GivenCheck
from icecore.engine.errors import CommitConflictError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.evolution.create_table import creation_payload, creation_updates
from icecore.engine.formats.avro_blocks import AvroHeader
from icecore.engine.formats.entry_arrow import BOUNDS, COUNTS_OF_FIELDS
from icecore.engine.formats.manifest_avro import write_manifest
from icecore.engine.formats.manifest_list_avro import read_manifest_list, write_manifest_list
from icecore.engine.joint_commit.joint_commit import commit_jointly
from icecore.engine.joint_commit.joint_tables import NewTable
from icecore.engine.spec.content_file import FieldSummary, ManifestContent, ManifestFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.reserved import DELETE_PATH_ID, ROW_ID
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.updates.table_update import AddSnapshot
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.decode_entries import decode_manifest

MARKER = bytes(16)
Records = Sequence[ManifestFile]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A table with a row of ours and a partition spec that is not its default: all refusals leave it as it is."""
    with icecore.open(tmp_path_factory.mktemp("lake")) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, partition_spec=["bucket(4, id)"])
        with table.update_spec() as spec:
            spec.remove_field("id_bucket_4")
        table.append(rows(1))
        yield catalog


@pytest.fixture
def client(lake: icecore.Catalog) -> ClientCatalog:
    return ClientCatalog(lake)


def new_path(near: str) -> str:
    return f"{near.rsplit('/', 1)[0]}/{uuid.uuid4()}.avro"


def put(location: str, data: bytes) -> str:
    local(location).write_bytes(data)
    return location


def snapshot_of(updates: Updates) -> dict[str, Any]:
    found: dict[str, Any] = next(u["snapshot"] for u in updates if u["action"] == "add-snapshot")
    return found


def with_list(change: Callable[[list[ManifestFile]], Records], version: int = 2, **header: Any) -> Any:
    """Writes the list of the commit anew, with other records or another header."""

    def spoil(updates: Updates) -> Updates:
        snapshot = snapshot_of(updates)
        location = snapshot["manifest-list"]
        records = change(list(read_manifest_list(local(location).read_bytes(), location)))
        known = {
            "snapshot_id": snapshot["snapshot-id"],
            "parent_snapshot_id": snapshot.get("parent-snapshot-id"),
            "sequence_number": snapshot["sequence-number"],
        }
        data = write_manifest_list(records, format_version=version, sync_marker=MARKER, **(known | header))
        snapshot["manifest-list"] = put(new_path(location), data)
        return updates

    return spoil


def records(**changes: Any) -> Any:
    """Changes the record of the new manifest, which is the first."""
    return with_list(lambda found: [evolve(found[0], **changes), *found[1:]])


def known(**changes: Any) -> Any:
    """Changes the record of the manifest that the table has, which is the last."""
    return with_list(lambda found: [*found[:-1], evolve(found[-1], **changes)])


def manifest(
    change: Callable[[pa.Table], pa.Table] = lambda entries: entries,
    spec: PartitionSpec | None = None,
    schema: Schema | None = None,
    version: int = 2,
    content: ManifestContent = ManifestContent.DATA,
    bytes_of: Callable[[bytes], bytes] = lambda data: data,
) -> Any:
    """Writes the new manifest anew, with other entries or another header."""

    def changed(found: list[ManifestFile]) -> Records:
        first = found[0]
        path = first.manifest_path
        entries = change(decode_manifest(local(path).read_bytes(), where=path, spec_id=first.partition_spec_id))
        data = write_manifest(
            entries,
            spec=spec or PartitionSpec(spec_id=first.partition_spec_id),
            schema=schema or table_schema(),
            content=content,
            format_version=version,
            sync_marker=MARKER,
        )
        data = bytes_of(data)
        return [evolve(first, manifest_path=put(new_path(path), data), manifest_length=len(data)), *found[1:]]

    return with_list(changed)


def table_schema(id_type: str = "long", first_id: int = 1) -> Schema:
    fields = [
        {"id": first_id, "name": "id", "required": False, "type": id_type},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ]
    return Schema.from_dict({"type": "struct", "schema-id": 0, "fields": fields})


def column(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(entries: pa.Table) -> pa.Table:
        at = entries.schema.get_field_index(name)
        kind = entries.schema.field(name).type
        return entries.set_column(at, entries.schema.field(name), pa.array([value] * len(entries), kind))

    return change


def in_spec(spec_id: int) -> Callable[[pa.Table], pa.Table]:
    return column("spec_id", spec_id)


def snapshot(**changes: Any) -> Any:
    """Changes the snapshot itself."""

    def spoil(updates: Updates) -> Updates:
        snapshot_of(updates).update({k.replace("_", "-"): v for k, v in changes.items()})
        return updates

    return spoil


def file_of(data: bytes) -> Any:
    """Lets the list be a file with these bytes."""

    def spoil(updates: Updates) -> Updates:
        found = snapshot_of(updates)
        found["manifest-list"] = put(new_path(found["manifest-list"]), data)
        return updates

    return spoil


def bucket_spec(spec_id: int, buckets: int = 4, name: str = "id_bucket") -> PartitionSpec:
    fields = [{"source-id": 1, "field-id": 1000, "name": name, "transform": f"bucket[{buckets}]"}]
    return PartitionSpec.from_dict({"spec-id": spec_id, "fields": fields})


def without_ids(data: bytes) -> bytes:
    return data.replace(b"-spec", b"-bare").replace(b'd":1000', b'x":1000')


bare = manifest(in_spec(0), bucket_spec(0, name="other"), bytes_of=without_ids)
SPOILS = {
    "no list": (snapshot(manifest_list="file:///nowhere/snap.avro"), r"nowhere/snap\.avro"),
    "a list that is none": (file_of(b"not Avro"), "is not an Avro file"),
    "a list cut off": (file_of(b"Obj\x01\x02"), "is the file cut?"),
    "unknown parent": (snapshot(parent_snapshot_id=77), "there is no snapshot 77, which it names as its parent"),
    "unknown schema": (snapshot(schema_id=9), "there is no schema 9; there are"),
    "a list of another snapshot": (with_list(lambda r: r, snapshot_id=5), "the list is of snapshot 5"),
    "a list of another version": (with_list(lambda r: r, version=1), "of format version 1, the table of 2"),
    "a newer list": (
        with_list(lambda r: [evolve(m, first_row_id=0) for m in r], version=3, first_row_id=0),
        "of format version 3, the table of 2",
    ),
    "a manifest twice": (with_list(lambda r: [*r, r[0]]), "it lists .* twice"),
    "a manifest that is away": (records(manifest_path="file:///nowhere/m0.avro"), "nowhere/m0.avro"),
    "a manifest of another length": (records(manifest_length=7), "the list says 7 bytes, it has"),
    "a spec that is not there": (records(partition_spec_id=8), r"no partition spec 8; it has \[0, 1\]"),
    "entries of another spec": (records(partition_spec_id=0, partitions=None), "its partitions have the fields"),
    "a header of another spec": (
        manifest(in_spec(0), spec=bucket_spec(0, 5)),
        "its partition spec 0 is .*, the table's is",
    ),
    "fields that nothing tells": (lambda u: records(partition_spec_id=0, partitions=None)(bare(u)), "has no field id"),
    "a header of an unknown spec": (manifest(in_spec(6), spec=PartitionSpec(spec_id=6)), "partition spec 6, which"),
    "columns of another type": (manifest(schema=table_schema("string")), "its column 1 is string, the table's is long"),
    "columns of another table": (manifest(schema=table_schema(first_id=900)), "has id 900, which the table never gave"),
    **{
        f"{name} of a column of tomorrow": (
            manifest(column(name, [(1, value), (3, value)])),
            f"it has {name.replace('_', ' ')} of column 3, which the table never gave",
        )
        for name, value in [*((n, 1) for n in COUNTS_OF_FIELDS), *((n, bytes(8)) for n in BOUNDS)]
    },
    "a newer manifest": (manifest(version=3), "of format version 3, the table of 2"),
    "a manifest cut off": (manifest(bytes_of=lambda data: data[:-20]), "avro"),
    "deletes in place of data": (records(content=ManifestContent.DELETES), "it holds delete files, it has"),
    "a sequence number of the future": (records(sequence_number=99), "sequence number 99 is above the snapshot's"),
    "a least one of the future": (records(min_sequence_number=99), "least sequence number 99 is above"),
    "entries of the future": (
        manifest(lambda e: column("sequence_number", 99)(column("file_sequence_number", 99)(e))),
        "has sequence number 99, above the snapshot's",
    ),
    "counts of files": (records(added_files_count=2), "the list counts 2 added files, it has 1"),
    "counts of rows": (records(added_rows_count=3), "the list counts 3 added rows, it has 1"),
    "deleted files": (records(deleted_files_count=1), "the list counts 1 deleted files, it has 0"),
    "summaries of another spec": (records(partitions=(FieldSummary(False),)), "has 0 fields, the list sums up 1"),
    "a known manifest as new": (known(sequence_number=2), "the table has it with sequence number 1, the list with 2"),
    "a known manifest of another spec": (known(partition_spec_id=0), "with partition spec id 1, the list with 0"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_does_not_fit_is_refused(lake: icecore.Catalog, client: ClientCatalog, spoil: str) -> None:
    """The error says what was expected and found, of which file; the log, the table and its files stay."""
    client.change, text = SPOILS[spoil]
    position, pointer = lake.position, lake.load_table("ns.t").metadata_location
    with pytest.raises(ValidationError, match=text) as refused:
        client.load_table("ns.t").append(rows(2))
    assert refused.value.http_status == 400
    assert (lake.position, lake.load_table("ns.t").metadata_location) == (position, pointer)
    assert ids_of(lake.load_table("ns.t")) == [1]


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (
            {"action": "add-spec", "spec": {"spec-id": 5, "fields": [
                {"source-id": 50, "field-id": 1009, "name": "gone", "transform": "identity"}]}},
            "no column with id 50",
        ),
        (
            {"action": "add-sort-order", "sort-order": {"order-id": 4, "fields": [
                {"source-id": 50, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]}},
            "no column with id 50",
        ),
        (
            {"action": "add-spec", "spec": {"spec-id": 5, "fields": [
                {"source-id": 2, "field-id": 1009, "name": "d", "transform": "day"}]}},
            "day can't be applied to string",
        ),
    ],
)  # fmt: skip
def test_specs_and_orders_need_columns(lake: icecore.Catalog, update: dict[str, Any], text: str) -> None:
    repository = repository_of(lake)
    with pytest.raises(ValidationError, match=text):
        commit_updates(repository, repository.models.table_stream(("ns", "t")), [update])


def test_metrics_of_columns_that_the_commit_gives_are_taken(catalog: icecore.Catalog) -> None:
    """So are those of reserved columns, and what files that were there before have of ids that nobody gave."""
    table, client = make_table(catalog), ClientCatalog(catalog)
    new = {"id": 3, "name": "x", "required": False, "type": "long"}
    schema = {"type": "struct", "schema-id": 1, "fields": [*table_schema().to_dict()["fields"], new]}
    counted = manifest(column("value_counts", [(1, 1), (3, 1), (DELETE_PATH_ID, 1), (ROW_ID.field_id, 1)]))

    def with_column(updates: Updates) -> Updates:
        return [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}, *updates]

    client.change = lambda updates: with_column(counted(updates))
    client.load_table("ns.t").append(rows(1))

    def as_existing(entries: pa.Table) -> pa.Table:
        number = table.refresh().metadata.last_sequence_number
        for name, value in {"status": 0, "sequence_number": number, "file_sequence_number": number}.items():
            entries = column(name, value)(entries)
        return column("value_counts", [(1, 1), (4, 1)])(entries)

    counts = {"added_files_count": 0, "added_rows_count": 0, "existing_files_count": 1, "existing_rows_count": 1}
    client.change = lambda updates: records(**counts)(manifest(as_existing)(updates))
    client.load_table("ns.t").append(rows(2))
    assert ids_of(table.refresh()) == [1, 2]


def test_files_sorted_by_an_order_whose_id_was_taken_are_a_race(catalog: icecore.Catalog) -> None:
    """The order gets another id, and files that name the first one would be sorted by that of somebody else."""

    table, client = make_table(catalog), ClientCatalog(catalog)

    def order(source: int) -> dict[str, Any]:
        fields = [{"source-id": source, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]
        return {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": fields}}

    commit_updates(client.engine, client.stream("ns.t"), [order(1)])

    def sorted_by(order_id: int) -> Callable[[Updates], Updates]:
        def change(updates: Updates) -> Updates:
            spoiled: Updates = manifest(column("sort_order_id", order_id))(updates)
            return [order(2), *spoiled]

        return change

    client.change = sorted_by(1)
    with pytest.raises(CommitConflictError, match="order that this commit adds under id 1, which would be 2 by now"):
        client.load_table("ns.t").append(rows(2))
    client.change = sorted_by(0)
    client.load_table("ns.t").append(rows(3))
    assert ids_of(table.refresh()) == [3] and [o.order_id for o in table.metadata.sort_orders] == [0, 1, 2]


def test_refusals_are_those_of_a_dry_run_too(lake: icecore.Catalog, client: ClientCatalog) -> None:
    """Whoever asks first is told."""
    engine = client.engine
    state = engine.state(client.stream("ns.t"))
    lost = Snapshot(
        7, 1, manifest_list="file:///nowhere/snap.avro", sequence_number=state.metadata.last_sequence_number + 1
    )
    with pytest.raises(ValidationError, match=r"nowhere/snap\.avro"):
        engine.dry_run(state.stream, lambda _: [ChangeMetadata(lambda _: [AddSnapshot(lost, True)])])


def test_a_race_is_told_before_files_are_read(lake: icecore.Catalog, client: ClientCatalog) -> None:
    """What a retry heals is no bad request: requirements come first."""
    behind = client.load_table("ns.t")
    client.change = snapshot(manifest_list="file:///nowhere/snap.avro")
    client.requirements = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}]
    with pytest.raises(CommitConflictError):
        behind.append(rows(2))


def test_a_new_table_with_what_does_not_fit_is_refused(lake: icecore.Catalog) -> None:
    """A staged table's first snapshot is looked at as any other."""
    table_uuid = str(uuid.uuid4())
    updates = creation_updates(table_uuid, f"file://{lake.path}/staged", rows().schema, None, None, {}, 2)
    lost = Snapshot(7, 1, manifest_list="file:///nowhere/snap.avro", sequence_number=1, schema_id=0)
    payload = creation_payload(("ns", "staged"), [*updates, AddSnapshot(lost, True)])
    part = NewTable(("ns", "staged"), ev.table_stream(table_uuid), ev.TABLE_CREATED, payload)
    with pytest.raises(ValidationError, match=r"nowhere/snap\.avro"):
        commit_jointly(lake._warehouse.targets, [part], CLIENT)
    assert not lake.table_exists("ns.staged")


def test_only_new_manifests_are_read(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit to a table of many manifests reads its list and what it adds, and ours reads nothing."""
    table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
    for i in range(5):
        table.append(rows(i))
    client = ClientCatalog(catalog)
    read: list[str] = []
    real = Storage.read_bytes

    def noting(storage: Storage, location: str) -> bytes:
        read.append(location)
        return real(storage, location)

    monkeypatch.setattr(Storage, "read_bytes", noting)
    client.load_table("ns.t").append(rows(7))
    assert len(read) == 2
    client.load_table("ns.t").append(rows(8))
    # The parent's list is one that a client wrote: it was read for its own commit.
    assert len(set(read)) == 4
    read.clear()
    table.refresh().append(rows(9))
    assert ids_of(table) == [0, 1, 2, 3, 4, 7, 8, 9]
    assert catalog.verify().ok


def test_headers_as_duckdb_writes_them_are_taken(lake: icecore.Catalog, client: ClientCatalog) -> None:
    """DuckDB says of each manifest that it is of the default spec, and names the columns of the manifest itself."""
    own = {"type": "struct", "schema-id": 0, "fields": [
        {"id": 0, "name": "status", "required": True, "type": "int"},
        {"id": 2, "name": "data_file", "required": True, "type": "long"}]}  # fmt: skip
    check = GivenCheck(lake.load_table("ns.t").metadata, Snapshot(7, 1, sequence_number=5))
    record = ManifestFile("file:///m.avro", 9, 1)
    header = AvroHeader(
        "m", {"schema": orjson.dumps(own), "partition-spec-id": b"1", "partition-spec": b"[]"}, "null", MARKER, 9
    )
    check.check_header(header, record)
    with pytest.raises(ValidationError, match="partition spec 1 is"):
        check.check_header(
            evolve(
                header,
                metadata={
                    **header.metadata,
                    "partition-spec": b'[{"name": "x", "transform": "identity", "source-id": 1, "field-id": 1}]',
                },
            ),
            record,
        )
