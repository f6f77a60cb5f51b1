"""The planner of a warehouse: made once, when something plans, and gone with the warehouse; manifests that it keeps."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from attrs import asdict, evolve
from core_tables import SCHEMA, ids_of, make_table, rows

import icecore
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import parse_filter
from icecore.projections.plan import planner as planner_module
from icecore.projections.plan.manifest_pruning import matching_manifests


def test_threads_that_ask_at_once_get_one_planner(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would have a DuckDB that nobody closes."""
    real, made = planner_module.Planner, []
    together = threading.Barrier(4)

    def make(*args: Any) -> planner_module.Planner:
        made.append(real(*args))
        return made[-1]

    def ask(_: int) -> planner_module.Planner:
        together.wait(60)
        return catalog._warehouse.planning.planner

    monkeypatch.setattr(planner_module, "Planner", make)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert len(made) == 1
    assert all(planner is made[0] for planner in found)


def test_a_closed_warehouse_has_no_duckdb(tmp_path: Path) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog)
        table.append(rows(1))
        assert ids_of(table) == [1]
        tables = catalog._warehouse.planning.planner._tables
        assert tables._instance is not None
    assert tables._instance is None


def test_a_warehouse_that_planned_nothing_closes_and_is_rebuilt_without_a_planner(tmp_path: Path) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        make_table(catalog)
        catalog.rebuild()
    assert catalog._warehouse.planning._planner is None


def test_a_manifest_without_a_summary_for_each_field_is_kept(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, partition_spec=["name"])
    table.append(rows(1))
    [listed], schema = table.manifests(), table.schema()
    nobody = bind(parse_filter("name = 'nobody'"), schema)
    summaries = listed.manifest.partitions
    assert summaries is not None
    with duckdb.connect() as connection:
        for partitions, is_kept in ((summaries, False), (None, True), ((), True), (summaries * 2, True)):
            given = evolve(listed, manifest=evolve(listed.manifest, partitions=partitions))
            found = matching_manifests(connection, [given], nobody, table.metadata.specs, schema, schema)
            assert found == [given] * is_kept


def test_a_plan_counts_files_and_rows(catalog: icecore.Catalog) -> None:
    """Of an empty table, and of one with files that are left out for each reason."""
    table = make_table(catalog, partition_spec=["name"], properties={"write.delete.mode": "merge-on-read"})
    assert {n: v for n, v in asdict(table.scan().plan().counts).items() if v and n != "seconds"} == {}
    for appended in (rows(1, 2), pa.table({"id": [20, 21, 22], "name": ["n1"] * 3}, schema=SCHEMA), rows(8, 9)):
        table.append(appended)
    table.delete("id = 21")
    counts = table.scan("name = 'n1' AND id > 10").plan().counts
    assert (counts.manifests_total, counts.manifests_scanned) == (4, 3)
    assert (counts.files_total, counts.records_total) == (5, 7)
    assert (counts.pruned_by_manifest, counts.pruned_by_partition, counts.pruned_by_metrics) == (2, 1, 1)
    assert (counts.files_planned, counts.records_planned, counts.delete_files_planned) == (1, 3, 1)
