"""Metadata files with a byte changed or cut off: an IcecoreError, or a value that round-trips; never anything else.

JSON has no checksum, so a changed digit can be another valid value; `verify` finds it in files that the log wrote.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import icecore


@pytest.fixture
def metadata(catalog: icecore.Catalog) -> bytes:
    table = catalog.create_table(
        "ns.t",
        pa.schema([("id", pa.int64()), ("l", pa.list_(pa.struct([("a", pa.decimal128(9, 2))])))]),
        partition_spec=["bucket(4, id)"],
        sort_order=["id desc"],
        format_version=3,
    )
    table.append([{"id": 1, "l": []}])
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "t").commit()
    assert table.metadata_location is not None
    return Path(table.metadata_location.removeprefix("file://")).read_bytes()


def test_flipped_bytes(metadata: bytes) -> None:
    """Each byte with one of its bits flipped, the bit going round."""
    for i in range(len(metadata)):
        check(metadata[:i] + bytes([metadata[i] ^ 1 << i % 8]) + metadata[i + 1 :])


def test_cut_files(metadata: bytes) -> None:
    """Every proper prefix is refused."""
    for end in range(0, len(metadata), 7):
        with pytest.raises(icecore.IcecoreError):
            icecore.TableMetadata.from_json(metadata[:end])


def check(data: bytes) -> None:
    try:
        value = icecore.TableMetadata.from_json(data)
    except icecore.IcecoreError:
        return
    assert icecore.TableMetadata.from_json(value.to_json()) == value
