"""Values in places that are easily passed over: in variants, behind links, in object stores, in damaged files."""

from __future__ import annotations

import gzip
import struct
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.events.provenance import Client, on_behalf_of
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.forget import find_value
from icecore.engine.storage.listing import FoundFile

DAYS_2024_02_29 = 19_782
UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def variant(type_id: int, data: bytes) -> bytes:
    """An object of a list of one primitive: `{"ssn": [..]}`."""
    primitive = bytes([type_id << 2]) + data
    array = bytes([0x03, 1, 0, len(primitive)]) + primitive
    return bytes([0x02, 1, 0, 0, len(array)]) + array


@pytest.mark.parametrize(
    ("text", "type_id", "data"),
    [
        ("123456789", 5, struct.pack("<i", 123_456_789)),
        ("-12", 3, struct.pack("<b", -12)),
        ("12.50", 8, bytes([1]) + struct.pack("<i", 125)),
        ("0.25", 7, struct.pack("<d", 0.25)),
        ("2024-02-29", 11, struct.pack("<i", DAYS_2024_02_29)),
        ("2024-02-29 00:00:00", 13, struct.pack("<q", DAYS_2024_02_29 * 86_400_000_000)),
        ("true", 1, b""),
        (str(UUID), 20, UUID.bytes),
        ("Ottoline", 16, struct.pack("<i", 8) + b"Ottoline"),
    ],
)
def test_values_in_variants(catalog: icecore.Catalog, text: str, type_id: int, data: bytes) -> None:
    """Whatever they are nested in; another value is not there."""
    table = catalog.create_table("ns.v", parse_schema("id long, v variant"), format_version=3)
    parts = [pa.array([b"\x01\x01\x00\x03ssn"]), pa.array([variant(type_id, data)])]
    column = pa.StructArray.from_arrays(parts, ["metadata", "value"])
    table.append(pa.table({"id": pa.array([77], pa.int64()), "v": column}))
    places = catalog.find_value(text, table="ns.v", column="v").places
    assert [p.what for p in places if p.where.endswith(".parquet")] == [("v",)]
    assert catalog.find_value("987654321", table="ns.v", column="v").is_nowhere


def test_files_behind_a_link(catalog: icecore.Catalog, warehouse: Path, tmp_path: Path) -> None:
    """A folder of the table may lie on another disk, and may lead back to itself."""
    make_table(catalog).append(rows(1))
    data = warehouse / "ns" / "t" / "data"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "again").symlink_to(warehouse)
    pq.write_table(pa.table({"a": ["left behind"]}), tmp_path / "elsewhere" / "left.parquet")
    [place] = catalog.find_value("left behind").places
    assert place.where.endswith("data/left.parquet")


@pytest.mark.parametrize("harm", ["cut", "changed", "no gzip"])
def test_a_damaged_file_is_unread(catalog: icecore.Catalog, warehouse: Path, harm: str) -> None:
    make_table(catalog).append(rows(1))
    packed = bytearray(gzip.compress(b"hello world" * 100))
    packed[14] ^= 0xFF if harm == "changed" else 0
    left = {"cut": packed[:30], "changed": packed, "no gzip": packed[:2] + b"x" * 30}[harm]
    (warehouse / "ns" / "t" / "data" / "x.gz").write_bytes(left)
    found = catalog.find_value("zzz")
    assert [Path(name).name for name in found.unread] == ["x.gz"] and not found.is_nowhere


def test_who_asked_for_a_commit_is_searched(catalog: icecore.Catalog) -> None:
    """The program and the ids that a client gave stand in the event beside the actor."""
    table = make_table(catalog)
    with on_behalf_of(Client(engine="job of Smith", correlation_id="Smith-77")):
        table.append(rows(1))
    [place] = catalog.find_value("Smith", table="ns.t").places
    assert place.what == ("engine", "correlation id")


def test_files_in_an_object_store_are_searched_or_unread(
    catalog: icecore.Catalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that no snapshot needs, too; what can't be listed nobody knows of."""
    make_table(catalog).append(rows(1))
    put = warehouse.parent / "left.txt"
    put.write_text("in the store")
    monkeypatch.setattr(find_value, "folders_of", lambda state: ["s3://bucket/t"])
    monkeypatch.setattr(find_value, "list_files", lambda *_: [FoundFile(put.as_uri(), 12, None)])
    assert [p.where for p in catalog.find_value("in the store").places] == [put.as_uri()]

    def unreachable(*_: object) -> None:
        raise StorageError("no answer")

    monkeypatch.setattr(find_value, "list_files", unreachable)
    found = catalog.find_value("in the store")
    assert found.unread == {"s3://bucket/t": "no answer"} and not found.is_nowhere


def test_text_that_is_no_unicode_is_refused(catalog: icecore.Catalog) -> None:
    with pytest.raises(ValidationError, match="is no Unicode text"):
        catalog.find_value("\udc80")
