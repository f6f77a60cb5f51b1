"""Views. Spec: the REST document's operations under `/namespaces/{namespace}/views`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from icecore.engine.commit.given_updates import with_checked_values
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.json_reader import get, get_list, get_str_map
from icecore.engine.errors import NoSuchViewError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.provenance import provenance
from icecore.engine.joint_commit.joint_commit import commit_jointly
from icecore.engine.joint_commit.joint_views import NewView
from icecore.engine.server.auth.grants import Level
from icecore.engine.server.resources.loaded import committed_view, loaded_view, view_after, view_again
from icecore.engine.server.wire.answer import NO_CONTENT, Answer
from icecore.engine.server.wire.call import Call, updates_asked
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.pages import identifiers_page
from icecore.engine.server.wire.refusal import Refusal, refusing_file
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.updates.metadata_update import (
    LAST_ADDED,
    AddSchema,
    AssignUuid,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.read_requirements import read_view_requirements
from icecore.engine.spec.updates.view_update import (
    AddViewVersion,
    SetCurrentViewVersion,
    ViewUpdate,
    read_view_updates,
)
from icecore.engine.spec.view import ViewVersion
from icecore.engine.view.view import View


def list_views(call: Call) -> Answer:
    """The views of a namespace."""
    return identifiers_page(call, "view")


def create_view(call: Call) -> Answer:
    """Creates a view of the version that the client made."""
    name = call.new_name
    warehouse = call.catalog._warehouse
    warehouse.store.check_writable()
    warehouse.repository.foreign.adopt_all_if_changed()
    view_uuid = str(uuid.uuid4())
    call.make_namespace(name[:-1])
    updates = _creation(call, name, view_uuid)
    part = NewView(name, ev.view_stream(view_uuid), lambda _: updates)
    made = commit_jointly(warehouse.targets, [part], provenance(call.catalog.actor))
    return view_after(call, made[0]) if made else committed_view(call, warehouse.views.state(part.stream))


def _creation(call: Call, name: Identifier, view_uuid: str) -> list[ViewUpdate]:
    """The updates of a `CreateViewRequest`. Raises ValidationError."""
    body: Mapping[str, Any] = call.body
    version = ViewVersion.from_dict(get(body, "view-version", dict, "the request"))
    location = call.catalog.new_location(name, view_uuid, get(body, "location", str, "the request", None))
    properties = get_str_map(body, "properties", "the request", {})
    made: list[ViewUpdate] = [
        AssignUuid(view_uuid),
        UpgradeFormatVersion(1),
        SetLocation(location),
        *([SetProperties(properties)] if properties else []),
        AddSchema(Schema.from_dict(get(body, "schema", dict, "the request"))),
        AddViewVersion(evolve(version, schema_id=LAST_ADDED)),
        SetCurrentViewVersion(LAST_ADDED),
    ]
    return with_checked_values(made)


def load_view(call: Call) -> Answer:
    """A view."""
    return loaded_view(call, call.shown.load_view(call.view))


def view_exists(call: Call) -> Answer:
    """204 where there is such a view. Raises NoSuchViewError."""
    if not call.shown.view_exists(call.view):
        raise NoSuchViewError(f"View does not exist: {name_text(call.view)}")
    return NO_CONTENT


def replace_view(call: Call) -> Answer:
    """Commits updates to a view where its requirements hold."""
    requirements = tuple(read_view_requirements(get_list(call.body, "requirements", "the request", [])))
    updates = with_checked_values(read_view_updates(updates_asked(call.body)))
    view = call.catalog.load_view(call.view)
    warehouse = call.catalog._warehouse
    warehouse.store.check_writable()
    who = provenance(call.catalog.actor)
    outcome = warehouse.views.commit(view.state.stream, lambda _: updates, who, requirements=requirements)
    return committed_view(call, outcome.state) if outcome.event is None else view_after(call, outcome.event)


def drop_view(call: Call) -> Answer:
    """Drops a view."""
    call.catalog.drop_view(call.view)
    return NO_CONTENT


def rename_view(call: Call) -> Answer:
    """Gives a view another name."""
    call.catalog.rename_view(call.named_in_body("source"), call.named_in_body("destination"))
    return NO_CONTENT


def register_view(call: Call) -> Answer:
    """Registers a view by its metadata file."""
    name = call.new_name
    call.make_namespace(name[:-1])
    with refusing_file():
        view = call.catalog.register_view(name, get(call.body, "metadata-location", str, "the request"))
    assert isinstance(view, View), "without dry_run a view is registered"
    return committed_view(call, view.state)


ALL_VIEWS = "/namespaces/{namespace}/views"
ONE = f"{ALL_VIEWS}/{{view}}"
ENDPOINTS = (
    Endpoint("GET", ALL_VIEWS, list_views),
    Endpoint("POST", ALL_VIEWS, create_view, is_write=True, asks=Level.WRITE, again=view_again),
    Endpoint("HEAD", ONE, view_exists),
    Endpoint("GET", ONE, load_view),
    Endpoint("POST", ONE, replace_view, is_write=True, asks=Level.WRITE, again=view_again, refusal=Refusal.COMMIT),
    Endpoint("DELETE", ONE, drop_view, is_write=True),
    Endpoint("POST", "/namespaces/{namespace}/register-view", register_view, is_write=True, again=view_again),
    Endpoint("POST", "/views/rename", rename_view, is_write=True),
)
