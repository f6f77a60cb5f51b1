"""Parts of a joint commit that change, create or register views."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.joint_commit.joint_commit import CommitTargets, OfNewName, OnNoBranch
from icecore.engine.log.store import WriteTransaction
from icecore.engine.repository.view_repository import UpdatesAt
from icecore.engine.spec.updates.view_update import ViewUpdate


class _OfView(OnNoBranch):
    """The common part of views' parts: they write nothing before the lock is taken, and files follow by the stream."""

    name: Identifier
    stream: str

    def prepare(self, desk: CommitTargets) -> None:
        """Adopts other engines' commits to the view."""
        desk.repository.foreign.adopt_stream(self.stream)

    def follow(self, desk: CommitTargets) -> None:
        desk.views.follow(self.stream)


@define
class ViewChange(_OfView):
    """Changes of one view, in their order. One that goes back to what was may drop dialects that came since."""

    name: Identifier
    stream: str
    changes: list[UpdatesAt] = field(factory=list)
    goes_back: bool = False

    def answered_by(self, event: Event) -> bool:
        return event.stream == self.stream and event.kind in (ev.VIEW_COMMITTED, ev.VIEW_CREATED)

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        event = desk.views.commit_inside(
            transaction, self.stream, self._updates, provenance, may_drop_dialects=self.goes_back
        )
        return () if event is None else (event,)

    def _updates(self, at: int) -> list[ViewUpdate]:
        return [update for change in self.changes for update in change(at)]


@define
class NewView(OfNewName, _OfView):
    """A new view."""

    kind = ev.VIEW_CREATED

    name: Identifier
    stream: str
    updates: UpdatesAt

    def prepare(self, desk: CommitTargets) -> None:
        # Updates that make no view are refused in `append`, after the name was checked.
        with contextlib.suppress(ValidationError):
            desk.views.check_new_place(self.updates)

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        return (desk.views.create_inside(transaction, self.stream, self.name, self.updates, provenance),)


@define
class RegisteredView(OfNewName, _OfView):
    """A view whose metadata another engine wrote."""

    kind = ev.VIEW_REGISTERED

    name: Identifier
    stream: str
    payload: Mapping[str, Any]

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        return (desk.views.register_inside(transaction, self.stream, self.name, self.payload, provenance),)
