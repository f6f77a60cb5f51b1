"""A delete file of another partition than the data file that it names is an error of whoever wrote it (SP7)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import ids_of, local, make_table, rows

import icecore
from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro, write_manifest
from icecore.engine.spec.content_file import ManifestContent

MERGE = {"write.delete.mode": "merge-on-read"}


@pytest.mark.parametrize("named", [True, False])
def test_SP7_the_error_names_both_files(catalog: icecore.Catalog, tmp_path: Path, named: bool) -> None:
    """One that names no file belongs to its own partition, and so applies to nothing."""
    theirs = make_table(catalog, partition_spec=["truncate(1, name)", "id"], properties=MERGE)
    theirs.append(rows(1))
    theirs.append(pa.table({"id": [3, 3], "name": ["keep", "kill"]}))
    theirs.delete("name = 'kill'")
    [task] = [t for t in theirs.scan().plan_files() if t.delete_files]
    [listed] = [m for m in theirs.manifests() if m.manifest.content is ManifestContent.DELETES]
    path = local(listed.manifest.manifest_path)
    entries = decode_manifest_fastavro(path.read_bytes(), where=str(path), spec_id=0, metadata_spec=theirs.spec())
    changed = entries.to_pylist()
    for entry in changed:
        entry["partition"] = [(field, b"z" if field == 1000 else value) for field, value in entry["partition"]]
        entry["referenced_data_file"] = task.file.file_path if named else None
    path.write_bytes(
        write_manifest(
            pa.Table.from_pylist(changed, schema=entries.schema),
            spec=theirs.spec(), schema=theirs.schema(), content=ManifestContent.DELETES, format_version=2,
            sync_marker=bytes(16),
        )
    )  # fmt: skip
    metadata = tmp_path / "v9.metadata.json"
    metadata.write_bytes(local(theirs.metadata_location).read_bytes())
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        table = ours.register_table("ns.t", str(metadata))
        if named:
            with pytest.raises(CorruptFileError, match=r"delete.*\.parquet deletes rows of .*\.parquet, .*SP7"):
                table.scan().plan_files()
        else:
            assert ids_of(table) == [1, 3, 3]
