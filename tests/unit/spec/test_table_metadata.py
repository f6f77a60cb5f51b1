"""Table metadata of v1 to v3: what a file must say, what is written, and which updates are refused."""

from __future__ import annotations

import copy
import gzip
import json
from typing import Any

import pytest

from icecore.engine.errors import CommitFailedError, NoSuchSnapshotError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import read_table_updates

X = {"id": 1, "name": "x", "required": True, "type": "long"}
Y = {"id": 2, "name": "y", "required": False, "type": "string"}
SCHEMA: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": [X]}
OTHER: dict[str, Any] = {"type": "struct", "schema-id": 1, "fields": [X, Y]}
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def snapshot(number: int, version: int = 2, parent: int | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {"snapshot-id": number, "timestamp-ms": 1000 + number}
    if parent is not None:
        out["parent-snapshot-id"] = parent
    if version > 1:
        out["sequence-number"] = number
    out["summary"] = {"operation": "append", "added-records": "1"}
    out["manifest-list"] = f"s3://b/t/metadata/snap-{number}.avro"
    out["schema-id"] = 0
    if version > 2:
        out |= {"first-row-id": number - 1, "added-rows": 1}
    return out


def metadata(version: int) -> dict[str, Any]:
    """A full metadata object in the version's own form."""
    spec = [{"source-id": 1, "field-id": 1000, "name": "x_bucket", "transform": "bucket[4]"}]
    out: dict[str, Any] = {"format-version": version, "table-uuid": UUID, "location": "s3://b/t"}
    if version >= 2:
        out["last-sequence-number"] = 2
    out |= {"last-updated-ms": 1002, "last-column-id": 2}
    if version == 1:
        out["schema"] = OTHER
    out |= {"current-schema-id": 1, "schemas": [SCHEMA, OTHER]}
    if version == 1:
        out["partition-spec"] = spec
    out |= {"default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": spec}], "last-partition-id": 1000}
    order = {"transform": "identity", "source-id": 1, "direction": "desc", "null-order": "nulls-last"}
    out |= {"default-sort-order-id": 1, "sort-orders": [{"order-id": 1, "fields": [order]}]}
    out |= {"properties": {"a": "b"}, "current-snapshot-id": 2}
    if version >= 3:
        out["next-row-id"] = 2
        out["encryption-keys"] = [{"key-id": "k", "encrypted-key-metadata": "aGV5", "properties": {"p": "q"}}]
    out["refs"] = {
        "main": {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 3, "max-snapshot-age-ms": 5},
        "v1": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 9},
    }
    out["snapshots"] = [snapshot(1, version), snapshot(2, version, 1)]
    blob = {"type": "ndv", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}}
    out["statistics"] = [{"snapshot-id": 1, "statistics-path": "s3://b/s.puffin", "file-size-in-bytes": 9,
        "file-footer-size-in-bytes": 4, "blob-metadata": [blob]}]  # fmt: skip
    out["partition-statistics"] = [{"snapshot-id": 1, "statistics-path": "s3://b/p", "file-size-in-bytes": 7}]
    out["snapshot-log"] = [{"timestamp-ms": 1001, "snapshot-id": 1}, {"timestamp-ms": 1002, "snapshot-id": 2}]
    out["metadata-log"] = [{"timestamp-ms": 1001, "metadata-file": "s3://b/t/metadata/00000-a.metadata.json"}]
    return out


