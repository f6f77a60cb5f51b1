"""PyIceberg opens our warehouse and our metadata files, and reads what we wrote, row for row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from core_tables import ids_of, local, make_table, pyiceberg_catalog, rows, sorted_rows
from pyiceberg.table import StaticTable

import icecore
from icecore.engine.spec.types import LongType

WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("at_utc", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("point", pa.struct([("x", pa.float32()), ("y", pa.float32())])),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)


def wide_rows(first: int, count: int = 5) -> pa.Table:
    """Rows of every kind, with nulls, negative and odd values."""
    import datetime as dt
    from decimal import Decimal

    out = []
    for i in range(first, first + count):
        out.append(
            {
                "id": i,
                "flag": None if i % 5 == 4 else i % 2 == 0,
                "small": -i,
                "ratio": [1.5, float("inf"), -0.0, None, 1e300][i % 5],
                "price": Decimal(i * 101 - 150).scaleb(-2),
                "day": dt.date(1969, 12, 30) + dt.timedelta(days=i),
                "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999) + dt.timedelta(hours=i),
                "at_utc": dt.datetime(2024, 2, 29, tzinfo=dt.UTC) + dt.timedelta(days=i),
                "name": [None, "", "é/%=&x", "🧊", "plain"][i % 5],
                "raw": [b"", b"\x00\xff", None, b"abc", b"abcdefghijklmnopqrstuvwxyz"][i % 5],
                "point": None if i % 4 == 3 else {"x": i / 2, "y": None},
                "tags": [None, [], ["a", None], ["b"], ["c", "d"]][i % 5],
                "counts": [None, [], [("k", i)], [("k", None)], [("a", 1), ("b", 2)]][i % 5],
            }
        )
    return pa.Table.from_pylist(out, schema=WIDE)


def peer_rows(catalog: icecore.Catalog, name: str = "ns.t", **scan: Any) -> list[dict[str, Any]]:
    """What PyIceberg's `sql` catalog reads, by id."""
    peer = pyiceberg_catalog(catalog.path)
    try:
        found: list[dict[str, Any]] = peer.load_table(name).scan(**scan).to_arrow().sort_by("id").to_pylist()
        return found
    finally:
        peer.close()


