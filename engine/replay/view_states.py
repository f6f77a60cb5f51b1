"""The states of views."""

from __future__ import annotations

from typing import TypeAlias

from icecore.engine.errors import NoSuchViewError
from icecore.engine.metadata.view_fold import ViewState, fold_view, view_state_from_dict, view_state_to_dict
from icecore.engine.replay.states import Kind, States

VIEWS: Kind[ViewState] = Kind("view", NoSuchViewError, fold_view, view_state_to_dict, view_state_from_dict)
ViewStates: TypeAlias = States[ViewState]