def parse(obj: Any) -> TableMetadata:
    return TableMetadata.from_json(json.dumps(obj))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_md1_md8_a_file_comes_back_as_it_was(version: int) -> None:
    """MD1, MD8: each version's own form is read and written without a change, gzip or not."""
    obj = metadata(version)
    found = parse(obj)
    assert json.loads(found.to_json()) == obj
    assert TableMetadata.from_json(found.to_json()) == found
    assert TableMetadata.from_json(gzip.compress(found.to_json())) == found
    assert ("schema" in obj) == ("partition-spec" in obj) == (version == 1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_unknown_fields_stay(version: int) -> None:
    """What we don't know at any level is kept."""
    obj = metadata(version)
    obj["later"] = {"deep": [1]}
    for part in (
        obj["snapshots"][0],
        obj["refs"]["v1"],
        obj["statistics"][0],
        obj["schemas"][0],
        obj["sort-orders"][0],
    ):
        part["later"] = "x"
    if version > 1:
        obj["partition-specs"][0]["later"] = "x"
    assert json.loads(parse(obj).to_json()) == obj


REQUIRED = {
    1: ["format-version", "location", "last-updated-ms", "last-column-id"],
    2: [
        "format-version",
        "table-uuid",
        "location",
        "last-sequence-number",
        "last-updated-ms",
        "last-column-id",
        "schemas",
        "current-schema-id",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
    ],
}
REQUIRED[3] = REQUIRED[2]


@pytest.mark.parametrize(("version", "name"), [(v, n) for v, names in REQUIRED.items() for n in names])
def test_md1_required_fields(version: int, name: str) -> None:
    """MD1: a file that lacks a required field, or has null there, is refused with the field's name."""
    obj = metadata(version)
    del obj[name]
    with pytest.raises(ValidationError, match=name):
        parse(obj)
    with pytest.raises(ValidationError, match=name.removesuffix("s").replace("-", "[ -]")):
        parse({**metadata(version), name: None})


@pytest.mark.parametrize("name", sorted(metadata(3)))
@pytest.mark.parametrize("wrong", [True, "text", 1.5, [1], {"a": 1}, [[]]])
def test_fields_of_another_type_are_refused_or_read(name: str, wrong: Any) -> None:
    """A field of a wrong JSON type is an error of ours, or was fine; it never ends in another exception."""
    obj = {**metadata(3), name: wrong}
    try:
        found = parse(obj)
    except ValidationError:
        return
    assert TableMetadata.from_json(found.to_json()) == found


def test_md1_v1_of_old_writers() -> None:
    """MD1, G2, G5: a v1 file without uuid, lists, sort orders and refs; -1 is no snapshot."""
    obj = {
        "format-version": 1,
        "location": "/t/",
        "last-updated-ms": 5,
        "last-column-id": 1,
        "schema": {k: v for k, v in SCHEMA.items() if k != "schema-id"},
        "partition-spec": [
            {"source-id": 1, "name": "a", "transform": "identity"},
            {"source-id": 1, "name": "b", "transform": "bucket[2]"},
        ],
        "current-snapshot-id": -1,
    }
    found = parse(obj)
    assert found.table_uuid is None
    assert found.location == "/t"
    assert found.current_snapshot() is None and found.refs == {}
    assert [f.field_id for f in found.spec().fields] == [1000, 1001]
    assert found.last_partition_id == 1001
    assert found.sort_order().is_unsorted
    assert found.last_sequence_number == 0


def test_r1_main_is_the_current_snapshot() -> None:
    """R1: without refs main is the current snapshot; where both are there they must agree."""
    obj = metadata(2)
    del obj["refs"]
    assert parse(obj).refs["main"].snapshot_id == 2
    obj = metadata(2)
    obj["refs"]["main"]["snapshot-id"] = 1
    with pytest.raises(ValidationError, match="main"):
        parse(obj)


@pytest.mark.parametrize("version", [0, 4, 99, -1])
def test_g1_other_versions_are_refused(version: int) -> None:
    """G1: a format version above 3 can't be read."""
    with pytest.raises(UnsupportedFormatVersionError, match=str(version)):
        parse({**metadata(2), "format-version": version})


BROKEN: dict[str, dict[str, Any]] = {
    "current schema": {"current-schema-id": 7},
    "default spec": {"default-spec-id": 7},
    "default order": {"default-sort-order-id": 7},
    "current snapshot": {"current-snapshot-id": 7},
    "ref to nowhere": {"refs": {"a": {"snapshot-id": 7, "type": "tag"}}},
    "ref of no type": {"refs": {"a": {"snapshot-id": 1, "type": "label"}}},
    "main as tag": {"refs": {"main": {"snapshot-id": 2, "type": "tag"}}},
    "negative retention": {"refs": {"main": {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 0}}},
    "schema twice": {"schemas": [SCHEMA, SCHEMA]},
    "spec twice": {"partition-specs": [{"spec-id": 0, "fields": []}] * 2},
    "snapshot twice": {"snapshots": [snapshot(1), snapshot(2), snapshot(2)]},
    "no schemas": {"schemas": []},
    "no specs": {"partition-specs": []},
    "order 0 with fields": {"sort-orders": [{**metadata(2)["sort-orders"][0], "order-id": 0}]},
}


@pytest.mark.parametrize("what", BROKEN)
def test_ids_that_point_nowhere_are_refused(what: str) -> None:
    """A file whose ids contradict each other is refused."""
    with pytest.raises(ValidationError):
        parse({**metadata(2), **BROKEN[what]})


@pytest.mark.parametrize("text", ["", "null", "[]", "1", '"x"', "{", "{}", "\x00", '{"format-version": 2}'])
def test_text_that_is_no_metadata_is_refused(text: str) -> None:
    """No text ends in another exception than ours."""
    with pytest.raises(ValidationError):
        TableMetadata.from_json(text)


def test_sp8_time_travel_follows_the_snapshot_log() -> None:
    """SP8: the snapshot that was current at a time; before the log begins there is none."""
    found = parse(metadata(2))
    assert found.snapshot_as_of(1001).snapshot_id == 1
    assert found.snapshot_as_of(1002).snapshot_id == found.snapshot_as_of(10**15).snapshot_id == 2
    with pytest.raises(NoSuchSnapshotError):
        found.snapshot_as_of(1000)


def test_ancestors_end_where_a_parent_is_gone_or_comes_again() -> None:
    """A chain of parents with a hole or a loop is walked once."""
    obj = metadata(2)
    obj["snapshots"][0]["parent-snapshot-id"] = 2
    assert [s.snapshot_id for s in parse(obj).ancestors(2)] == [2, 1]
    obj["snapshots"][0]["parent-snapshot-id"] = 99
    assert parse(obj).is_ancestor(1, 2) and not parse(obj).is_ancestor(99, 2)


# Updates


def built(version: int, *updates: dict[str, Any], at_ms: int = 2000) -> TableMetadata:
    builder = MetadataBuilder(parse(metadata(version)))
    builder.apply(read_table_updates(updates), at_ms)
    return builder.build()


def set_main(snapshot_id: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_md3_no_update_is_no_change_but_of_the_time(version: int) -> None:
    """MD3: a commit sets last-updated-ms; a builder of a value gives that value."""
    base = parse(metadata(version))
    assert MetadataBuilder(base).build() == base
    assert built(version).last_updated_ms == 2000


def test_md2_the_snapshot_log_follows_main() -> None:
    """MD2: an entry for each change of main: at the snapshot's time where it is new, else at the commit's."""
    added = built(2, {"action": "add-snapshot", "snapshot": snapshot(3, 2, 2)}, set_main(3))
    assert [(e.timestamp_ms, e.snapshot_id) for e in added.snapshot_log] == [(1001, 1), (1002, 2), (1003, 3)]
    assert added.current_snapshot_id == 3 and added.last_sequence_number == 3
    back = built(2, set_main(1))
    assert [(e.timestamp_ms, e.snapshot_id) for e in back.snapshot_log] == [(1001, 1), (1002, 2), (2000, 1)]
    other = built(2, {"action": "add-snapshot", "snapshot": snapshot(3, 2, 2)})
    assert len(other.snapshot_log) == 2 and other.current_snapshot_id == 2


def test_md2_a_snapshot_that_came_and_went_in_one_commit_is_not_in_the_log() -> None:
    """MD2: of several snapshots of one commit only the last was ever current for readers."""
    found = built(
        2,
        {"action": "add-snapshot", "snapshot": snapshot(3, 2, 2)},
        set_main(3),
        {"action": "add-snapshot", "snapshot": snapshot(4, 2, 3)},
        set_main(4),
    )
    assert [e.snapshot_id for e in found.snapshot_log] == [1, 2, 4]


def test_md2_expiry_cuts_the_log_before_what_is_gone() -> None:
    """MD2: entries up to an expired snapshot go; its refs and statistics go with it."""
    found = built(2, {"action": "remove-snapshots", "snapshot-ids": [1]})
    assert [e.snapshot_id for e in found.snapshot_log] == [2]
    assert set(found.refs) == {"main"}
    assert (found.statistics, found.partition_statistics) == ((), ())
    with_hole = built(2, set_main(1), set_main(2), {"action": "remove-snapshots", "snapshot-ids": [1]})
    assert [e.snapshot_id for e in with_hole.snapshot_log] == [2]


def test_md2_the_metadata_log_is_capped() -> None:
    """MD2: the oldest entries go first; at least one stays."""
    builder = MetadataBuilder(parse(metadata(2)))
    for i in range(5):
        builder.log_previous_metadata(i, f"f{i}", 3)
    assert [e.metadata_file for e in builder.build().metadata_log] == ["f2", "f3", "f4"]
    builder.log_previous_metadata(9, "f9", 0)
    assert [e.metadata_file for e in builder.build().metadata_log] == ["f9"]


REFUSED: dict[str, tuple[int, list[dict[str, Any]], str]] = {
    "G1 another uuid": (2, [{"action": "assign-uuid", "uuid": "other"}], "UUID"),
    "downgrade": (2, [{"action": "upgrade-format-version", "format-version": 1}], "downgrade"),
    "G1 version 4": (2, [{"action": "upgrade-format-version", "format-version": 4}], "4"),
    "T8 another schema of that id": (2, [{"action": "add-schema", "schema": {**OTHER, "schema-id": 0}}], "schema 0"),
    "schema that is not there": (2, [{"action": "set-current-schema", "schema-id": 9}], "no schema 9"),
    "last added of none": (2, [{"action": "set-current-schema", "schema-id": -1}], "-1"),
    "spec that is not there": (2, [{"action": "set-default-spec", "spec-id": 9}], "no spec 9"),
    "order that is not there": (2, [{"action": "set-default-sort-order", "sort-order-id": 9}], "no sort order 9"),
    "another spec of that id": (2, [{"action": "add-spec", "spec": {"spec-id": 0, "fields": []}}], "spec 0"),
    "snapshot twice": (2, [{"action": "add-snapshot", "snapshot": snapshot(2)}], "^Snapshot already exists for id: 2"),
    "L3 v3 without rows": (3, [{"action": "add-snapshot", "snapshot": snapshot(3, 2, 2)}], "first-row-id"),
    "ref to nowhere": (2, [set_main(9)], "not there"),
    "main as tag": (2, [{**set_main(1), "type": "tag"}], "main"),
    "R1 tag with branch settings": (
        2,
        [{"action": "set-snapshot-ref", "ref-name": "a", "type": "tog", "snapshot-id": 1}],
        "branch or tag",
    ),
    "default spec removed": (2, [{"action": "remove-partition-specs", "spec-ids": [0]}], "default"),
    "current schema removed": (2, [{"action": "remove-schemas", "schema-ids": [1]}], "current"),
    "T1 v3 type": (
        2,
        [
            {
                "action": "add-schema",
                "schema": {
                    "type": "struct",
                    "schema-id": 2,
                    "fields": [{"id": 3, "name": "z", "required": False, "type": "variant"}],
                },
            }
        ],
        "variant",
    ),
    "unknown update": (2, [{"action": "explode"}], "explode"),
    "no action": (2, [{}], "action"),
    "missing field": (2, [{"action": "set-location"}], "location"),
    "property that is no text": (2, [{"action": "set-properties", "updates": {"a": [1]}}], "strings"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_updates_that_break_a_rule_are_refused(what: str) -> None:
    """Each rule has its own error."""
    version, updates, message = REFUSED[what]
    with pytest.raises(ValidationError, match=message):
        built(version, *updates)


LATE: dict[str, tuple[int, list[dict[str, Any]], str]] = {
    "old sequence number": (
        2,
        [{"action": "add-snapshot", "snapshot": {**snapshot(3, 2, 2), "sequence-number": 2}}],
        "Cannot add snapshot with sequence number 2 older than last sequence number 2",
    ),
    "RL1 rows behind": (
        3,
        [{"action": "add-snapshot", "snapshot": {**snapshot(3, 3, 2), "first-row-id": 1}}],
        "Cannot add a snapshot, first-row-id is behind table next-row-id: 1 < 2",
    ),
}


@pytest.mark.parametrize("what", LATE)
def test_numbers_behind_those_of_the_table_are_a_lost_race(what: str) -> None:
    """A client that decided on an older state may try again."""
    version, updates, message = LATE[what]
    with pytest.raises(CommitFailedError, match=f"^Validation failed, please retry: {message}"):
        built(version, *updates)


def test_every_update_does_what_it_says() -> None:
    """One commit with all the others, in the REST catalog's words, both spellings of properties."""
    found = built(
        2,
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": {**OTHER, "schema-id": 5, "fields": [*OTHER["fields"],
            {"id": 7, "name": "z", "required": False, "type": "variant"}]}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "name": "y", "transform": "identity"}]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "add-snapshot", "snapshot": {**snapshot(3, 3, 2), "first-row-id": 0, "added-rows": 5}},
        {"action": "set-snapshot-ref", "ref-name": "dev", "type": "branch", "snapshot-id": 3},
        {"action": "remove-snapshot-ref", "ref-name": "v1"},
        {"action": "set-location", "location": "s3://b/new/"},
        {"action": "set-properties", "updates": {"c": "d"}},
        {"action": "set-properties", "updated": {"e": "f"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "remove-properties", "removed": ["e", "none"]},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "remove-partition-statistics", "snapshot-id": 1},
        {"action": "remove-partition-specs", "spec-ids": [0]},
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "aGV5"}},
    )  # fmt: skip
    assert (found.format_version, found.next_row_id) == (3, 5)
    assert (found.current_schema_id, found.last_column_id) == (5, 7)
    assert found.default_spec_id == 1 and [f.field_id for f in found.spec().fields] == [1001]
    assert found.last_partition_id == 1001
    assert found.sort_order().is_unsorted
    assert set(found.refs) == {"main", "dev"}
    assert found.location == "s3://b/new"
    assert found.properties == {"c": "d"}
    assert (found.statistics, found.partition_statistics) == ((), ())
    assert [s.schema_id for s in found.schemas] == [1, 5] and [s.spec_id for s in found.partition_specs] == [1]
    assert [k.key_id for k in found.encryption_keys] == ["k"]
    assert TableMetadata.from_json(found.to_json()) == found