def our_rows(table: icecore.Table, **scan: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(**scan).to_arrow().sort_by("id").to_pylist()
    return found


SPECS = {
    "unpartitioned": [],
    "identity": ["name"],
    "odd types": ["flag", "price"],
    "times": ["day(at)", "month(day)"],
    "hours": ["hour(at_utc)", "year(day)"],
    "bucket": ["bucket(3, id)", "bucket(2, name)", "bucket(4, price)"],
    "truncate": ["truncate(2, name)", "truncate(10, id)", "truncate(1, raw)"],
}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", [1, 2])
def test_every_type_and_transform(catalog: icecore.Catalog, version: int, spec: str) -> None:
    """Rows of every type under every transform come back equal, whole and filtered."""
    table = catalog.create_table("ns.t", WIDE, partition_spec=SPECS[spec], format_version=version)
    table.append(wide_rows(0))
    table.append(wide_rows(5, 7))
    expected = pa.concat_tables([wide_rows(0), wide_rows(5, 7)]).to_pylist()
    assert our_rows(table) == expected
    assert peer_rows(catalog) == expected
    for text in ("id >= 3 and id < 8", "small = -4", "day < '1970-01-03'", "name = 'plain'", "ratio > 1.0"):
        assert peer_rows(catalog, row_filter=text) == our_rows(table, row_filter=text), text


@pytest.mark.parametrize("version", [1, 2, 3])
def test_after_deletes_overwrites_and_evolution(catalog: icecore.Catalog, version: int) -> None:
    """Deleted, overwritten, renamed, widened, dropped, moved and re-partitioned: still the same rows for both."""
    table = catalog.create_table("ns.t", WIDE, partition_spec=["name"], format_version=version)
    table.append(wide_rows(0))
    table.delete("id = 1 OR name = 'plain'")
    assert peer_rows(catalog) == our_rows(table)
    with table.update_schema() as update:
        update.rename_column("small", "wide")
        update.add_column("added", LongType())
        update.delete_column("raw")
    with table.update_schema() as update:
        update.update_column("wide", LongType())
        update.move_first("added")
    with table.update_spec() as spec:
        spec.remove_field("name")
        spec.add_field("bucket(2, id)")
    assert peer_rows(catalog) == our_rows(table)
    more = wide_rows(20).rename_columns(["wide" if c == "small" else c for c in WIDE.names]).drop_columns(["raw"])
    table.append(more)
    table.overwrite(more.slice(0, 2), "id > 21")
    table.delete("wide = 0")
    assert len(our_rows(table)) > 4
    assert peer_rows(catalog) == our_rows(table)
    assert catalog.verify().problems == ()


def test_a_partition_column_that_was_dropped(catalog: icecore.Catalog) -> None:
    """Manifests of a spec whose source column is gone are written again with the right values; nothing is lost."""
    schema = pa.schema([("id", pa.int64()), ("part", pa.int32())])
    table = catalog.create_table("ns.t", schema, partition_spec=["part"])
    table.append(pa.table({"id": [1, 2, 3, 4], "part": [-1, 200, 300, None]}, schema=schema))
    table.append(pa.table({"id": [5, 6], "part": [200, -1]}, schema=schema))
    table.update_spec().remove_field("part").commit()
    table.update_schema().delete_column("part").commit()
    table.delete("id = 2")
    table.delete("id = 4")
    assert ids_of(table) == [1, 3, 5, 6]
    assert [r["id"] for r in peer_rows(catalog)] == [1, 3, 5, 6]
    with icecore.open(catalog.path) as again:
        assert ids_of(again.load_table("ns.t"), row_filter="id > 2") == [3, 5, 6]


def test_branches_and_tags_are_visible(catalog: icecore.Catalog) -> None:
    """Refs and their settings reach PyIceberg, and each ref reads as its snapshot."""
    table = make_table(catalog)
    table.append(rows(1))
    head = table.metadata.current_snapshot_id
    assert head is not None
    with table.manage_snapshots() as refs:
        refs.create_tag(head, "first", max_ref_age_ms=1000)
        refs.create_branch(head, "dev", min_snapshots_to_keep=2)
    table.append(rows(2), branch="dev")
    table.append(rows(3))
    peer = pyiceberg_catalog(catalog.path).load_table("ns.t")
    assert {n: (r.snapshot_id, str(r.snapshot_ref_type.value)) for n, r in peer.metadata.refs.items()} == {
        n: (r.snapshot_id, str(r.type)) for n, r in table.refs().items()
    }
    assert peer.metadata.refs["first"].max_ref_age_ms == 1000
    assert peer.metadata.refs["dev"].min_snapshots_to_keep == 2
    for ref, expected in (("main", [1, 3]), ("dev", [1, 2]), ("first", [1])):
        snapshot = peer.snapshot_by_name(ref)
        assert snapshot is not None
        found = peer.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist()
        assert sorted(found) == expected == ids_of(table, ref=ref)


def test_the_sql_catalog_lists_what_is_there(catalog: icecore.Catalog) -> None:
    """PyIceberg's `sql` catalog over icecore.db lists namespaces, their properties and tables, as they are now."""
    catalog.create_namespace("ns.inner", {"owner": "me"})
    catalog.create_namespace("empty")
    make_table(catalog, "a")
    make_table(catalog, "b")
    make_table(catalog, "gone")
    catalog.rename_table("ns.b", ("ns", "inner", "b"))
    catalog.drop_table("ns.gone")
    peer = pyiceberg_catalog(catalog.path)
    assert set(peer.list_namespaces()) == {("ns",), ("empty",)}
    assert peer.list_namespaces("ns") == [("ns", "inner")]
    assert peer.load_namespace_properties("ns.inner")["owner"] == "me"
    assert peer.list_tables("ns") == [("ns", "a")]
    assert peer.list_tables("ns.inner") == [("ns", "inner", "b")]
    assert peer.table_exists("ns.a") and not peer.table_exists("ns.gone")
    catalog.update_namespace_properties("ns.inner", ["owner"], {"since": "now"})
    found = peer.load_namespace_properties("ns.inner")
    assert found.get("since") == "now" and "owner" not in found
    catalog.drop_namespace("empty")
    assert ("empty",) not in peer.list_namespaces()
    peer.close()


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_static_tables(catalog: icecore.Catalog, scheme: str) -> None:
    """StaticTable reads a metadata file, and a folder by its version hint."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1, 2))
    table.delete("id = 1")
    location = table.metadata_location
    assert location is not None
    for source in (location, table.location()):
        peer = StaticTable.from_metadata(source)
        assert peer.scan().to_arrow()["id"].to_pylist() == [2]


def test_an_empty_table(catalog: icecore.Catalog) -> None:
    """A table without snapshots, and one whose rows are all gone, are empty for PyIceberg too."""
    table = make_table(catalog)
    assert peer_rows(catalog) == []
    table.append(rows(1))
    table.delete("TRUE")
    assert peer_rows(catalog) == [] == our_rows(table)


def test_time_travel_over_evolution(catalog: icecore.Catalog) -> None:
    """Old snapshots read the same in both, by the schema that they had."""
    table = make_table(catalog)
    table.append(rows(1))
    table.update_schema().add_column("x", LongType()).commit()
    table.append(rows(2).append_column("x", pa.array([20])))
    first, second = table.snapshots()
    peer = pyiceberg_catalog(catalog.path).load_table("ns.t")
    for snapshot in (first, second):
        ours = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        theirs = peer.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert ours.column_names == theirs.column_names
        assert sorted_rows(ours) == sorted_rows(theirs)


def test_manifest_counts_agree(catalog: icecore.Catalog) -> None:
    """L1: what the manifest list says of each manifest is what PyIceberg finds inside."""
    table = make_table(catalog, partition_spec=["truncate(2, id)"])
    table.append(rows(1, 2, 3, 4))
    table.append(rows(5))
    table.delete("id = 2")
    peer = StaticTable.from_metadata(table.metadata_location or "")
    snapshot = peer.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(peer.io)
    assert manifests
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(peer.io, discard_deleted=False)
        by_status = {s: [e for e in entries if int(e.status) == s] for s in (0, 1, 2)}
        assert manifest.added_files_count == len(by_status[1])
        assert manifest.existing_files_count == len(by_status[0])
        assert manifest.deleted_files_count == len(by_status[2])
        assert manifest.added_rows_count == sum(e.data_file.record_count for e in by_status[1])
        assert manifest.existing_rows_count == sum(e.data_file.record_count for e in by_status[0])
        assert manifest.manifest_length == local(manifest.manifest_path).stat().st_size
        live = [e.sequence_number for e in entries if int(e.status) != 2]
        if live:
            assert manifest.min_sequence_number == min(live)
