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
