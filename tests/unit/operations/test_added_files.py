"""Content files that can't be written to a table's manifests, or mislead readers, are refused before they are stored.

Spec: Manifests (M2, M4, M5), Delete Formats (D1), Row Lineage (RL3).
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from attrs import evolve
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.commit import added_files
from icecore.engine.errors import ValidationError
from icecore.engine.formats.typed_values import typed_values
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.table.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])
FILE = ContentFile(DataFileContent.DATA, "file:///elsewhere/a.parquet", FileFormat.PARQUET, 0, (), 1, 100)
LONG = (7).to_bytes(8, "little")
WRONG: dict[str, dict[str, Any]] = {
    "an empty path": {"file_path": ""},
    "a blank path": {"file_path": " \t"},
    "a path with NUL": {"file_path": "a\0b"},
    "a path with a lone surrogate": {"file_path": "a\ud800"},
    "a path of bytes": {"file_path": b"abc"},
    "no path": {"file_path": None},
    "an unknown format": {"file_format": "lance"},
    "no format": {"file_format": None},
    "data in Puffin": {"file_format": FileFormat.PUFFIN},
    "an unknown spec": {"spec_id": 7},
    "a negative spec": {"spec_id": -1},
    "a spec that is text": {"spec_id": "0"},
    "a spec that is a list": {"spec_id": [0]},
    "too many partition values": {"partition": (1,)},
    "no partition": {"partition": None},
    "a negative count": {"record_count": -1},
    "a count of more than 64 bits": {"record_count": 2**63},
    "no count": {"record_count": None},
    "a count that is text": {"record_count": "1"},
    "a fraction of a record": {"record_count": 1.5},
    "a count that is a truth": {"record_count": True},
    "a negative size": {"file_size_in_bytes": -5},
    "a metric that is null": {"value_counts": {1: None}},
    "a metric of a name": {"value_counts": {"id": 1}},
    "a negative metric": {"null_value_counts": {1: -4}},
    "a metric of more than 64 bits": {"column_sizes": {1: 2**63}},
    "a field id of more than 32 bits": {"nan_value_counts": {2**40: 1}},
    "metrics in a list": {"value_counts": [1]},
    "a bound that is text": {"lower_bounds": {2: "abc"}},
    "a bound that is null": {"upper_bounds": {1: None}},
    "a bound of another type": {"lower_bounds": {1: b"a"}},
    "a bound that is no text": {"upper_bounds": {2: b"\xff"}},
    "key metadata that is text": {"key_metadata": "abc"},
    "a null offset": {"split_offsets": (4, None)},
    "a negative offset": {"split_offsets": (-1,)},
    "equality ids of a data file": {"equality_ids": (1,)},
    "a sort order of more than 32 bits": {"sort_order_id": 2**40},
    "a data file that refers to another": {"referenced_data_file": "x"},
    "a data file inside of another": {"content_offset": 4},
    "position deletes": {"content": DataFileContent.POSITION_DELETES},
    "equality deletes": {"content": DataFileContent.EQUALITY_DELETES},
    "an unknown content": {"content": 9},
    "no content": {"content": None},
}


def adding(table: Table, verb: str, file: Any) -> object:
    match verb:
        case "append_files":
            return table.append_files([file])
        case "overwrite_files":
            return table.overwrite_files([], [file])
        case "row_delta":
            return table.row_delta([file])
        case "transaction":
            with table.transaction() as transaction:
                transaction.set_properties({"a": "b"})
                transaction.append_files([file])
            return None
        case _:
            old = [task.file for task in table.scan().plan_files()]
            return table.rewrite_files(old, [file])


@pytest.mark.parametrize("verb", ["append_files", "overwrite_files", "row_delta", "rewrite_files", "transaction"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_m2_what_no_manifest_can_hold_is_refused_by_every_verb(
    catalog: icecore.Catalog, version: int, verb: str
) -> None:
    """The error names the file, nothing is stored, and the table goes on for everybody."""
    table = catalog.create_table("ns.t", SCHEMA, format_version=version)
    table.append([{"id": 1, "s": "x"}])
    position = catalog.position
    for what, change in WRONG.items():
        file = evolve(FILE, **change)
        with pytest.raises(ValidationError, match=r"file|content|deletes") as caught:
            adding(table, verb, file)
        assert repr(file.file_path) in str(caught.value) or str(file.file_path) in str(caught.value), what
        assert catalog.position == position, what
    for no_file in ("a.parquet", None, 5):
        with pytest.raises(ValidationError, match="ContentFile"):
            adding(table, verb, no_file)
    table.append([{"id": 2, "s": "y"}])
    assert catalog.verify().ok


def only_the_file_is_missed(catalog: icecore.Catalog) -> bool:
    """The file is described only, but all metadata that names it is there."""
    return all("elsewhere" in problem for problem in catalog.verify().problems)


PARTITIONS: list[tuple[pa.DataType, str, Any]] = [
    (pa.int64(), "bucket(4, c)", 4),
    (pa.int64(), "bucket(4, c)", -1),
    (pa.int64(), "c", 2**63),
    (pa.int64(), "c", "1"),
    (pa.int64(), "c", True),
    (pa.int32(), "truncate(10, c)", 7),
    (pa.int32(), "c", 2**31),
    (pa.date32(), "day(c)", 2**31),
    (pa.date32(), "year(c)", "2024"),
    (pa.timestamp("us"), "hour(c)", 1.5),
    (pa.string(), "truncate(2, c)", "abc"),
    (pa.string(), "c", "a\ud800"),
    (pa.string(), "c", 5),
    (pa.string(), "c", b"a"),
    (pa.bool_(), "c", "yes"),
    (pa.binary(3), "c", b"ab"),
    (pa.binary(3), "c", 3),
    (pa.decimal128(4, 2), "c", Decimal("1000")),
    (pa.decimal128(4, 2), "c", Decimal("0.001")),
    (pa.decimal128(4, 2), "c", Decimal("NaN")),
    (pa.decimal128(4, 2), "truncate(50, c)", Decimal("0.01")),
    (pa.decimal128(4, 2), "c", 1),
    (pa.float64(), "c", "1.0"),
    (pa.uuid(), "c", UUID(int=1).bytes),
    (pa.int64(), "void(c)", 1),
]


@pytest.mark.parametrize("t, term, value", PARTITIONS, ids=lambda v: str(v)[:20])
def test_pt1_partition_values_that_the_transform_never_gives_are_refused(
    catalog: icecore.Catalog, t: pa.DataType, term: str, value: Any
) -> None:
    """By them a plan would leave the file's rows out, or no manifest could be written."""
    table = catalog.create_table("ns.t", pa.schema([("c", t)]), partition_spec=[term])
    position = catalog.position
    with pytest.raises(ValidationError, match=r"a\.parquet"):
        table.append_files([evolve(FILE, partition=(value,))])
    assert catalog.position == position
    table.append_files([evolve(FILE, partition=(None,))])
    assert only_the_file_is_missed(catalog)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rl3_files_of_a_v3_table_are_taken_without_its_row_ids(
    catalog: icecore.Catalog, warehouse: Path, version: int
) -> None:
    """As in Java: the rows are new ones here, with new ids in a v3 table and none in others."""
    source = catalog.create_table("ns.source", SCHEMA, format_version=3)
    source.append([{"id": 1, "s": "x"}])
    table = catalog.create_table("ns.t", SCHEMA, format_version=version)
    table.append([{"id": 0, "s": "w"}, {"id": 0, "s": "w"}])
    files = [task.file for task in source.scan().plan_files()]
    assert [f.first_row_id for f in files] == [0]
    table.append_files(files)
    ids = {task.file.record_count: task.file.first_row_id for task in table.scan().plan_files()}
    assert ids == ({2: 0, 1: 2} if version == 3 else {2: None, 1: None})
    if version < 3:
        peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))
        assert sorted(peer.load_table("ns.t").scan().to_arrow()["id"].to_pylist()) == [0, 0, 1]
    assert catalog.verify().ok


