"""Tables for the benchmarks, made from one with metadata only: with delete files, and with very many manifests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve

from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.manifest_avro import write_manifest
from icecore.engine.formats.manifest_list_avro import read_manifest_list, write_manifest_list
from icecore.engine.spec.content_file import ManifestContent, ManifestFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.projections.entries.decode_entries import decode_manifest

PATH_ID = 2147483546
UNPARTITIONED_ID = 7
SYNC = bytes(range(16))


def with_deletes(source: Path, out: Path, positions: int = 10_000, equality: int = 100) -> Path:
    """Writes the table with position and equality delete files; returns the path of its metadata file.

    Of the position deletes two in five name one data file by equal bounds, two in five a range of paths, one in ten has
    `referenced_data_file` and one in ten says nothing. One in twenty equality deletes is of an unpartitioned spec.
    """
    raw, metadata, manifests = _open(source)
    paths, partitions = _data_files(manifests, 1)
    rng = np.random.default_rng(5)
    spec = metadata.specs[0]
    chosen = rng.integers(0, len(paths), positions)
    rows = [_position_delete(i, paths, partitions, int(c)) for i, c in enumerate(chosen)]
    by_partition = [
        _delete(f"{out}/data/eq-{i}.parquet", 0, partitions[int(c)], content=2, equality_ids=[1])
        for i, c in enumerate(rng.integers(0, len(paths), equality - equality // 20))
    ]
    everywhere = [
        _delete(f"{out}/data/eq-all-{i}.parquet", UNPARTITIONED_ID, [], content=2, equality_ids=[1])
        for i in range(equality // 20)
    ]
    unpartitioned = PartitionSpec((), UNPARTITIONED_ID)
    (out / "metadata").mkdir(parents=True, exist_ok=True)
    sequence_number = metadata.last_sequence_number
    made = [
        write(out, f"d{i}", part, of, metadata, ManifestContent.DELETES, sequence_number)
        for i, (part, of) in enumerate(((rows, spec), (by_partition, spec), (everywhere, unpartitioned)))
    ]
    raw["partition-specs"].append({"spec-id": UNPARTITIONED_ID, "fields": []})
    return finish(out, raw, metadata, [*manifests, *made])


def many_manifests(source: Path, out: Path, each: int = 10) -> Path:
    """Writes the table with `each` files in a manifest; returns the path of its metadata file."""
    raw, metadata, manifests = _open(source)
    (out / "metadata").mkdir(parents=True, exist_ok=True)
    made = []
    for m in manifests:
        entries = _decode(m)
        for start in range(0, len(entries), each):
            part = entries.slice(start, each)
            name = f"{len(made):06d}"
            made.append(write(out, name, part, metadata.specs[0], metadata, ManifestContent.DATA, m.sequence_number, m))
    return finish(out, raw, metadata, made)


def _open(source: Path) -> tuple[dict[str, Any], TableMetadata, Sequence[ManifestFile]]:
    raw = json.loads((source / "metadata" / "v1.metadata.json").read_text())
    where = raw["snapshots"][0]["manifest-list"]
    return raw, TableMetadata.from_dict(raw), read_manifest_list(Path(where).read_bytes(), where)


def _decode(m: ManifestFile) -> pa.Table:
    data = Path(m.manifest_path).read_bytes()
    return decode_manifest(data, where=m.manifest_path, spec_id=m.partition_spec_id)


def _data_files(manifests: Sequence[ManifestFile], every: int) -> tuple[list[str], list[Any]]:
    tables = [_decode(m) for m in manifests[::every]]
    entries = pa.concat_tables(tables)
    live = entries.filter(pc.not_equal(entries["status"], 2))
    return live["file_path"].to_pylist(), live["partition"].to_pylist()


def _position_delete(i: int, paths: list[str], partitions: list[Any], c: int) -> dict[str, Any]:
    path = paths[c].replace(".parquet", f"-{i}-deletes.parquet")
    match i % 10:
        case 0 | 1 | 2 | 3:
            bounds = (paths[c], paths[c])
        case 4 | 5 | 6 | 7:
            near = [paths[k] for k in range(max(0, c - 16), min(len(paths), c + 17)) if partitions[k] == partitions[c]]
            bounds = (min(near), max(near))
        case 8:
            return _delete(path, 0, partitions[c], content=1, referenced_data_file=paths[c])
        case _:
            return _delete(path, 0, partitions[c], content=1)
    lower, upper = ([(PATH_ID, b.encode())] for b in bounds)
    return _delete(path, 0, partitions[c], content=1, lower_bounds=lower, upper_bounds=upper)


def _delete(path: str, spec_id: int, partition: Any, **rest: Any) -> dict[str, Any]:
    return {
        "status": 1,
        "file_path": path,
        "file_format": "PARQUET",
        "spec_id": spec_id,
        "partition": partition,
        "record_count": 10,
        "file_size_in_bytes": 1000,
        **rest,
    }


def write(
    out: Path,
    name: str,
    entries: list[dict[str, Any]] | pa.Table,
    spec: PartitionSpec,
    metadata: TableMetadata,
    content: ManifestContent,
    sequence_number: int,
    like: ManifestFile | None = None,
) -> ManifestFile:
    """Writes a manifest of the entries below `out`; fields that are not given are those of `like`."""
    table = entries if isinstance(entries, pa.Table) else pa.Table.from_pylist(entries, schema=ENTRY_SCHEMA)
    data = write_manifest(
        table, spec=spec, schema=metadata.schema(), content=content, format_version=2, sync_marker=SYNC
    )
    path = out / "metadata" / f"m-{name}.avro"
    path.write_bytes(data)
    statuses = table["status"].to_numpy()
    rows = table["record_count"].to_numpy()
    counts = {
        f"{word}_{what}_count": int(values)
        for status, word in enumerate(("existing", "added", "deleted"))
        for what, values in (("files", (statuses == status).sum()), ("rows", rows[statuses == status].sum()))
    }
    base = like or ManifestFile("", 0, spec.spec_id, content, sequence_number, sequence_number, 1)
    return evolve(base, manifest_path=str(path), manifest_length=len(data), partition_spec_id=spec.spec_id, **counts)


def finish(out: Path, raw: dict[str, Any], metadata: TableMetadata, manifests: Sequence[ManifestFile]) -> Path:
    """Writes the manifest list and the metadata file; returns the path of the latter."""
    snapshot = raw["snapshots"][0]
    path = out / "metadata" / "list.avro"
    listed = write_manifest_list(
        manifests,
        format_version=2,
        snapshot_id=snapshot["snapshot-id"],
        parent_snapshot_id=None,
        sequence_number=snapshot["sequence-number"],
        sync_marker=SYNC,
    )
    path.write_bytes(listed)
    snapshot["manifest-list"] = str(path)
    raw["location"] = str(out)
    target = out / "metadata" / "v1.metadata.json"
    target.write_text(json.dumps(raw))
    return target
