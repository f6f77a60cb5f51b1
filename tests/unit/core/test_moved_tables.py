"""Tables that are registered where their folder was moved to: what tells so, and where their files are then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attrs import evolve
from core_tables import ids_of, local, make_table, rows

import icecore
from icecore.engine.foreign.table_folder import moved_from
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage


@pytest.fixture
def moved(catalog: icecore.Catalog, tmp_path: Path) -> Path:
    """The folder that a table without rows was moved to."""
    folder = local(make_table(catalog).metadata_location).parent.parent
    shutil.copytree(folder, tmp_path / "moved")
    shutil.rmtree(folder)
    return tmp_path / "moved"


def test_an_empty_table_is_written_where_it_is_now(moved: Path, tmp_path: Path) -> None:
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        table = other.register_table("ns.t", str(moved))
        table.append(rows(1))
        assert ids_of(table) == [1] and list((moved / "data").iterdir())
    assert not list((tmp_path / "warehouse" / "ns").glob("t/data"))


def test_an_empty_table_that_is_where_it_says_stays_there(catalog: icecore.Catalog, tmp_path: Path) -> None:
    table = make_table(catalog)
    folder = local(table.metadata_location).parent.parent
    shutil.copytree(folder, tmp_path / "copy")
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        other.register_table("ns.t", str(tmp_path / "copy")).append(rows(1))
    assert list((folder / "data").iterdir()) and not (tmp_path / "copy" / "data").exists()


@pytest.mark.parametrize(
    ("location", "manifest_list", "inner", "mapping"),
    [
        ("s3://b/t", "s3://b/t/metadata/l.avro", "metadata", {"s3://b/t": ""}),
        # Of a table that came from one writer to another, as BigQuery's do.
        ("gs://b/t", "elsewhere/t/metadata/l.avro", "metadata", {"elsewhere/t": "", "gs://b/t": ""}),
        ("s3://b/t/metadata", "s3://b/t/metadata/l.avro", "metadata", {"s3://b/t/metadata": "/metadata"}),
        ("s3://b/t", "s3://b/t/meta/l.avro", "meta", {"s3://b/t": ""}),
        ("s3://b/t", "s3://meta/t/l.avro", "here", {"s3://meta/t": "/here"}),
        ("s3://b/t", "s3://b/t/metadata/other.avro", "metadata", {}),
    ],
)
def test_what_was_where_is_told_by_the_manifest_list(
    catalog: icecore.Catalog, tmp_path: Path, location: str, manifest_list: str, inner: str, mapping: dict[str, str]
) -> None:
    """It lies beside the metadata file now, whatever the folder was called."""
    table = make_table(catalog)
    table.append(rows(1))
    (snapshot,) = table.metadata.snapshots
    (tmp_path / "now" / inner).mkdir(parents=True)
    (tmp_path / "now" / inner / "l.avro").touch()
    there = evolve(table.metadata, location=location, snapshots=(evolve(snapshot, manifest_list=manifest_list),))
    metadata = TableMetadata.from_json(there.to_json())
    now = f"file://{tmp_path}/now"
    found = moved_from(metadata, f"{now}/{inner}/v1.metadata.json", Storage())
    assert found.to_dict() == {old: f"{now}{new}" for old, new in mapping.items()}
