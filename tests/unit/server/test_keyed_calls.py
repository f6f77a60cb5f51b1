"""Requests under an Idempotency-Key: carried out once, answered alike, and refused under another one's key."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from rest_client import SCHEMA, Reply, RestClient, make_table

import icecore

VERSION = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1_700_000_000_000,
    "summary": {},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "duckdb"}],
}
T = "/v1/namespaces/ns/tables/t"
CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/v1/namespaces", {"namespace": ["new"], "properties": {"k": "1"}}),
    ("POST", "/v1/namespaces/ns/properties", {"removals": ["here", "never"], "updates": {"k": "2"}}),
    ("DELETE", "/v1/namespaces/empty", None),
    ("POST", "/v1/namespaces/ns/tables", {"name": "u", "schema": SCHEMA}),
    ("POST", T, {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}),
    ("DELETE", T, None),
    ("POST", f"{T}/unregister", None),
    (
        "POST",
        "/v1/tables/rename",
        {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "w"}},
    ),
    ("POST", "/v1/namespaces/ns/views", {"name": "v", "schema": SCHEMA, "view-version": VERSION, "properties": {}}),
    ("DELETE", "/v1/namespaces/nope", None),
    ("POST", "/v1/namespaces", {"namespace": ["ns"]}),
]


def keyed(rest: RestClient, key: str, call: tuple[str, str, Any]) -> Reply:
    method, path, body = call
    return rest.ask(method, path, body, {"Idempotency-Key": key})


@pytest.mark.parametrize("call", CALLS, ids=lambda c: f"{c[0]} {c[1]}")
def test_a_request_is_carried_out_once(rest: RestClient, catalog: icecore.Catalog, call: tuple[str, str, Any]) -> None:
    make_table(rest)
    catalog.create_namespace("empty")
    catalog.update_namespace_properties("ns", updates={"here": "1"})
    key = str(uuid.uuid4())
    first, position = keyed(rest, key, call), catalog.position
    again = keyed(rest, key, call)
    assert (again.status, again.body) == (first.status, first.body)
    assert catalog.position == position
    other = keyed(rest, key, ("POST", "/v1/namespaces", {"namespace": ["another"]}))
    assert other.status in (400, 422) and not catalog.namespace_exists("another")


def test_a_key_is_a_uuid(rest: RestClient, catalog: icecore.Catalog) -> None:
    assert keyed(rest, "mine", ("POST", "/v1/namespaces", {"namespace": ["ns"]})).status == 400
    assert not catalog.namespace_exists("ns")
