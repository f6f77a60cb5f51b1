"""A table copied by what rewrite_table_path wrote is whole in its new place, whatever becomes of the old one."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from core_tables import ids_of, local, make_table, rows
from pyiceberg.table import StaticTable

import icecore
from icecore.engine.common.compressed_json import ZSTD_MAGIC, compress, decompress
from icecore.engine.errors import ValidationError


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_copied_table_is_whole(
    catalog: icecore.Catalog, warehouse: Path, tmp_path: Path, format_version: int
) -> None:
    """Each snapshot has its rows, deleted ones left out, and its row ids; the old folder is gone."""
    properties = {"write.delete.mode": "merge-on-read"}
    table = make_table(catalog, format_version=format_version, properties=properties, partition_spec=["bucket(2, id)"])
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    table.append(rows(4, 5, 6))
    if format_version > 1:
        table.delete_keys(pa.table({"id": pa.array([6], pa.int64())}), ["id"])
    table.rewrite_manifests()
    table.compute_statistics(["id"])
    if format_version < 3:
        table.upgrade(format_version + 1)
    columns = ["*", "_row_id"] if table.format_version == 3 else ["*"]

    def seen(some: icecore.Table) -> dict[int, list[dict[str, object]]]:
        ids = [s.snapshot_id for s in some.snapshots()]
        found = {i: some.scan(snapshot_id=i, selected_fields=columns).to_arrow() for i in ids}
        return {i: found[i].sort_by("id").to_pylist() for i in ids}

    there = tmp_path / "there"
    end, before = catalog.position, seen(table)
    made = table.maintenance.rewrite_table_path(table.location(), f"file://{there}", str(tmp_path / "staged"))
    assert catalog.position == end and seen(table.refresh()) == before
    with local(made.file_list_location).open(newline="") as listed:
        assert [tuple(row) for row in csv.reader(listed)] == list(made.files)
    for source, target in made.files:
        local(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(local(source), local(target))
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        copied = other.register_table("ns.t", made.metadata_location)
        shutil.rmtree(local(table.location()))
        assert copied.metadata.table_uuid == table.metadata.table_uuid and seen(copied) == before
        assert other.verify("ns.t", deep=True).ok
        copied.append(rows(9))
        assert ids_of(copied)[-1] == 9
    if table.format_version == 2 and format_version == 1:
        peer = StaticTable.from_metadata(made.metadata_location)
        assert sorted(peer.scan().to_arrow()["id"].to_pylist()) == [1, 3, 4, 5, 6]


def test_all_files_must_be_below_the_prefix(catalog: icecore.Catalog, warehouse: Path, tmp_path: Path) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    for source, target in ((str(tmp_path / "else"), "s3://b/t"), (table.location(), f"{table.location()}/copy")):
        with pytest.raises(ValidationError, match=r"would not be copied|lies in the other"):
            table.maintenance.rewrite_table_path(source, target, str(tmp_path / "staged"))
    assert not (tmp_path / "staged").exists()


def test_nothing_is_staged_over_the_table(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Below the source prefix each file would be named as the one that it is written of."""
    table = make_table(catalog)
    table.append(rows(1))
    location = local(table.location())
    for staging in (table.location(), f"{location}/", f"file:{location}/metadata/.."):
        with pytest.raises(ValidationError, match="would be written over"):
            table.maintenance.rewrite_table_path(table.location(), str(tmp_path / "there"), staging)
    assert catalog.verify(deep=True).ok


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_metadata_file_is_compressed_as_its_name_says(catalog: icecore.Catalog, tmp_path: Path, codec: str) -> None:
    """Other engines go by the name, and the property may have been set by hand; iceberg-go writes zstd."""
    table = make_table(catalog, properties={"write.metadata.compression-codec": "none"})
    table.append(rows(1))
    found = orjson.loads(local(table.metadata_location).read_bytes())
    found["properties"]["write.metadata.compression-codec"] = "gzip"
    ending = ".zstd" if codec == "zstd" else ""
    theirs = local(table.metadata_location).with_name(f"00009-theirs{ending}.metadata.json")
    theirs.write_bytes(compress(orjson.dumps(found), codec))
    catalog.unregister_table("ns.t")
    taken = catalog.register_table("ns.t", str(theirs.parents[1]))
    there = taken.maintenance.rewrite_table_path(taken.location(), f"{tmp_path}/there", f"{tmp_path}/staged")
    (staged,) = (source for source, target in there.files if target == there.metadata_location)
    data = local(staged).read_bytes()
    assert data.startswith(ZSTD_MAGIC) == (codec == "zstd")
    assert orjson.loads(decompress(data))["table-uuid"] == found["table-uuid"]
