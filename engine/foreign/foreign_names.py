"""Other engines' changes of names in `iceberg_tables`: tables and views created, renamed or dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import evolve

from icecore.engine.common.identifiers import Identifier, identifier_tuple
from icecore.engine.common.ids import new_event_id
from icecore.engine.errors import IcecoreError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Provenance
from icecore.engine.events.name_events import Dropped, Renamed
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_commits import take_in_commit
from icecore.engine.foreign.foreign_manifests import files_of_registered
from icecore.engine.foreign.foreign_metadata import UNKNOWN_ENGINE
from icecore.engine.foreign.foreign_pairs import Pair, pair_names
from icecore.engine.foreign.foreign_rows import Difference
from icecore.engine.foreign.foreign_views import follow_view, take_in_view, take_in_view_commit
from icecore.engine.foreign.register import registration_payload
from icecore.engine.spec.metadata import TableMetadata


def take_in_names(adoption: AdoptionRun, differences: Sequence[Difference], unread: Sequence[Difference]) -> None:
    """Adopts the changes of names: those that left a name first, then those that came, then commits.

    A table whose name is gone may be in a row that can't be read: while there is one, which `unread` may tell of, names
    are only taken from tables whose own file stands in another row.
    """
    pairs, more = pair_names(adoption, differences)
    unread = [*unread, *more]
    olds, nows = {id(p.old) for p in pairs}, {id(d) for d in (*unread, *(p.now for p in pairs))}
    gone = [d for d in differences if d.stream is not None and id(d) not in olds]
    new = [d for d in differences if d.row_location is not None and id(d) not in nows]
    moved = [p.now for p in pairs if p.old is p.now]
    renamed = [p for p in pairs if p.old is not p.now]
    if unread:
        _hold(adoption, [*gone, *(p.old for p in renamed if not p.is_exact)], unread[0])
        gone, renamed = [], [p for p in renamed if p.is_exact]
    for d in _not_left_out(adoption, gone):
        _dropped(adoption, d)
    moved += _rename_all(adoption, renamed)
    for d in _not_left_out(adoption, new):
        # Under a name that a table of the log could not leave it waits for that one.
        if adoption.context.models.find(d.identifier) is None:
            _made(adoption, d)
    for d in _not_left_out(adoption, moved):
        with adoption.attempt(d.identifier, d.stream):
            assert d.stream is not None, "what has moved has a stream"
            (take_in_view_commit if ev.is_view_stream(d.stream) else take_in_commit)(adoption, d)


def _not_left_out(adoption: AdoptionRun, differences: Iterable[Difference]) -> Iterable[Difference]:
    return (d for d in differences if d.identifier not in adoption.left_out)


def _hold(adoption: AdoptionRun, olds: Iterable[Difference], because: Difference) -> None:
    """Notes tables whose names stay until a row is taken in."""
    for old in _not_left_out(adoption, olds):
        text = (
            f"another engine took this name from {old.logged_location} in iceberg_tables; whether that has another "
            f"name there is not known until {name_text(because.identifier)} is taken in, or is no more"
        )
        adoption.problem(old.identifier, old.stream, text)


def _rename_all(adoption: AdoptionRun, pairs: Sequence[Pair]) -> list[Difference]:
    """Gives the tables their names, those to taken names last; returns the commits that came with the new names.

    Where names go round in a circle, one table has a temporary name in between.
    """
    left, done = {p.old.identifier: p for p in _possible(adoption, pairs)}, list[Difference]()
    while left:
        free = [name for name, pair in left.items() if pair.now.identifier not in left]
        if not free:
            name, pair = next(iter(left.items()))
            between = (*name[:-1], f"{name[-1]}_{new_event_id()[-12:]}")
            _rename(adoption, pair.old, name, between)
            left[between] = left.pop(name)
        for name in free:
            pair = left.pop(name)
            _rename(adoption, pair.old, name, pair.now.identifier)
            if pair.is_exact:
                _follow(adoption, pair.old)
            else:
                done.append(evolve(pair.now, stream=pair.old.stream, logged_location=pair.old.logged_location))
    return done


def _possible(adoption: AdoptionRun, pairs: Sequence[Pair]) -> Sequence[Pair]:
    """The pairs whose new name is free, or will be; the tables of others keep the names that they have."""
    while True:
        leaving = {p.old.identifier for p in pairs}
        stuck = [p for p in pairs if not _may_have(adoption, p, leaving)]
        if not stuck:
            return pairs
        for pair in stuck:
            _hold(adoption, [pair.old], pair.now)
        pairs = [p for p in pairs if p not in stuck]


def _may_have(adoption: AdoptionRun, pair: Pair, leaving: Collection[Identifier]) -> bool:
    name = pair.now.identifier
    try:
        identifier_tuple(name)
    except IcecoreError as e:
        adoption.failed(name, pair.old.stream, e)
    if {name, pair.old.identifier} & adoption.left_out:
        return False
    return name in leaving or adoption.context.models.find(name) is None


def _rename(adoption: AdoptionRun, old: Difference, name: Identifier, new: Identifier) -> None:
    assert old.stream is not None, "the caller checked"
    adoption.at(new, old.stream)
    adoption.need_namespace(new)
    who = Provenance(None, UNKNOWN_ENGINE, f"renamed in iceberg_tables from {name_text(old.identifier)}")
    adoption.append_name(old.stream, Renamed(name, new), who)


def _follow(adoption: AdoptionRun, old: Difference) -> None:
    # Tables follow at the end of the run.
    if old.stream is not None and ev.is_view_stream(old.stream):
        follow_view(adoption, old.stream)


def _dropped(adoption: AdoptionRun, d: Difference) -> None:
    assert d.stream is not None, "the caller checked"
    with adoption.attempt(d.identifier, d.stream):
        who = Provenance(None, UNKNOWN_ENGINE, f"dropped from iceberg_tables, where it was {d.logged_location}")
        adoption.append_name(d.stream, Dropped(d.identifier), who)
        _follow(adoption, d)


def _made(adoption: AdoptionRun, d: Difference) -> None:
    """Registers the table of a row under a name that is free in the log."""
    assert d.row_location is not None, "the caller checked"
    with adoption.attempt(d.identifier, None):
        (take_in_view if d.is_view else _take_in_table)(adoption, d.identifier, d.row_location)


def _take_in_table(adoption: AdoptionRun, identifier: Identifier, location: str) -> None:
    identifier_tuple(identifier)
    payload, table_uuid = registration_payload(identifier, location, None, adoption.context.storage)
    payload["metadata-location"] = location
    adoption.need_namespace(identifier)
    stream = adoption.context.models.unused_stream(ev.table_stream(table_uuid))
    who = Provenance(None, UNKNOWN_ENGINE, f"made in iceberg_tables: {location}")
    given = files_of_registered(TableMetadata.from_dict(payload["metadata"]), adoption.context.storage)
    _, state = adoption.append(stream, ev.TABLE_REGISTERED, payload, who, given)
    assert state is not None, "a registered table has a state"
    adoption.context.check_taken(None, state)
