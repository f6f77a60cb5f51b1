"""Views that other engines created or committed to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icecore.engine.common.identifiers import Identifier, identifier_tuple
from icecore.engine.common.location import is_same_file
from icecore.engine.events import event as ev
from icecore.engine.events.event import Provenance
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_metadata import (
    UNKNOWN_ENGINE,
    read_foreign_view,
    view_adoption_payload,
)
from icecore.engine.foreign.foreign_rows import Difference
from icecore.engine.foreign.register import view_registration_payload
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.view_fold import evolve_view
from icecore.projections.files.materialize_view import write_view
from icecore.projections.files.pointers import move_pointers


def take_in_view(adoption: AdoptionRun, identifier: Identifier, location: str) -> None:
    """Registers the view of a row under a name that is free in the log."""
    identifier_tuple(identifier)
    payload, view_uuid = view_registration_payload(identifier, location, adoption.context.storage)
    payload["metadata-location"] = location
    adoption.need_namespace(identifier)
    stream = adoption.context.models.unused_stream(ev.view_stream(view_uuid))
    _append(adoption, stream, ev.VIEW_REGISTERED, payload)


def take_in_view_commit(adoption: AdoptionRun, d: Difference) -> None:
    """Adopts a commit to a view: without a metadata log, the same view made from our file follows it (V1).

    So does one that has our current version still: then commits between were missed, the last of which is noted.
    """
    assert d.stream is not None and d.row_location is not None, "the caller checked"
    state = adoption.context.views.state_at(d.stream)
    assert state is not None, "a view with a name has events"
    data, metadata = read_foreign_view(d.row_location, adoption.context.storage)
    is_same = metadata.view_uuid.lower() == state.metadata.view_uuid.lower()
    is_next = is_same_file(d.logged_location, d.previous)
    follows = is_next or state.metadata.current_version() in metadata.versions
    if not (is_same and follows and state.metadata_location == d.logged_location):
        text = (
            f"another engine committed {d.row_location} to a view, which does not follow {d.logged_location}, where "
            f"the log ends"
        )
        adoption.problem(d.identifier, d.stream, text)
        return
    payload = view_adoption_payload(state, d.row_location, data, metadata)
    if d.previous is not None and not is_next:
        payload["skipped"] = [d.previous]
    _append(adoption, d.stream, ev.VIEW_ADOPTED, payload)


def _append(adoption: AdoptionRun, stream: str, kind: str, payload: Mapping[str, Any]) -> None:
    before = adoption.context.views.state_at(stream)
    event, _ = adoption.append(stream, kind, payload, Provenance(None, UNKNOWN_ENGINE))
    adoption.context.check_taken(before, evolve_view(before, event))
    follow_view(adoption, stream)


def follow_view(adoption: AdoptionRun, stream: str) -> None:
    """Writes the files of a view's events, and moves its pointer, inside of the transaction. Raises StorageError."""
    store = adoption.context.store
    head = store.row(MODELS, "get_head", stream=stream)
    done = 0 if head is None else head["materialized_version"]
    base = adoption.context.views.state_at_version(stream, done)
    state, written = write_view(store, adoption.context.storage, stream, base)
    assert state is not None, "an adopted view has a state"
    move_pointers(store, adoption.context.models, state, written)
