"""The search for a value, and forgetting, know the schemas and specs that metadata has no more, and bare manifests."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from core_tables import make_table, rows, store_of

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.events.event import TABLE_FILES_DELETED

NO_BOUNDS = {"write.metadata.metrics.default": "none"}


def only_in_the_log(table: icecore.Table) -> None:
    """All rows go, with the files that had them; the log keeps what was said of these files."""
    table.delete("true")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    table.refresh()


def clean_metadata(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """Removes all specs and schemas but the current ones, as an expiry by Java does with cleanExpiredMetadata."""
    specs = [i for i in table.specs() if i != table.spec().spec_id]
    schemas = [i for i in table.schemas() if i != table.schema().schema_id]
    updates = [
        {"action": "remove-partition-specs", "spec-ids": specs},
        {"action": "remove-schemas", "schema-ids": schemas},
    ]
    catalog.commit_table(table.name(), requirements=[], updates=[u for u in updates if list(u.values())[1]])
    table.refresh()


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_partition_values_of_a_spec_that_was_removed(catalog: icecore.Catalog, kind: pa.DataType) -> None:
    """They stand in the log, whatever the table is partitioned by now, and can't be forgotten."""
    schema = pa.schema([("city", kind), ("id", pa.int64())])
    table = catalog.create_table("ns.t", schema, partition_spec=["city"], properties=NO_BOUNDS)
    table.append(pa.table({"city": [47114711], "id": [12]}).cast(schema))
    with table.update_spec() as update:
        update.remove_field("city")
    only_in_the_log(table)
    before = catalog.find_value(47114711, table="ns.t", column="city")
    assert {p.kind for p in before.places} >= {"bounds"}
    clean_metadata(catalog, table)
    assert len(table.specs()) == 1
    assert catalog.find_value(47114711, table="ns.t", column="city").places[: len(before.places)] == before.places
    of_another = {int(p.where) for p in catalog.find_value(47114711, table="ns.t", column="id").places}
    kinds = {e.position: e.kind for e in store_of(catalog).events()}
    assert {kinds[position] for position in of_another} == {TABLE_FILES_DELETED}, "paths have city=47114711"
    assert {p.kind for p in catalog.find_value(47114711).places} >= {"bounds"}
    with pytest.raises(ValidationError, match="'city' is identity of 'city'"):
        table.forget(columns=["city"])
    table.forget(columns=["id"])


def test_a_decimal_is_a_number(catalog: icecore.Catalog) -> None:
    """Digits in a message say nothing of it, which its bounds and rows do."""
    table = catalog.create_table("ns.t", pa.schema([("price", pa.decimal128(9, 2))]))
    table.append([{"price": Decimal("12.50")}], message="12.50 each")
    found = catalog.find_value("12.50", table="ns.t", column="price")
    assert {p.kind for p in found.places} == {"bounds", "file"}
    assert catalog.find_value("12.51", table="ns.t", column="price").is_nowhere


def test_columns_that_no_schema_has_any_more(catalog: icecore.Catalog) -> None:
    """A dropped column is searched and forgotten by its name, also when its schema is gone."""
    table = make_table(catalog, format_version=3)
    table.append(rows(47114711))
    with table.update_schema() as update:
        update.delete_column("name")
    only_in_the_log(table)
    clean_metadata(catalog, table)
    assert len(table.schemas()) == 1
    asked: dict[str, Any] = {"value": "n47114711", "table": "ns.t", "column": "name"}
    assert {p.kind for p in catalog.find_value(**asked).places} == {"bounds"}
    assert table.forget(columns=["name"]).files == 1
    assert catalog.find_value(**asked).is_nowhere
    for ask in (
        lambda: table.forget(columns=["nothing"]),
        lambda: catalog.find_value(1, table="ns.t", column="nothing"),
    ):
        with pytest.raises(ValidationError, match="never had a column 'nothing'"):
            ask()


def without_header(data: bytes, *, partition_ids: bool) -> bytes:
    """A manifest whose header has no schema and spec, as some writers make them, and perhaps no ids of partitions."""
    reader = fastavro.reader(io.BytesIO(data))
    schema = reader.writer_schema
    assert isinstance(schema, dict)
    if not partition_ids:
        data_file = next(f for f in schema["fields"] if f["name"] == "data_file")
        partition = next(f for f in data_file["type"]["fields"] if f["name"] == "partition")
        for f in partition["type"]["fields"]:
            del f["field-id"]
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), list(reader))
    return out.getvalue()


@pytest.mark.parametrize("partition_ids", [True, False])
def test_manifests_without_schema_and_spec(catalog: icecore.Catalog, warehouse: Path, partition_ids: bool) -> None:
    """Their bounds and partition values are read as those of the table, or as any type where nobody tells."""
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("x", pa.int32())])
    table = catalog.create_table("ns.t", schema, partition_spec=["day"])
    table.append([{"id": 47114711, "day": dt.date(2024, 2, 29), "x": 81518151}])
    [manifest] = (warehouse / "ns" / "t" / "metadata").glob("*-m0.avro")
    manifest.write_bytes(without_header(manifest.read_bytes(), partition_ids=partition_ids))
    stray = warehouse / "ns" / "t" / "metadata" / "stray-m0.avro"
    stray.write_bytes(manifest.read_bytes())
    for value, column in ((47114711, "id"), ("2024-02-29", "day"), (81518151, "x")):
        of_column: dict[str, Any] = {"table": "ns.t", "column": column}
        for asked in ({}, of_column):
            found = catalog.find_value(value, **asked)
            assert not found.unread
            names = {Path(p.where).name for p in found.places if p.kind == "file" and "blocks" in p.what}
            assert names == {manifest.name, stray.name}, asked
    for column in ("id", "x"):
        found = catalog.find_value("2024-03-01", table="ns.t", column=column)
        assert found.is_nowhere
