"""Tables staged before they are created: nothing is stored, their folders are there, and the first commit wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_tables import SCHEMA, ids_of, local, make_table, repository_of, rows

import icecore
from icecore.engine.catalog.clients.staged_table import stage_table
from icecore.engine.errors import (
    ForbiddenLocationError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ReadOnlyError,
    StorageError,
    TableAlreadyExistsError,
    ValidationError,
)
from icecore.engine.events import event as ev
from icecore.engine.events.provenance import provenance
from icecore.engine.evolution.create_table import creation_payload
from icecore.engine.joint_commit.joint_commit import commit_jointly
from icecore.engine.joint_commit.joint_tables import NewTable
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.metadata_update import AddSchema, AssignUuid, SetLocation, UpgradeFormatVersion
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    TableUpdate,
)


def create(catalog: icecore.Catalog, name: str, staged: TableMetadata) -> None:
    """The commit of a client that creates what was staged."""
    assert staged.table_uuid is not None
    updates: list[TableUpdate] = [
        AssignUuid(staged.table_uuid),
        UpgradeFormatVersion(staged.format_version),
        AddSchema(staged.schemas[0]),
        SetCurrentSchema(-1),
        AddPartitionSpec(staged.partition_specs[0]),
        SetDefaultSpec(-1),
        AddSortOrder(staged.sort_orders[0]),
        SetDefaultSortOrder(-1),
        SetLocation(staged.location),
    ]
    new = NewTable(
        ("ns", name), ev.table_stream(staged.table_uuid), ev.TABLE_CREATED, creation_payload(("ns", name), updates)
    )
    commit_jointly(catalog._warehouse.targets, [new], provenance(None))


def test_a_staged_table_is_stored_nowhere(catalog: icecore.Catalog) -> None:
    position = catalog.position
    staged = stage_table(catalog, "ns.t", SCHEMA, partition_spec=["bucket(4, id)"], properties={"a": "b"})
    assert catalog.position == position and catalog.list_tables("ns") == []
    assert local(f"{staged.location}/metadata").is_dir() and local(f"{staged.location}/data").is_dir()
    assert [f.field_id for f in staged.schemas[0].fields] == [1, 2] and staged.properties["a"] == "b"
    assert staged.table_uuid != stage_table(catalog, "ns.t", SCHEMA).table_uuid
    with pytest.raises(NoSuchTableError):
        catalog.load_table("ns.t")


def test_folders_are_where_properties_say(catalog: icecore.Catalog, tmp_path: Path) -> None:
    given = {"write.data.path": str(tmp_path / "rows"), "write.metadata.path": "logs"}
    staged = stage_table(catalog, "ns.t", SCHEMA, properties=given)
    assert (tmp_path / "rows").is_dir() and local(f"{staged.location}/logs").is_dir()
    assert {p.name for p in local(staged.location).iterdir()} == {"logs"}


def test_the_first_commit_wins(catalog: icecore.Catalog) -> None:
    """Each has a place of its own until then; the other is told that the name is taken."""
    one, two = (stage_table(catalog, "ns.t", SCHEMA) for _ in range(2))
    assert one.location != two.location
    create(catalog, "t", two)
    catalog.load_table("ns.t").append(rows(1))
    with pytest.raises(TableAlreadyExistsError):
        create(catalog, "t", one)
    assert ids_of(catalog.load_table("ns.t")) == [1] and catalog.load_table("ns.t").location() == two.location
    assert catalog.verify().problems == ()


def test_what_can_not_be_created_is_not_staged(catalog: icecore.Catalog, tmp_path: Path) -> None:
    make_table(catalog, "t")
    catalog.create_view("ns.v", "SELECT 1 AS one")
    (tmp_path / "file").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    for name, error in (
        ("ns.t", TableAlreadyExistsError),
        ("ns.v", TableAlreadyExistsError),
        ("no.t", NoSuchNamespaceError),
    ):
        with pytest.raises(error):
            stage_table(catalog, name, SCHEMA)
    with pytest.raises(ValidationError):
        stage_table(catalog, "ns.new", SCHEMA, partition_spec=["bucket(4, nothing)"])
    with pytest.raises(StorageError):
        stage_table(catalog, "ns.new", SCHEMA, location=str(tmp_path / "file" / "x"))
    with icecore.open(catalog.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        stage_table(reader, "ns.new", SCHEMA)
    assert sorted(p for p in tmp_path.rglob("*") if "icecore.db" not in p.name) == [
        p for p in before if "icecore.db" not in p.name
    ]


def test_no_folder_is_made_elsewhere(tmp_path: Path) -> None:
    """Not by a location, nor by a property, nor in another table."""
    with icecore.open(tmp_path / "wh", location_roots=(), unique_locations=True) as catalog:
        catalog.create_namespace("ns")
        taken = make_table(catalog, "taken").location()
        for options in (
            {"location": str(tmp_path / "out")},
            {"location": f"file://{tmp_path}/wh/%2e%2e/out"},
            {"properties": {"write.data.path": str(tmp_path / "out")}},
            {"properties": {"write.metadata.path": "../../../out"}},
            {"location": f"{taken}/inner"},
        ):
            with pytest.raises(ForbiddenLocationError):
                stage_table(catalog, "ns.t", SCHEMA, **options)
        assert {p.name for p in tmp_path.iterdir()} == {"wh"} and not local(f"{taken}/inner").exists()
        assert repository_of(catalog).storage.local_path(stage_table(catalog, "ns.t", SCHEMA).location)
