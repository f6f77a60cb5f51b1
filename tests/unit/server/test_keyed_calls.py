"""Requests under an Idempotency-Key: carried out once, answered alike, and refused under another one's key."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from rest_client import SCHEMA, Reply, RestClient, make_table, served

import icecore
from icecore.engine.log.request_keys import REQUEST_KEYS
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.server_settings import ServerSettings

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
    make_table(rest)
    for method, path, body in (("POST", f"{T}/plan", {}), ("DELETE", f"{T}/plan/p", None)):
        assert keyed(rest, "mine", (method, path, body)).error[0] == 400
        assert keyed(rest, str(uuid.uuid4()), (method, path, body)).status < 300
    tasks = ("POST", f"{T}/tasks", {"plan-task": "p"})
    assert [keyed(rest, key, tasks).status for key in ("mine", str(uuid.uuid4()))] == [400, 404]
    report = {"report-type": "commit-report", "table-name": "t", "snapshot-id": 8, "sequence-number": 2}
    report |= {"operation": "append", "metrics": {}}
    for call in (("GET", T, None), ("POST", f"{T}/metrics", report), ("POST", f"{T}/explain", {})):
        assert keyed(rest, "mine", call).status in (200, 204), call


def test_a_key_is_of_one_query_and_of_what_needs_a_token(rest: RestClient, catalog: icecore.Catalog) -> None:
    """A purge under the key of a drop was told as done; requests for tokens let anybody write to the log's file."""
    make_table(rest)
    key = str(uuid.uuid4())
    assert keyed(rest, key, ("DELETE", T, None)).status == 204
    assert keyed(rest, key, ("DELETE", f"{T}?purgeRequested=true", None)).status == 400
    store, key = catalog._warehouse.store, str(uuid.uuid4())
    refused = rest.ask("POST", "/v1/oauth/tokens", None, {"Idempotency-Key": key}, raw=b"grant_type=x")
    assert refused.status == 400 and len(store.rows(REQUEST_KEYS, "find", idempotency_key=key, now_ms=0)) == 0


@pytest.mark.parametrize("call", [CALLS[0], CALLS[4], CALLS[10]], ids=lambda c: f"{c[0]} {c[1]}")
def test_what_one_token_was_answered_is_not_told_to_another(
    rest: RestClient, catalog: icecore.Catalog, call: tuple[str, str, Any]
) -> None:
    """The commit stands, so the other one's client must not clean up; a refusal may have words for the first alone."""
    make_table(rest)
    tokens = AccessTokens(catalog._warehouse.store)
    ann, bob = (tokens.create(name, [Grant.parse("manage:*")])[1] for name in ("ann", "bob"))
    later = tokens.derive(tokens.principal(ann), 60_000, "ann")[0]
    method, path, body = call
    key = str(uuid.uuid4())

    def by(token: str) -> Reply:
        return rest.ask(method, path, body, {"Idempotency-Key": key, "Authorization": f"Bearer {token}"})

    first, position = by(ann), catalog.position
    other = by(bob).error
    refused = (400, "BadRequestException") if first.status >= 400 else (500, "CommitStateUnknownException")
    assert other[:2] == refused and other[2].startswith(f"the idempotency key {key!r} was used by somebody else")
    again = by(later)
    assert (again.status, again.body, catalog.position) == (first.status, first.body, position)


def test_what_has_no_dry_run_is_not_carried_out_as_one(rest: RestClient, catalog: icecore.Catalog) -> None:
    make_table(rest)
    for method, path, body in [c for c in CALLS[:8] if c != CALLS[4]]:
        assert rest.ask(method, path, body, {"X-Icecore-Dry-Run": "true"}).error[:2] == (400, "ValidationException")
    assert catalog.position == 2


def test_a_dry_run_is_asked_for_by_a_word_that_is_understood(rest: RestClient, catalog: icecore.Catalog) -> None:
    """One that means it and says it otherwise is not to find it carried out."""
    make_table(rest)
    for said in ("yes", "1", ""):
        for method, path, body in CALLS:
            told = rest.ask(method, path, body, {"X-Icecore-Dry-Run": said}).error
            assert told == (400, "ValidationException", f"X-Icecore-Dry-Run must be true or false, found {said!r}")
    assert catalog.position == 2
    assert rest.get(T, x_icecore_dry_run="yes").status == 200, "it reads"
    method, path, body = CALLS[4]
    assert rest.ask(method, path, body, {"X-Icecore-Dry-Run": "False"}).status == 200


def test_what_was_made_is_told_again_as_it_was_then(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Though it was changed and dropped meanwhile; of what stored nothing it is said that there is no such thing."""
    make_table(rest)
    change = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    made: list[tuple[str, str, Any]] = [
        ("POST", "/v1/namespaces", {"namespace": ["new"], "properties": {"k": "1"}}),
        ("POST", "/v1/namespaces/new/tables", {"name": "t", "schema": SCHEMA}),
        (
            "POST",
            "/v1/namespaces/new/views",
            {"name": "v", "schema": SCHEMA, "view-version": VERSION, "properties": {}},
        ),
        ("POST", "/v1/namespaces/new/views/v", change),
    ]
    unmade: list[tuple[str, str, Any]] = [
        ("POST", "/v1/namespaces/new/tables", {"name": "staged", "schema": SCHEMA, "stage-create": True}),
        ("POST", "/v1/namespaces/new/views/v", change),
    ]
    keys = [str(uuid.uuid4()) for _ in (*made, *unmade)]
    first = [keyed(rest, key, call) for key, call in zip(keys, [*made, *unmade], strict=True)]
    assert [r.status for r in first] == [200] * len(keys)
    catalog.update_namespace_properties("new", updates={"k": "2"})
    catalog.load_view("new.v").set_properties({"a": "c"})
    for _ in range(2):
        again = [keyed(rest, key, call) for key, call in zip(keys, made, strict=False)]
        assert [(r.status, r.body) for r in again] == [(r.status, r.body) for r in first[: len(made)]]
        if catalog.namespace_exists("new"):
            catalog.drop_view("new.v")
            catalog.drop_table("new.t", purge=True)
            catalog.drop_namespace("new")
    assert [keyed(rest, *a).status for a in zip(keys[len(made) :], unmade, strict=True)] == [404, 404]


def test_the_key_is_of_what_is_made_in_a_namespace_that_was_missing(catalog: icecore.Catalog) -> None:
    """The namespace took it: what came again was answered 500, and so was what was refused."""
    view = {"name": "v", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
    calls: list[tuple[str, str, Any, int]] = [
        ("POST", "/v1/namespaces/a/tables", {"name": "t", "schema": SCHEMA}, 200),
        ("POST", "/v1/namespaces/b/tables", {"name": "t", "schema": SCHEMA, "stage-create": True}, 200),
        ("POST", "/v1/namespaces/c/views", view, 200),
        ("POST", "/v1/namespaces/d/register", {"name": "t", "metadata-location": f"{catalog.path}/no.json"}, 404),
    ]
    with served(catalog, ServerSettings(makes_namespaces=True)) as rest:
        for method, path, body, status in calls:
            key = str(uuid.uuid4())
            first, position = keyed(rest, key, (method, path, body)), catalog.position
            again = keyed(rest, key, (method, path, body))
            assert (first.status, again.status, catalog.position) == (status, status, position), (path, again.body)
            assert again.body == first.body or "stage-create" in body
            assert catalog.namespace_exists(path.split("/")[3])
