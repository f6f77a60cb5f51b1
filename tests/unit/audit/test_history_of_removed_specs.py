"""The history of files tells what they were by the schemas and partition specs of their time, also of removed ones."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("mail", pa.string())])


def test_partitions_and_metrics_of_removed_specs_and_schemas(catalog: icecore.Catalog) -> None:
    """As before they were removed; the rule for personal data finds a column that no schema has any more."""
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=["city"])
    table.append([{"id": 1, "city": "Oslo", "mail": "zoe@x.org"}])
    with table.update_spec() as spec:
        spec.remove_field("city").add_field("bucket(4, id)")
    with table.update_schema() as schema:
        schema.delete_column("mail").delete_column("city")
    table.append([{"id": 2}])
    table.delete("id = 1")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit()
    query = "SELECT position, change, spec_id, partition, partition_values, readable_metrics FROM file_history"
    before = catalog.sql(query).to_pylist()
    table.refresh()
    updates = [
        {"action": "remove-schemas", "schema-ids": [i for i in table.schemas() if i != table.schema().schema_id]},
        {"action": "remove-partition-specs", "spec-ids": [i for i in table.specs() if i != table.spec().spec_id]},
    ]
    catalog.commit_table("ns.t", requirements=[], updates=updates)
    assert catalog.sql(query).to_pylist() == before
    assert before[0]["partition"] == "city=Oslo" and dict(before[0]["readable_metrics"])["mail"]
    assert catalog.load_table("ns.t").inspect.file_history()["partition"].to_pylist() == [
        r["partition"] for r in before
    ]
    [finding] = catalog.audit(rules=["personal-data"]).findings
    assert "bounds of mail that look like an e-mail address" in finding.message
    assert not catalog.audit(rules=["unreadable-tables"]).findings


def test_an_id_that_meant_another_spec_before(catalog: icecore.Catalog) -> None:
    """Files of both have the partitions that they were written to."""
    table = catalog.create_table("ns.t", SCHEMA)
    with table.update_spec() as spec:
        spec.add_field("city")
    table.append([{"id": 1, "city": "Oslo", "mail": None}])
    table.delete("true")
    other = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1001, "transform": "identity", "name": "id"}]}
    commits: list[list[dict[str, Any]]] = [
        [{"action": "set-default-spec", "spec-id": 0}],
        [{"action": "remove-partition-specs", "spec-ids": [1]}],
        [{"action": "add-spec", "spec": other}, {"action": "set-default-spec", "spec-id": -1}],
    ]
    for updates in commits:
        catalog.commit_table("ns.t", requirements=[], updates=updates)
    table.refresh().append([{"id": 7, "city": "Rome", "mail": None}])
    rows = catalog.sql("SELECT change, spec_id, partition FROM file_history ORDER BY position").to_pylist()
    assert [tuple(r.values()) for r in rows] == [
        ("added", 1, "city=Oslo"),
        ("removed", 1, "city=Oslo"),
        ("added", 1, "id=7"),
    ]
