"""Undrops: a dropped table or view gets its name back by one new event, and is what it was before the drop."""

from __future__ import annotations

from collections.abc import Iterator

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import names_like
from icecore.engine.errors import NoSuchTableError, NoSuchViewError, TableAlreadyExistsError, ValidationError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.name_events import Dropped, Undropped, read_name_event
from icecore.engine.log.store import WriteTransaction
from icecore.engine.repository.repository import Repository

_DROPS = {"table": ev.TABLE_DROPPED, "view": ev.VIEW_DROPPED}
_UNDROPS = {"table": ev.TABLE_UNDROPPED, "view": ev.VIEW_UNDROPPED}


def undrop_inside(
    repository: Repository,
    transaction: WriteTransaction,
    kind: str,
    drop: Event,
    provenance: Provenance,
    new_name: Identifier | None = None,
) -> Event:
    """Appends the event inside of a write transaction that the caller holds. `kind` is `table` or `view`.

    `new_name` is another name than it had when it was dropped.

    Raises TableAlreadyExistsError where the name is taken, NoSuchNamespaceError, ValidationError where the drop was
    undone already or what was dropped is purged, ForbiddenLocationError.
    """
    undrop = Undropped(new_name or name_of_drop(drop))
    try:
        repository.give_name_inside(transaction, undrop.identifier, provenance, kind=kind)
    except TableAlreadyExistsError as e:
        if repository.models.find(undrop.identifier) is None:
            # Another engine made it, as the error says.
            raise
        raise TableAlreadyExistsError(f"{e}; rename or drop what has the name first") from e
    _check(repository, kind, drop)
    if repository.location_rules.unique:
        repository.locations.check_given_back(drop.stream)
    return repository.append_inside(transaction, drop.stream, undrop.kind(drop.stream), undrop.to_dict(), provenance)


def _check(repository: Repository, kind: str, drop: Event) -> None:
    if (purge := _purge_of(repository, drop)) is not None:
        raise ValidationError(_purged_text(kind, drop, purge))
    if not _stands(repository, drop):
        name = name_text(name_of_drop(drop))
        raise ValidationError(f"the {kind} {name!r} dropped at {drop.position} was undropped already")


def dropped_at(repository: Repository, kind: str, identifier: Identifier, position: int | None) -> Event:
    """The drop to undo: the one at a position, or the latest of the name that stands and was not purged.

    Raises NoSuchTableError, NoSuchViewError, ValidationError where what was dropped is purged.
    """
    drops = _find(repository, kind, identifier, position)
    for drop in drops:
        if _purge_of(repository, drop) is None:
            return drop
    purge = _purge_of(repository, drops[0])
    assert purge is not None, "the loop ended without a drop that is not purged"
    raise ValidationError(_purged_text(kind, drops[0], purge))


def last_drop(repository: Repository, stream: str) -> Event:
    """The latest drop of a table or view. Raises NoSuchTableError where it was never dropped."""
    drops = [e for e in repository.store.stream_events(stream) if e.kind in _DROPS.values()]
    if not drops:
        raise NoSuchTableError(f"{stream} was never dropped")
    return drops[-1]


def drop_to_purge(repository: Repository, identifier: Identifier, position: int | None) -> Event:
    """The drop of the table that is to be purged: the one at a position, or the latest of the name that stands.

    One that was purged already is only taken where there is no other. Raises NoSuchTableError where there is none,
    ValidationError where it was undropped, or unregistered.
    """
    found = _find(repository, "table", identifier, position, ": drop it first")
    own = [d for d in found if not _is_unregistered(d)]
    if not own:
        raise ValidationError(
            f"the table {name_text(identifier)!r} was unregistered at {found[0].position}: another catalog may have "
            "its files now, so they are not purged; undrop it and drop it where they are still its own"
        )
    drop = next((d for d in own if _purge_of(repository, d) is None), own[0])
    if not _stands(repository, drop):
        raise ValidationError(f"the table {name_text(identifier)!r} dropped at {drop.position} was undropped")
    return drop


def _find(
    repository: Repository, kind: str, identifier: Identifier, position: int | None, if_not_dropped: str = ""
) -> list[Event]:
    """The drop at a position, or those of the name that stand, the latest first; at least one.

    `if_not_dropped` ends the error where the name is that of something which was not dropped. Raises NoSuchTableError,
    NoSuchViewError.
    """
    drops = list(_drops_of(repository, kind, identifier))
    chosen = (d for d in reversed(drops) if position == d.position or (position is None and _stands(repository, d)))
    if found := list(chosen):
        return found
    missing = NoSuchTableError if kind == "table" else NoSuchViewError
    where = "" if position is None else f" at position {position}"
    known = f"; it was dropped at {[d.position for d in drops]}" if drops else ""
    if repository.models.find(identifier) is not None:
        known += f"; what has that name now was not dropped{if_not_dropped}"
    like = () if known else _dropped_like(repository, kind, identifier)
    raise missing(f"there is no dropped {kind} {name_text(identifier)!r}{where}{known}", like=like)


def _drops_of(repository: Repository, kind: str, identifier: Identifier) -> Iterator[Event]:
    for event in repository.store.filtered_events(kind=_DROPS[kind]):
        if name_of_drop(event) == identifier:
            yield event


def _dropped_like(repository: Repository, kind: str, identifier: Identifier) -> list[Identifier]:
    """The names of dropped tables or views that can be undropped and that are like an unknown name."""
    drops = {name_of_drop(e): e for e in repository.store.filtered_events(kind=_DROPS[kind])}
    return [name for name in names_like(identifier, drops) if _stands(repository, drops[name])]


def _is_unregistered(drop: Event) -> bool:
    change = read_name_event(drop.kind, drop.payload)
    return isinstance(change, Dropped) and change.is_unregistered


def name_of_drop(drop: Event) -> Identifier:
    """The name that a drop took away."""
    change = read_name_event(drop.kind, drop.payload)
    assert isinstance(change, Dropped), f"a {drop.kind} event is no drop"
    return change.identifier


def _purge_of(repository: Repository, drop: Event) -> Event | None:
    """The event that purged the dropped table."""
    if ev.is_view_stream(drop.stream):
        return None
    at = repository.state(drop.stream).purged_at
    return None if at is None else repository.store.event_at(at)


def _purged_text(kind: str, drop: Event, purge: Event) -> str:
    name = name_text(name_of_drop(drop))
    return (
        f"the {kind} {name!r} dropped at {drop.position} was purged at position {purge.position} by "
        f"{purge.provenance.told}: its files are deleted, and can't come back"
    )


def _stands(repository: Repository, drop: Event) -> bool:
    """Whether nothing gave the dropped thing a name again, or dropped it once more."""
    later = repository.store.stream_events(drop.stream, drop.stream_version)
    return all(e.kind not in (*_DROPS.values(), *_UNDROPS.values()) for e in later)
