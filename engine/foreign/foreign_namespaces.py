"""Namespaces that other engines created, changed or dropped in `iceberg_namespace_properties`."""

from __future__ import annotations

from typing import Any

from icecore.engine.common.identifiers import namespace_tuple
from icecore.engine.errors import IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Provenance
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_metadata import UNKNOWN_ENGINE
from icecore.engine.foreign.foreign_rows import NamespaceDifference
from icecore.engine.log.read_models import MINIMAL_PROPERTIES, dotted


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
    who = Provenance(None, UNKNOWN_ENGINE, f"namespace {dotted(found.namespace)} in iceberg_namespace_properties")
    payload: dict[str, Any] = {"namespace": list(found.namespace)}
    if found.logged_properties is None:
        adoption.append(ev.CATALOG_STREAM, ev.NAMESPACE_CREATED, {**payload, "properties": shared}, who)
        return
    payload["updates"] = {k: v for k, v in shared.items() if found.logged_properties.get(k) != v}
    payload["removals"] = sorted(found.logged_properties.keys() - shared.keys())
    adoption.append(ev.CATALOG_STREAM, ev.NAMESPACE_PROPERTIES_UPDATED, payload, who)


def take_in_gone(adoption: AdoptionRun, found: NamespaceDifference) -> None:
    """Adopts the drop of a namespace, as far as nothing is left in it."""
    if found.row_properties is not None or found.logged_properties is None:
        return
    models, name = adoption.context.models, found.namespace
    inner = [n for n in models.namespaces() if n[: len(name)] == name and n != name]
    who = Provenance(None, UNKNOWN_ENGINE, f"namespace {dotted(name)} gone from iceberg_namespace_properties")
    if models.names_in(name) or inner:
        # For other engines a namespace that holds tables is there all the same: its row comes back.
        payload = {"namespace": list(name), "updates": {}, "removals": sorted(found.logged_properties)}
        adoption.append(ev.CATALOG_STREAM, ev.NAMESPACE_PROPERTIES_UPDATED, payload, who)
    else:
        adoption.append(ev.CATALOG_STREAM, ev.NAMESPACE_DROPPED, {"namespace": list(name)}, who)