def test_m5_metrics_that_a_writer_did_not_know_are_taken(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    table.append_files([evolve(FILE, null_value_counts={1: -1}, lower_bounds={1: LONG, 99: b"?"}, split_offsets=())])
    assert only_the_file_is_missed(catalog)


def test_a_wrong_bound_is_named_among_many_which_are_looked_at_once_for_each_type(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred columns are of few types; each look takes as long for one value as for all."""
    columns = [(f"i{n}", pa.int64()) for n in range(3)] + [(f"s{n}", pa.string()) for n in range(3)]
    table = catalog.create_table("ns.wide", pa.schema(columns))
    looks: list[str] = []

    def look(kind: Any, values: Any) -> pa.Array:
        looks.append(f"{len(values)} of {kind}")
        return typed_values(kind, values)

    monkeypatch.setattr(added_files, "typed_values", look)
    bounds = {**dict.fromkeys((1, 2, 3), LONG), **dict.fromkeys((4, 5, 6), b"a")}
    files = [evolve(FILE, file_path=f"file:///elsewhere/{n}.parquet", lower_bounds=bounds) for n in range(3)]
    files[1] = evolve(files[1], upper_bounds={2: LONG, 5: b"\xff"})
    with pytest.raises(
        ValidationError, match=r"1\.parquet': in upper_bounds b'\\xff' is no binary value of column 's1'"
    ):
        table.append_files(files)
    table.append_files([files[0], files[2]])
    assert looks == ["10 of long", "10 of string", "6 of long", "6 of string"]


def test_nothing_foreign_leaves_for_paths_that_no_storage_has(catalog: icecore.Catalog) -> None:
    """Files to be taken in, tables to be registered, and locations of tables."""
    table = catalog.create_table("ns.t", SCHEMA)
    position = catalog.position
    for path in (" ", "a\0b", "a\ud800.parquet", "/\udcff/x.metadata.json"):
        with pytest.raises(icecore.IcecoreError):
            table.add_files([path])
        with pytest.raises(icecore.IcecoreError):
            table.overwrite_files([path])
        with pytest.raises(icecore.IcecoreError):
            catalog.register_table("ns.r", path)
        with pytest.raises(icecore.IcecoreError):
            catalog.create_table("ns.c", SCHEMA, location=path)
    assert catalog.position == position
