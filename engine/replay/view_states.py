"""The states of views."""

from __future__ import annotations

from typing import TypeAlias

from icecore.engine.errors import NoSuchViewError
from icecore.engine.metadata.view_fold import ViewState, fold_view, view_state_from_dict, view_state_to_dict
from icecore.engine.replay.states import Kind, States, from_bytes, to_bytes


def encode_view_checkpoint(state: ViewState) -> bytes:
    """A state as the bytes of a checkpoint."""
    return to_bytes(view_state_to_dict(state))


def decode_view_checkpoint(data: bytes, stream: str) -> ViewState:
    """The state of a stored checkpoint. Raises CorruptLogError where the bytes are no checkpoint of a view."""
    return from_bytes(data, stream, view_state_from_dict)


VIEWS: Kind[ViewState] = Kind("view", NoSuchViewError, fold_view, encode_view_checkpoint, decode_view_checkpoint)
ViewStates: TypeAlias = States[ViewState]
