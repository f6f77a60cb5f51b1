"""The states of tables."""

from __future__ import annotations

from typing import TypeAlias

from icecore.engine.errors import NoSuchTableError
from icecore.engine.metadata.fold import TableState, fold, state_from_dict, state_to_dict
from icecore.engine.replay.states import CHECKPOINT_EVERY, Kind, States


def _interval(state: TableState) -> int:
    """The number of events between checkpoints: one of many snapshots is large, and so is made less often."""
    return max(CHECKPOINT_EVERY, len(state.metadata.snapshots) // 8)


TABLES: Kind[TableState] = Kind("table", NoSuchTableError, fold, state_to_dict, state_from_dict, _interval)
TableStates: TypeAlias = States[TableState]
