"""Puffin files and deletion vectors of other writers. Spec: Puffin (PF1), Deletion Vectors (D5).

The folder of real tables is named by ICECORE_CORPUS, by default ../shared/corpus beside the checkout.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyroaring
import pytest

from icecore.engine.data.read.deletion_vector import MAGIC, decode_deletion_vector, encode_deletion_vector
from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.puffin import Blob, decode_blob, decode_footer, write_puffin

CORPUS = Path(os.environ.get("ICECORE_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(
    not (CORPUS / "MANIFEST.json").exists(), reason="no corpus of real tables: set ICECORE_CORPUS"
)
# A deletion vector that an early writer put into a file of its own, without Puffin's frame.
BARE_VECTORS = {"legacy-bare-deletion-vector.puffin"}
# Values with the highest bit set, which are no positions; Java refuses them too.
NOT_POSITIONS = {"64maphighvals.bin"}
DV = "deletion-vector-v1"


def of_kind(kind: str) -> list[Any]:
    if not (CORPUS / "MANIFEST.json").exists():
        return []
    found = [f for f in json.loads((CORPUS / "MANIFEST.json").read_text()) if f["kind"] == kind]
    return [pytest.param(CORPUS / f["path"], f["expected"]["validity"] == "valid", id=f["id"]) for f in found]


def files_of_tables() -> list[Any]:
    paths = [p for ending in ("*.puffin", "*.stats") for p in CORPUS.rglob(ending) if "_metadata" not in p.parts]
    return [pytest.param(p, id=str(p.relative_to(CORPUS))) for p in sorted(paths) if p.name not in BARE_VECTORS]


@pytest.mark.parametrize(("path", "valid"), of_kind("puffin"))
def test_pf1_files_of_the_manifest_are_read_or_refused_as_it_says(path: Path, valid: bool) -> None:
    data = path.read_bytes()
    if not valid:
        with pytest.raises(CorruptFileError, match=path.name):
            decode_footer(data, path.name)
        return
    check_blobs(data, path.name)


@pytest.mark.parametrize("path", files_of_tables())
def test_pf1_files_of_tables_are_read(path: Path) -> None:
    check_blobs(path.read_bytes(), path.name)


def check_blobs(data: bytes, name: str) -> None:
    """Reads all blobs, decodes those that are deletion vectors, and writes the same file from what was read."""
    footer = decode_footer(data, name)
    for blob in footer.blobs:
        content = decode_blob(data, blob, name)
        if blob.type == DV:
            positions = decode_deletion_vector(content, name)
            assert len(positions) == int(blob.properties["cardinality"])
            assert encode_deletion_vector(positions) == content
    blobs = [
        Blob(
            b.type,
            b.fields,
            b.snapshot_id,
            b.sequence_number,
            decode_blob(data, b, name),
            b.compression_codec,
            b.properties,
        )
        for b in footer.blobs
    ]
    again = write_puffin(blobs, properties=footer.properties)
    assert again.footer.properties.items() >= footer.properties.items()
    for old, new in zip(footer.blobs, again.footer.blobs, strict=True):
        assert decode_blob(again.data, new, "again") == decode_blob(data, old, name)
        assert (old.type, old.fields, old.snapshot_id, old.properties) == (
            new.type,
            new.fields,
            new.snapshot_id,
            new.properties,
        )


@pytest.mark.parametrize(("path", "valid"), of_kind("roaring-dv-bitmap"))
def test_d5_bitmaps_of_java_are_read_and_written_to_the_same_bytes(path: Path, valid: bool) -> None:
    assert valid
    data = path.read_bytes()
    if path.name.startswith("64map"):
        # Bitmaps alone, as the roaring format's own tests have them: framed here.
        body = MAGIC + data
        blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        if path.name in NOT_POSITIONS:
            with pytest.raises(CorruptFileError, match=path.name):
                decode_deletion_vector(blob, path.name)
            return
        positions = decode_deletion_vector(blob, path.name)
        assert decode_deletion_vector(encode_deletion_vector(positions), "again").tolist() == positions.tolist()
        assert len(positions) == (0 if "empty" in path.name else len(pyroaring.BitMap64.deserialize(data)))
        return
    positions = decode_deletion_vector(data, path.name)
    assert len(positions) > 0
    assert encode_deletion_vector(positions) == data
    assert encode_deletion_vector(pyroaring.BitMap64(positions.astype(np.uint64))) == data
