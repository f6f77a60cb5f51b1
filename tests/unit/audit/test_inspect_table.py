"""Iceberg's metadata tables of one table: `table.inspect`."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import pyiceberg_catalog

import icecore
from icecore.engine.errors import NoSuchSnapshotError
from icecore.engine.log.store import EventStore
from icecore.projections.inspect.file_rows_of_entries import EntryColumns

IDS = [uuid.UUID(int=i) for i in range(3)]
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "day": pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 1), dt.date(2024, 2, 1)]),
        "price": pa.array([1.5, float("nan"), None]),
        "amount": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(9, 2)),
        "at": pa.array([dt.datetime(2024, 1, 1, 12)] * 3, pa.timestamp("us", "UTC")),
        "key": pa.array([i.bytes for i in IDS], pa.uuid()),
        "place": pa.array([{"town": "Oslo", "spots": [1]}, {"town": "Rome", "spots": []}, None]),
    }
)
FILES_OF = {
    "files": {0, 1, 2},
    "all_files": {0, 1, 2},
    "data_files": {0},
    "all_data_files": {0},
    "delete_files": {1, 2},
    "all_delete_files": {1, 2},
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A warehouse with the tables ns.v2 and ns.v3: partitions evolved, a file deleted, rows deleted by delete files."""
    with icecore.open(tmp_path_factory.mktemp("lake")) as catalog:
        catalog.create_namespace("ns")
        for version in (2, 3):
            options: dict[str, Any] = {"format_version": version, "properties": {"write.delete.mode": "merge-on-read"}}
            table = catalog.create_table(f"ns.v{version}", ROWS.schema, partition_spec=["month(day)"], **options)
            table.append(ROWS)
            with table.update_spec() as spec:
                spec.add_field("bucket(4, id)")
            table.append(ROWS.slice(0, 1))
            table.delete("id = 2")
            table.delete("day >= '2024-02-01'")
            with table.manage_snapshots() as refs:
                refs.create_tag(table.snapshots()[0].snapshot_id, "first")
        yield catalog


@pytest.fixture(params=["ns.v2", "ns.v3"])
def table(request: pytest.FixtureRequest, lake: icecore.Catalog) -> icecore.Table:
    found: icecore.Table = lake.load_table(request.param)
    return found


def test_metrics_are_readable(table: icecore.Table) -> None:
    """Bounds have the type of their column, also inside of structs and lists; a metric that is not there is null."""
    first = table.snapshots()[0].snapshot_id
    kinds = {f.name: f.type.field("lower_bound").type for f in table.inspect.files().field("readable_metrics").type}
    assert kinds["day"] == pa.date32() and kinds["key"] == pa.uuid() and kinds["amount"] == pa.decimal128(9, 2)
    assert list(kinds) == ["id", "day", "price", "amount", "at", "key", "place.town", "place.spots.element"]
    january = table.inspect.files(first)["readable_metrics"].to_pylist()[0]
    assert january["day"] | {"column_size": 0} == {
        "column_size": 0,
        "value_count": 2,
        "null_value_count": 0,
        "nan_value_count": None,
        "lower_bound": dt.date(2024, 1, 1),
        "upper_bound": dt.date(2024, 1, 1),
    }
    assert january["price"]["nan_value_count"] == 1 and january["price"]["upper_bound"] == 1.5
    assert january["key"]["upper_bound"] == IDS[1] and january["amount"]["lower_bound"] == Decimal("-2.25")
    assert january["place.town"]["upper_bound"] == "Rome" and january["at"]["lower_bound"].tzinfo is not None
    february = table.inspect.files(first)["readable_metrics"].to_pylist()[1]
    assert february["price"]["lower_bound"] is None and february["price"]["null_value_count"] == 1


def test_partitions_are_of_all_specs(table: icecore.Table) -> None:
    found = table.inspect.files().select(["spec_id", "partition"]).to_pylist()
    assert {r["spec_id"] for r in found} == {0, 1}
    assert {tuple(sorted(r["partition"])) for r in found} == {("day_month", "id_bucket_4")}
    assert all((r["partition"]["id_bucket_4"] is None) == (r["spec_id"] == 0) for r in found)


@pytest.mark.parametrize("name", FILES_OF)
def test_files_are_of_their_kind(table: icecore.Table, name: str) -> None:
    found = getattr(table.inspect, name)()
    assert set(found["content"].to_pylist()) <= FILES_OF[name]
    prefix = "all_" if name.startswith("all_") else ""
    data, deletes = (getattr(table.inspect, f"{prefix}{kind}_files")() for kind in ("data", "delete"))
    assert data.num_rows and deletes.num_rows
    if name == f"{prefix}files":
        assert found.num_rows == data.num_rows + deletes.num_rows


