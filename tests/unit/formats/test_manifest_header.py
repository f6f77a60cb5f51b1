"""The header of a manifest is what the spec says: fields of its version, types and names of partition values."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from own_manifests import BY_DAY, NANOS, SIMPLE, VALUES, data_file, entry, files_table, identity_table, write

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.manifest_avro import read_manifest_header
from icecore.engine.spec.content_file import ManifestContent


def field_ids(avro_type: Any) -> dict[int, Any]:
    """All field, element, key and value ids of an Avro schema with the name and the type that they stand at."""
    out: dict[int, Any] = {}
    match avro_type:
        case list():
            for branch in avro_type:
                out |= field_ids(branch)
        case {"type": "record", "fields": fields}:
            for f in fields:
                out |= {f["field-id"]: (f["name"], f["type"])} | field_ids(f["type"])
        case {"type": "array", "items": items}:
            out |= {avro_type["element-id"]: ("element", items)} if "element-id" in avro_type else {}
            out |= field_ids(items)
    return out


V2_ONLY = {3, 4, 134, 135, 136, 143}
V3_ONLY = {142, 144, 145}
COMMON = {
    0,
    1,
    2,
    100,
    101,
    102,
    103,
    104,
    140,
    131,
    132,
    133,
    108,
    117,
    118,
    109,
    119,
    120,
    110,
    121,
    122,
    137,
    138,
    139,
}
COMMON |= {125, 126, 127, 128, 129, 130}
PARTITION = {1000, 1001, 1002, 1003}


@pytest.mark.parametrize(
    ("version", "extra"), [(1, {105}), (2, V2_ONLY), (3, V2_ONLY | V3_ONLY)], ids=["v1", "v2", "v3"]
)
def test_M4_each_version_has_its_field_ids_and_no_others(version: int, extra: set[int]) -> None:
    written = write(files_table([data_file()], BY_DAY, SIMPLE, version), BY_DAY, SIMPLE, version)
    schema = read_manifest_header(written).avro_schema
    assert field_ids(schema).keys() == COMMON | PARTITION | extra
    ids = field_ids(schema)
    assert ids[1][1] == ("long" if version == 1 else ["null", "long"])
    assert ids[1000] == ("ts_day", ["null", {"type": "int", "logicalType": "date"}])
    assert ids[1002] == ("ts_year", ["null", "int"])
    assert ids[108][1][1]["logicalType"] == "map"


def test_M7_logical_types_of_partition_values() -> None:
    schema, spec = identity_table([*VALUES, *NANOS])
    table = files_table([], spec, schema, 3)
    ids = field_ids(read_manifest_header(write(table, spec, schema, 3)).avro_schema)
    found = {1000 + i: ids[1000 + i][1][1] for i in range(len(VALUES + NANOS))}
    assert found[1006] == {"type": "long", "logicalType": "time-micros"}
    assert found[1007] == {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}
    assert found[1008] == {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
    assert found[1010] == {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"}
    assert found[1011] == "bytes"
    assert found[1012] == {"type": "fixed", "size": 3, "name": "fixed_3"}
    decimal = {"type": "fixed", "logicalType": "decimal"}
    assert found[1015] == {**decimal, "size": 2, "name": "decimal_4_2", "precision": 4, "scale": 2}
    assert found[1017] == {**decimal, "size": 16, "name": "decimal_38_10", "precision": 38, "scale": 10}
    assert found[1018] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False}
    assert found[1019] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}


def test_M7_names_that_avro_forbids_are_sanitized_beside_the_original() -> None:
    schema, spec = identity_table(VALUES)
    written = write(files_table([], spec, schema, 2), spec, schema)
    entry = read_manifest_header(written).avro_schema
    data_file_type = next(f for f in entry["fields"] if f["name"] == "data_file")["type"]
    partition = next(f for f in data_file_type["fields"] if f["name"] == "partition")["type"]["fields"]
    assert [(f["name"], f.get("iceberg-field-name")) for f in partition[:6]] == [
        ("a_x20b", "a b"),
        ("a_x20b_1001", "a_x20b"),
        ("_1st", "1st"),
        ("größe", None),
        ("x_x2Ey_xD83D_xDE00", "x.y😀"),
        ("c5", None),
    ]


def test_M1_PT7_header_metadata() -> None:
    written = write(files_table([], BY_DAY, SIMPLE, 2), BY_DAY, SIMPLE, extra_metadata={"made-by": "me"})
    metadata = fastavro.reader(io.BytesIO(written)).metadata
    assert json.loads(metadata["partition-spec"]) == BY_DAY.fields_to_list()
    assert json.loads(metadata["schema"]) == SIMPLE.to_dict()
    assert {k: metadata[k] for k in ("schema-id", "partition-spec-id", "format-version", "content", "made-by")} == {
        "schema-id": "0",
        "partition-spec-id": "7",
        "format-version": "2",
        "content": "data",
        "made-by": "me",
    }
    header = read_manifest_header(written)
    assert (header.schema, header.spec_fields, header.spec_id) == (SIMPLE, BY_DAY.fields, 7)
    assert (header.format_version, header.content) == (2, ManifestContent.DATA)


def test_header_without_keys_says_what_the_columns_show() -> None:
    entry_schema = read_manifest_header(write(entry({}), BY_DAY, SIMPLE)).avro_schema
    out = io.BytesIO()
    fastavro.writer(out, entry_schema, [])
    header = read_manifest_header(out.getvalue())
    assert (header.schema, header.schema_id, header.spec_fields, header.spec_id) == (None, None, None, None)
    assert (header.format_version, header.content) == (2, ManifestContent.DATA)


@pytest.mark.parametrize("key", ["schema", "partition-spec", "partition-spec-id", "format-version"])
def test_header_that_is_not_what_it_says_is_corrupt(key: str) -> None:
    data = write(entry({}), BY_DAY, SIMPLE, extra_metadata={key: "{x"})
    with pytest.raises(CorruptFileError, match=r"m\.avro"):
        read_manifest_header(data, "m.avro")
