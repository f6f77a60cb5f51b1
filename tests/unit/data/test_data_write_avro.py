"""Avro data files: schemas, codecs, maps. Spec: Appendix A (M7)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc
import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.formats.avro_blocks import read_header
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    UnknownType,
)

from .reading import content_file, rows
from .writing import EVERY, SCHEMA, local, numbered, write


def test_m7_avro_schemas_are_those_of_the_spec(tmp_path: Path) -> None:
    (file,) = write(pa.table({"bo": [True]}), tmp_path, "avro", EVERY)
    with local(file).open("rb") as f:
        header = fastavro.reader(f)
        schema, metadata = json.loads(header.metadata["avro.schema"]), header.metadata
    assert (schema["name"], metadata["avro.codec"]) == ("table", "deflate")
    assert Schema.from_dict(json.loads(metadata["iceberg.schema"])) == EVERY
    types = {f["field-id"]: f["type"] for f in schema["fields"]}
    assert types[1] == "boolean"
    assert types[2] == ["null", "int"]
    assert schema["fields"][1]["default"] is None
    assert schema["fields"][12]["doc"] == "text"
    named = {i: t[1] for i, t in types.items() if isinstance(t, list)}
    times = {"type": "long", "logicalType": "timestamp-micros"}
    assert named[6] == {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9,
                        "scale": 2}  # fmt: skip
    assert (named[7], named[8]) == (
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "time-micros"},
    )
    assert (named[9], named[10]) == ({**times, "adjust-to-utc": False}, {**times, "adjust-to-utc": True})
    assert named[12] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}
    assert named[14] == {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    assert named[15] == {"type": "fixed", "name": "fixed_3", "size": 3}
    assert named[17] == {"type": "record", "name": "r17", "fields": [
        {"name": "a_x2Db", "iceberg-field-name": "a-b", "type": "int", "field-id": 18}]}  # fmt: skip
    assert named[19] == {"type": "array", "items": "string", "element-id": 20}
    assert named[21] == {"type": "map", "values": ["null", "long"], "key-id": 22, "value-id": 23}
    pair = named[24]["items"]
    assert (named[24]["logicalType"], pair["name"]) == ("map", "k25_v26")
    assert [(f["name"], f["field-id"]) for f in pair["fields"]] == [("key", 25), ("value", 26)]


def test_fastavro_reads_what_the_schema_says(tmp_path: Path) -> None:
    """A reader that knows nothing of Iceberg gets decimals, times and maps of every key."""
    data = pa.table({
        "bo": [True, False], "dec": pa.array([Decimal("-12345.67"), None], pa.decimal128(9, 2)),
        "ms": pa.array([[("a", 1), ("b", None)], []], pa.map_(pa.string(), pa.int64())),
        "st": pa.array([{"a-b": 5}, None], pa.struct([("a-b", pa.int32())])),
        "day": pa.array([0, -1], pa.int32()).cast(pa.date32()),
    })  # fmt: skip
    (file,) = write(data, tmp_path, "avro", EVERY)
    with local(file).open("rb") as f:
        one, two = fastavro.reader(f)
    assert (one["dec"], one["ms"], one["st"], str(one["day"])) == (
        Decimal("-12345.67"), {"a": 1, "b": None}, {"a_x2Db": 5}, "1970-01-01"
    )  # fmt: skip
    assert (two["dec"], two["ms"], two["st"], str(two["day"])) == (None, {}, None, "1969-12-31")


CODECS = [("gzip", "deflate"), ("zstd", "zstandard"), ("snappy", "snappy"), ("uncompressed", "null")]


@pytest.mark.parametrize("codec, name", CODECS)
def test_avro_codecs(tmp_path: Path, codec: str, name: str) -> None:
    (file,) = write(numbered(20_000), tmp_path, "avro", properties={"write.avro.compression-codec": codec})
    assert read_header(local(file).read_bytes(), "f").codec == name
    if codec != "zstd":
        # fastavro needs one more package for zstd.
        with local(file).open("rb") as f:
            assert sum(b.num_records for b in fastavro.block_reader(f)) == 20_000
    assert len(rows(file, SCHEMA)) == 20_000


def test_avro_levels(tmp_path: Path) -> None:
    sizes = []
    for level in ("1", "9"):
        (file,) = write(numbered(20_000), tmp_path / level, "avro", properties={"write.avro.compression-level": level})
        sizes.append(file.file_size_in_bytes)
    assert sizes[1] < sizes[0]


def test_avro_columns_without_values_are_read_as_nulls(tmp_path: Path) -> None:
    """Java writes a column of type unknown as Avro's null, in no union."""
    path = tmp_path / "f.avro"
    fields = [{"name": "i", "type": "int", "field-id": 1}, {"name": "u", "type": "null", "field-id": 2}]
    with path.open("wb") as f:
        fastavro.writer(f, {"type": "record", "name": "table", "fields": fields}, [{"i": 5, "u": None}])
    schema = Schema((NestedField(1, "i", IntegerType(), True), NestedField(2, "u", UnknownType())))
    assert rows(content_file(path, file_format="AVRO"), schema) == [{"i": 5, "u": None}]
    promoted = Schema((schema.fields[0], NestedField(2, "u", ListType(3, LongType()))))
    assert rows(content_file(path, file_format="AVRO"), promoted) == [{"i": 5, "u": None}]


def test_avro_maps_with_a_key_twice_are_refused(tmp_path: Path) -> None:
    twice = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    schema = Schema((NestedField(1, "m", MapType(2, StringType(), 3, LongType())),))
    with pytest.raises(ValidationError, match="key twice"):
        write(pa.table({"m": twice}), tmp_path, "avro", schema)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
