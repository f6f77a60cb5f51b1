"""Namespaces. Spec: the REST document's operations under `/namespaces`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from icecore.engine.common.identifiers import Identifier, folder_name
from icecore.engine.common.json_reader import get_list, get_str_map
from icecore.engine.common.location import to_uri
from icecore.engine.errors import NoSuchNamespaceError, ValidationError, name_text
from icecore.engine.log.names_at import CatalogNames
from icecore.engine.log.namespaces import ChangedProperties, updated_properties
from icecore.engine.log.request_keys import StoredAnswer
from icecore.engine.server.auth.grants import is_visible
from icecore.engine.server.wire.answer import NO_CONTENT, Answer, json_answer
from icecore.engine.server.wire.call import Call, levels
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.pages import listed
from icecore.engine.server.wire.path_names import namespace_of_text, read_namespace


def list_namespaces(call: Call) -> Answer:
    """The namespaces directly inside of `parent`, or at the top, that the client may see.

    Raises NoSuchNamespaceError, ValidationError.
    """
    parent = _parent(call, asked) if (asked := call.query.get("parent")) else ()
    if not _shows(call, parent):
        raise NoSuchNamespaceError(f"Namespace does not exist: {name_text(parent)}")
    names, after = listed(call, "namespace", parent)
    return json_answer({"namespaces": names, **after})


def create_namespace(call: Call) -> Answer:
    """Creates a namespace with its properties."""
    namespace = levels(call.body)
    call.catalog.create_namespace(namespace, get_str_map(call.body, "properties", "the request", {}))
    return _told(call, namespace, call.catalog.load_namespace_properties(namespace))


def load_namespace(call: Call) -> Answer:
    """A namespace with its properties."""
    return _told(call, call.namespace, call.shown.load_namespace_properties(call.namespace))


def namespace_exists(call: Call) -> Answer:
    """204 where there is such a namespace."""
    call.shown.load_namespace_properties(call.namespace)
    return NO_CONTENT


def drop_namespace(call: Call) -> Answer:
    """Drops an empty namespace."""
    call.catalog.drop_namespace(call.namespace)
    return NO_CONTENT


def update_properties(call: Call) -> Answer:
    """Sets and removes properties, and tells which; one to remove that was not set is `missing`."""
    removals: Sequence[str] = get_list(call.body, "removals", "the request", [])
    updates = get_str_map(call.body, "updates", "the request", {})
    return _changed(call.catalog.update_namespace_properties(call.namespace, removals, updates))


def created_again(call: Call, stored: StoredAnswer) -> Answer:
    """The namespace as it was created before."""
    namespace = levels(call.body)
    return _told(call, namespace, _properties_at(call, namespace, stored.last_position))


def updated_again(call: Call, stored: StoredAnswer) -> Answer:
    """The properties that were set and removed before."""
    removals = get_list(call.body, "removals", "the request", [])
    change = updated_properties(call.namespace, removals, get_str_map(call.body, "updates", "the request", {}))
    before = None if stored.first_position is None else stored.first_position - 1
    return _changed(ChangedProperties.of(change, _properties_at(call, call.namespace, before)))


def _properties_at(call: Call, namespace: Identifier, position: int | None) -> dict[str, str]:
    """The properties of a namespace as of a position of the log; empty where the position is None."""
    if position is None:
        return {}
    return CatalogNames.at(call.catalog._warehouse.store, position).namespaces.get(namespace, {})


def _changed(changed: ChangedProperties) -> Answer:
    return json_answer({"updated": changed.updated, "removed": changed.removed, "missing": changed.missing})


def _told(call: Call, namespace: Identifier, properties: Mapping[str, str]) -> Answer:
    return json_answer({"namespace": namespace, "properties": _located(call, namespace, properties)})


def _parent(call: Call, asked: str) -> Identifier:
    """The parent that a query names, whose levels PyIceberg encodes once more than others.

    A level may itself look encoded, so the name is decoded only where no such namespace is there. Raises
    ValidationError.
    """
    parent = namespace_of_text(asked)
    if "%" not in asked or (_shows(call, parent) and _is_there(call, parent)):
        return parent
    try:
        return read_namespace(asked)
    except ValidationError:
        return parent


def _is_there(call: Call, namespace: Identifier) -> bool:
    try:
        call.shown.load_namespace_properties(namespace)
    except NoSuchNamespaceError:
        return False
    return True


def _shows(call: Call, namespace: Identifier) -> bool:
    return call.principal is None or is_visible(call.principal.grants, namespace)


def _located(call: Call, namespace: Identifier, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with a `location`, by default the namespace's folder: Trino makes no table without one."""
    folder = call.catalog._warehouse.path.joinpath(*map(folder_name, namespace))
    return {"location": to_uri(folder), **properties}


ONE = "/namespaces/{namespace}"
ENDPOINTS = (
    Endpoint("GET", "/namespaces", list_namespaces),
    Endpoint("POST", "/namespaces", create_namespace, is_write=True, again=created_again),
    Endpoint("HEAD", ONE, namespace_exists),
    Endpoint("GET", ONE, load_namespace),
    Endpoint("DELETE", ONE, drop_namespace, is_write=True),
    Endpoint("POST", f"{ONE}/properties", update_properties, is_write=True, again=updated_again),
)
