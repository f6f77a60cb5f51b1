"""Other engines' changes of names in `iceberg_tables`: tables and views created, renamed or dropped."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from icecore.engine.common.identifiers import identifier_tuple
from icecore.engine.common.location import is_same_file
from icecore.engine.errors import name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Provenance
from icecore.engine.events.name_events import Dropped, Renamed
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_commits import is_same_table, take_in_commit
from icecore.engine.foreign.foreign_manifests import files_of_registered
from icecore.engine.foreign.foreign_metadata import UNKNOWN_ENGINE, read_foreign
from icecore.engine.foreign.foreign_rows import Difference
from icecore.engine.foreign.foreign_views import is_same_view, take_in_view, take_in_view_commit
from icecore.engine.foreign.register import registration_payload
from icecore.engine.spec.metadata import TableMetadata


def take_in_names(adoption: AdoptionRun, differences: Sequence[Difference]) -> None:
    """Adopts the changes of names: those that left a name first, then those that came, then commits."""
    gone = [d for d in differences if d.row_location is None and d.stream is not None]
    new = [d for d in differences if d.stream is None and d.row_location is not None]
    moved: list[Difference] = []
    for d in differences:
        if d.stream is None or d.row_location is None:
            continue
        adoption.at(d.identifier, d.stream)
        if d.logged_location is not None and _is_another(adoption, d):
            gone.append(evolve(d, row_location=None))
            new.append(evolve(d, stream=None, logged_location=None))
        else:
            moved.append(d)
    for old, now in _renames(adoption, gone, new):
        gone.remove(old)
        new.remove(now)
        if now.row_location != old.logged_location:
            moved.append(evolve(now, stream=old.stream, logged_location=old.logged_location))
    for d in gone:
        _dropped(adoption, d)
    for d in new:
        _made(adoption, d)
    for d in moved:
        adoption.at(d.identifier, d.stream)
        assert d.stream is not None, "what has moved has a stream"
        (take_in_view_commit if ev.is_view_stream(d.stream) else take_in_commit)(adoption, d)


def _is_another(adoption: AdoptionRun, d: Difference) -> bool:
    """Whether a name holds another table than before: dropped and created again, or two that changed names."""
    assert d.stream is not None and d.row_location is not None, "the caller checked"
    if ev.is_view_stream(d.stream):
        return not is_same_view(adoption, d.stream, d.row_location)
    state = adoption.latest(d.stream)
    file = read_foreign(d.row_location, adoption.context.storage_of(state))
    if is_same_table(state.metadata, file.metadata):
        return False
    named = {e.metadata_file for e in file.metadata.metadata_log}
    return not any(is_same_file(d.logged_location, n) for n in named)


def _renames(
    adoption: AdoptionRun, gone: Sequence[Difference], new: Sequence[Difference]
) -> list[tuple[Difference, Difference]]:
    """Tables that left one name and stand under another; their events are appended, those to taken names last."""
    pairs: list[tuple[Difference, Difference]] = []
    for now in new:
        for old in gone:
            if not any(old is p[0] for p in pairs) and _is_renamed(adoption, old, now):
                pairs.append((old, now))
                break
    done: list[tuple[Difference, Difference]] = []
    while ready := [p for p in pairs if p not in done and adoption.context.models.find(p[1].identifier) is None]:
        for old, now in ready:
            _renamed(adoption, old, now)
            done.append((old, now))
    return done


def _is_renamed(adoption: AdoptionRun, old: Difference, now: Difference) -> bool:
    """Whether the table that left one name is the one under the other."""
    assert old.stream is not None and now.row_location is not None, "the caller checked"
    adoption.at(now.identifier, None)
    if ev.is_view_stream(old.stream) or now.is_view:
        return ev.is_view_stream(old.stream) and now.is_view and is_same_view(adoption, old.stream, now.row_location)
    state = adoption.latest(old.stream)
    return is_same_table(state.metadata, read_foreign(now.row_location, adoption.context.storage_of(state)).metadata)


def _renamed(adoption: AdoptionRun, old: Difference, now: Difference) -> None:
    assert old.stream is not None, "the caller checked"
    adoption.at(now.identifier, old.stream)
    identifier_tuple(now.identifier)
    adoption.need_namespace(now.identifier)
    who = Provenance(None, UNKNOWN_ENGINE, f"renamed in iceberg_tables from {name_text(old.identifier)}")
    adoption.append_name(old.stream, Renamed(old.identifier, now.identifier), who)


def _dropped(adoption: AdoptionRun, d: Difference) -> None:
    assert d.stream is not None, "the caller checked"
    adoption.at(d.identifier, d.stream)
    who = Provenance(None, UNKNOWN_ENGINE, f"dropped from iceberg_tables, where it was {d.logged_location}")
    adoption.append_name(d.stream, Dropped(d.identifier), who)


def _made(adoption: AdoptionRun, d: Difference) -> None:
    """Registers the table of a row under a name that is free in the log."""
    assert d.row_location is not None, "the caller checked"
    adoption.at(d.identifier, None)
    if d.is_view:
        take_in_view(adoption, d.identifier, d.row_location)
        return
    identifier_tuple(d.identifier)
    payload, table_uuid = registration_payload(d.identifier, d.row_location, None, adoption.context.storage)
    payload["metadata-location"] = d.row_location
    adoption.need_namespace(d.identifier)
    stream = adoption.context.models.unused_stream(ev.table_stream(table_uuid))
    who = Provenance(None, UNKNOWN_ENGINE, f"made in iceberg_tables: {d.row_location}")
    given = files_of_registered(TableMetadata.from_dict(payload["metadata"]), adoption.context.storage)
    _, state = adoption.append(stream, ev.TABLE_REGISTERED, payload, who, given)
    assert state is not None, "a registered table has a state"
    adoption.context.check_taken(None, state)