def test_entries_hold_deleted_ones_too(table: icecore.Table) -> None:
    """All entries are those of all manifests, live or not; what they inherit is filled in."""
    live, every = table.inspect.entries(), table.inspect.all_entries()
    manifests = {m["path"]: m for m in table.inspect.all_manifests().to_pylist()}
    counts = [v or 0 for m in manifests.values() for k, v in m.items() if k.endswith("_files_count")]
    assert every.num_rows == sum(counts) > live.num_rows
    assert 2 in every["status"].to_pylist()
    assert every["sequence_number"].null_count == every["snapshot_id"].null_count == 0
    data_file = live["data_file"].combine_chunks()
    spec_ids = data_file.field("spec_id").to_pylist()
    assert set(spec_ids) == {0, 1}
    row_ids = [
        i for i, c in zip(*(data_file.field(n).to_pylist() for n in ("first_row_id", "content")), strict=True) if c == 0
    ]
    assert all((i is not None) == (table.format_version == 3) for i in row_ids[:1])


def test_position_deletes_are_the_positions(table: icecore.Table) -> None:
    (deleted,) = table.inspect.position_deletes().to_pylist()
    (delete_file,) = table.inspect.delete_files().to_pylist()
    assert deleted["delete_file_path"] == delete_file["file_path"] and deleted["partition"] == delete_file["partition"]
    assert deleted["pos"] == 1 and deleted["file_path"] in table.inspect.data_files()["file_path"].to_pylist()
    assert (deleted["content_offset"] is not None) == (table.format_version == 3)
    assert table.inspect.position_deletes(table.snapshots()[0].snapshot_id).num_rows == 0


def test_a_snapshot_can_be_chosen(table: icecore.Table) -> None:
    first = table.snapshots()[0].snapshot_id
    for name, rows in (("files", 2), ("data_files", 2), ("delete_files", 0), ("entries", 2), ("manifests", 1)):
        assert getattr(table.inspect, name)(snapshot_id=first).num_rows == rows, name
    assert table.inspect.partitions(first, "DAY < '2024-02-01'", case_sensitive=False).num_rows == 1
    with pytest.raises(NoSuchSnapshotError):
        table.inspect.files(1)


def test_they_equal_pyiceberg_s(lake: icecore.Catalog) -> None:
    """PyIceberg has no UUIDs in structs, and so no files of these tables; what it has of manifests and refs is ours."""
    peer = pyiceberg_catalog(Path(lake.path))
    theirs, ours = peer.load_table("ns.v2").inspect, lake.load_table("ns.v2").inspect
    for name in ("manifests", "all_manifests", "snapshots", "history", "refs", "metadata_log_entries"):
        assert getattr(ours, name)().to_pylist() == getattr(theirs, name)().to_pylist(), name
        assert getattr(ours, name)().schema.types == getattr(theirs, name)().schema.types, name
    peer.close()


def test_a_table_without_snapshots_has_no_rows(lake: icecore.Catalog) -> None:
    empty = lake.create_table("ns.empty", ROWS.schema)
    names = [n for n in dir(empty.inspect) if not n.startswith("_")]
    assert len(names) == 23
    for name in names:
        found = getattr(empty.inspect, name)()
        rows = {
            "metadata_log_entries": 1,
            "events": 1,
            "spec_history": 1,
            "schema_history": empty.metadata.last_column_id,
        }
        assert found.num_rows == rows.get(name, 0) and found.num_columns > 3, name


def test_a_table_of_the_past_has_its_metadata_tables(lake: icecore.Catalog) -> None:
    past = lake.at(2).load_table("ns.v2").inspect
    assert past.history().num_rows == past.files().num_rows == 0
    assert lake.at(3).load_table("ns.v2").inspect.files().num_rows == 2


def test_what_was_made_last_is_kept(lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the metadata is another: each kind of rows for itself, and data files apart from delete files."""
    made: list[str] = []

    def counted(name: str) -> None:
        make = getattr(EntryColumns, name)

        def count(columns: EntryColumns, entries: pa.Table) -> pa.Table:
            made.append(name)
            return make(columns, entries)

        monkeypatch.setattr(EntryColumns, name, count)

    counted("file_rows")
    counted("entry_rows")
    table = lake.create_table("ns.kept", pa.schema([("x", pa.int64())]))
    table.append([{"x": 1}])
    for _ in range(2):
        inspect = lake.load_table("ns.kept").inspect
        assert inspect.files().num_rows == inspect.data_files().num_rows == inspect.entries().num_rows == 1
        assert inspect.delete_files().num_rows == 0 and "status" in inspect.entries().column_names
    assert sorted(made) == ["entry_rows", "file_rows", "file_rows"]
    with table.update_schema() as schema:
        schema.rename_column("x", "y")
    assert "y" in table.inspect.files()["readable_metrics"].type.names


@pytest.mark.parametrize("name", ["all_manifests", "all_files", "all_entries"])
def test_a_manifest_that_many_snapshots_list_is_read_once(
    name: str, catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One query has them all, however many snapshots there are."""
    table = catalog.create_table("ns.many", pa.schema([("x", pa.int64())]))
    for x in range(4):
        table.append([{"x": x}])
    read: list[int] = []
    rows = EventStore.rows

    def counting(store: EventStore, file: str, query_name: str, /, **parameters: Any) -> Any:
        found = rows(store, file, query_name, **parameters)
        if query_name == "manifests_by_id":
            read.append(len(found))
        return found

    monkeypatch.setattr(EventStore, "rows", counting)
    found = getattr(table.inspect, name)()
    assert (found.num_rows, read) == ({"all_manifests": 10}.get(name, 4), [4])
