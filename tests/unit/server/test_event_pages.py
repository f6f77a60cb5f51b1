"""The log over HTTP: every commit once, in order, in pages that keep a commit's events together."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from rest_client import RestClient, make_table

import icecore


@pytest.fixture
def busy(rest: RestClient, catalog: icecore.Catalog) -> icecore.Catalog:
    make_table(rest)
    catalog.load_table("ns.t").append([{"id": 1, "city": "Oslo"}], author="ann", message="first")
    with catalog.transaction(author="bob") as both:
        both.rename_table("ns.t", "ns.u")
        both.table("ns.u").set_properties({"k": "v"})
    catalog.create_namespace("other", {"a": "b"})
    catalog.drop_table("ns.u")
    return catalog


def followed(rest: RestClient, size: int, **asked: Any) -> list[dict[str, Any]]:
    """All events, page by page, until a page is empty."""
    found: list[dict[str, Any]] = []
    page = rest.post("/v1/events", {"page-size": size, **asked}).json
    while page["events"]:
        found += page["events"]
        page = rest.post("/v1/events", {"page-size": size, "page-token": page["next-page-token"]}).json
    return found


@pytest.mark.parametrize("size", [1, 2, 100])
def test_pages_hold_every_event_once(rest: RestClient, busy: icecore.Catalog, size: int) -> None:
    events = followed(rest, size)
    assert [e["x-icecore-position"] for e in events] == list(range(1, busy.position + 1))
    assert [e["operation"]["operation-type"] for e in events] == [
        *("create-namespace", "create-table", "update-table", "rename-table", "update-table"),
        *("create-namespace", "drop-table"),
    ]
    assert (events[2]["actor"], events[2]["x-icecore-message"]) == ("ann", "first")
    assert [e["event-count"] for e in events] == [1, 1, 1, 2, 2, 1, 1]
    assert events[3]["request-id"] == events[4]["request-id"] != events[2]["request-id"]
    assert events[4]["operation"]["identifier"] == {"namespace": ["ns"], "name": "u"}
    assert events[4]["operation"]["updates"] == [{"action": "set-properties", "updates": {"k": "v"}}]


def test_a_uuid_is_told_and_asked_in_any_case(rest: RestClient, catalog: icecore.Catalog) -> None:
    """A client may have given it in capital letters, as which the table keeps it."""
    catalog.create_namespace("ns")
    uuid = "ABCDEF01-0000-4000-8000-000000000000"
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    catalog.commit_table("ns.t", [{"type": "assert-create"}], updates)
    asked = {"reference-type": "table", "identifier": {"namespace": [], "name": ""}, "table-uuid": uuid}
    [event] = followed(rest, 100, **{"catalog-objects": [asked]})
    assert event["operation"]["table-uuid"] == uuid


def test_events_are_filtered_in_all_pages(rest: RestClient, busy: icecore.Catalog) -> None:
    uuid = followed(rest, 100)[1]["operation"]["table-uuid"]
    asked = [{"reference-type": "table", "identifier": {"namespace": [], "name": ""}, "table-uuid": uuid}]
    assert [e["x-icecore-position"] for e in followed(rest, 1, **{"catalog-objects": asked})] == [2, 3, 4, 5, 7]
    asked[0]["table-uuid"] = uuid.upper()
    assert len(followed(rest, 100, **{"catalog-objects": asked})) == 5
    inside = [{"reference-type": "namespace", "namespace": ["other"]}]
    assert [e["x-icecore-position"] for e in followed(rest, 1, **{"catalog-objects": inside})] == [6]
    types = {"operation-types": ["drop-table", "rename-table"]}
    assert [e["x-icecore-position"] for e in followed(rest, 1, **types)] == [4, 7]
    since = busy.log().to_pylist()[5]["recorded_at"]
    after = {"after-timestamp-ms": int(since.timestamp() * 1000)}
    assert followed(rest, 5, **after)[-1]["x-icecore-position"] == 7
    assert rest.post("/v1/events", {"page-token": "?"}).status == 400
    assert followed(rest, 5, **{"after-timestamp-ms": -(2**63)})[0]["x-icecore-position"] == 1


def test_a_rename_is_of_both_namespaces(rest: RestClient, busy: icecore.Catalog) -> None:
    """Who follows one learns that a table went, as from the stream of events."""
    make_table(rest, "gone")
    busy.rename_table("ns.gone", "other.come")
    for namespace in ("ns", "other"):
        inside = [{"reference-type": "namespace", "namespace": [namespace]}]
        assert followed(rest, 1, **{"catalog-objects": inside})[-1]["x-icecore-position"] == busy.position


def test_a_token_of_a_log_that_was_longer_is_refused(rest: RestClient, busy: icecore.Catalog) -> None:
    """As after an old copy was put back: what comes until then would be passed over."""
    for after in (busy.position + 1, -1):
        token = base64.urlsafe_b64encode(orjson.dumps({"after": after})).decode()
        assert rest.post("/v1/events", {"page-token": token}).error[:2] == (400, "ValidationException")


def test_who_waits_gets_what_comes(rest: RestClient, busy: icecore.Catalog) -> None:
    token = rest.post("/v1/events", {}).json["next-page-token"]
    assert rest.post("/v1/events", {"page-token": token}).json["events"] == []
    busy.create_namespace("new")
    [event] = rest.post("/v1/events", {"page-token": token}).json["events"]
    assert event["operation"]["namespace"] == ["new"]
