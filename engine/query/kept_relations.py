"""Relations of tables that were planned for queries, kept for others that need the same of the same table state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field

from icecore.engine.common.fork_safety import Lock

if TYPE_CHECKING:
    from icecore.engine.scan.relation.scan_relation import ScanRelation

MOST_KEPT = 16
MOST_BYTES = 4 << 20
"""The bytes of the largest relation that is kept."""


def is_kept(relation: ScanRelation) -> bool:
    """Whether a relation takes little enough memory."""
    return relation.held_bytes <= MOST_BYTES


class Need(Protocol):
    """The rows and columns that a query needs of a table."""

    def is_same(self, other: Any) -> bool:
        """Whether the relation for one is right for the other."""

    def is_of_other_state(self, other: Any) -> bool:
        """Whether both are of one table, but of two states of it."""

    def relation(self) -> ScanRelation:
        """The relation, planned now. Raises what planning raises."""


@define(eq=False)
class KeptRelations:
    """The relations that were asked for last, each with the need that it was planned for. Threads may share it."""

    _kept: list[tuple[Need, ScanRelation]] = field(factory=list, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def relation(self, need: Need) -> ScanRelation:
        """The relation for a need, planned where none is kept that is right for it. Raises what planning raises."""
        with self._lock:
            found = next((k for k in self._kept if k[0].is_same(need)), None)
        if found is None:
            found = need, need.relation()
        if is_kept(found[1]):
            with self._lock:
                others = [k for k in self._kept if k is not found and not k[0].is_of_other_state(need)]
                self._kept = [*others, found][-MOST_KEPT:]
        return found[1]

    def clear(self) -> None:
        """Drops all of them; takes no lock, which another thread may have had when the process was forked."""
        self._kept = []
