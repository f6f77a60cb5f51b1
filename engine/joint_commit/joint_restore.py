"""Restores: tables, views and namespaces become again what they were at a position, by one new commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from attrs import define, evolve, field

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import (
    CommitConflictError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
    name_text,
)
from icecore.engine.events.event import CATALOG_STREAM, Event, Provenance, is_view_stream
from icecore.engine.events.name_events import read_name_event
from icecore.engine.joint_commit.joint_commit import (
    AT_ONCE,
    CommitTargets,
    OnNoBranch,
    Part,
    commit_jointly,
    dry_run_jointly,
)
from icecore.engine.joint_commit.joint_tables import TableChange
from icecore.engine.joint_commit.joint_views import ViewChange
from icecore.engine.joint_commit.renaming import name_parts, namespace_parts
from icecore.engine.log.names_at import CatalogNames
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState
from icecore.engine.revert.restore_state import expiry_of, restored_table, restored_view
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import TableUpdate
from icecore.engine.spec.updates.view_update import ViewUpdate


def restore(
    desk: CommitTargets,
    position: int,
    provenance: Provenance,
    *,
    name: Identifier | None = None,
    namespace: Identifier | None = None,
    dry_run: bool,
) -> int | CatalogDryRun:
    """Makes a table or view, a namespace or, without both, all again what it was at a position.

    Gives the position of the last event, which is that of the log where nothing differs; of a dry run what it would be.
    Raises ValidationError, NoSuchTableError and NoSuchNamespaceError where there was none of the name,
    CommitConflictError where a snapshot was expired since, TableAlreadyExistsError.
    """
    repository = desk.repository
    repository.check_writable()
    for _ in AT_ONCE.attempts():
        repository.foreign.adopt_all_if_changed()
        head = repository.store.head()[0]
        if not 0 <= position <= head:
            raise ValidationError(f"there is no position {position} to restore: the log goes from 0 to {head}")
        restoration = _Restoration(
            desk, position, CatalogNames.at(repository.store, position), CatalogNames.now(repository.models)
        )
        if name is not None:
            parts, what = restoration.of_name(name), name_text(name)
        elif namespace is not None:
            parts, what = restoration.of_namespace(namespace), f"namespace {name_text(namespace)}"
        else:
            parts, what = restoration.of_all(), "all"
        why = evolve(provenance, message=provenance.message or f"restore {what} to position {position}")
        if dry_run:
            return dry_run_jointly(desk, parts, why)
        still_all = [] if name is not None else [_StillAll(head, restoration.left)]
        with contextlib.suppress(_LeftOut):
            events = commit_jointly(desk, [*still_all, *parts], why) if parts else ()
            return events[-1].position if events else repository.store.head()[0]
    raise CommitConflictError(f"position {position} can't be restored now: others keep changing what is to change")


class _LeftOut(Exception):
    """A signal to look again at what is to be restored. Never leaves this module."""


@define
class _StillAll(OnNoBranch):
    """A part that changes nothing, and raises _LeftOut where what was planned at a position leaves something out.

    That is where others gave or took names since, or changed one of the streams that were `left` as they were: a commit
    of theirs would be half undone.
    """

    planned_at: int
    left: set[str]
    name: Identifier = ()

    def answered_by(self, event: Event) -> bool:
        return False

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        for event in desk.repository.store.events(self.planned_at):
            if event.stream in (*self.left, CATALOG_STREAM) or read_name_event(event.kind, event.payload) is not None:
                raise _LeftOut
        return ()

    def follow(self, desk: CommitTargets) -> None: ...


@define
class _Restoration:
    """The way back from the names and states of now to those at a position."""

    desk: CommitTargets
    position: int
    then: CatalogNames
    now: CatalogNames
    left: set[str] = field(factory=set)
    """The streams that are as they were."""

    def of_all(self) -> list[Part]:
        """The parts of the whole catalog."""
        return self._parts(
            {*self.then.streams.values(), *self.now.streams.values()},
            {*self.then.namespaces, *self.now.namespaces},
        )

    def of_namespace(self, namespace: Identifier) -> list[Part]:
        """The parts of a namespace and those in it: what it has now, and what it had then.

        Raises NoSuchNamespaceError.
        """
        if namespace not in self.then.namespaces:
            raise NoSuchNamespaceError(f"there was no namespace {name_text(namespace)!r} at position {self.position}")

        def inside(name: Identifier) -> bool:
            return name[: len(namespace)] == namespace

        found = {s for names in (self.then, self.now) for n, s in names.streams.items() if inside(n[:-1])}
        return self._parts(found, {n for names in (self.then, self.now) for n in names.namespaces if inside(n)})

    def of_name(self, name: Identifier) -> list[Part]:
        """The parts of the table or view that had a name then, else of the one that has it now.

        Raises NoSuchTableError, TableAlreadyExistsError where another one has its name now.
        """
        stream = self.then.streams.get(name) or self.now.streams.get(name)
        if stream not in self.then.by_stream:
            raise NoSuchTableError(f"there was no table or view {name_text(name)!r} at position {self.position}")
        assert stream is not None, "what had a name had a stream"
        before = self.then.by_stream[stream]
        taken = self.now.streams.get(before, stream)
        if taken != stream:
            raise TableAlreadyExistsError(
                f"{'View' if is_view_stream(taken) else 'Table'} already exists: {name_text(before)}, another one than "
                f"at position {self.position}: rename or drop it first, or restore its namespace, which drops "
                "newer ones"
            )
        return self._parts({stream}, set())

    def _parts(self, streams: set[str], namespaces: set[Identifier]) -> list[Part]:
        then, now, before = self.then.by_stream, self.now.by_stream, self.then.namespaces
        chosen = sorted(streams, key=lambda s: (then.get(s) or now.get(s) or (), s))
        made, dropped = namespace_parts(self.now.namespaces, {n: before.get(n) for n in namespaces}, before)
        names = name_parts(self.desk.repository, now, {s: then.get(s) for s in chosen})
        changed = {s: part for s in chosen if s in then and (part := self._change(s, then[s])) is not None}
        self.left = set(chosen) - changed.keys()
        return [*made, *names, *changed.values(), *dropped]

    def _refuse(self, why: str) -> CommitConflictError:
        return CommitConflictError(f"position {self.position} can't be restored: {why}")

    def _change(self, stream: str, name: Identifier) -> Part | None:
        """The part that sets a table or view back; None where it is as it was."""
        if is_view_stream(stream):
            return self._view(stream, name)
        repository = self.desk.repository
        then = repository.state_at(stream, self.position)
        assert then is not None, "what had a name had a state"
        now = repository.state(stream)
        updates = partial(self._table_updates, now, name, then.metadata)
        if now.position <= self.position or _is_nothing(updates, now.metadata):
            return None
        return TableChange.of(name, stream, [ChangeMetadata(updates)])

    def _table_updates(
        self, state: TableState, name: Identifier, then: TableMetadata, now: TableMetadata
    ) -> list[TableUpdate]:
        repository = self.desk.repository

        def used_specs() -> set[int]:
            found = [now.snapshot_by_id(ref.snapshot_id) for ref in then.refs.values()]
            listed = [m.manifest for s in found if s is not None for m in repository.list_manifests(state, s)]
            return {m.partition_spec_id for m in listed if m.has_live_files}

        def gone(ref: str, snapshot_id: int) -> CommitConflictError:
            expiry = expiry_of(repository.store, state.stream, snapshot_id, self.position)
            by = f", expired at position {expiry.position} by {expiry.provenance.told}" if expiry else ""
            return self._refuse(f"snapshot {snapshot_id} of ref {ref!r} of {name_text(name)} is gone{by}")

        def refuse(why: str) -> CommitConflictError:
            return self._refuse(f"{name_text(name)}: {why}")

        return restored_table(then, now, used_specs, gone, refuse)

    def _view(self, stream: str, name: Identifier) -> Part | None:
        views = self.desk.views
        then = views.state_at(stream, self.position)
        assert then is not None, "what had a name had a state"
        if views.state(stream).position <= self.position:
            return None

        def updates(at: int) -> list[ViewUpdate]:
            return restored_view(then.metadata, views.state(stream).metadata, at)

        return ViewChange(name, stream, [updates], goes_back=True)


def _is_nothing(updates: Callable[[TableMetadata], list[TableUpdate]], now: TableMetadata) -> bool:
    """Whether there is nothing to set back. What stands in the way is told when it is committed, or foretold."""
    try:
        return not updates(now)
    except CommitConflictError:
        return False
