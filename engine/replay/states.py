"""The states of tables and of views: folded from the log, cached, and checkpointed, so that a replay starts from there.

What differs between the two is a `Kind`; all else is here, once.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

import orjson
from attrs import define, field, frozen

from icecore.engine.common.fork_safety import Lock
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CorruptLogError, NotFoundError, name_text
from icecore.engine.events.event import Event
from icecore.engine.events.name_events import became_of
from icecore.engine.log.store import CHECKPOINTS, EventStore

CHECKPOINT_EVERY = 64
_LAST = 2**62


class State(Protocol):
    """The state of a table or view as of one version of its stream."""

    @property
    def stream(self) -> str: ...

    @property
    def stream_version(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def event_hash(self) -> str: ...

    @property
    def identifier(self) -> Identifier: ...

    @property
    def dropped(self) -> bool: ...


S = TypeVar("S", bound=State)


@frozen
class Kind(Generic[S]):
    """The kind of a stream's states: `name` is the word for it, `missing` the error where there is none.

    `to_dict` and `from_dict` are between a state and the JSON object of its checkpoint; `interval` is the number of
    events after which one is due.
    """

    name: str
    missing: type[NotFoundError]
    fold: Callable[[S | None, Iterable[Event]], S | None]
    to_dict: Callable[[S], dict[str, Any]]
    from_dict: Callable[[Any], S]
    interval: Callable[[S], int] = lambda _: CHECKPOINT_EVERY

    def encode(self, state: S) -> bytes:
        """A state as the bytes of a checkpoint."""
        return to_bytes(self.to_dict(state))

    def decode(self, data: bytes, stream: str) -> S:
        """The state of a stored checkpoint. Raises CorruptLogError where the bytes are no checkpoint of this kind."""
        return from_bytes(data, stream, self.from_dict)


@define(eq=False)
class States(Generic[S]):
    """States by stream; a cached one is brought up to date by the events since. Threads may share it."""

    kind: Kind[S]
    store: EventStore
    _states: dict[str, S] = field(factory=dict, repr=False)
    _checkpointed: dict[str, int] = field(factory=dict, repr=False)
    _lock: Lock = field(factory=Lock, repr=False)

    def state(self, stream: str, last_version: int | None = None) -> S:
        """The latest state, also of what was dropped; `last_version` is that of its last event, where it is known.

        Raises the kind's error where there is none, CorruptLogError.
        """
        with self._lock:
            cached = self._states.get(stream)
            found = self.state_at(stream) if cached is None else self.forward(cached, last_version)
            if found is None:
                raise self.kind.missing(f"there is no {stream}")
            if self.store.is_committed(found.position):
                # Other threads read the cache, and must not see what is not committed yet.
                self._states[stream] = found
            return found

    def live_state(self, stream: str) -> S:
        """The latest state, unless it was dropped: then it raises the kind's error."""
        state = self.state(stream)
        if state.dropped:
            raise self.missing(state)
        return state

    def missing(self, state: S) -> NotFoundError:
        """The error that tells of a state that was dropped, and of who dropped it."""
        took = self.store.event_that_took(self.kind.name, state.identifier)
        more: tuple[str, tuple[Identifier, ...]] = ("; it was dropped", ())
        if took is not None and took.stream == state.stream:
            more = became_of(took, is_last=took.position == state.position)
        return self.kind.missing(f"{self.kind.name.capitalize()} does not exist: {name_text(state.identifier)}", *more)

    def known(self, stream: str) -> S:
        """The state as it was seen last, which may not be the latest. Raises as `state`."""
        return self._states.get(stream) or self.state(stream)

    def put(self, state: S) -> None:
        """Caches the state after a commit, unless a later one is."""
        with self._lock:
            known = self._states.get(state.stream)
            if known is None or known.stream_version <= state.stream_version:
                self._states[state.stream] = state

    def drop(self, stream: str) -> None:
        """Drops one stream's cached state."""
        self._states.pop(stream, None)

    def forget(self) -> None:
        """Drops every cached state."""
        with self._lock:
            self._states.clear()
            self._checkpointed.clear()

    # Replays, past the cache

    def forward(self, state: S, last_version: int | None = None) -> S:
        """The state with the events since applied; `last_version` is that of the last one, where it is known."""
        if last_version is None:
            last_version = self.store.last_version(state.stream)
        if last_version == state.stream_version:
            return state
        newer = self.kind.fold(state, self.store.stream_events(state.stream, state.stream_version))
        assert newer is not None, "a fold from a state has a state"
        return newer

    def state_at(self, stream: str, position: int | None = None) -> S | None:
        """The state as of a position of the log, from the nearest checkpoint before it; None before the first event."""
        up_to = _LAST if position is None else position
        row = self.store.row(CHECKPOINTS, "latest_checkpoint", stream=stream, up_to=up_to)
        kept = self.store.archives.kept_row("state_by_position", stream=stream, up_to=up_to)
        base = self._noted(stream, row, kept)
        return self.kind.fold(base, self.store.stream_events(stream, base.stream_version if base else 0, up_to))

    def state_at_version(self, stream: str, version: int, near: S | None = None) -> S | None:
        """The state after a number of events of the stream; `near` is one that the replay may start from."""
        if version == 0:
            return None
        base = near
        if base is None or base.stream_version > version:
            row = self.store.row(CHECKPOINTS, "checkpoint_at_version", stream=stream, version=version)
            kept = self.store.archives.kept_row("state_by_version", stream=stream, version=version)
            base = self._noted(stream, row, kept)
        events = self.store.stream_events(stream, base.stream_version if base else 0)
        return self.kind.fold(base, (e for e in events if e.stream_version <= version))

    # Checkpoints

    def checkpoint_at(self, stream: str, position: int) -> bytes | None:
        """The bytes of a checkpoint of the state as of a position of the log; None before the first event."""
        state = self.state_at(stream, position)
        return None if state is None else self.kind.encode(state)

    def _noted(self, stream: str, *rows: sqlite3.Row | None) -> S | None:
        """The state of the latest checkpoint that fits the log and can be read; None where all is to be replayed."""
        noted = [r for r in rows if r is not None]
        for row in sorted(noted, key=lambda r: int(r["stream_version"]), reverse=True):
            if not _is_checkpoint(self.store, stream, row):
                continue
            with contextlib.suppress(CorruptLogError):
                state = self.kind.decode(row["state"], stream)
                self._checkpointed[stream] = max(self._checkpointed.get(stream, 0), row["stream_version"])
                return state
        return None

    def checkpoint_if_due(self, state: S) -> None:
        """Stores a checkpoint where the last one is far behind."""
        if state.stream_version - self._checkpointed.get(state.stream, 0) >= self.kind.interval(state):
            self.checkpoint(state)

    def checkpoint(self, state: S) -> None:
        """Stores a checkpoint, from which the next process replays. The latest two of a stream are kept."""
        self.store.write_with(lambda _: self._put_checkpoint(state))
        self._checkpointed[state.stream] = state.stream_version

    def _put_checkpoint(self, state: S) -> None:
        self.store.execute(
            CHECKPOINTS,
            "put_checkpoint",
            stream=state.stream,
            stream_version=state.stream_version,
            position=state.position,
            event_hash=state.event_hash,
            state=self.kind.encode(state),
        )
        self.store.execute(CHECKPOINTS, "trim_checkpoints", stream=state.stream)


def to_bytes(checkpoint: dict[str, Any]) -> bytes:
    """The JSON of a checkpoint as it is stored."""
    return zlib.compress(orjson.dumps(checkpoint), 1)


def from_bytes(data: bytes, stream: str, state_of: Callable[[Any], S]) -> S:
    """The state of a stored checkpoint by its JSON. Raises CorruptLogError where the bytes are no checkpoint."""
    try:
        return state_of(orjson.loads(zlib.decompress(data)))
    except (zlib.error, ValueError, KeyError, TypeError) as e:
        raise CorruptLogError(f"a checkpoint of {stream} can't be read: {e}; rebuild the warehouse") from e


def _is_checkpoint(store: EventStore, stream: str, row: sqlite3.Row) -> bool:
    """Whether a stored checkpoint is one of this log: its event is there, and is of the stream."""
    try:
        event = store.event_at(row["position"])
    except CorruptLogError:
        return False
    return event.stream == stream and event.hash == row["event_hash"]
