"""Manifest lists round trip in every format version, take defaults where old writers left fields out, never crash."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from icecore.engine.commit.first_row_ids import assign_first_row_ids
from icecore.engine.errors import CorruptFileError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.events.manifest_changes import OWN_EVENT, ListedManifest, ManifestChanges
from icecore.engine.formats import avro_blocks
from icecore.engine.formats.manifest_list_avro import COUNTS, list_avro_schema, read_manifest_list, write_manifest_list
from icecore.engine.spec.content_file import FieldSummary, ManifestContent, ManifestFile

SYNC = bytes(range(16))
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SUMMARIES = st.builds(
    FieldSummary, st.booleans(), st.none() | st.booleans(), st.none() | st.binary(), st.none() | st.binary()
)


@st.composite
def manifests(draw: st.DrawFn, version: int) -> ManifestFile:
    v1 = version == 1
    content = ManifestContent.DATA if v1 else draw(st.sampled_from(ManifestContent))
    counts, rows = (st.none() | INTS, st.none() | LONGS) if v1 else (INTS, LONGS)
    return ManifestFile(
        manifest_path=draw(TEXT),
        manifest_length=draw(LONGS),
        partition_spec_id=draw(INTS),
        content=content,
        sequence_number=0 if v1 else draw(LONGS),
        min_sequence_number=0 if v1 else draw(LONGS),
        added_snapshot_id=draw(LONGS),
        added_files_count=draw(counts),
        existing_files_count=draw(counts),
        deleted_files_count=draw(counts),
        added_rows_count=draw(rows),
        existing_rows_count=draw(rows),
        deleted_rows_count=draw(rows),
        partitions=draw(st.none() | st.lists(SUMMARIES, max_size=3).map(tuple)),
        key_metadata=draw(st.none() | st.binary()),
        first_row_id=draw(LONGS) if version == 3 and content is ManifestContent.DATA else None,
    )


def write(rows: list[ManifestFile], version: int = 2, **options: Any) -> bytes:
    options = {"snapshot_id": 5, "parent_snapshot_id": 4, "sequence_number": 3, "first_row_id": 100, **options}
    return write_manifest_list(rows, format_version=version, sync_marker=SYNC, **options)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), version=st.sampled_from([1, 2, 3]), codec=st.sampled_from(["null", "deflate", "zstandard"]))
def test_L1_lists_round_trip(data: st.DataObject, version: int, codec: str) -> None:
    rows = data.draw(st.lists(manifests(version), max_size=5))
    written = write(rows, version, codec=codec)
    assert read_manifest_list(written, "list.avro") == tuple(rows)
    assert write(rows, version, codec=codec) == written


MANIFEST = ManifestFile(
    "file:///w/m.avro",
    10,
    0,
    ManifestContent.DATA,
    3,
    2,
    5,
    1,
    2,
    3,
    10,
    20,
    30,
    (FieldSummary(False),),
    first_row_id=7,
)


@pytest.mark.parametrize(
    ("version", "ids"),
    [
        (1, {500, 501, 502, 503, 504, 505, 506, 507, 512, 513, 514, 519}),
        (2, {500, 501, 502, 503, 504, 505, 506, 507, 512, 513, 514, 515, 516, 517, 519}),
        (3, {500, 501, 502, 503, 504, 505, 506, 507, 512, 513, 514, 515, 516, 517, 519, 520}),
    ],
)
def test_L1_each_version_has_its_field_ids(version: int, ids: set[int]) -> None:
    schema = fastavro.reader(io.BytesIO(write([MANIFEST], version))).writer_schema
    fields = {f["field-id"]: f for f in schema["fields"]}
    assert fields.keys() == ids
    assert (fields[504]["type"] == "int") == (version > 1)
    summary = fields[507]["type"][1]
    assert summary["element-id"] == 508
    assert [f["field-id"] for f in summary["items"]["fields"]] == [509, 518, 510, 511]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, {"snapshot-id": "5", "parent-snapshot-id": "null", "format-version": "1"}),
        (2, {"snapshot-id": "5", "parent-snapshot-id": "null", "sequence-number": "3", "format-version": "2"}),
        (
            3,
            {
                "snapshot-id": "5",
                "parent-snapshot-id": "null",
                "sequence-number": "3",
                "first-row-id": "100",
                "format-version": "3",
            },
        ),
    ],
)
def test_list_header_names_the_snapshot(version: int, expected: dict[str, str]) -> None:
    metadata = fastavro.reader(io.BytesIO(write([], version, parent_snapshot_id=None))).metadata
    assert {k: v for k, v in metadata.items() if not k.startswith("avro.")} == expected


@pytest.mark.parametrize("name", COUNTS)
def test_L1_counts_are_required_from_v2_on(name: str) -> None:
    changes: dict[str, Any] = {name: None}
    lacking = evolve(MANIFEST, **changes)
    assert read_manifest_list(write([lacking], 1), "l")[0] == evolve(
        lacking, sequence_number=0, min_sequence_number=0, first_row_id=None
    )
    with pytest.raises(ValidationError, match=name):
        write([lacking], 2)


@pytest.mark.parametrize(
    ("changes", "version", "options", "words"),
    [
        ({"content": ManifestContent.DELETES}, 1, {}, "delete manifest"),
        ({"added_snapshot_id": None}, 2, {}, "added_snapshot_id"),
        ({"first_row_id": None}, 3, {}, "first_row_id"),
        ({}, 3, {"first_row_id": None}, "first_row_id"),
        ({"added_files_count": 2**31}, 2, {}, "does not fit"),
    ],
)
def test_L1_what_a_list_can_not_hold_is_refused(
    changes: dict[str, Any], version: int, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        write([evolve(MANIFEST, **changes)], version, **options)


def test_G1_unknown_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatVersionError):
        write([], 4)


def test_RL2_delete_manifests_have_no_first_row_id() -> None:
    deletes = evolve(MANIFEST, content=ManifestContent.DELETES)
    assert read_manifest_list(write([deletes], 3), "l")[0].first_row_id is None


def test_RL2_RL4_new_data_manifests_get_row_ids_and_the_others_keep_theirs() -> None:
    """What an upgrade left without row ids gets some too, and is listed anew."""

    def listed(path: str, **changes: Any) -> ListedManifest:
        return ListedManifest(evolve(MANIFEST, manifest_path=path, **changes), OWN_EVENT, 0, 1)

    added = (listed("new", first_row_id=None), listed("d", first_row_id=None, content=ManifestContent.DELETES))
    parent = (listed("kept"), listed("upgraded", first_row_id=None))
    found, assigned = assign_first_row_ids(ManifestChanges(added, frozenset()), parent, 1000)
    ids = {m.manifest.manifest_path: m.manifest.first_row_id for m in found.apply(parent)}
    assert ids == {"new": 1000, "d": None, "kept": 7, "upgraded": 1030}
    assert assigned == 60
    assert found.removed == {"upgraded"}


def container(schema: dict[str, Any], rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows)
    return out.getvalue()


def record(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": "manifest_file", "fields": fields}


PATH, LENGTH, SPEC = (
    {"name": "manifest_path", "type": "string", "field-id": 500},
    {"name": "manifest_length", "type": "long", "field-id": 501},
    {"name": "partition_spec_id", "type": "int", "field-id": 502},
)
ROW = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 2}


def test_G2_L1_a_minimal_old_list_takes_the_defaults() -> None:
    assert read_manifest_list(container(record([PATH, LENGTH, SPEC]), [ROW]), "l") == (ManifestFile("m", 1, 2),)


def test_fields_are_matched_by_id_whatever_their_names() -> None:
    schema = record(
        [
            {"name": "manifest_length", "type": "string", "field-id": 500},
            {"name": "manifest_path", "type": "long", "field-id": 501},
            {"name": "spec", "type": ["int", "null"], "field-id": 502},
            {"name": "added_data_files_count", "type": ["null", "int"], "field-id": 504},
            {"name": "unheard_of", "type": {"type": "map", "values": "long"}, "field-id": 9000},
        ]
    )
    rows = [
        {"manifest_length": "m", "manifest_path": 1, "spec": 2, "added_data_files_count": 9, "unheard_of": {"a": 1}}
    ]
    assert read_manifest_list(container(schema, rows), "l") == (ManifestFile("m", 1, 2, added_files_count=9),)


def test_names_count_where_ids_are_missing() -> None:
    fields = [{k: v for k, v in f.items() if k != "field-id"} for f in (PATH, LENGTH, SPEC)]
    schema = record([*fields, {"name": "added_data_files_count", "type": "int"}])
    rows = [{**ROW, "added_data_files_count": 4}]
    assert read_manifest_list(container(schema, rows), "l") == (ManifestFile("m", 1, 2, added_files_count=4),)


def test_SP1_a_summary_that_does_not_say_whether_there_are_nulls_counts_as_if_there_were() -> None:
    """Where it has bounds: without any it says nothing, not that there is nothing but nulls."""
    fields = [("n", "boolean", 509), ("l", "bytes", 510)]
    of_summary = [{"name": n, "type": ["null", t], "field-id": i} for n, t, i in fields]
    summary = {"type": "record", "name": "s", "fields": of_summary}
    partitions = {"name": "p", "type": ["null", {"type": "array", "items": summary}], "field-id": 507}
    rows = [{"n": None, "l": b"a"}, {"n": None, "l": None}, {"n": False, "l": None}, {"n": True, "l": None}]
    data = container(record([PATH, LENGTH, SPEC, partitions]), [{**ROW, "p": rows}])
    (found,) = read_manifest_list(data, "l")
    assert found.partitions == (
        FieldSummary(True, None, b"a"),
        FieldSummary(False),
        FieldSummary(False),
        FieldSummary(True),
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_several_lists_say_of_a_manifest_is_one_value(version: int) -> None:
    row = MANIFEST if version == 3 else evolve(MANIFEST, first_row_id=None)
    row = row if version > 1 else evolve(row, sequence_number=0, min_sequence_number=0)
    changed = evolve(row, added_rows_count=99)
    first = read_manifest_list(write([row, changed], version), "1.avro")
    later = read_manifest_list(write([changed, row], version, codec="null", snapshot_id=6), "2.avro")
    assert first == (row, changed) == later[::-1]
    assert first[0] is later[1] and first[1] is later[0]


def test_the_same_bytes_under_another_schema_are_another_value() -> None:
    added, deleted = {"name": "a", "type": "int", "field-id": 504}, {"name": "a", "type": "int", "field-id": 506}
    one, other = (
        read_manifest_list(container(record([PATH, LENGTH, SPEC, count]), [{**ROW, "a": 3}]), "l")
        for count in (added, deleted)
    )
    assert one == (ManifestFile("m", 1, 2, added_files_count=3),)
    assert other == (ManifestFile("m", 1, 2, deleted_files_count=3),)


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        (record([PATH, LENGTH]), []),
        (record([PATH, LENGTH, SPEC, {**SPEC, "name": "again"}]), []),
        (record([{**PATH, "type": ["null", "string"]}, LENGTH, SPEC]), [{**ROW, "manifest_path": None}]),
        (record([{**PATH, "type": "long"}, LENGTH, SPEC]), [{**ROW, "manifest_path": 5}]),
        (record([PATH, LENGTH, SPEC, {"name": "content", "type": "int", "field-id": 517}]), [{**ROW, "content": 7}]),
        (
            record([PATH, LENGTH, SPEC, {"name": "partitions", "type": "int", "field-id": 507}]),
            [{**ROW, "partitions": 7}],
        ),
        ({"type": "array", "items": "long"}, []),
    ],
    ids=["no spec id", "id twice", "null path", "path is a number", "unknown content", "partitions", "no record"],
)
def test_lists_that_are_none_are_corrupt(schema: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    with pytest.raises(CorruptFileError, match="list-7"):
        read_manifest_list(container(schema, rows), "list-7")


def test_bytes_flipped_or_cut_never_raise_anything_else() -> None:
    good = write([evolve(MANIFEST, manifest_path=f"m{i}") for i in range(20)], codec="null")
    for cut in range(0, len(good) - 1, 7):
        with pytest.raises(CorruptFileError, match="list-7"):
            read_manifest_list(good[:cut], "list-7")
    outcomes: set[type] = set()
    for i in range(len(good)):
        bad = bytearray(good)
        bad[i] ^= 0xFF
        try:
            outcomes.add(type(read_manifest_list(bytes(bad), "list-7")))
        except CorruptFileError as e:
            assert "list-7" in str(e)
            outcomes.add(CorruptFileError)
    assert outcomes == {tuple, CorruptFileError}


def test_an_encrypted_list_is_named_as_such() -> None:
    with pytest.raises(CorruptFileError, match="encrypted"):
        read_manifest_list(b"AGS1" + bytes(100), "l")


def test_a_block_with_bytes_left_over_is_corrupt() -> None:
    written = write([MANIFEST], codec="null")
    header = avro_blocks.read_header(written, "l")
    (block,) = avro_blocks.read_blocks(written, header, "l")
    longer = avro_blocks.write_container(
        header.metadata, [avro_blocks.AvroBlock(1, block.data * 2)], codec="null", sync_marker=SYNC
    )
    with pytest.raises(CorruptFileError, match="left"):
        read_manifest_list(longer, "l")


def test_list_schema_is_valid_avro_that_pyiceberg_reads(tmp_path: Path) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import read_manifest_list as theirs

    for version in (1, 2):
        fastavro.parse_schema(list_avro_schema(version))
        path = tmp_path / f"{version}.avro"
        rows = [MANIFEST, evolve(MANIFEST, partitions=None, manifest_path="b", added_snapshot_id=6)]
        path.write_bytes(write(rows, version))
        found = list(theirs(PyArrowFileIO().new_input(str(path))))
        for m, ours in zip(found, rows, strict=True):
            assert (m.manifest_path, m.manifest_length, m.added_snapshot_id) == (
                ours.manifest_path,
                ours.manifest_length,
                ours.added_snapshot_id,
            )
            assert [getattr(m, name) for name in COUNTS] == [getattr(ours, name) for name in COUNTS]
            assert m.sequence_number == (0 if version == 1 else 3)
            assert (m.partitions is None) == (ours.partitions is None)
