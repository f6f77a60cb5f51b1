"""Metrics of variants: counts, bytes, and bounds that other engines write. Spec: M4, M8 Bounds for Variant, T1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import icecore
from icecore.engine.data.write.conform import conform
from icecore.engine.formats.entry_arrow import row_to_file
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, LongType, NestedField, StringType, StructType, VariantType
from icecore.projections.stored_plans.scan_task_json import content_file_from_json, content_file_to_json

from .variants import Shape, Value, decoded, encode, metadata, names_of, shredded

SCHEMA = Schema((
    NestedField(1, "id", LongType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "typed_value", LongType()),
    NestedField(4, "v.value", StringType()),
))  # fmt: skip


def live_files(table: icecore.Table) -> list[ContentFile]:
    """The data files of a table, with all that their manifests say of them, by path."""
    rows = [r for entries in table.live_entries() for r in entries.to_pylist()]
    found = [row_to_file(r, table.spec(), table.schema()) for r in rows if r["content"] == 0]
    return sorted(found, key=lambda f: f.file_path)


VALUES: list[Value | None] = [
    ("object", {"id": ("int64", 500), "typed_value": ("int64", -500), "s": ("string", "x")}),
    None,
    ("null", None),
    ("object", {"id": ("int64", 900), "typed_value": ("string", "n/a")}),
]
SHAPE = Shape("object", {"id": Shape("int64"), "typed_value": Shape("int64"), "s": Shape("string")})


def shredded_file(path: Path, *, ids: bool) -> pa.Table:
    """A file whose variant is shredded into columns that are called like columns of the table."""
    columns = {
        "id": pa.array([1, 2, 3, 4]),
        "v": shredded(VALUES, SHAPE),
        "typed_value": pa.array([7, None, 9, 8]),
        "v.value": pa.array(["a", "b", "c", None]),
    }
    fields = [
        pa.field(n, c.type, metadata={"PARQUET:field_id": str(i)} if ids else None)
        for i, (n, c) in enumerate(columns.items(), start=1)
    ]
    table = pa.table(list(columns.values()), schema=pa.schema(fields))
    pq.write_table(table, path, compression="none")
    return table


@pytest.mark.parametrize("ids", [True, False])
def test_m4_metrics_of_a_shredded_file_that_is_added(catalog: icecore.Catalog, tmp_path: Path, ids: bool) -> None:
    """Counts are of variants, not of the columns they are shredded into, whose statistics go to no column's bounds."""
    path = tmp_path / "f.parquet"
    shredded_file(path, ids=ids)
    table = catalog.create_table("ns.t", SCHEMA, format_version=3)
    table.add_files([f"file://{path}"])
    (file,) = live_files(table)
    assert file.value_counts == {1: 4, 2: 4, 3: 4, 4: 4}
    assert file.null_value_counts == {1: 0, 2: 1, 3: 1, 4: 1}
    assert file.lower_bounds == {1: (1).to_bytes(8, "little"), 3: (7).to_bytes(8, "little"), 4: b"a"}
    assert file.upper_bounds == {1: (4).to_bytes(8, "little"), 3: (9).to_bytes(8, "little"), 4: b"c"}
    chunks = pq.ParquetFile(path).metadata.row_group(0)
    sizes = [chunks.column(i).total_compressed_size for i in range(chunks.num_columns)]
    assert file.column_sizes == {1: sizes[0], 2: sum(sizes[1:-2]), 3: sizes[-2], 4: sizes[-1]}
    assert [decoded(v) for v in table.scan().to_arrow().column("v").to_pylist()] == VALUES
    assert table.scan(row_filter="v IS NULL").to_arrow().column("id").to_pylist() == [2]
    assert table.scan(row_filter="v IS NOT NULL AND id > 1").count() == 2
    assert table.scan(row_filter="id > 4").plan_files() == []
    assert len(table.scan(row_filter="id = 4 AND typed_value = 8").to_arrow()) == 1


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_rewrite_of_a_shredded_file_keeps_its_values(
    catalog: icecore.Catalog, tmp_path: Path, file_format: str
) -> None:
    """Copy on write: we write variants whole, with counts and, since nothing is shredded, without bounds."""
    path = tmp_path / "f.parquet"
    shredded_file(path, ids=True)
    table = catalog.create_table("ns.t", SCHEMA, format_version=3, properties={"write.format.default": file_format})
    table.add_files([f"file://{path}"])
    table.delete("id = 3")
    assert [decoded(v) for v in table.scan().to_arrow().column("v").to_pylist()] == [VALUES[0], None, VALUES[3]]
    (file,) = live_files(table)
    assert file.file_path != f"file://{path}"
    assert (file.value_counts or {})[2] == 3
    assert (file.null_value_counts or {})[2] == 1
    assert 2 not in (file.lower_bounds or {})


