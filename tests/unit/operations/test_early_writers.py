"""Tables of early writers of format version 2, which knew no file sequence numbers, are changed like all others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows

import icecore


@pytest.fixture
def early(catalog: icecore.Catalog, tmp_path: Path) -> icecore.Table:
    """A table in another catalog, whose entries all existed before their manifests were written."""
    table = make_table(catalog)
    for ids in ((1, 2), (3, 4), (5,)):
        table.append(rows(*ids))
    table.rewrite_manifests()
    for manifest in table.inspect.manifests()["path"].to_pylist():
        forget_file_sequence_numbers(local(manifest))
    other = icecore.open(tmp_path / "other")
    other.create_namespace("ns")
    return other.register_table("ns.t", table.metadata_location or "")


def forget_file_sequence_numbers(manifest: Path) -> None:
    with manifest.open("rb") as file:
        reader = fastavro.reader(file)
        schema, header, entries = reader.writer_schema, reader.metadata, list(reader)
    assert isinstance(schema, dict) and {e["status"] for e in entries} == {0}
    schema["fields"] = [f for f in schema["fields"] if f["name"] != "file_sequence_number"]
    with manifest.open("wb") as file:
        fastavro.writer(file, schema, entries, metadata={k: v for k, v in header.items() if "avro." not in k})


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda t: t.delete("id = 1"), [2, 3, 4, 5]),
        (lambda t: t.delete("id >= 3"), [1, 2]),
        (lambda t: t.append(rows(6)), [1, 2, 3, 4, 5, 6]),
        (lambda t: t.rewrite_manifests(), [1, 2, 3, 4, 5]),
        (lambda t: t.rewrite_data_files(), [1, 2, 3, 4, 5]),
    ],
)
def test_m2_unknown_file_sequence_numbers_stay_unknown(
    early: icecore.Table, tmp_path: Path, change: Callable[[icecore.Table], object], left: list[int]
) -> None:
    """M2: of entries that existed or go. Data sequence numbers, which tell what deletes apply to, are there."""
    early.set_properties({"commit.manifest.min-count-to-merge": "1"})
    before = {e["data_file"]["file_path"]: e["sequence_number"] for e in early.inspect.entries().to_pylist()}
    assert sorted(before.values()) == [1, 2, 3]
    change(early)
    assert ids_of(early) == peer_ids(tmp_path / "other") == left
    for entry in early.inspect.entries().to_pylist():
        if (number := before.get(entry["data_file"]["file_path"])) is not None:
            assert (entry["sequence_number"], entry["file_sequence_number"]) == (number, None)
