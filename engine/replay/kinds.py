"""The kinds of states: those of tables, and those of views."""

from __future__ import annotations

from typing import Any, TypeAlias

from icecore.engine.errors import NoSuchTableError, NoSuchViewError
from icecore.engine.events.event import is_view_stream
from icecore.engine.metadata.fold import TableState, fold, state_from_dict, state_to_dict
from icecore.engine.metadata.view_fold import ViewState, fold_view, view_state_from_dict, view_state_to_dict
from icecore.engine.replay.states import CHECKPOINT_EVERY, Kind, States


def _interval(state: TableState) -> int:
    """The number of events between checkpoints: one of many snapshots is large, and so is made less often."""
    return max(CHECKPOINT_EVERY, len(state.metadata.snapshots) // 8)


TABLES: Kind[TableState] = Kind("table", NoSuchTableError, fold, state_to_dict, state_from_dict, _interval)
VIEWS: Kind[ViewState] = Kind("view", NoSuchViewError, fold_view, view_state_to_dict, view_state_from_dict)
TableStates: TypeAlias = States[TableState]
ViewStates: TypeAlias = States[ViewState]


def kind_of(stream: str) -> Kind[Any]:
    """The kind of a stream's states."""
    return VIEWS if is_view_stream(stream) else TABLES
