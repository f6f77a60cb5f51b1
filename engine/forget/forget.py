"""Forgetting: values no longer in force are removed from events for good, and an event says so.

What stays can still be verified, replayed and read as of any position; see `log/redactions.py` for how.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from icecore.engine.common.identifiers import checked_number
from icecore.engine.common.ids import new_salt
from icecore.engine.common.text import short_repr
from icecore.engine.errors import ForeignCommitError, IcecoreError, StorageError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.forget.forgettable_bounds import ForgettableBounds, forgettable_bounds
from icecore.engine.forget.forgettable_text import (
    LEFT,
    changed_streams,
    check_kept_files,
    check_not_in_force,
    text_replacements,
)
from icecore.engine.forget.redact_events import (
    REDACTION,
    ToTidy,
    drop_answers,
    remove_abandoned_archives,
    remove_unfinished_archives,
    replace_parts,
    tidy,
)
from icecore.engine.forget.rewritten_metadata import rewrite_metadata
from icecore.engine.forget.value_matches import Wanted
from icecore.engine.log.archives import ARCHIVE
from icecore.engine.log.redactions import Redaction
from icecore.engine.log.reports.client_reports import ClientReports
from icecore.engine.log.store import MODELS, WriteTransaction
from icecore.engine.metadata.fold import TableState
from icecore.engine.replay.kinds import kind_of
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.retry_policy import FOREIGN_ATTEMPTS
from icecore.projections.files.file_follower import MaterializationWarning
from icecore.projections.plan.planner import FORGOTTEN, Planner
from icecore.projections.stored_plans.plan_store import PlanStore


@frozen
class Forgotten:
    """The values that were forgotten, or would be.

    `position` is that of the event which says so; None in a dry run, and where there was nothing to forget. `events`
    are the positions that it is about, `files` counts the content files whose bounds are gone. `held` counts, by
    snapshot id, files that were deleted from the table but whose entries the snapshot still has, with their bounds:
    rewrite the manifests and expire it to forget these too. `left_files` still lie in storage, though no snapshot needs
    them: `remove_orphan_files` deletes them.
    """

    __repr__ = short_repr

    position: int | None = None
    events: tuple[int, ...] = ()
    files: int = 0
    held: Mapping[int, int] = field(factory=dict)
    left_files: tuple[str, ...] = ()


@define
class Forgetter:
    """The operations that forget, and the tidying up after an earlier process."""

    repository: Repository
    planner: Planner

    def bounds(
        self,
        stream: str,
        columns: Collection[str] | None,
        files: Collection[str] | None,
        provenance: Provenance,
        *,
        dry_run: bool,
    ) -> Forgotten:
        """Forgets column bounds of content files of one table: see `Table.forget`. Raises ValidationError."""
        for name, given in (("columns", columns), ("files", files)):
            if isinstance(given, str) or any(not isinstance(g, str) for g in given or ()):
                raise ValidationError(f"{name} must be a sequence of strings, found {given!r}")
        with self._settled(stream) as transaction:
            states = list(self._states(stream))
            bounds = forgettable_bounds(self.repository, states, columns, files)
            left = tuple(sorted(self._left(states[0], bounds)))
            event = None
            if bounds.replacements and not dry_run:
                told = {
                    "identifier": list(states[0].identifier),
                    "columns": None if columns is None else list(columns),
                    "files": len(bounds.files),
                }
                event = replace_parts(
                    self.repository.store,
                    bounds.replacements,
                    lambda redactions: self._tell(transaction, told, redactions, provenance),
                )
                drop_answers(self.repository.store)
            if not dry_run:
                self._note(stream, event)
        if event is not None:
            self.tidy()
        elif not dry_run:
            self.planner.remove(stream)
        positions = tuple(r.position for r in bounds.replacements)
        return Forgotten(None if event is None else event.position, positions, len(bounds.files), bounds.held, left)

    def text(self, text: str, positions: Collection[int] | None, provenance: Provenance, *, dry_run: bool) -> Forgotten:
        """Forgets a text wherever it stands in events: see `Catalog.forget_text`. Raises ValidationError."""
        if not isinstance(text, str) or not text or text in LEFT:
            raise ValidationError(f"the text to forget must be text that is not in {LEFT!r}, found {text!r:.60}")
        if any(text in (t or "") for t in (provenance.message, provenance.actor)):
            raise ValidationError("who forgets a text, and why, would be in the log with that very text")
        store = self.repository.store
        self.repository.foreign.adopt_all_if_changed()
        with store.write() as transaction:
            chosen = None if positions is None else [self._event(p) for p in sorted(set(positions))]
            check_kept_files(store, store.events() if chosen is None else chosen, text)
            events = store.events() if chosen is None else chosen
            replacements = text_replacements(events, text)
            streams = changed_streams(store, replacements)
            check_not_in_force(store, streams, replacements)
            event = None
            if replacements and not dry_run:
                files = [s for s in streams if s != ev.CATALOG_STREAM]
                event = replace_parts(
                    store, replacements, lambda told: self._tell(transaction, {}, told, provenance), files
                )
                self._note_states_again(files)
            dropped = not dry_run and drop_answers(store, text)
            if not dry_run:
                self.repository.materializer.forget_in_claims(text, LEFT)
        if event is not None or dropped:
            self.tidy()
        if not dry_run:
            ClientReports(store.path).forget(text)
            for plans in PlanStore.all(self.planner.cache):
                plans.forget(Wanted(text).in_bytes)
        return Forgotten(None if event is None else event.position, tuple(r.position for r in replacements))

    def _note(self, stream: str, event: Event | None) -> None:
        """Notes when bounds were forgotten, so that entries which were loaded or cached before are dropped.

        Where no event was appended, as for manifests of another writer that no event keeps, the note is a value that
        was never there before.
        """
        store = self.repository.store
        when = f"{store.head()[0]}.{new_salt().hex()}" if event is None else str(event.position)
        store.execute(MODELS, "put_warehouse", key=f"{FORGOTTEN}{stream}", value=when)

    def _event(self, position: int) -> Event:
        head = self.repository.store.head()[0]
        position = checked_number(position, "position")
        if not 0 < position <= head:
            raise ValidationError(f"there is no position {position}: the log ends at {head}")
        return self.repository.store.event_at(position)

    def _note_states_again(self, streams: Collection[str]) -> None:
        """Drops the checkpoints of streams, and stores their states at ends of archives as the events now give them."""
        store = self.repository.store
        for stream in streams:
            store.execute(REDACTION, "drop_checkpoints", stream=stream)
        for row in store.archives.kept("all_states"):
            stream = row["stream"]
            if stream in streams:
                kind = kind_of(stream)
                state = kind.fold(None, store.stream_events(stream, 0, row["position"]))
                version = row["stream_version"]
                data = None if state is None else kind.encode(state)
                store.execute(ARCHIVE, "put_state", stream=stream, stream_version=version, state=data)

    @contextlib.contextmanager
    def _settled(self, stream: str) -> Iterator[WriteTransaction]:
        """A write transaction in which other engines' commits to the table are all adopted."""
        for left in reversed(range(FOREIGN_ATTEMPTS)):
            if not self.repository.state(stream).dropped:
                self.repository.foreign.adopt_stream(stream)
            with contextlib.ExitStack() as stack:
                transaction = stack.enter_context(self.repository.store.write())
                try:
                    if not (state := self.repository.state(stream)).dropped:
                        self.repository.foreign.check(state)
                except ForeignCommitError:
                    if not left:
                        raise
                    continue
                yield transaction
                return

    def _states(self, stream: str) -> Iterator[TableState]:
        """The latest state, and the one that other engines see where that is another."""
        state = self.repository.state(stream)
        yield state
        head = self.repository.store.row(MODELS, "get_head", stream=stream)
        is_behind = head is not None and 0 < head["materialized_version"] < state.stream_version
        if head is not None and is_behind and state.purged_at is None:
            written = self.repository.states.state_at_version(stream, head["materialized_version"])
            if written is not None:
                yield written

    def _left(self, state: TableState, found: ForgettableBounds) -> Iterator[str]:
        """Files in storage that hold forgotten values: content files, and manifests that no snapshot has."""
        if not found.files:
            return
        storage = self.repository.storage_of(state)
        rows = self.repository.store.rows(MODELS, "files_of", stream=state.stream)
        manifests = {r["location"] for r in rows if r["kind"] == "manifest"} - found.manifests
        for location in (*found.files, *manifests):
            with contextlib.suppress(IcecoreError):
                if storage.exists(location):
                    yield location

    def _tell(
        self,
        transaction: WriteTransaction,
        told: Mapping[str, Any],
        redactions: list[Redaction],
        provenance: Provenance,
    ) -> Event:
        payload = {**told, "redactions": [r.to_dict() for r in redactions]}
        return self.repository.append_inside(transaction, ev.CATALOG_STREAM, ev.LOG_FORGOTTEN, payload, provenance)

    def tidy(self) -> None:
        """Removes the forgotten values from caches, free pages and replaced archives; waits for others in the way."""
        store = self.repository.store
        self.repository.forget()
        self.repository.entries.forget()
        for row in store.rows(REDACTION, "notes_below", prefix=FORGOTTEN, after=f"{FORGOTTEN}\U0010ffff"):
            self.planner.remove_stale(row["key"].removeprefix(FORGOTTEN))
        remove_unfinished_archives(store)
        note = ToTidy.of(store)
        if note is None:
            return
        remove_abandoned_archives(store)
        try:
            for stream in note.streams:
                rewrite_metadata(self.repository, stream)
        except StorageError as e:
            warnings.warn(
                f"metadata files that hold what was forgotten can't be written ({e}); the next open goes on",
                MaterializationWarning,
                stacklevel=3,
            )
            return
        tidy(store, note)
