"""ORC data files: types, codecs, stripes, times. Spec: Appendix A."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from icecore.engine.data.arrow.arrow_values import to_array
from icecore.engine.data.orc.orc_tail import read_tail
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    LongType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from .reading import rows
from .writing import EVERY, SCHEMA, local, numbered, write


def test_orc_types_have_the_attributes_of_the_spec(tmp_path: Path) -> None:
    (file,) = write(pa.table({"bo": [True]}), tmp_path, "orc", EVERY)
    found = {f.name: (str(f.type), {k.decode(): v.decode() for k, v in f.metadata.items()})
             for f in pyarrow.orc.ORCFile(local(file)).schema}  # fmt: skip
    expected = {
        "bo": ("bool", {"iceberg.required": "true"}),
        "l": ("int64", {"iceberg.long-type": "LONG"}),
        "t": ("int64", {"iceberg.long-type": "TIME"}),
        "ts": ("timestamp[ns]", {"iceberg.timestamp-unit": "MICROS"}),
        "tz": ("timestamp[ns, tz=UTC]", {"iceberg.timestamp-unit": "MICROS"}),
        "ns": ("timestamp[ns]", {"iceberg.timestamp-unit": "NANOS"}),
        "nz": ("timestamp[ns, tz=UTC]", {"iceberg.timestamp-unit": "NANOS"}),
        "dec": ("decimal128(9, 2)", {}),
        "u": ("binary", {"iceberg.binary-type": "UUID"}),
        "fx": ("binary", {"iceberg.binary-type": "FIXED", "iceberg.length": "3"}),
        "bi": ("binary", {"iceberg.binary-type": "BINARY"}),
    }
    for name, (t, attributes) in expected.items():
        ids = {"iceberg.id": str(EVERY.find_field(name).field_id), "iceberg.required": "false"}
        assert found[name] == (t, {**ids, **attributes}), name
    nested = pyarrow.orc.ORCFile(local(file)).schema
    inner = nested.field("mi").type.item_field
    assert inner.metadata[b"iceberg.id"] == b"26"
    assert inner.type.field(0).metadata[b"iceberg.id"] == b"27"
    assert nested.field("mi").type.key_field.metadata[b"iceberg.id"] == b"25"
    assert nested.field("li").type.value_field.metadata == {b"iceberg.id": b"20", b"iceberg.required": b"true"}


@pytest.mark.parametrize("codec", ["zlib", "GZIP", "zstd", "snappy", "lz4", "none"])
def test_orc_codecs(tmp_path: Path, codec: str) -> None:
    """The tail is understood under every codec, so the stripes are known."""
    properties = {"write.orc.compression-codec": codec, "write.orc.stripe-size-bytes": "65536"}
    (file,) = write(numbered(60_000), tmp_path, "orc", properties=properties)
    orc = pyarrow.orc.ORCFile(local(file))
    assert orc.compression.lower().removeprefix("un").removesuffix("compressed") in (
        codec.replace("GZIP", "zlib"),
        "",
        "none",
    )
    with pa.memory_map(str(local(file))) as source:
        stripes = read_tail(source, "f").stripes
    assert len(stripes) == orc.nstripes
    assert file.split_offsets == tuple(s.offset for s in stripes)
    assert sum(s.rows for s in stripes) == 60_000
    assert [r["id"] for r in rows(file, SCHEMA)] == list(range(60_000))


def test_orc_stripes_belong_to_the_range_where_they_start(tmp_path: Path) -> None:
    properties = {"write.orc.stripe-size-bytes": "65536", "write.orc.compression-codec": "none"}
    (file,) = write(numbered(100_000), tmp_path, "orc", properties=properties)
    assert file.split_offsets is not None
    assert len(file.split_offsets) > 2
    ends = [*file.split_offsets[1:], file.file_size_in_bytes]
    starts = [0, *file.split_offsets[1:]]
    schema = Schema((SCHEMA.fields[0], NestedField(2147483645, "_pos", LongType())))
    parts = [rows(file, schema, span=(a, b - a)) for a, b in zip(starts, ends, strict=True)]
    assert all(parts)
    assert [r for p in parts for r in p] == [{"id": i, "_pos": i} for i in range(100_000)]
    counts = [
        len(rows(file, SCHEMA, span=(a, b - a), projection=Schema(()))) for a, b in zip(starts, ends, strict=True)
    ]
    assert counts == [len(p) for p in parts]


@pytest.mark.parametrize("t, value, text", [
    (TimestampType(), -1, "1969-12-31T23:59:59.999999"), (TimestamptzType(), -1_500_000, "1969-12-31T23:59:58.500000"),
    (TimestampNanoType(), -1, "1969-12-31T23:59:59.999999999"), (TimestamptzNanoType(), -(2**63), "1677-09-21"),
])  # fmt: skip
def test_orc_refuses_times_that_its_readers_disagree_on(
    tmp_path: Path, t: PrimitiveType, value: int, text: str
) -> None:
    schema = Schema((NestedField(1, "s", StructType((NestedField(2, "t", t),))),))
    data = pa.table([pa.StructArray.from_arrays([to_array(t, [None, 0, value])], names=["t"])], names=["s"])
    with pytest.raises(ValidationError, match=rf"column 's\.t': {text}.* can't be written to ORC"):
        write(data, tmp_path, "orc", schema)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
