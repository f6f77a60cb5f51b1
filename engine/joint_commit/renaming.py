"""The parts of a commit that give tables, views and namespaces the names that are wanted, whatever they have now.

A name is taken away before it is given again; of tables that change names in a circle one has a temporary name in
between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.ids import new_event_id
from icecore.engine.errors import NoSuchTableError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.name_events import Dropped, Renamed
from icecore.engine.events.namespace_events import NamespaceCreated, NamespaceDropped, NamespacePropertiesUpdated
from icecore.engine.joint_commit.joint_commit import Part
from icecore.engine.joint_commit.joint_names import NameChange, NameGivenBack, NamespaceChange
from icecore.engine.log.namespaces import is_implied_by
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.undrop import last_drop, name_of_drop

Names = Mapping[str, Identifier | None]
"""The name of each stream; None where it has none, or is to have none."""
Properties = Mapping[Identifier, Mapping[str, str] | None]
"""The properties of each namespace; None where there is none, or is to be none."""


def name_parts(repository: Repository, now: Names, wanted: Names) -> list[Part]:
    """The drops, renames and undrops, in an order in which each can be made.

    When the turn of one comes it raises NoSuchTableError where the table has another name than `now` says,
    TableAlreadyExistsError, NoSuchNamespaceError, and ValidationError for what was purged.
    """
    names = {stream: (now.get(stream), wanted[stream]) for stream in wanted if now.get(stream) != wanted[stream]}
    drops: list[Part] = [
        NameChange(Dropped(old), _Find(stream, old))
        for stream, (old, new) in names.items()
        if old is not None and new is None
    ]
    moves = {s: (old, new) for s, (old, new) in names.items() if old is not None and new is not None}
    undrops = [_undrop(repository, s, new) for s, (old, new) in names.items() if old is None and new is not None]
    return [*drops, *_renames(moves), *undrops]


def _renames(moves: Mapping[str, tuple[Identifier, Identifier]]) -> Iterable[Part]:
    left = dict(moves)
    while left:
        held = {old for old, _ in left.values()}
        free = [s for s, (_, new) in left.items() if new not in held]
        for stream in free:
            yield _rename(stream, *left.pop(stream))
        if not free:
            stream, (old, new) = next(iter(left.items()))
            between = (*old[:-1], f"{old[-1]}_{new_event_id()[-12:]}")
            yield _rename(stream, old, between)
            left[stream] = (between, new)


def _rename(stream: str, old: Identifier, new: Identifier) -> Part:
    return NameChange(Renamed(old, new), _Find(stream, old))


class _Find:
    """A look-up of the stream, which must have its name still when its turn comes."""

    def __init__(self, stream: str, name: Identifier) -> None:
        self._stream, self._name = stream, name

    def __call__(self, repository: Repository) -> str:
        if repository.models.identifier_of(self._stream) != self._name:
            raise NoSuchTableError(f"what was called {name_text(self._name)} is not called so any more")
        return self._stream


def _undrop(repository: Repository, stream: str, name: Identifier) -> Part:
    drop = last_drop(repository, stream)
    kind = "view" if ev.is_view_stream(stream) else "table"
    return NameGivenBack(name_of_drop(drop), kind, drop.position, name)


def namespace_parts(now: Properties, wanted: Properties, then: Collection[Identifier]) -> tuple[list[Part], list[Part]]:
    """The parts that come before those of tables, parents first, and the drops that come after them, parents last.

    One that is to go stays implied if it was so by those of `then`.
    """
    made: list[Part] = []
    for name in sorted(wanted, key=len):
        new, old = wanted[name], now.get(name)
        if new is None:
            continue
        if old is None:
            made.append(NamespaceChange(NamespaceCreated(name, new)))
        elif new != old:
            updates = {k: v for k, v in new.items() if old.get(k) != v}
            removals = frozenset(old.keys() - new.keys())
            made.append(NamespaceChange(NamespacePropertiesUpdated(name, updates, removals)))
    gone = [n for n, new in wanted.items() if new is None and now.get(n) is not None]
    drops: list[Part] = [
        NamespaceChange(NamespaceDropped(n), stays_implied=is_implied_by(then, n))
        for n in sorted(gone, key=len, reverse=True)
    ]
    return made, drops
