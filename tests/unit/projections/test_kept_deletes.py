"""Delete files apply where the spec says (SP2 to SP6), kept from plan to plan or read each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import icecore
from icecore.engine.data.write.conform import conform
from icecore.engine.operations.copy_on_write import write_again
from icecore.engine.operations.equality_deletes import write_key_deletes
from icecore.engine.queries import duck
from icecore.projections.plan.deletes import live_deletes

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("part", pa.int32())])
FILTERS = (None, "id = 7", "part = 1", "name > 'n3' AND part = 0", "id BETWEEN 3 AND 11 OR name = 'n1'")


def rows(*ids: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "name": f"n{i}", "part": i % 2} for i in ids], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path, request: pytest.FixtureRequest) -> icecore.Table:
    """Position deletes, in v3 vectors beside older ones; equality deletes of two specs, one unpartitioned."""
    version: int = request.param
    catalog = icecore.open(tmp_path)
    request.addfinalizer(catalog.close)
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(*range(6)))
    table.delete_keys([{"id": 5}], ["id"])
    with table.update_spec() as spec:
        spec.add_field("part")
    table.append(rows(*range(6, 12)))
    table.delete("id = 7")
    table.delete_keys([{"name": "n8", "part": 0}], ["name", "part"])
    if version == 3:
        table.upgrade(3)
    table.delete("id IN (1, 9)")
    table.append(rows(*range(12, 15)))
    return table


def near(table: icecore.Table, condition: str | None) -> int:
    """The number of delete files that a plan looks at."""
    return int(table.scan(condition).planned.deletes.num_rows)


def plans(table: icecore.Table) -> list[list[dict[str, Any]]]:
    return [table.scan(f).plan().to_arrow().to_pylist() for f in FILTERS]


@pytest.mark.parametrize("table", [2, 3], indirect=True)
def test_kept_or_read_each_time(table: icecore.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("first", "one more delete", "another column as key"):
        with monkeypatch.context() as m:
            m.setattr(live_deletes, "FEW_FILES", 0)
            with icecore.open(tmp_path) as other:
                assert plans(other.load_table("ns.t")) == plans(table), "paired with all"
            m.setattr(live_deletes, "KEPT_DELETES", 0)
            with icecore.open(tmp_path) as other:
                read = plans(other.load_table("ns.t"))
        assert plans(table) == read, step
        with monkeypatch.context() as m, icecore.open(tmp_path) as other:
            m.setattr(live_deletes, "KEPT_DELETES", 0)
            assert plans(other.load_table("ns.t")) == read, "only near ones are read"
            assert near(other.load_table("ns.t"), "id = 13") < near(other.load_table("ns.t"), None)
        assert sum(len(f["delete_files"]) for f in read[0]) > 3
        with duck.recording() as again:
            assert plans(table) == read, "asked again"
        assert not [s for s in again if "plain_" in s.sql and " AS plain_" in s.sql], "bounds are kept"
        assert [s for s in again if live_deletes.ENTRIES in s.sql]
        if step == "first":
            table.delete("id = 10")
        else:
            table.delete_keys([{"name": "n0"}], ["name"])
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3, 4, 6, 11, 12, 13, 14]


def test_sp4_position_deletes_of_a_file_hold_beside_the_vector_of_another(catalog: icecore.Catalog) -> None:
    """They apply to each of their files but the one that got a vector since."""
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = catalog.create_table("ns.t", SCHEMA, properties=properties)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    table.delete("id IN (1, 4)")
    table.upgrade(3)
    table.delete("id = 2")
    found = {t.file.record_count: [d.file_format.name for d in t.delete_files] for t in table.scan().plan_files()}
    assert found == {3: ["PUFFIN"], 2: ["PARQUET"]}
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [3, 5]


@pytest.mark.parametrize("partition_spec", [[], ["part"]])
def test_sp3_deletes_by_key_spare_the_rows_of_their_own_commit(
    catalog: icecore.Catalog, partition_spec: list[str]
) -> None:
    """As streaming engines commit an update: the old row goes by its key, with the new one beside."""
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=partition_spec)
    table.append(rows(1, 2))
    storage = table._repository.storage_of(table.state)
    deletes = write_key_deletes(rows(1), ["id", "part"], table.metadata, storage)
    table.row_delta(write_again(conform(rows(1), table.schema()), table.metadata, storage), deletes)
    assert [len(t.delete_files) for t in table.scan("id = 1").plan_files()].count(1) == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
