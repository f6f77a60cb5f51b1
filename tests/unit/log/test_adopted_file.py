"""What an event keeps of another engine's metadata file."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.errors import CorruptLogError
from icecore.engine.events.files_of_others import adopted_metadata, kept_file, original_bytes
from icecore.engine.spec.metadata import TableMetadata


def payload_of(data: bytes) -> dict[str, Any]:
    payload = {"metadata-location": "file:///w/ns/t/metadata/00001-x.metadata.json", **kept_file(data)}
    found: dict[str, Any] = orjson.loads(orjson.dumps(payload))
    return found


@pytest.fixture
def metadata(catalog: icecore.Catalog) -> TableMetadata:
    table = make_table(catalog)
    for i in range(20):
        table.append(rows(i))
    return table.metadata


def test_the_bytes_and_what_they_say_come_back(metadata: TableMetadata) -> None:
    data = metadata.to_json()
    payload = payload_of(data)
    assert original_bytes(payload) == data
    assert adopted_metadata(payload, "another") == metadata
    assert len(orjson.dumps(payload)) < len(data) / 3


def test_early_events_have_the_metadata_beside_the_file(metadata: TableMetadata) -> None:
    early = {**payload_of(b"not looked at"), "metadata": metadata.to_dict()}
    assert adopted_metadata(early, "another") == metadata


def test_g1_a_v1_file_without_uuid_is_of_the_table(metadata: TableMetadata) -> None:
    obj = metadata.to_dict() | {"format-version": 1, "schema": metadata.schema().to_dict()}
    obj |= {"partition-spec": []}
    del obj["table-uuid"]
    assert adopted_metadata(payload_of(orjson.dumps(obj)), "the-table").table_uuid == "the-table"


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata-file": "AAAA"},
        {"metadata-file": 1},
        {"metadata-sha256": "0" * 64},
        kept_file(b"{}"),
        kept_file(b'{"format-version": 9}'),
    ],
)
def test_what_can_not_be_read_names_the_file(metadata: TableMetadata, broken: dict[str, Any]) -> None:
    with pytest.raises(CorruptLogError, match=r"00001-x\.metadata\.json"):
        adopted_metadata(payload_of(metadata.to_json()) | broken, None)
