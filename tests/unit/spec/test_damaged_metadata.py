"""Metadata files with a byte changed or cut off: an IcecoreError, or a value that round-trips; never anything else.

JSON has no checksum, so a changed digit can be another valid value; `verify` finds it in files that the log wrote.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


ODD: tuple[Any, ...] = (None, "x", "", "12", -1, 0, 99, 1.5, True, [], {}, [None], 2**31, 2**63, -(2**63) - 1, 10**30)


def test_every_value_replaced(metadata: bytes) -> None:
    """Each value by one of another kind, or of the same kind and out of range."""
    whole = json.loads(metadata)
    whole["schemas"][0]["fields"][0]["required"] = True
    whole["schemas"][0]["identifier-field-ids"] = [1]
    check(json.dumps(whole).encode())
    for path in paths(whole):
        for value in ODD:
            changed = copy.deepcopy(whole)
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = value
            check(json.dumps(changed).encode())


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in parts:
        yield (*path, key)
        yield from paths(inner, (*path, key))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("last-column-id",), 2**31),
        (("last-partition-id",), 2**31),
        (("last-updated-ms",), 2**63),
        (("last-sequence-number",), 2**63),
        (("last-sequence-number",), 0),
        (("schemas", 0, "schema-id"), 2**31),
        (("schemas", 0, "fields", 0, "id"), 2**31),
        (("partition-specs", 0, "spec-id"), 2**31),
        (("partition-specs", 0, "fields", 0, "field-id"), 2**31),
        (("sort-orders", 0, "order-id"), 2**31),
        (("snapshots", 0, "sequence-number"), 99),
        (("snapshots", 0, "timestamp-ms"), 2**63),
        (("snapshots", 0, "schema-id"), 2**31),
    ],
    ids=str,
)
def test_numbers_that_java_refuses_are_refused(metadata: bytes, path: tuple[Any, ...], value: int) -> None:
    """MD1, M2: Iceberg 1.11.0's TableMetadataParser refuses each of these; the ids would fit no manifest."""
    changed = json.loads(metadata)
    parent = changed
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    with pytest.raises(icecore.IcecoreError, match=str(value)):
        icecore.TableMetadata.from_json(json.dumps(changed).encode())


def check(data: bytes) -> None:
    try:
        value = icecore.TableMetadata.from_json(data)
    except icecore.IcecoreError:
        return
    assert icecore.TableMetadata.from_json(value.to_json()) == value


def test_row_ids_go_on_above_those_that_were_given(metadata: bytes) -> None:
    """RL4: where an early writer left next-row-id out."""
    changed = json.loads(metadata)
    changed["snapshots"][0] |= {"first-row-id": 40, "added-rows": 2}
    assert icecore.TableMetadata.from_json(json.dumps(changed).encode()).next_row_id == 1
    del changed["next-row-id"]
    assert icecore.TableMetadata.from_json(json.dumps(changed).encode()).next_row_id == 42
