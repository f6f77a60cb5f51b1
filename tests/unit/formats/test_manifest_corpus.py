"""Manifests and manifest lists of many writers: both decoders agree, and inheritance gives the expected live entries.

The folder of real tables is named by ICECORE_CORPUS, by default ../shared/corpus beside the checkout.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro, read_manifest_header, write_manifest
from icecore.engine.formats.manifest_list_avro import read_manifest_list
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.projections.entries.decode_entries import decode_manifest
from icecore.projections.entries.wide_entries import inherit, inherit_sequence_numbers, widen

CORPUS = Path(os.environ.get("ICECORE_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(
    not (CORPUS / "MANIFEST.json").exists(), reason="no corpus of real tables: set ICECORE_CORPUS"
)
# Avro files that are something else, are broken or are encrypted.
OTHER = ("dremio-partitionStats", "broken1.avro", "broken2.avro", "encrypted", "-data-")


def avro_files() -> Iterator[tuple[str, bytes]]:
    for path in sorted(CORPUS.rglob("*.avro")):
        yield str(path.relative_to(CORPUS)), path.read_bytes()


def is_list(data: bytes) -> bool:
    return b"manifest_path" in data[: 16 * 1024] and b"data_file" not in data[:2048].replace(b"data_files", b"")


def test_every_manifest_decodes_alike_by_both_decoders() -> None:
    manifests = lists = 0
    for name, data in avro_files():
        if any(part in name for part in OTHER):
            for reader in (read_manifest_list, lambda d, w: decode_manifest(d, where=w, spec_id=0)):
                with pytest.raises(CorruptFileError, match=name.rsplit("/", 1)[1]):
                    reader(data, name)
        elif is_list(data):
            assert read_manifest_list(data, name) is not None
            lists += 1
        else:
            fast = decode_manifest(data, where=name, spec_id=3)
            fast.validate(full=True)
            assert fast == decode_manifest_fastavro(data, where=name, spec_id=3), name
            manifests += 1
    assert manifests > 0 and lists > 0


def test_manifests_with_a_whole_header_round_trip_through_our_writer() -> None:
    rewritten = 0
    for name, data in avro_files():
        if any(part in name for part in OTHER) or is_list(data):
            continue
        header = read_manifest_header(data, name)
        if header.schema is None or header.spec_fields is None:
            continue
        table = decode_manifest(data, where=name, spec_id=header.spec_id or 0)
        if header.format_version == 1:
            # Some writers leave the snapshot id, which v1 requires, to inheritance.
            index = table.schema.get_field_index("snapshot_id")
            table = table.set_column(index, table.schema.field(index), table["snapshot_id"].fill_null(1))
        written = write_manifest(
            table,
            spec=PartitionSpec(header.spec_fields, header.spec_id or 0),
            schema=header.schema,
            content=header.content,
            format_version=header.format_version,
            sync_marker=bytes(16),
        )
        assert decode_manifest(written, where=name, spec_id=header.spec_id or 0) == table, name
        rewritten += 1
    assert rewritten > 0


class Table:
    """A table of the corpus: its metadata as JSON, and its files found by name, as it lies elsewhere than it says."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.files: list[Path] = list((CORPUS / entry["path"]).rglob("*.avro"))
        raw = (CORPUS / entry["metadata_location_relative"]).read_bytes()
        self.metadata = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        self.plan = json.loads((CORPUS / entry["expected"]["plan_file"]).read_text())

    def read(self, location: str) -> bytes:
        parts = location.split("/")[-2:]
        found = [p for p in self.files if p.name == parts[-1]]
        return min(found, key=lambda p: p.parent.name != parts[0]).read_bytes()

    def schema(self) -> Schema:
        current = self.metadata.get("current-schema-id", 0)
        schemas = self.metadata.get("schemas") or [self.metadata["schema"]]
        return Schema.from_dict(next(s for s in schemas if s.get("schema-id", 0) == current))

    def specs(self) -> dict[int, PartitionSpec]:
        if "partition-specs" in self.metadata:
            return {s["spec-id"]: PartitionSpec.from_dict(s) for s in self.metadata["partition-specs"]}
        return {0: PartitionSpec.from_fields(self.metadata["partition-spec"])}


def planned_tables() -> list[dict[str, Any]]:
    path = CORPUS / "MANIFEST.json"
    entries = json.loads(path.read_text()) if path.exists() else []
    return [e for e in entries if isinstance(e.get("expected"), dict) and e["expected"].get("plan_file")]


@pytest.mark.parametrize("entry", planned_tables(), ids=lambda e: e["id"])
def test_M2_RL3_live_entries_after_inheritance(entry: dict[str, Any]) -> None:
    table = Table(entry)
    snapshot = next(s for s in table.metadata["snapshots"] if s["snapshot-id"] == table.plan["snapshot_id"])
    if "manifest-list" not in snapshot:
        pytest.skip("its snapshots name their manifests in the metadata file")
    schema, specs = table.schema(), table.specs()
    found = []
    for m in read_manifest_list(table.read(snapshot["manifest-list"]), "list"):
        data = table.read(m.manifest_path)
        spec = specs[m.partition_spec_id]
        canonical = decode_manifest(data, where="m", spec_id=m.partition_spec_id, metadata_spec=spec)
        wide = widen(canonical, schema=schema, specs=specs).table
        inherited = inherit(inherit_sequence_numbers(wide, [m], [len(wide)]), m)
        assert inherited.select(canonical.column_names) == inherit(canonical, m)
        assert inherited.select(canonical.column_names[7:20]) == canonical.select(canonical.column_names[7:20])
        found += [r for r in inherited.to_pylist() if r["status"] != 2]
    expected = {(f["path"], f["content"], f.get("content_offset")): f for f in table.plan["live"]}
    assert {(r["file_path"], r["content"], r["content_offset"]) for r in found} == expected.keys()
    for r in found:
        want = expected[r["file_path"], r["content"], r["content_offset"]]
        assert {theirs: r[ours] for theirs, ours in THEIR_NAMES.items()} == {k: want.get(k) for k in THEIR_NAMES}


THEIR_NAMES = {
    "records": "record_count",
    "size": "file_size_in_bytes",
    "format": "file_format",
    "status": "status",
    "snapshot_id": "snapshot_id",
    "data_seq": "sequence_number",
    "file_seq": "file_sequence_number",
    "spec_id": "spec_id",
    "first_row_id": "first_row_id",
}