def test_rl7_an_upgrade_starts_with_row_zero() -> None:
    """RL7: next-row-id is 0 after an upgrade to v3, and old snapshots have no lineage."""
    found = built(2, {"action": "upgrade-format-version", "format-version": 3})
    assert found.next_row_id == 0
    assert all(s.first_row_id is None for s in found.snapshots)
    assert built(3, {"action": "upgrade-format-version", "format-version": 3}).next_row_id == 2


def test_md8_an_upgraded_v1_table_is_written_as_v2() -> None:
    """MD8: v2 files don't have the fields that were v1's only."""
    obj = json.loads(built(1, {"action": "upgrade-format-version", "format-version": 2}).to_json())
    assert "schema" not in obj and "partition-spec" not in obj
    assert obj["last-sequence-number"] == 0
    assert all(s["sequence-number"] == 0 for s in obj["snapshots"])


def test_a_builder_leaves_its_base_alone() -> None:
    """What is built on a value does not change the value."""
    base = parse(metadata(2))
    before = copy.deepcopy(base)
    builder = MetadataBuilder(base)
    builder.apply(read_table_updates([set_main(1), {"action": "set-properties", "updates": {"c": "d"}}]), 5000)
    builder.build()
    assert base == before


@pytest.mark.parametrize("compressed", [False, True])
def test_a_byte_order_mark_is_left_aside(compressed: bool) -> None:
    """MD7: some editors put one there; Java's parser reads over it."""
    plain = json.dumps(metadata(2)).encode()
    data = b"\xef\xbb\xbf" + plain
    assert TableMetadata.from_json(gzip.compress(data) if compressed else data) == TableMetadata.from_json(plain)
    assert TableMetadata.from_json(data.decode()) == TableMetadata.from_json(plain)


