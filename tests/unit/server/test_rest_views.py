"""Views over the REST catalog, and each change of one answered as its own commit left it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rest_client import SCHEMA, VIEW_VERSION, RestClient, make_table

import icecore
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.repository.view_repository import ViewRepository


def test_a_view_is_answered_as_its_commit_left_it(
    rest: RestClient, catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever another writer makes of it before the answer: it was told as theirs, and renamed as 500, unknown."""
    make_table(rest)
    follow = ViewRepository._after
    others: list[Callable[[], object]] = []

    def raced(views: ViewRepository, stream: str) -> ViewState:
        state = follow(views, stream)
        while others:
            others.pop()()
        return state

    monkeypatch.setattr(ViewRepository, "_after", raced)
    others.append(lambda: catalog.rename_view("ns.v", "ns.w"))
    body = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    made = rest.post("/v1/namespaces/ns/views", body)
    assert made.status == 200 and "properties" not in made.json["metadata"]
    change = {"updates": [{"action": "set-properties", "updates": {"comment": "mine"}}]}
    theirs = {"updates": [{"action": "set-properties", "updates": {"comment": "theirs"}}]}
    others.append(lambda: rest.post("/v1/namespaces/ns/views/w", theirs))
    assert rest.post("/v1/namespaces/ns/views/w", change).json["metadata"]["properties"] == {"comment": "mine"}
    assert rest.get("/v1/namespaces/ns/views/w").json["metadata"]["properties"] == {"comment": "theirs"}
    others.append(lambda: catalog.rename_view("ns.w", "ns.v"))
    assert rest.post("/v1/namespaces/ns/views/w", change).json["metadata"]["properties"] == {"comment": "mine"}


def test_views_are_made_changed_and_dropped(rest: RestClient, catalog: icecore.Catalog) -> None:
    make_table(rest)
    body = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    made = rest.post("/v1/namespaces/ns/views", body).json["metadata"]
    assert made["versions"][0]["representations"] == VIEW_VERSION["representations"]
    assert rest.get("/v1/namespaces/ns/views").json == {"identifiers": [{"namespace": ["ns"], "name": "v"}]}
    change = {
        "requirements": [{"type": "assert-view-uuid", "uuid": made["view-uuid"]}],
        "updates": [{"action": "set-properties", "updates": {"comment": "ids"}}],
    }
    assert rest.post("/v1/namespaces/ns/views/v", change).json["metadata"]["properties"] == {"comment": "ids"}
    assert catalog.load_view("ns.v").state.metadata.current_version().representations[0].sql == "SELECT id FROM t"
    assert rest.ask("DELETE", "/v1/namespaces/ns/views/v").status == 204
    assert rest.ask("HEAD", "/v1/namespaces/ns/views/v").status == 404


def test_who_made_what_is_in_the_way_is_told(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Of a name that is taken, and of a change that was meant for the view that had the name before."""
    make_table(rest)
    body = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    dropped = rest.post("/v1/namespaces/ns/views", body).json["metadata"]["view-uuid"]
    assert rest.ask("DELETE", "/v1/namespaces/ns/views/v").status == 204
    catalog.create_view("ns.v", "SELECT 1 AS x", message="it goes on here", author="ann")
    by = f"; it was created at position {catalog.position} by ann ('it goes on here')"
    change = {
        "requirements": [{"type": "assert-view-uuid", "uuid": dropped}],
        "updates": [{"action": "set-properties", "updates": {"comment": "ids"}}],
    }
    code, _, text = rest.post("/v1/namespaces/ns/views/v", change).error
    assert code == 409 and text.startswith("Requirement failed: view UUID does not match: expected ")
    assert text.endswith(f" != {dropped} in ns.v{by}")
    staged = {"name": "v", "schema": SCHEMA, "stage-create": True}
    for path, sent, said in (
        ("namespaces/ns/views", body, "View already exists: ns.v"),
        ("namespaces/ns/tables", staged, "View with same name already exists: ns.v"),
    ):
        assert rest.post(f"/v1/{path}", sent).error == (409, "AlreadyExistsException", said + by)
