"""Types of v3 in data files: variants, shapes, nanoseconds, unknown. Spec: T1 to T3, M8, Appendix A."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import icecore
from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.data.parquet.parquet_writer import WkbType
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import UNPARTITIONED
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    Type,
    UnknownType,
    VariantType,
)
from icecore.engine.storage.file_io import Storage

from .reading import content_file, rows

ALL_FORMATS = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
VARIANT = pa.struct([pa.field("value", pa.large_binary()), pa.field("metadata", pa.binary())])
FIVE = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}
OBJECT = {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x07"}
SCHEMA = Schema((
    NestedField(1, "id", LongType(), True),
    NestedField(2, "v", VariantType()),
    NestedField(3, "g", GeometryType()),
    NestedField(4, "m", GeometryType("EPSG:3857")),
    NestedField(5, "p", GeographyType()),
    NestedField(6, "k", GeographyType("srid:4326", "karney"), True),
    NestedField(7, "s", StructType((NestedField(8, "v", VariantType(), True), NestedField(9, "u", UnknownType())))),
    NestedField(10, "l", ListType(11, GeometryType())),
    NestedField(12, "w", MapType(13, StringType(), 14, VariantType())),
    NestedField(15, "u", UnknownType()),
    NestedField(16, "ns", TimestampNanoType()),
    NestedField(17, "nz", TimestamptzNanoType()),
))  # fmt: skip


def point(*values: float, kind: int = 1) -> bytes:
    return struct.pack(f"<BI{len(values)}d", 1, kind, *values)


def line(*points: tuple[float, float]) -> bytes:
    return struct.pack("<BII", 1, 2, len(points)) + b"".join(struct.pack("<dd", *p) for p in points)


def polygon(*rings: list[tuple[float, float]]) -> bytes:
    data = struct.pack(">BII", 0, 3, len(rings))
    return data + b"".join(struct.pack(">I", len(r)) + b"".join(struct.pack(">dd", *p) for p in r) for r in rings)


def collection(kind: int, *shapes: bytes) -> bytes:
    return struct.pack("<BII", 1, kind, len(shapes)) + b"".join(shapes)


def data() -> pa.Table:
    return pa.table({
        "id": [1, 2, 3],
        "v": pa.array([FIVE, None, OBJECT], VARIANT),
        "g": [point(1, 2), line((0, 5), (7, -1)), None],
        "m": pa.array([point(9, 9), None, None], pa.large_binary()),
        "p": [point(1, 2), None, point(-170, 3)],
        "k": [point(0, 0)] * 3,
        "s": pa.array([{"v": FIVE}, None, {"v": OBJECT}], pa.struct([("v", VARIANT)])),
        "l": [[point(0, 0), None], [], None],
        "w": pa.array([[("a", FIVE), ("b", None)], None, []], pa.map_(pa.string(), VARIANT)),
        "ns": pa.array([1, -(10**9), None], pa.timestamp("ns")),
        "nz": pa.array([None, 2**63 - 1, -(9 * 10**18)], pa.timestamp("ns", "UTC")),
    })  # fmt: skip


def write(table: pa.Table, folder: Path, schema: Schema = SCHEMA, file_format: str = "parquet") -> ContentFile:
    (file,) = write_data_files(
        table,
        schema=schema,
        spec=UNPARTITIONED,
        location=f"file://{folder}",
        storage=Storage(durable=False),
        properties={"write.format.default": file_format},
        file_prefix="f",
    )
    return file


def local(file: ContentFile) -> str:
    return file.file_path.removeprefix("file://")


def parts(batches: list[dict[str, Any]], name: str) -> list[Any]:
    return [r[name] for r in batches]


@ALL_FORMATS
def test_t1_every_type_of_v3_comes_back(tmp_path: Path, file_format: str) -> None:
    """Variants as their two binaries, shapes as WKB, nanoseconds whole, unknown as nulls of no column in the file."""
    file = write(data(), tmp_path, file_format=file_format)
    given = conform(data(), SCHEMA)
    for name in SCHEMA.fields:
        projection = Schema((name,))
        if name.name in ("ns", "nz"):
            continue
        assert rows(file, SCHEMA, projection=projection) == given.select([name.name]).to_pylist(), name
    assert file.value_counts is not None
    assert {9, 15} & set(file.value_counts) == set()


@ALL_FORMATS
def test_t1_nanoseconds_are_kept(tmp_path: Path, file_format: str) -> None:
    schema = Schema(SCHEMA.fields[-2:])
    file = write(data().select(["ns", "nz"]), tmp_path, schema, file_format)
    text = Schema((NestedField(16, "ns", TimestampNanoType()),))
    found = [r["ns"] for r in rows(file, schema, projection=text)]
    assert [None if v is None else v.value for v in found] == [1, -(10**9), None]
    assert file.lower_bounds is not None
    assert file.upper_bounds is not None
    assert struct.unpack("<qq", file.lower_bounds[16] + file.upper_bounds[16]) == (-(10**9), 1)
    assert struct.unpack("<qq", file.lower_bounds[17] + file.upper_bounds[17]) == (-9 * 10**18, 2**63 - 1)


def test_parquet_says_what_variants_and_shapes_are(tmp_path: Path) -> None:
    """The logical types of the spec, as pyarrow's and DuckDB's own decoders of the footer see them."""
    path = local(write(data(), tmp_path))
    schema = str(pq.ParquetFile(path).schema)
    for text in (
        "optional group field_id=2 v (Variant(1)) {\n    required binary field_id=-1 metadata;",
        "optional binary field_id=3 g (Geometry(crs=));",
        "optional binary field_id=4 m (Geometry(crs=EPSG:3857));",
        "optional binary field_id=5 p (Geography(crs=, algorithm=spherical));",
        "required binary field_id=6 k (Geography(crs=srid:4326, algorithm=karney));",
        "required group field_id=8 v (Variant(1)) {",
        "optional binary field_id=11 element (Geometry(crs=));",
        "optional group field_id=14 value (Variant(1)) {",
        "field_id=16 ns (Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds",
    ):
        assert text in schema, text
    assert pq.ParquetFile(path).metadata.row_group(0).column(3).geo_statistics.xmax == 7.0
    columns = "typeof(v), v::VARCHAR, typeof(g), g::VARCHAR, s.v::VARCHAR, w['a']::VARCHAR"
    assert duckdb.connect().execute(f"SELECT {columns} FROM '{path}' ORDER BY id").fetchall() == [
        ("VARIANT", "5", "GEOMETRY", "POINT (1 2)", "5", "5"),
        ("VARIANT", None, "GEOMETRY", "LINESTRING (0 5, 7 -1)", None, None),
        ("VARIANT", "{'a': 7}", "GEOMETRY", None, "{'a': 7}", None),
    ]


def test_a_variant_must_be_whole(tmp_path: Path) -> None:
    schema = Schema((NestedField(1, "v", VariantType()),))
    with pytest.raises(ValidationError, match=r"'v'.*no metadata"):
        write(pa.table({"v": pa.array([{"value": b"\x00"}], VARIANT)}), tmp_path, schema)
    with pytest.raises(ValidationError, match="'v': the table has variant"):
        write(pa.table({"v": [{"a": 1}]}), tmp_path, schema)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_only_parquet_may_shred_variants(tmp_path: Path) -> None:
    """Appendix A has no shredding for ORC and Avro."""
    t = pa.struct([*VARIANT, pa.field("typed_value", pa.int64())])
    path = tmp_path / "f.orc"
    pyarrow.orc.write_table(pa.table({"v": pa.array([FIVE], t)}), path)
    with pytest.raises(CorruptFileError, match=r"f\.orc: column 'v' is a shredded variant"):
        rows(content_file(path, file_format="ORC"), Schema((NestedField(1, "v", VariantType()),)))


POINTS = [(0.0, 0.0), (4.0, 0.0), (4.0, 3.0), (0.0, 0.0)]
NAN = math.nan
BOXES: list[tuple[list[bytes | None], tuple[float, ...] | None, tuple[float, ...] | None]] = [
    ([point(1, 2), point(-3, 7), None], (-3, 2), (1, 7)),
    ([line((0, 5), (7, -1))], (0, -1), (7, 5)),
    ([polygon(POINTS, [(1, 1), (2, 1), (1, -9), (1, 1)])], (0, -9), (4, 3)),
    ([collection(4, point(1, 1), point(2, 5))], (1, 1), (2, 5)),
    ([collection(7, point(1, 1), collection(6, polygon(POINTS)), collection(5, line((9, 9), (8, 8))))], (0, 0), (9, 9)),
    ([point(1, 2, 3, kind=1001), point(0, 5, 1, kind=1001)], (0, 2, 1), (1, 5, 3)),
    ([point(1, 2, 8, kind=2001)], (1, 2, NAN, 8), (1, 2, NAN, 8)),
    ([point(1, 2, 3, 8, kind=3001), point(1, 2)], (1, 2, 3, 8), (1, 2, 3, 8)),
    ([point(1, 2, 3, kind=0x80000001)], (1, 2, 3), (1, 2, 3)),
    ([struct.pack("<BIIdd", 1, 0x20000001, 4326, 1, 2)], (1, 2), (1, 2)),
    ([point(1, NAN), point(3, 4)], (1, 4), (3, 4)),
    ([point(1, NAN)], None, None),
    ([point(NAN, NAN)], None, None),
    ([line()], None, None),
    ([None], None, None),
]


@pytest.mark.parametrize("shapes, low, high", BOXES)
def test_m8_bounds_of_geometries(
    tmp_path: Path, shapes: list[bytes | None], low: tuple[float, ...] | None, high: tuple[float, ...] | None
) -> None:
    """x:y[:z[:m]] as little-endian doubles, NaN left out; no box without x or y."""
    schema = Schema((NestedField(1, "g", GeometryType()), NestedField(2, "i", LongType())))
    file = write(pa.table({"g": pa.array(shapes, pa.binary()), "i": range(len(shapes))}), tmp_path, schema)
    for found, expected in ((file.lower_bounds, low), (file.upper_bounds, high)):
        assert found is not None
        assert found.get(1) == (None if expected is None else struct.pack(f"<{len(expected)}d", *expected))
    assert file.null_value_counts is not None
    assert file.null_value_counts[1] == shapes.count(None)


def test_m8_geographies_have_bounds_of_points_only(tmp_path: Path) -> None:
    """The shortest way between two points leaves the box around them."""
    schema = Schema((NestedField(1, "g", GeographyType()),))
    file = write(pa.table({"g": [point(-170, 3), collection(4, point(1, 2))]}), tmp_path / "a", schema)
    assert file.lower_bounds == {1: struct.pack("<dd", -170, 2)}
    assert file.upper_bounds == {1: struct.pack("<dd", 1, 3)}
    file = write(pa.table({"g": [point(-170, 3), line((0, 60), (90, 60))]}), tmp_path / "b", schema)
    assert (file.lower_bounds, file.upper_bounds) == ({}, {})


@pytest.mark.parametrize(
    "shape",
    [
        b"", b"POINT (1 2)", point(1, 2)[:-1], point(1, 2) + b"\x00", point(1, 2, kind=99), b"\x02\x00",
        line((1, 2))[:-1], struct.pack("<BII", 1, 2, 2**31), collection(7, b"", b""),
    ],
)  # fmt: skip
def test_bytes_that_are_no_shape_are_refused(tmp_path: Path, shape: bytes) -> None:
    schema = Schema((NestedField(1, "g", GeometryType()),))
    with pytest.raises(ValidationError, match="column 'g'"):
        write(pa.table({"g": [shape]}), tmp_path, schema)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    "metadata, expected",
    [
        ({}, GeometryType()),
        ({"crs": "EPSG:3857"}, GeometryType("EPSG:3857")),
        ({"crs": {"type": "X", "id": {"authority": "EPSG", "code": 31370}}}, GeometryType("EPSG:31370")),
        ({"edges": "spherical"}, GeographyType()),
        ({"edges": "vincenty", "crs": "OGC:CRS83"}, GeographyType("OGC:CRS83", "vincenty")),
    ],
)
def test_geoarrow_columns_become_shapes(metadata: dict[str, Any], expected: Type) -> None:
    t = WkbType(orjson.dumps(metadata))
    plain = pa.field("g", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb",
                                                 "ARROW:extension:metadata": orjson.dumps(metadata)})  # fmt: skip
    schema = pa.schema([("g", t), plain.with_name("h"), ("l", pa.list_(pa.field("element", t)))])
    found = arrow_to_schema(schema, format_version=3)
    assert [f.field_type for f in found.fields[:2]] == [expected, expected]
    assert found.find_field("l.element").field_type == expected
    with pytest.raises(ValidationError, match="until v3"):
        arrow_to_schema(schema, format_version=2)
    shapes = pa.ExtensionArray.from_storage(t, pa.array([point(1, 2), None]))
    assert conform(pa.table({"g": shapes}), Schema(found.fields[:1])).column("g").to_pylist() == [point(1, 2), None]


def test_variants_of_arrow_become_variants() -> None:
    field = pa.field("v", VARIANT, metadata={"ARROW:extension:name": "arrow.parquet.variant"})
    assert arrow_to_schema(pa.schema([field]), format_version=3).fields[0].field_type == VariantType()


@ALL_FORMATS
def test_t1_a_v3_table_holds_them(catalog: icecore.Catalog, file_format: str) -> None:
    """Through the catalog: appended, scanned with a filter beside them, rewritten by a delete."""
    table = catalog.create_table("ns.t", SCHEMA, format_version=3, properties={"write.format.default": file_format})
    table.append(data())
    names = [f.name for f in SCHEMA.fields if f.name not in ("ns", "nz")]
    given = conform(data(), SCHEMA).select(names).to_pylist()
    assert table.scan(selected_fields=tuple(names)).to_arrow().to_pylist() == given
    found = table.scan(row_filter="v IS NULL AND g IS NOT NULL", selected_fields=tuple(names)).to_arrow()
    assert found.to_pylist() == given[1:2]
    table.delete("id = 2")
    assert table.scan(selected_fields=tuple(names)).to_arrow().to_pylist() == [given[0], given[2]]
