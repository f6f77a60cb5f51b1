"""Whatever goes wrong with loaded entries: they are loaded again, or the error says of which table and manifest."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.errors import CorruptLogError, IcecoreError, StorageError
from icecore.projections.plan import file_queries, planner
from icecore.projections.segments.manifest_selection import StrayEntriesError

FAULTS = [
    IndexError("index 4 is out of bounds"),
    KeyError(4),
    duckdb.IOException("no such block"),
    pa.ArrowInvalid("a bad offset"),
    StrayEntriesError("1 of 2 entries must be of 1 manifests"),
]


def failing(real: Any, fault: Exception, times: int) -> Any:
    left = times

    def call(*args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left >= 0:
            raise fault
        return real(*args, **options)

    return call


@pytest.mark.parametrize("fault", FAULTS, ids=lambda e: type(e).__name__)
def test_entries_that_make_no_sense_are_loaded_again(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Once is the cache's fault; twice is an error of ours, which names the table and the manifest."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    (manifest,) = table.manifests()
    real = file_queries.data_files
    monkeypatch.setattr(file_queries, "data_files", failing(real, fault, 1))
    assert ids_of(table) == [1, 2]
    monkeypatch.setattr(file_queries, "data_files", failing(real, fault, 2))
    with pytest.raises(StorageError) as raised:
        table.scan().plan_files()
    assert not isinstance(raised.value, StrayEntriesError)
    assert "ns.t" in str(raised.value) and manifest.manifest.manifest_path in str(raised.value)
    assert str(fault) in str(raised.value)
    assert ids_of(table) == [1, 2], "the next plan starts over"


@pytest.mark.parametrize("fault", [TypeError("no number"), OverflowError("too large"), OSError("no such device")])
@pytest.mark.parametrize(
    ("module", "name"),
    [(file_queries, "data_files"), (file_queries, "count_files"), (planner, "matching_manifests")],
    ids=["data_files", "count_files", "matching_manifests"],
)
def test_no_foreign_error_leaves_the_planner(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, fault: Exception
) -> None:
    """What has nothing to do with what was loaded is named alike, and the cache stays."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    monkeypatch.setattr(module, name, failing(getattr(module, name), fault, 1))
    with pytest.raises(IcecoreError, match=r"^ns\.t: the entries of file:.*-m0\.avro can't be read: "):
        assert table.scan().plan().counts
    assert table.scan().plan().counts.files_planned == 1


def test_rows_of_no_manifest_are_not_planned(catalog: icecore.Catalog) -> None:
    """Rows that a segment should not have are not among those that a scan looks into."""
    table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
    table.append(rows(1))
    table.append(rows(2))
    assert ids_of(table) == [1, 2]
    tables = catalog._warehouse.planning.planner._tables
    (segment,) = tables._tables[table.state.stream].segments
    tables.connection.execute(
        f"INSERT INTO {segment.entries} BY NAME SELECT * REPLACE (7::INTEGER AS m) FROM {segment.entries}"
    )
    assert ids_of(table) == [1, 2]
    assert table.scan().plan().counts.files_total == 2


def test_a_manifest_with_fewer_entries_in_the_log_than_it_has_is_not_planned(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    repository, state, (snapshot,) = table._repository, table.state, table.snapshots()
    (listed,) = repository.list_manifests(state, snapshot)
    with pytest.raises(CorruptLogError, match="end too early"):
        repository.entries.canonical(state.stream, evolve(listed, row_count=2), repository.storage)