def test_m4_counts_of_nested_variants(catalog: icecore.Catalog) -> None:
    """In structs and lists; a variant that is null inside counts as no null."""
    nested = Schema((
        NestedField(1, "s", StructType((NestedField(2, "v", VariantType()),))),
        NestedField(3, "l", ListType(4, VariantType())),
    ))  # fmt: skip
    null = {"metadata": metadata([]), "value": b"\x00"}
    rows = [{"s": {"v": null}, "l": [null, None, null]}, {"s": None, "l": None}, {"s": {"v": None}, "l": []}]
    table = catalog.create_table("ns.t", nested, format_version=3)
    table.append(conform(pa.Table.from_pylist(rows), nested))
    (file,) = live_files(table)
    assert file.value_counts == {3: 3, 4: 3}
    assert file.null_value_counts == {3: 2, 4: 1}
    assert (file.lower_bounds, file.upper_bounds) == ({}, {})
    assert table.scan().to_arrow().to_pylist() == rows


def variant_bounds(low: Value, high: Value) -> tuple[bytes, bytes]:
    """Bounds of two fields as the spec serializes them: metadata, then an object by normalized JSON path."""
    out = []
    for bound in (low, high):
        value: Value = ("object", {"$['id']": bound, "$['user.name']": ("string", "n")})
        names = sorted(names_of(value))
        out.append(metadata(names) + encode(value, names))
    return out[0], out[1]


LOW, HIGH = variant_bounds(("int64", 1), ("int64", 900))
BOUNDS = [(LOW, HIGH), (b"", b"\xff\x00garbage"), (LOW, b"\x01\x00\x00")]


def bounded_file(table: icecore.Table, number: int, low: bytes, high: bytes) -> ContentFile:
    path = Path(table.location().removeprefix("file://")) / "data" / f"f{number}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = shredded_file(path, ids=True)
    return ContentFile(
        DataFileContent.DATA, f"file://{path}", FileFormat.PARQUET, 0, (), len(rows), path.stat().st_size,
        value_counts={1: 4, 2: 4}, null_value_counts={1: 0, 2: 1},
        lower_bounds={1: (1).to_bytes(8, "little"), 2: low}, upper_bounds={1: (4).to_bytes(8, "little"), 2: high},
    )  # fmt: skip


def bounds_of(table: icecore.Table) -> list[tuple[Any, Any]]:
    return [((f.lower_bounds or {}).get(2), (f.upper_bounds or {}).get(2)) for f in live_files(table)]


def test_m8_bounds_of_variants_are_carried_byte_for_byte(catalog: icecore.Catalog) -> None:
    """Through manifests written and rewritten, plans, a delete beside them, and even where they are no variants."""
    table = catalog.create_table("ns.t", SCHEMA, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    for i, (low, high) in enumerate(BOUNDS):
        table.append_files([bounded_file(table, i, low, high)])
    assert bounds_of(table) == BOUNDS
    table.rewrite_manifests()
    assert bounds_of(table) == BOUNDS
    (listed,) = table.manifests()
    with Path(listed.manifest.manifest_path.removeprefix("file://")).open("rb") as f:
        entries = [e["data_file"] for e in fastavro.reader(f)]
    written = [
        {b["key"]: b["value"] for b in e["lower_bounds"]}[2] for e in sorted(entries, key=lambda e: e["file_path"])
    ]
    assert written == [low for low, _ in BOUNDS]
    for row_filter, expected in (("v IS NULL", 3), ("v IS NOT NULL", 9), ("id = 4", 3), ("v IS NULL OR id > 100", 3)):
        assert len(table.scan(row_filter=row_filter).to_arrow()) == expected, row_filter
    table.delete("id = 2")
    assert bounds_of(table) == BOUNDS
    assert len(table.scan().to_arrow()) == 9
    for file in live_files(table):
        told = content_file_to_json(file, spec=table.spec(), schema=SCHEMA)
        assert content_file_from_json(orjson.loads(orjson.dumps(told)), specs=table.specs(), schema=SCHEMA) == file