@pytest.mark.parametrize("given", [None, 5, {}, [], bytearray(b"{}")])
def test_metadata_is_parsed_from_text_or_bytes_only(given: Any) -> None:
    """Anything else is the caller's mistake, and named as such."""
    with pytest.raises(ValidationError, match="must be JSON as bytes or text"):
        TableMetadata.from_json(given)


@pytest.mark.parametrize("version", [2, 3])
def test_l3_no_snapshot_is_beyond_the_table(version: int) -> None:
    """Java refuses it too: the next snapshot would take a sequence number that deletes were given already."""
    wrong = metadata(version)
    wrong["last-sequence-number"] = 1
    with pytest.raises(ValidationError, match="snapshot 2 has sequence number 2, above the last-sequence-number 1"):
        parse(wrong)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_l3_a_snapshot_names_its_manifests(version: int) -> None:
    """One that names none would read as an empty table."""
    wrong = metadata(version)
    del wrong["snapshots"][0]["manifest-list"]
    with pytest.raises(ValidationError, match="snapshot 1 has neither manifest-list nor manifests"):
        parse(wrong)


def test_so1_sort_orders_have_ids_of_their_own() -> None:
    wrong = metadata(2)
    wrong["sort-orders"].append(wrong["sort-orders"][-1])
    with pytest.raises(ValidationError, match="sort order ids repeat"):
        parse(wrong)
