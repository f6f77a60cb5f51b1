"""Updates of table metadata: what each does, the logs that follow from them, and which are refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from metadata_samples import OTHER, metadata, parse, snapshot

from icecore.engine.errors import CommitFailedError, ValidationError
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import read_table_updates


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
