"""The places of a text in events, and which of them may change.

Actors and messages may; in payloads, values that no replay depends on: properties, summaries, comments of columns, and
the SQL of views. They must not be in force any more: a replay without the text must end in the same states.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import orjson

from icecore.engine.errors import CorruptFileError, CorruptLogError, IcecoreError, ValidationError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import PAYLOAD, Event, canonical
from icecore.engine.events.files_of_others import KEPT_FILES, METADATA_FILE, adopted_dict, original_bytes
from icecore.engine.forget.redact_events import Replacement
from icecore.engine.formats.avro_blocks import read_header
from icecore.engine.formats.event_content import files_part
from icecore.engine.log.namespaces import fold_namespaces
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.replay.kinds import kind_of
from icecore.engine.replay.states import State

LEFT = "forgotten"
"""The word that stands in place of the text."""


def text_replacements(events: Iterable[Event], text: str) -> list[Replacement]:
    """The parts of events without the text. Raises ValidationError where it is in a place that needs it."""
    out = []
    for event in events:
        texts = {
            n: t.replace(text, LEFT) for n, t in event.texts.items() if n != PAYLOAD and t is not None and text in t
        }
        payload = orjson.loads(event.payload_text)
        if holds_text(payload, text):
            _redact(event.kind, payload, text)
            if holds_text(payload, text):
                raise ValidationError(
                    f"position {event.position}: the {event.kind} event has the text in a name, a path or another "
                    f"engine's metadata file, which the log can't do without; what can be forgotten are actors, "
                    f"messages, values of properties and summaries, comments of columns and the SQL of views"
                )
            texts[PAYLOAD] = canonical(payload)
        if texts:
            out.append(Replacement(event.position, texts))
    return out


def check_kept_files(store: EventStore, events: Iterable[Event], text: str) -> None:
    """Raises ValidationError where the header of a manifest or list of others that an event keeps has the text.

    Their entries are not looked at: they hold paths, partitions and bounds, as those of our own manifests do.
    """
    for event in events:
        if KEPT_FILES in event.payload_text and (data := store.content(event.position)) is not None:
            for location, kept in files_part(data, event.position).items():
                if kept is not None and text.encode() in b"\n".join(_header(kept, location).values()):
                    raise ValidationError(
                        f"position {event.position}: the text is in the header of {location}, a file of another engine "
                        f"that the log keeps whole"
                    )


def _header(data: bytes, location: str) -> Mapping[str, bytes]:
    try:
        return read_header(data, location).metadata
    except CorruptFileError:
        return {"": data}


def holds_text(value: Any, text: str) -> bool:
    """Whether a text is anywhere in a payload, names of fields included."""
    match value:
        case str():
            return text in value
        case dict():
            if METADATA_FILE in value and _original_holds(value, text):
                return True
            return any(text in k or holds_text(v, text) for k, v in value.items())
        case list():
            return any(holds_text(v, text) for v in value)
        case _:
            return False


def _original_holds(payload: Mapping[str, Any], text: str) -> bool:
    """Whether a metadata file that an event keeps has the text, which JSON may write with escapes."""
    try:
        return text.encode() in original_bytes(payload) or holds_text(adopted_dict(payload), text)
    except (IcecoreError, LookupError):
        return False


def _redact(kind: str, payload: dict[str, Any], text: str) -> None:
    """Replaces the text in values that no replay depends on."""
    if kind == ev.NAMESPACE_CREATED:
        _values(payload["properties"], text)
    elif kind == ev.NAMESPACE_PROPERTIES_UPDATED:
        _values(payload["updates"], text)
    elif isinstance(payload.get("updates"), list):
        for update in payload["updates"]:
            _redact_update(update, text)


def _redact_update(update: dict[str, Any], text: str) -> None:
    match update.get("action"):
        case "set-properties":
            _values(update.get("updates", {}), text)
        case "add-snapshot":
            _values(update["snapshot"].get("summary") or {}, text)
        case "add-view-version":
            _values(update["view-version"].get("summary") or {}, text)
            for representation in update["view-version"]["representations"]:
                if isinstance(sql := representation.get("sql"), str):
                    representation["sql"] = sql.replace(text, LEFT)
        case "add-schema":
            _comments(update["schema"], text)


def _values(mapping: dict[str, Any], text: str) -> None:
    for key, value in mapping.items():
        if isinstance(value, str):
            mapping[key] = value.replace(text, LEFT)


def _comments(value: Any, text: str) -> None:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _comments(inner, text)
    if isinstance(value, dict) and isinstance(value.get("doc"), str):
        value["doc"] = value["doc"].replace(text, LEFT)


# What is in force


def changed_streams(store: EventStore, replacements: Iterable[Replacement]) -> list[str]:
    """The streams whose payloads are replaced."""
    positions = [r.position for r in replacements if PAYLOAD in r.texts]
    return list(dict.fromkeys(store.event_at(p).stream for p in positions))


def check_not_in_force(store: EventStore, streams: Collection[str], replacements: Iterable[Replacement]) -> None:
    """Raises ValidationError where a present state would be another with the replacements.

    That of a purged table is left out: nobody can change it or have it back.
    """
    by_position = {r.position: r for r in replacements}
    for stream in streams:
        events = list(store.stream_events(stream))
        replaced = [by_position[e.position].apply(e) if e.position in by_position else e for e in events]
        if stream == ev.CATALOG_STREAM:
            _check_namespaces(events, replaced)
            continue
        head = store.row(MODELS, "get_head", stream=stream)
        written = len(events) if head is None else head["materialized_version"]
        for count in {len(events), written}:
            before = _folded(stream, events[:count])
            if before is None or (isinstance(before, TableState) and before.purged_at is not None):
                continue
            if before != _folded(stream, replaced[:count]):
                name = name_text(before.identifier)
                raise _in_force(f"{name}, which can be undropped" if before.dropped else name)


def _folded(stream: str, events: list[Event]) -> State | None:
    try:
        state: State | None = kind_of(stream).fold(None, events)
    except CorruptLogError:
        return None
    return state


def _check_namespaces(events: Iterable[Event], replaced: Iterable[Event]) -> None:
    before, after = (dict(_namespaces(e)) for e in (events, replaced))
    for name, properties in before.items():
        if after[name] != properties:
            raise _in_force(f"the namespace {name_text(name)}")


def _namespaces(events: Iterable[Event]) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for event in events:
        fold_namespaces(found, event.kind, event.payload)
    yield from found.items()


def _in_force(name: str) -> ValidationError:
    return ValidationError(
        f"the text is still in force in {name}: change it there, or expire it, before it is forgotten"
    )
