"""Where data and delete files go: by partition, or spread by hash bits as Java and PyIceberg name them."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from core_tables import adopted_copy
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.properties.data_locations import DataLocations

OBJECTS = "write.object-storage.enabled"
PARTITIONED = "write.object-storage.partitioned-paths"
PROVIDER = "write.location-provider.impl"
SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])
BITS = "[01]{4}/[01]{4}/[01]{4}/[01]{8}"


@given(st.text("abc/é-._0", min_size=1), st.sampled_from(["", "s=a", "s=%C3%A9"]), st.booleans(), st.booleans())
def test_names_are_those_of_pyiceberg(name: str, partition: str, is_hashed: bool, has_partitions: bool) -> None:
    """For any name, with and without partitions in the path, by folders or by hash bits."""
    properties = {OBJECTS: str(is_hashed).lower(), PARTITIONED: str(has_partitions).lower()}
    theirs = load_location_provider("s3://bucket/t/", properties)
    key = None
    if partition:
        value = {"s=a": "a", "s=%C3%A9": "é"}[partition]
        spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "s"))
        schema = Schema(NestedField(1, "s", StringType(), required=False))
        key = PartitionKey([PartitionFieldValue(spec.fields[0], value)], spec, schema)
    expected = theirs.new_data_location(name, key)
    assert DataLocations.of("s3://bucket/t/", properties).new(name, partition) == expected


def test_a_value_longer_than_a_folders_name_has_a_folder(catalog: icecore.Catalog) -> None:
    """Cut between escapes, and told from others by a hash; rows are found by the whole value."""
    values = ["x" * 300, "x" * 299 + "y", "é" * 200, "x" * 253]
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=["s"])
    table.append([{"id": n, "s": s} for n, s in enumerate(values)])
    folders = [path.split("/")[-2] for path in table.files()["file_path"].to_pylist()]
    assert len(set(folders)) == 4 and max(map(len, folders)) == 255
    assert [table.scan(f"s = '{s}'").to_arrow()["id"].to_pylist() for s in values] == [[0], [1], [2], [3]]


@pytest.mark.parametrize(
    "name, bits",
    [
        ("a", "0101/0110/1001/10110010"),
        ("b", "1110/0111/1110/00000011"),
        ("c", "0010/1101/0110/01011111"),
        ("d", "1001/0001/0100/01110011"),
    ],
)
def test_names_are_those_of_javas_tests(name: str, bits: str) -> None:
    """Hashes that Java's TestLocationProvider expects; outside of the table's folder its last two names come along."""
    assert DataLocations.of("/db/t", {OBJECTS: "true"}).new(name) == f"/db/t/data/{bits}/{name}"
    assert (
        DataLocations.of("/db/t", {OBJECTS: "true", PARTITIONED: "false"})
        .new("test.parquet")
        .endswith("/data/0110/1010/0011/11101000-test.parquet")
    )
    outside = DataLocations.of("/db/t", {OBJECTS: "true", "write.data.path": "s3://objects/"})
    assert outside.new(name) == f"s3://objects/{bits}/db/t/{name}"


@pytest.mark.parametrize(
    "properties, folder",
    [
        ({}, "/db/t/data"),
        ({"write.folder-storage.path": "/f"}, "/f"),
        ({"write.object-storage.path": "/o"}, "/db/t/data"),
        ({"write.object-storage.path": "/o", OBJECTS: "true"}, "/o"),
        ({"write.object-storage.path": "/o", "write.folder-storage.path": "/f", OBJECTS: "true"}, "/o"),
        ({"write.object-storage.path": "/o", "write.data.path": "/d/", OBJECTS: "true"}, "/d"),
    ],
)
def test_older_names_of_the_data_path_count_in_javas_order(properties: dict[str, str], folder: str) -> None:
    assert DataLocations.of("/db/t", properties).folder == folder


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitioned", ["true", "false"])
def test_all_files_of_a_table_are_spread(catalog: icecore.Catalog, version: int, partitioned: str) -> None:
    """Data files and delete files, of every verb that writes some; all are read, and no orphan is among them."""
    properties = {OBJECTS: "true", PARTITIONED: partitioned, "write.delete.mode": "merge-on-read"}
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=["s"], properties=properties, format_version=version)
    table.append([{"id": i, "s": "a"} for i in range(4)])
    table.overwrite([{"id": 9, "s": "b"}], "id = 3")
    table.delete("id = 1")
    table.delete_keys([{"id": 2, "s": "a"}], ["id", "s"])
    inside = f"{BITS}/s=[ab]/" if partitioned == "true" else f"{BITS}-"
    tasks = list(table.scan().plan_files())
    paths = {f.file_path for t in tasks for f in (t.file, *t.delete_files)}
    assert len(paths) >= 3
    for path in paths:
        # A file of deletion vectors is of no partition.
        wanted = f"{BITS}{'/' if partitioned == 'true' else '-'}" if path.endswith(".puffin") else inside
        assert re.fullmatch(rf"{re.escape(table.location())}/data/{wanted}[^/]+", path), path
    table.rewrite_data_files(options={"rewrite-all": "true"})
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 9]
    assert not table.maintenance.remove_orphan_files(dry_run=True).orphan_file_locations
    assert catalog.verify().ok


def test_another_location_provider_is_refused_when_set_and_when_written_with(catalog: icecore.Catalog) -> None:
    """An adopted table that names one is read; the first write says what to do."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append([{"id": 1, "s": "a"}])
    with pytest.raises(ValidationError, match=rf"{PROVIDER} must be absent"):
        table.set_properties({PROVIDER: "com.example.Mine"})
    adopted = adopted_copy(catalog, table, {PROVIDER: "com.example.Mine"})
    assert adopted.scan().count() == 1
    position = catalog.position
    with pytest.raises(ValidationError, match=rf"{PROVIDER} is 'com.example.Mine': .*remove the property"):
        adopted.append([{"id": 2, "s": "b"}])
    assert catalog.position == position
    adopted.remove_properties(PROVIDER)
    adopted.append([{"id": 2, "s": "b"}])
    assert adopted.scan().count() == 2
