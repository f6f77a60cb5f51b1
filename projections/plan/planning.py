"""The planning of a warehouse: its planner, made when it is first asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from icecore.engine.common.fork_safety import Lock
from icecore.engine.repository.repository import Repository

if TYPE_CHECKING:
    from icecore.projections.plan.planner import Planner


@define(eq=False)
class Planning:
    """The way to the planner of a repository's tables, for any number of threads; see `Planner` for `cache`.

    What lists tables, reads the log or appends may never plan, and has no DuckDB to load.
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
