"""`verify(deep=True)` looks into files: what has its size and not its contents is found, whatever its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import local, make_table, repository_of, rows

import icecore
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.puffin import Blob, write_puffin
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.storage.file_io import Storage
from icecore.projections.verify.findings import Cause
from icecore.projections.verify.verify_contents import content_faults, metadata_faults
from icecore.projections.verify.verify_needed import (
    MANIFEST,
    PARTITION_STATISTICS,
    STATISTICS,
    NeededFile,
    needed_of_table,
)

MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}


def found(catalog: icecore.Catalog, deep: bool) -> list[tuple[str, str]]:
    return [(str(f.cause), f.kind) for f in catalog.verify(deep=deep).findings]


def contents_of(catalog: icecore.Catalog, table: icecore.Table) -> pa.Table:
    return needed_of_table(repository_of(catalog), table.state, lambda _: None, deep=True).contents


def faults(contents: pa.Table) -> list[tuple[Cause, str]]:
    return [(f.cause, f.detail) for _, part in content_faults(Storage(), contents) for f in part]


def in_metadata(file: NeededFile) -> list[tuple[Cause, str]]:
    return [(f.cause, f.detail) for _, part in metadata_faults(Storage(), [file]) for f in part]


def with_value(table: pa.Table, name: str, value: object) -> pa.Table:
    """The table with one value in all rows of a column."""
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array([value] * len(table), table.schema.field(at).type))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_of_its_size_that_does_not_open(catalog: icecore.Catalog, file_format: str) -> None:
    """A file whose size is right and whose end, or block, is not what its format has, is found when it is opened."""
    table = make_table(catalog, properties={"write.format.default": file_format})
    table.append(rows(*range(50)))
    assert found(catalog, deep=True) == []
    (path,) = (p for p in (local(table.location()) / "data").rglob("*") if p.is_file())
    path.write_bytes(path.read_bytes()[:-8] + b"damaged!")
    assert found(catalog, deep=False) == []
    assert found(catalog, deep=True) == [("unreadable", "data file")]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_with_other_rows_than_were_noted(catalog: icecore.Catalog, file_format: str) -> None:
    """The rows in a file are compared with the record count of its manifest entry."""
    source = make_table(catalog, "source", properties={"write.format.default": file_format})
    source.append(rows(1, 2, 3))
    (task,) = source.scan().plan_files()
    make_table(catalog).append_files([evolve(task.file, record_count=5)])
    assert found(catalog, deep=False) == []
    (finding,) = catalog.verify(deep=True).findings
    assert finding.cause is Cause.COUNT and finding.details[0].endswith("has 3 rows, expected 5")


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_are_opened_and_counted(catalog: icecore.Catalog, version: int) -> None:
    """Delete files have their rows, deletion vectors their checksum and as many positions as was noted."""
    table = make_table(catalog, format_version=version, properties=MERGE_ON_READ)
    table.append(rows(*range(50)))
    table.delete("id < 7")
    table.delete_keys(rows(40).select(["id"]), ["id"])
    assert found(catalog, deep=True) == []
    counted = {
        detail.split(" has ")[1] for _, detail in faults(with_value(contents_of(catalog, table), "record_count", 9))
    }
    positions = "7 rows, expected 9" if version == 2 else "7 positions at 4, expected 9"
    assert counted == {"50 rows, expected 9", positions, "1 rows, expected 9"}
    if version == 3:
        (path,) = (local(table.location()) / "data").glob("*.puffin")
        data = bytearray(path.read_bytes())
        data[20] ^= 1
        path.write_bytes(data)
        (finding,) = catalog.verify(deep=True).findings
        assert "checksum of the deletion vector does not fit" in finding.details[0]


def test_a_vector_must_lie_where_the_footer_says(catalog: icecore.Catalog) -> None:
    """Offset and length of a deletion vector are those of a blob in the footer (M4)."""
    table = make_table(catalog, format_version=3, properties=MERGE_ON_READ)
    table.append(rows(*range(5)))
    table.delete("id < 2")
    contents = contents_of(catalog, table)
    moved = with_value(contents.filter(pa.compute.equal(contents["kind"], 3)), "content_offset", 5)
    ((cause, detail),) = faults(moved)
    assert cause is Cause.COUNT and "has no deletion vector of" in detail


def test_what_can_not_be_opened_is_no_problem(catalog: icecore.Catalog) -> None:
    """Encrypted files, and those of a format that nothing here reads, are told of as not looked into."""
    table = make_table(catalog)
    table.append(rows(1))
    contents = contents_of(catalog, table)
    assert [c for c, _ in faults(with_value(contents, "is_encrypted", True))] == [Cause.ENCRYPTED]
    assert [c for c, _ in faults(with_value(contents, "file_format", "lance"))] == [Cause.UNKNOWN_FORMAT]
    other = NeededFile("file:///stats.csv", PARTITION_STATISTICS)
    assert [c for c, _ in in_metadata(other)] == [Cause.UNKNOWN_FORMAT]
    assert [c for c, _ in in_metadata(evolve(other, is_encrypted=True))] == [Cause.ENCRYPTED]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("added_files_count", 7, "has 1 added entries, its list says 7"),
        ("added_rows_count", 7, "has 2 added rows, its list says 7"),
        ("existing_files_count", 3, "has 0 existing entries, its list says 3"),
        ("deleted_rows_count", 3, "has 0 deleted rows, its list says 3"),
        ("content", ManifestContent.DELETES, "is listed as one of deletes, and has other entries"),
        ("added_rows_count", None, None),
        ("added_rows_count", -1, None),
    ],
)
def test_manifests_hold_what_their_list_says(catalog: icecore.Catalog, name: str, value: Any, text: str | None) -> None:
    """Counts of entries and rows by status are those of the manifest list, where it has any (L1)."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    (listed,) = table.manifests()
    record = ListedManifest(evolve(listed.manifest, **{name: value}))
    found = in_metadata(NeededFile(listed.manifest.manifest_path, MANIFEST, listed=record))
    assert [d.split(".avro ")[1] for _, d in found] == ([] if text is None else [text])


def test_statistics_have_the_footer_that_was_noted(tmp_path: Path) -> None:
    """The footer of a statistics file decodes, and is as long as the metadata says (MD4)."""
    file = write_puffin([Blob("some-sketch", (1,), 1, 1, b"x" * 40)])
    path = tmp_path / "a.stats"
    path.write_bytes(file.data)
    needed = NeededFile(path.as_uri(), STATISTICS, footer_length=file.footer.footer_size_in_bytes)
    assert in_metadata(needed) == []
    ((cause, detail),) = in_metadata(evolve(needed, footer_length=1))
    assert cause is Cause.COUNT and "expected 1" in detail
    path.write_bytes(file.data[:-4] + b"PFA2")
    assert [c for c, _ in in_metadata(needed)] == [Cause.UNREADABLE]
