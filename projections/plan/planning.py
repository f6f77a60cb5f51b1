"""The planning of a warehouse: its planner, made when it is first asked for.

Both are pickled as the way to open the log, as a repository is.
"""

from __future__ import annotations

import copyreg
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from icecore.engine.common.fork_safety import Lock
from icecore.engine.repository.assembly import Opening, reopened
from icecore.engine.repository.repository import Repository

if TYPE_CHECKING:
    from icecore.projections.plan.planner import Planner


@define(eq=False)
class Planning:
    """The way to the planner of a repository's tables, for any number of threads; see `Planner` for `cache`.

    A process that lists tables, reads the log or appends may never plan, and then need not load DuckDB.
    """

    repository: Repository
    cache: Path | None
    _planner: Planner | None = None
    _lock: Lock = field(factory=Lock, repr=False)

    @property
    def planner(self) -> Planner:
        """The planner, the same one each time."""
        with self._lock:
            if self._planner is None:
                from icecore.projections.plan.planner import Planner

                copyreg.pickle(Planner, lambda p: (_planner_of, (Opening.of(p.repository), p.cache)))
                self._planner = Planner(self.repository, self.cache)
            return self._planner

    def clear(self) -> None:
        """Drops what the planner has cached, if there is one; segments on disk stay."""
        with self._lock:
            planner = self._planner
        if planner is not None:
            planner.clear()

    def close(self) -> None:
        """Drops what the planner has cached, and closes DuckDB, if there is one."""
        with self._lock:
            planner = self._planner
        if planner is not None:
            planner.close()


def _planning_of(opening: Opening, cache: Path | None) -> Planning:
    return _opened(opening.now(), cache)


def _planner_of(opening: Opening, cache: Path | None) -> Planner:
    return _planning_of(opening, cache).planner


@lru_cache(maxsize=4)
def _opened(opening: Opening, cache: Path | None) -> Planning:
    return Planning(reopened(opening), cache)


copyreg.pickle(Planning, lambda p: (_planning_of, (Opening.of(p.repository), p.cache)))
