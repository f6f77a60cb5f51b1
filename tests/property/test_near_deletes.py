"""Delete files that are chosen by partition and name before they are paired are all that apply to the data files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from budgets import examples
from core_tables import make_table
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.errors import CorruptFileError
from icecore.engine.queries import duck
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.plan.deletes import live_deletes as kept
from icecore.projections.plan.deletes.delete_kinds import DeleteKinds
from icecore.projections.plan.deletes.delete_pairs import numbered
from icecore.projections.plan.deletes.live_deletes import DeleteEntries
from icecore.projections.plan.deletes.pair_statement import live_deletes, near_some

PATHS = [f"{scheme}{path}" for path in ("/w/a", "/w/b", "/w/c") for scheme in ("", "file:", "file://")]
PATHS += [f"{scheme}://w/a" for scheme in ("s3", "s3a", "s3n", "gs")]
PARTITIONED, UNPARTITIONED = 0, 1
# A spec and a key of one of its partitions.
PARTITIONS = [(PARTITIONED, b"a"), (PARTITIONED, b"b"), (UNPARTITIONED, b"")]

partitions, paths, numbers = st.sampled_from(PARTITIONS), st.sampled_from(PATHS), st.integers(1, 3)
DATA = st.tuples(partitions, paths, numbers)
DELETE = st.tuples(partitions, st.none() | paths, numbers, st.sampled_from(["vector", "positions", "equality"]))

DATA_SCHEMA = pa.schema(
    [
        ("file_path", pa.string()),
        ("record_count", pa.int64()),
        ("sequence_number", pa.int64()),
        ("partition_key", pa.binary()),
    ]
)
DELETE_SCHEMA = pa.schema(
    [
        ("status", pa.int32()),
        ("content", pa.int32()),
        ("file_format", pa.string()),
        ("spec_id", pa.int32()),
        ("sequence_number", pa.int64()),
        ("partition_key", pa.binary()),
        ("referenced_data_file", pa.string()),
        ("equality_ids", pa.list_(pa.int32())),
    ]
)


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableMetadata]:
    """Those of a table with a spec of one partition column, and one of none."""
    with icecore.open(tmp_path_factory.mktemp("near") / "warehouse") as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, partition_spec=["name"], format_version=2)
        table.update_spec().remove_field("name").commit()
        assert [s.is_unpartitioned for s in table.metadata.partition_specs] == [False, True]
        yield table.metadata


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as con:
        yield con


def delete_entries(connection: duckdb.DuckDBPyConnection, deletes: list[Any]) -> DeleteEntries:
    found = [
        (1, 2 if kind == "equality" else 1, "PUFFIN" if kind == "vector" else "PARQUET", spec, number, key, path, [1])
        for (spec, key), path, number, kind in deletes
    ]
    rows = [dict(zip(DELETE_SCHEMA.names, row, strict=True)) for row in found]
    entries = pa.Table.from_pylist(rows, schema=DELETE_SCHEMA)
    connection.register("given", entries)
    kinds = DeleteKinds.of_query(connection, "given")
    files = pa.table({"file_path": [f"d{i}" for i in range(len(deletes))]})
    return DeleteEntries.of(kinds, files, numbered(entries), {})


def pairs_or_error(entries: DeleteEntries, connection: Any, files: pa.Table, metadata: TableMetadata) -> object:
    """The pairs, or that a file is in another partition than the delete file that names it."""
    try:
        found = entries.pairs(connection, files, metadata)
    except CorruptFileError:
        return "SP7"
    return sorted(zip(found.files.tolist(), found.deletes.tolist(), strict=True))


@examples(60)
@given(st.lists(DATA, min_size=1, max_size=4), st.lists(DELETE, max_size=6))
def test_sp2_to_sp7_pairs_of_near_deletes_are_all_pairs(
    connection: duckdb.DuckDBPyConnection, metadata: TableMetadata, data: list[Any], deletes: list[Any]
) -> None:
    found = [(path, 1, number, key) for (_, key), path, number in data]
    files = pa.Table.from_pylist([dict(zip(DATA_SCHEMA.names, row, strict=True)) for row in found], schema=DATA_SCHEMA)
    entries = delete_entries(connection, deletes)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(kept, "FEW_FILES", 0)
        every = pairs_or_error(entries, connection, files, metadata)
    assert pairs_or_error(entries, connection, files, metadata) == every
    parameters = {"unpartitioned": [UNPARTITIONED]}
    with duck.registered(connection, "data", files), duck.registered(connection, "entries", entries.entries):
        near = duck.arrow(connection, live_deletes("entries", {}, near_some("data")), parameters).sort_by("number")
    assert near["number"].to_pylist() == entries.near(files, metadata)["number"].to_pylist()
    read = DeleteEntries.of(entries.kinds, entries.files, near, {})
    assert pairs_or_error(read, connection, files, metadata) == every
