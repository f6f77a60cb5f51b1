"""Replacing a table: a new shape over the old history, as Java's buildReplacement makes it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from core_tables import ids_of, make_table, peer_ids, rows

import icecore
from icecore.engine.errors import NoSuchTableError, ValidationError
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import StructType

NEW = pa.schema([("extra", pa.int32()), ("id", pa.int64()), ("s", pa.struct([("a", pa.string())]))])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_uuid_history_and_snapshots_stay(catalog: icecore.Catalog, version: int) -> None:
    """Main goes, the snapshot can still be read, ids of columns of the same name stay and others are new (T4, T8)."""
    table = make_table(catalog, format_version=version, partition_spec=["name"], properties={"a": "1", "b": "2"})
    table.append(rows(1, 2))
    old, snapshot = table.metadata, table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_tag(snapshot, "v1").commit()
    new = catalog.replace_table(
        "ns.t", NEW, partition_spec=["bucket(4, id)"], sort_order=["extra"], properties={"b": "3"}
    )
    metadata = new.metadata
    assert metadata.table_uuid == old.table_uuid
    assert metadata.location == old.location
    assert metadata.current_snapshot_id is None
    assert [s.snapshot_id for s in metadata.snapshots] == [snapshot]
    assert set(metadata.refs) == {"v1"}
    assert metadata.snapshot_log == old.snapshot_log
    assert (metadata.properties["a"], metadata.properties["b"]) == ("1", "3")
    ids = {f.name: f.field_id for f in new.schema().fields}
    assert ids == {"extra": 3, "id": 1, "s": 4}
    inner = new.schema().find_field("s").field_type
    assert isinstance(inner, StructType)
    assert inner.fields[0].field_id == 5
    assert metadata.last_column_id == 5
    real = [f for f in new.spec().fields if str(f.transform) != "void"]
    assert [(f.source_ids, f.field_id) for f in real] == [((1,), 1001)]
    assert len(new.spec().fields) == (2 if version == 1 else 1)
    assert [f.source_ids for f in new.sort_order().fields] == [(3,)]
    assert ids_of(new) == []
    assert ids_of(new, ref="v1") == [1, 2]
    new.append([{"id": 7, "extra": 1, "s": {"a": "x"}}])
    assert new.snapshots()[-1].parent_snapshot_id is None
    assert ids_of(new) == [7]
    assert ids_of(new, ref="v1") == [1, 2]
    if version < 3:
        assert peer_ids(catalog.path) == [7]
    assert catalog.verify().problems == ()
    catalog.rebuild()
    assert catalog.load_table("ns.t").metadata == new.refresh().metadata


def test_equal_parts_are_used_again(catalog: icecore.Catalog) -> None:
    """Replacing by the same shape adds no schema, spec or order; a partition field keeps its id (PT2)."""
    table = make_table(catalog, partition_spec=["name"], sort_order=["id"])
    before = table.metadata
    same = catalog.replace_table("ns.t", before.schema(), partition_spec=["name"], sort_order=["id"]).metadata
    assert (same.schemas, same.partition_specs, same.sort_orders) == (
        before.schemas,
        before.partition_specs,
        before.sort_orders,
    )
    wider = catalog.replace_table("ns.t", before.schema(), partition_spec=["id", "name"])
    assert [f.field_id for f in wider.spec().fields] == [1001, 1000]


def test_create_or_replace(catalog: icecore.Catalog) -> None:
    """The first call makes the table, the second replaces it, in one event each; a version is only raised."""
    first = catalog.create_or_replace_table("ns.t", NEW)
    position = catalog.position
    second = catalog.create_or_replace_table("ns.t", pa.schema([("x", pa.int64())]), format_version=3, message="why")
    assert catalog.position == position + 1
    assert second.metadata.table_uuid == first.metadata.table_uuid
    assert second.format_version == 3
    with pytest.raises(ValidationError, match="downgrade"):
        catalog.replace_table("ns.t", NEW, format_version=2)
    with pytest.raises(NoSuchTableError):
        catalog.replace_table("ns.nope", NEW)


def test_t7_another_type_is_another_column(catalog: icecore.Catalog) -> None:
    """T7: a name that comes back with another type gets a new id, and what is inside of it too; old rows stay read."""
    old = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int32())])), ("l", pa.list_(pa.int32()))])
    table = catalog.create_table("ns.t", old, partition_spec=["id"])
    table.append([{"id": 1, "s": {"a": 2}, "l": [3]}])
    snapshot = table.snapshots()[0].snapshot_id
    new = pa.schema([("id", pa.string()), ("s", pa.list_(pa.struct([("a", pa.int32())]))), ("l", pa.list_(pa.int32()))])
    table = catalog.replace_table("ns.t", new, partition_spec=["id"])
    before = {f.field_id for s in table.schemas().values() if s.schema_id == 0 for f in s.fields}
    assert {f.name for f in table.schema().fields if f.field_id in before} == {"l"}
    table.append([{"id": "x", "s": [{"a": 2}], "l": [4]}])
    assert table.scan("id = 'x'").to_arrow()["l"].to_pylist() == [[4]]
    assert table.scan("id = 1", snapshot_id=snapshot).to_arrow().to_pylist() == [{"id": 1, "s": {"a": 2}, "l": [3]}]


def test_p2_the_name_mapping_follows(catalog: icecore.Catalog) -> None:
    """P2: the mapping knows the new columns, and a name stays with the column of the files that are there.

    Properties of a column stay with its name, those that are given are set.
    """
    table = make_table(catalog)
    table.append(rows(1))
    [task] = table.scan().plan_files()
    other = make_table(catalog, "other", properties={"write.metadata.metrics.column.name": "none"})
    other.add_files([task.file.file_path])
    replaced = catalog.replace_table(
        "ns.other",
        pa.schema([("name", pa.binary()), ("id", pa.int64()), ("new", pa.int64())]),
        properties={"write.metadata.metrics.column.id": "counts"},
    )
    ids = {f.name: f.field_id for f in replaced.schema().fields}
    mapping = json.loads(replaced.properties["schema.name-mapping.default"])
    assert {n: f.get("field-id") for f in mapping for n in f["names"]} == ids | {"name": 2}
    assert ids["name"] != 2
    assert replaced.properties["write.metadata.metrics.column.name"] == "none"
    assert replaced.properties["write.metadata.metrics.column.id"] == "counts"


def test_a_name_that_another_field_takes_over_in_v1(catalog: icecore.Catalog) -> None:
    """The field that goes stays in its place under another name (PT1)."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = catalog.create_table("ns.t", schema, format_version=1)
    with table.update_spec() as update:
        update.add_field("a", partition_field_name="pa").add_field("bucket(4, b)", partition_field_name="pb")
    spec = PartitionSpec((PartitionField((1,), 1000, IdentityTransform(), "pb"),))
    new = catalog.replace_table("ns.t", table.schema(), partition_spec=spec)
    assert [(f.name, str(f.transform)) for f in new.spec().fields] == [("pb", "identity"), ("pb_1001", "void")]


def test_properties_of_a_column_stay_with_its_name(catalog: icecore.Catalog) -> None:
    """Also where it has another type, and so another id; those of a column that is gone go."""
    metrics = "write.metadata.metrics.column"
    make_table(catalog, properties={f"{metrics}.id": "none", f"{metrics}.name": "counts"})
    new = catalog.replace_table("ns.t", pa.schema([("id", pa.string())]))
    assert {k: v for k, v in new.properties.items() if k.startswith(metrics)} == {f"{metrics}.id": "none"}
