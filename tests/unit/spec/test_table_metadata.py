"""Table metadata of v1 to v3: what a file must say, and what is written."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from metadata_samples import SCHEMA, metadata, parse, snapshot

from icecore.engine.common.compressed_json import compress
from icecore.engine.errors import NoSuchSnapshotError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.spec.metadata import TableMetadata


@pytest.mark.parametrize("version", [1, 2, 3])
def test_md1_md8_a_file_comes_back_as_it_was(version: int) -> None:
    """MD1, MD8: each version's own form is read and written without a change, compressed or not."""
    obj = metadata(version)
    found = parse(obj)
    assert json.loads(found.to_json()) == obj
    assert TableMetadata.from_json(found.to_json()) == found
    for codec in ("gzip", "zstd"):
        assert TableMetadata.from_json(compress(found.to_json(), codec)) == found
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
