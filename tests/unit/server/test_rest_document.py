"""Each operation answers as the REST document says: `RestClient` holds all it gets to it; here the rest is asked."""

from __future__ import annotations

from typing import Any

import pytest
from rest_client import RestClient, make_table
from rest_document import DOCUMENT, REQUIRED

import icecore
from icecore.engine.server.application import OPERATIONS

NOT_IN_THE_DOCUMENT = {"POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/explain"}
NS = "/v1/namespaces/ns"
FIELDS: list[dict[str, Any]] = [
    {"id": 1, "name": "id", "required": True, "type": "long", "doc": "the key", "write-default": 7},
    {"id": 2, "name": "price", "required": False, "type": "decimal(9, 2)", "initial-default": "1.50"},
    {"id": 3, "name": "key", "required": False, "type": "fixed[3]"},
    {"id": 4, "name": "at", "required": False, "type": "timestamptz_ns"},
    {
        "id": 5,
        "name": "nested",
        "required": False,
        "type": {
            "type": "struct",
            "fields": [
                {
                    "id": 6,
                    "name": "list",
                    "required": False,
                    "type": {"type": "list", "element-id": 8, "element": "string", "element-required": False},
                },
                {
                    "id": 7,
                    "name": "map",
                    "required": False,
                    "type": {
                        "type": "map",
                        "key-id": 9,
                        "key": "string",
                        "value-id": 10,
                        "value": "variant",
                        "value-required": True,
                    },
                },
            ],
        },
    },
]
VIEW = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1_700_000_000_000,
    "summary": {},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "duckdb"}],
}


def test_what_is_said_here_of_answers_is_what_the_document_says() -> None:
    """And each operation of the document that is served is among them."""
    served = {o.documented for o in OPERATIONS if "/events" not in o.path} - NOT_IN_THE_DOCUMENT
    assert served == REQUIRED.keys()
    if not DOCUMENT.path:
        pytest.skip("ICECORE_REST_DOCUMENT names no copy of the document")
    assert {o: DOCUMENT.required(o) for o in REQUIRED} == REQUIRED


def test_what_other_tests_do_not_ask_is_answered_as_documented(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Among it a table with types of all kinds, a spec, an order, snapshots, refs and statistics."""
    schema = {"type": "struct", "schema-id": 0, "identifier-field-ids": [1], "fields": FIELDS}
    field = {"source-id": 1, "field-id": 1000, "name": "part", "transform": "bucket[4]"}
    order = {"transform": "identity", "source-id": 1, "direction": "desc", "null-order": "nulls-last"}
    more = {
        "partition-spec": {"spec-id": 0, "fields": [field]},
        "write-order": {"order-id": 1, "fields": [order]},
        "properties": {"format-version": "3"},
    }
    make_table(rest, "t", schema=schema, **more)
    table = catalog.load_table("ns.t")
    table.append([{"id": 1, "key": b"abc"}])
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().create_branch(first, "side").create_tag(first, "kept").commit()
    table.append([{"id": 2}], branch="side")
    for mode in ("all", "refs"):
        loaded = rest.get(f"{NS}/tables/t?snapshots={mode}").json["metadata"]
        assert len(loaded["refs"]) == 3 and len(loaded["snapshots"]) == 2
    plan = rest.post(f"{NS}/tables/t/plan", {"stats-fields": ["id", "price"]}).json
    assert len(plan["file-scan-tasks"]) == 1
    report = {"report-type": "scan-report", "table-name": "ns.t", "snapshot-id": 1, "filter": True, "schema-id": 0}
    told = {**report, "projected-field-ids": [], "projected-field-names": [], "metrics": {}}
    assert rest.post(f"{NS}/tables/t/metrics", told).status == 204
    gone = rest.post(f"{NS}/tables/t/unregister").json["metadata-location"]
    assert rest.post(f"{NS}/register", {"name": "u", "metadata-location": gone}).status == 200
    assert rest.post(f"{NS}/register", {"name": "u", "metadata-location": gone}).status == 409
    assert rest.ask("HEAD", NS).status == rest.ask("HEAD", f"{NS}/tables/u").status == 204

    made = rest.post(f"{NS}/views", {"name": "v", "schema": schema, "view-version": VIEW, "properties": {}}).json
    names = {"source": {"namespace": ["ns"], "name": "v"}, "destination": {"namespace": ["ns"], "name": "w"}}
    assert rest.post("/v1/views/rename", names).status == 204
    assert rest.post("/v1/views/rename", names).status == 404
    assert rest.get(f"{NS}/views/w").json == made
    assert rest.ask("HEAD", f"{NS}/views/w").status == 204
    again = {"name": "v", "metadata-location": made["metadata-location"]}
    assert rest.ask("DELETE", f"{NS}/views/w").status == 204
    assert rest.post(f"{NS}/register-view", again).status == 200
    assert rest.get(f"{NS}/functions").json["identifiers"] == []
