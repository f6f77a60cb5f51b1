"""Catalogs, tables, scans and plans that are pickled, as for the workers of multiprocessing, joblib, Dask and Ray."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, make_table, repository_of, rows

import icecore
from icecore.engine.errors import ForbiddenLocationError, ReadOnlyError, StorageError


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    made = make_table(catalog)
    for number in range(3):
        made.append(rows(number))
    return made


def work(part: tuple[icecore.Table, Any, Any, int]) -> list[int]:
    """What a worker does with what it is sent."""
    table, scan, plan, number = part
    table.append(rows(number), message=f"worker {number}")
    return [scan.count(), plan.counts.files_planned, sum(t.file.record_count for t in plan.tasks)]


def test_workers_commit_and_read_with_what_they_are_sent(table: icecore.Table) -> None:
    scan = table.scan("id >= 1")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = [(table, scan, scan.plan(), number) for number in range(10, 16)]
        assert pool.map(work, parts, chunksize=1) == [[2, 2, 2]] * 6
    table.refresh()
    assert ids_of(table) == [0, 1, 2, *range(10, 16)]


def test_a_table_arrives_as_it_was_and_can_be_refreshed(catalog: icecore.Catalog, table: icecore.Table) -> None:
    data = pickle.dumps(table)
    catalog.load_table("ns.t").append(rows(7))
    arrived = pickle.loads(data)
    assert arrived.metadata == table.metadata and ids_of(arrived) == [0, 1, 2]
    assert ids_of(arrived.refresh()) == [0, 1, 2, 7]
    assert ids_of(copy.deepcopy(table)) == [0, 1, 2]


def test_what_comes_from_one_log_shares_one(table: icecore.Table) -> None:
    """Each task of a worker would open it anew, and expand manifests that another one has."""
    one, other, scan = sent(table), sent(table), sent(table.scan())
    assert one._repository is other._repository is scan._planner.repository
    assert one._planning.planner is other._planning.planner is scan._planner


def test_a_scan_arrives_with_its_options(table: icecore.Table) -> None:
    scan = table.scan("id > 0", selected_fields=("id",), limit=5, snapshot_id=table.snapshots()[1].snapshot_id)
    scan.plan()
    assert sent(scan).to_arrow() == scan.to_arrow()
    assert sent(scan).filter("id > 1").count() == 0
    first = table.snapshots()[0].snapshot_id
    added = table.incremental_append_scan(from_snapshot_id_exclusive=first)
    assert sorted(sent(added).to_arrow()["id"].to_pylist()) == [1, 2]
    assert sent(scan.plan()).to_arrow() == scan.plan().to_arrow() and sent(scan.plan()).counts == scan.plan().counts


def test_a_catalog_arrives_as_it_was_opened(catalog: icecore.Catalog, warehouse: Path) -> None:
    make_table(catalog)
    with icecore.open(warehouse, actor="zoe", location_roots=["/data/shared"]) as lake, sent(lake) as arrived:
        arrived.load_table("ns.t").append(rows(1))
        assert arrived.log()["actor"].to_pylist()[-1] == "zoe"
        with pytest.raises(ForbiddenLocationError):
            sent(lake.load_table("ns.t")).set_properties({"write.data.path": "/data/other"})
        with pytest.raises(ForbiddenLocationError):
            arrived.create_table("ns.u", SCHEMA, location="/data/other")
    with icecore.open(warehouse, read_only=True) as lake, sent(lake) as arrived:
        for table in (arrived.load_table("ns.t"), sent(lake.load_table("ns.t"))):
            with pytest.raises(ReadOnlyError):
                table.append(rows(2))


def test_a_folder_that_is_made_anew_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    for number in range(2):
        with icecore.open(tmp_path / "w") as lake:
            lake.create_namespace("ns")
            table = make_table(lake)
            table.append(rows(number))
            assert ids_of(sent(table)) == [number]
            data = pickle.dumps((table, table.scan()))
        shutil.move(tmp_path / "w", tmp_path / f"was{number}")
        with pytest.raises(StorageError, match=f"no warehouse log at {tmp_path}/w/icecore.db"):
            pickle.loads(data)


def test_what_can_not_be_sent_says_what_can(catalog: icecore.Catalog, table: icecore.Table) -> None:
    catalog.create_view("ns.v", "SELECT id FROM ns.t")
    refused = {
        "Transaction can't be pickled .* send the table": table.transaction(),
        "CatalogTransaction can't be pickled": catalog.transaction(),
        "UpdateSchema can't be pickled": table.update_schema(),
        "a View can't be pickled: send the catalog": catalog.load_view("ns.v"),
        "an open log can't be pickled: send the catalog": catalog.at(2),
    }
    for text, value in refused.items():
        with pytest.raises(TypeError, match=text):
            pickle.dumps(value)
        with pytest.raises(TypeError, match=r"can't be pickled"):
            copy.deepcopy(value)
    assert repository_of(catalog).store.head()[0] == catalog.position
