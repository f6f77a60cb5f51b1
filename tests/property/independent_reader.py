"""Reads a v3 table from its metadata file on, with no code of the engine."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pyroaring

ROW_ID, LAST_UPDATED = "_row_id", "_last_updated_sequence_number"
DV_MAGIC = bytes.fromhex("d1d33964")


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def rows_of(metadata_location: str, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    """The live rows of a snapshot, else the current one: columns by name, row id and last updated sequence number."""
    metadata = json.loads(local(metadata_location).read_bytes())
    wanted = metadata.get("current-snapshot-id") if snapshot_id is None else snapshot_id
    if wanted is None:
        return []
    snapshot = next(s for s in metadata["snapshots"] if s["snapshot-id"] == wanted)
    data, vectors, positions = [], {}, []
    for manifest in avro(snapshot["manifest-list"]):
        next_row_id = manifest.get("first_row_id")
        for entry in avro(manifest["manifest_path"]):
            file = entry["data_file"]
            inherits = entry["status"] == 1
            sequence_number = entry.get("sequence_number")
            if sequence_number is None and inherits:
                sequence_number = manifest.get("sequence_number")
            sequence_number = sequence_number or 0
            if entry["status"] == 2:
                continue
            if file.get("content", 0) == 0:
                first_row_id = file.get("first_row_id")
                if first_row_id is None and next_row_id is not None:
                    first_row_id = next_row_id
                    next_row_id += file["record_count"]
                data.append((file, sequence_number, first_row_id))
            elif file["file_format"].upper() == "PUFFIN":
                assert file["referenced_data_file"] not in vectors, "one vector for each data file (D2)"
                vectors[file["referenced_data_file"]] = (file, sequence_number)
            else:
                positions.append((file, sequence_number))
    out = []
    for file, sequence_number, first_row_id in data:
        deleted = deleted_rows(file, sequence_number, vectors, positions)
        for position, row in enumerate(pq.ParquetFile(local(file["file_path"])).read().to_pylist()):
            if position not in deleted:
                out.append(with_lineage(row, position, sequence_number, first_row_id))
    return out


def files_of(metadata_location: str, snapshot_id: int) -> list[tuple[str, str]]:
    """The live data files of a snapshot with their manifests, in the order of its list and of these."""
    metadata = json.loads(local(metadata_location).read_bytes())
    snapshot = next(s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot_id)
    return [
        (manifest["manifest_path"], entry["data_file"]["file_path"])
        for manifest in avro(snapshot["manifest-list"])
        if not manifest.get("content", 0)
        for entry in avro(manifest["manifest_path"])
        if entry["status"] != 2
    ]


def avro(location: str) -> list[dict[str, Any]]:
    with local(location).open("rb") as f:
        return list(fastavro.reader(f))


def deleted_rows(file: dict[str, Any], sequence_number: int, vectors: dict[str, Any], positions: list[Any]) -> set[int]:
    vector = vectors.get(file["file_path"])
    if vector is not None and sequence_number <= vector[1]:
        return read_vector(vector[0])
    found = set()
    for delete, delete_sequence_number in positions:
        if sequence_number <= delete_sequence_number:
            for row in pq.ParquetFile(local(delete["file_path"])).read().to_pylist():
                if row["file_path"] == file["file_path"]:
                    found.add(row["pos"])
    return found


def read_vector(delete: dict[str, Any]) -> set[int]:
    """The positions of a deletion vector, its framing and checksum checked (D5)."""
    start, size = delete["content_offset"], delete["content_size_in_bytes"]
    blob = local(delete["file_path"]).read_bytes()[start : start + size]
    (length,) = struct.unpack(">i", blob[:4])
    body, (checksum,) = blob[4:-4], struct.unpack(">I", blob[-4:])
    assert length == len(body)
    assert body[:4] == DV_MAGIC
    assert zlib.crc32(body) == checksum
    bitmap = pyroaring.BitMap64.deserialize(body[4:])
    assert len(bitmap) == delete["record_count"]
    return set(bitmap)


def with_lineage(row: dict[str, Any], position: int, sequence_number: int, first_row_id: int | None) -> dict[str, Any]:
    """The row with its lineage: as stored, else inherited; none where the file has no first row id (RL5)."""
    row_id, updated = row.pop(ROW_ID, None), row.pop(LAST_UPDATED, None)
    if first_row_id is None:
        return {**row, ROW_ID: None, LAST_UPDATED: None}
    return {
        **row,
        ROW_ID: first_row_id + position if row_id is None else row_id,
        LAST_UPDATED: sequence_number if updated is None else updated,
    }
