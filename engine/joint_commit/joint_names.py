"""Namespaces, and names that are given or given back, as parts of a commit of several changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define

from icecore.engine.common.identifiers import Identifier
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.joint_commit.joint_commit import CommitTargets
from icecore.engine.log.namespaces import check_namespace_change
from icecore.engine.log.store import WriteTransaction
from icecore.engine.revert.undrop import dropped_at, undrop_inside


@define
class NamespaceChange:
    """A namespace that is made, dropped or gets other properties; it is looked at when its turn comes."""

    name: Identifier
    kind: str
    payload: Mapping[str, Any]

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        # The row of a namespace that another engine changed meanwhile would be lost: it is taken in first.
        desk.repository.foreign.check_namespaces()
        check_namespace_change(desk.repository.models, self.kind, self.payload)
        return (desk.repository.append_inside(transaction, ev.CATALOG_STREAM, self.kind, self.payload, provenance),)

    def follow(self, desk: CommitTargets) -> None: ...


@define
class NameGivenBack:
    """A dropped table or view that gets its name back; `kind` is `table` or `view`, `position` that of the drop."""

    name: Identifier
    kind: str
    position: int | None
    _stream: str = ""

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        drop = dropped_at(desk.repository, self.kind, self.name, self.position)
        self._stream = drop.stream
        return (undrop_inside(desk.repository, transaction, self.kind, drop, provenance),)

    def follow(self, desk: CommitTargets) -> None:
        if not self._stream:
            return
        if self.kind == "view":
            desk.views.follow(self._stream)
        else:
            desk.repository.files.follow(desk.repository.state(self._stream))


@define
class RegisteredView:
    """A view whose metadata another engine wrote."""

    name: Identifier
    stream: str
    payload: Mapping[str, Any]

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        desk.repository.models.check_new_name(self.name)
        return (desk.repository.append_inside(transaction, self.stream, ev.VIEW_REGISTERED, self.payload, provenance),)

    def follow(self, desk: CommitTargets) -> None:
        desk.views.follow(self.stream)
