"""Namespaces that other engines created, changed or dropped in `iceberg_namespace_properties`."""

from __future__ import annotations

from icecore.engine.common.identifiers import namespace_tuple
from icecore.engine.errors import IcecoreError, name_text
from icecore.engine.events.event import Provenance
from icecore.engine.events.namespace_events import NamespaceCreated, NamespaceDropped, NamespacePropertiesUpdated
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_metadata import UNKNOWN_ENGINE
from icecore.engine.foreign.foreign_rows import NamespaceDifference
from icecore.engine.log.read_models import MINIMAL_PROPERTIES


def take_in_made(adoption: AdoptionRun, found: NamespaceDifference) -> None:
    """Adopts a namespace that is new, or has other properties now."""
    if found.row_properties is None:
        return
    try:
        namespace_tuple(found.namespace)
    except IcecoreError as e:
        adoption.problem(found.namespace, None, f"another engine made a namespace that can't be: {e}")
        return
    shared = dict(found.row_properties)
    if found.logged_properties is None or "exists" not in found.logged_properties:
        shared = {k: v for k, v in shared.items() if (k, v) not in MINIMAL_PROPERTIES.items()}
    who = Provenance(None, UNKNOWN_ENGINE, f"namespace {name_text(found.namespace)} in iceberg_namespace_properties")
    logged = found.logged_properties
    if logged is None:
        adoption.append_to_catalog(NamespaceCreated(found.namespace, shared), who)
        return
    updates = {k: v for k, v in shared.items() if logged.get(k) != v}
    removals = frozenset(logged.keys() - shared.keys())
    adoption.append_to_catalog(NamespacePropertiesUpdated(found.namespace, updates, removals), who)


def take_in_gone(adoption: AdoptionRun, found: NamespaceDifference) -> None:
    """Adopts the drop of a namespace, as far as nothing is left in it."""
    if found.row_properties is not None or found.logged_properties is None:
        return
    models, name = adoption.context.models, found.namespace
    inner = [n for n in models.namespaces() if n[: len(name)] == name and n != name]
    who = Provenance(None, UNKNOWN_ENGINE, f"namespace {name_text(name)} gone from iceberg_namespace_properties")
    if models.names_in(name) or inner:
        # For other engines a namespace that holds tables is there all the same: its row comes back.
        adoption.append_to_catalog(NamespacePropertiesUpdated(name, {}, frozenset(found.logged_properties)), who)
    else:
        adoption.append_to_catalog(NamespaceDropped(name), who)
