"""The states of tables."""

from __future__ import annotations

from typing import TypeAlias

from icecore.engine.errors import NoSuchTableError
from icecore.engine.metadata.fold import TableState, fold, state_from_dict, state_to_dict
from icecore.engine.replay.states import CHECKPOINT_EVERY, Kind, States, from_bytes, to_bytes


def encode_checkpoint(state: TableState) -> bytes:
    """A state as the bytes of a checkpoint."""
    return to_bytes(state_to_dict(state))


def decode_checkpoint(data: bytes, stream: str) -> TableState:
    """The state of a stored checkpoint. Raises CorruptLogError where the bytes are no checkpoint of a table."""
    return from_bytes(data, stream, state_from_dict)


def _interval(state: TableState) -> int:
    """The number of events between checkpoints: one of many snapshots is large, and so is made less often."""
    return max(CHECKPOINT_EVERY, len(state.metadata.snapshots) // 8)


TABLES: Kind[TableState] = Kind("table", NoSuchTableError, fold, encode_checkpoint, decode_checkpoint, _interval)
TableStates: TypeAlias = States[TableState]
