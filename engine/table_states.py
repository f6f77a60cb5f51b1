"""The states of tables: folded from the log, cached, and noted as checkpoints from which a replay goes on."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from typing import Protocol

import orjson
from attrs import define, field

from icecore.engine import forks
from icecore.engine.errors import CorruptLogError, NoSuchTableError
from icecore.engine.log.read_models import dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.state import TableState, fold, state_from_dict, state_to_dict

CHECKPOINT_EVERY = 64


@define(eq=False)
class TableStates:
    """States by stream; a cached one is brought up to date by the events that came since."""

    store: EventStore
    _states: dict[str, TableState] = field(factory=dict)
    _checkpointed: dict[str, int] = field(factory=dict)
    _lock: threading.RLock = field(factory=threading.RLock, repr=False)

    def __attrs_post_init__(self) -> None:
        forks.watch(self)

    def forget_parent(self) -> None:
        """Leaves the lock that a thread may have held to the parent process."""
        self._lock = threading.RLock()

    def state(self, stream: str) -> TableState:
        """The latest state of a table, dropped ones too. Raises NoSuchTableError, CorruptLogError."""
        with self._lock:
            cached = self._states.get(stream)
            if cached is None:
                found = self.state_at(stream)
            else:
                found = self.forward(cached)
            if found is None:
                raise NoSuchTableError(f"there is no {stream}")
            self._states[stream] = found
            return found

    def live_state(self, stream: str) -> TableState:
        """The latest state of a table that has a name. Raises NoSuchTableError where it was dropped."""
        state = self.state(stream)
        if state.dropped:
            raise NoSuchTableError(f"the table {dotted(state.identifier)!r} was dropped")
        return state

    def put(self, state: TableState) -> None:
        """Takes in a state that a commit led to."""
        self._states[state.stream] = state

    def drop(self, stream: str) -> None:
        """Forgets one table's state."""
        self._states.pop(stream, None)

    def forward(self, state: TableState) -> TableState:
        """The state with the events that came since."""
        newer = fold(state, self.store.stream_events(state.stream, state.stream_version))
        assert newer is not None, "a fold from a state has a state"
        return newer

    def state_at(self, stream: str, position: int | None = None) -> TableState | None:
        """The state as of a position of the log, from the nearest checkpoint before it; None before the first event."""
        up_to = 2**62 if position is None else position
        base = self._checkpoint(stream, up_to)
        return fold(base, self.store.stream_events(stream, base.stream_version if base else 0, up_to))

    def _checkpoint(self, stream: str, up_to: int) -> TableState | None:
        row = self.store.row(MODELS, "latest_checkpoint", stream=stream, up_to=up_to)
        kept = self.store.archives.kept_row("state_by_position", stream=stream, up_to=up_to)
        return self._decoded(stream, newer(row, kept))

    def _checkpoint_at_version(self, stream: str, version: int) -> TableState | None:
        row = self.store.row(MODELS, "checkpoint_at_version", stream=stream, version=version)
        kept = self.store.archives.kept_row("state_by_version", stream=stream, version=version)
        return self._decoded(stream, newer(row, kept))

    def _decoded(self, stream: str, row: sqlite3.Row | None) -> TableState | None:
        if row is None or not is_checkpoint(self.store, stream, row):
            return None
        self._checkpointed[stream] = max(self._checkpointed.get(stream, 0), row["stream_version"])
        return decode_checkpoint(row["state"], stream)

    def state_at_version(self, stream: str, version: int, near: TableState | None = None) -> TableState | None:
        """The state after a given number of events of the stream; `near` is one that the replay may start from."""
        if version == 0:
            return None
        state = near
        if state is None or state.stream_version > version:
            state = self._checkpoint_at_version(stream, version)
        events = self.store.stream_events(stream, state.stream_version if state else 0)
        return fold(state, (e for e in events if e.stream_version <= version))

    def checkpoint_if_due(self, state: TableState) -> None:
        """Notes a state where the last note is far behind."""
        interval = max(CHECKPOINT_EVERY, len(state.metadata.snapshots) // 8)
        if state.stream_version - self._checkpointed.get(state.stream, 0) < interval:
            return
        self.checkpoint(state)

    def checkpoint(self, state: TableState) -> None:
        """Notes a state, so that the next process replays from there only. The latest two of a table are kept."""
        note_checkpoint(self.store, state, encode_checkpoint(state))
        self._checkpointed[state.stream] = state.stream_version

    def forget(self) -> None:
        """Drops every cached state."""
        with self._lock:
            self._states.clear()
            self._checkpointed.clear()


class Noted(Protocol):
    """What a checkpoint is of: the state of a table or a view."""

    @property
    def stream(self) -> str: ...

    @property
    def stream_version(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def event_hash(self) -> str: ...


def newer(one: sqlite3.Row | None, other: sqlite3.Row | None) -> sqlite3.Row | None:
    """The later of two noted states of a stream."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda row: int(row["stream_version"]))


def is_checkpoint(store: EventStore, stream: str, row: sqlite3.Row) -> bool:
    """Whether a noted state is one of this log: its event is there, and is of the stream."""
    try:
        event = store.event_at(row["position"])
    except CorruptLogError:
        return False
    return event.stream == stream and event.hash == row["event_hash"]


def note_checkpoint(store: EventStore, state: Noted, data: bytes) -> None:
    """Stores a checkpoint; the latest two of a stream are kept."""
    with store.write():
        store.execute(
            MODELS,
            "put_checkpoint",
            stream=state.stream,
            stream_version=state.stream_version,
            position=state.position,
            event_hash=state.event_hash,
            state=data,
        )
        store.execute(MODELS, "trim_checkpoints", stream=state.stream)


def encode_checkpoint(state: TableState) -> bytes:
    return zlib.compress(orjson.dumps(state_to_dict(state)), 1)


def decode_checkpoint(data: bytes, stream: str) -> TableState:
    """Raises CorruptLogError where the bytes are no checkpoint."""
    try:
        return state_from_dict(orjson.loads(zlib.decompress(data)))
    except (zlib.error, ValueError, KeyError, TypeError) as e:
        raise CorruptLogError(f"a checkpoint of {stream} can't be read: {e}; rebuild the warehouse") from e
