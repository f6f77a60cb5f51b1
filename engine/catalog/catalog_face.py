"""What the parts of `Catalog` share: what an open warehouse consists of, and how a call commits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from icecore.engine.events.provenance import provenance
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore
from icecore.engine.log.warehouse_folder import WarehouseFolder
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.projections.plan.planner import Planner

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.joint_commit.joint_commit import CommitTargets, Part


class CatalogFace:
    """The parts of an open warehouse."""

    path: Path
    actor: str | None
    _store: EventStore
    _folder: WarehouseFolder
    _models: ReadModels
    _repository: Repository
    _views: ViewRepository
    _planner: Planner

    def _targets(self) -> CommitTargets:
        from icecore.engine.joint_commit.joint_commit import CommitTargets

        return CommitTargets(self._repository, self._views)

    def _commit(self, part: Part, message: str | None, author: str | None, dry_run: bool) -> CatalogDryRun | None:
        """Makes one change, or says what it would be. Raises ReadOnlyError, and what the part raises."""
        from icecore.engine.joint_commit.joint_commit import commit_part

        self._repository.check_writable()
        who = provenance(self.actor, message=message, author=author)
        return commit_part(self._targets(), part, who, dry_run=dry_run)
