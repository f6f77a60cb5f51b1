"""Rewrites of manifests: live files of each partition spec in clustered manifests of the target size."""

from __future__ import annotations

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.manifest_merge import Clustering, clustered, entries_per_manifest
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.spec.content_file import FieldSummary, ManifestContent
from icecore.engine.spec.snapshot import Operation

_COUNTS = [f"{status}_{what}_count" for what in ("files", "rows") for status in ("added", "existing", "deleted")]


@frozen
class RewriteManifests:
    """A rewrite of the manifests of a branch, as a new snapshot."""

    target: SnapshotTarget

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command that puts the live data files into manifests sorted by partition (L4: replace).

        None where the manifests are few and clean already: one for each partition spec, without deleted entries, and
        with right counts and partition summaries where another engine listed it. Delete manifests stay as they are.
        Raises NoSuchSnapshotError.
        """
        snapshot = at.head(self.target.branch)
        if snapshot is None:
            return None
        listed = at.repository.list_manifests(at.state, snapshot)
        groups: dict[int, list[ListedManifest]] = {}
        for m in listed:
            if m.manifest.content is ManifestContent.DATA:
                groups.setdefault(m.manifest.partition_spec_id, []).append(m)
        clusterings = tuple(
            _clustering(at, spec_id, group) for spec_id, group in sorted(groups.items()) if not _clean(at, group)
        )
        if not clusterings:
            return None
        limit = entries_per_manifest(at.state.metadata.properties)
        replaced = sum(len(c.replaced) for c in clusterings)
        created = sum(-(-c.entries.num_rows // limit) for c in clusterings)
        summary = {
            **self.target.summary,
            "manifests-created": str(created),
            "manifests-kept": str(len(listed) - replaced),
            "manifests-replaced": str(replaced),
            "entries-processed": str(sum(c.entries.num_rows for c in clusterings)),
        }
        return ProduceSnapshot(
            Operation.REPLACE,
            self.target.snapshot_id,
            self.target.branch,
            clusterings=clusterings,
            is_planned=True,
            base_snapshot_id=snapshot.snapshot_id,
            summary=summary,
        )


def _clean(at: PlanContext, group: list[ListedManifest]) -> bool:
    if len(group) > 1 or group[0].manifest.deleted_files_count != 0:
        return False
    return not group[0].is_foreign or _is_told_right(at, group[0])


def _is_told_right(at: PlanContext, listed: ListedManifest) -> bool:
    """Whether a list has the right counts and partition summaries of a manifest, by which readers leave it out.

    A manifest of a spec with an unknown transform can't be written again, and is taken as it is.
    """
    said = listed.manifest
    if at.state.metadata.spec_by_id(said.partition_spec_id).has_unknown_transform:
        return True
    found = at.repository.lists.counted(at.state, listed)
    if any(getattr(said, name) != getattr(found, name) for name in _COUNTS):
        return False
    if said.partitions is None or found.partitions is None:
        return True
    return len(said.partitions) == len(found.partitions) and all(map(_says, said.partitions, found.partitions))


def _says(said: FieldSummary, found: FieldSummary) -> bool:
    # Older writers don't tell of NaNs.
    return said == found or (said.contains_nan is None and said == evolve(found, contains_nan=None))


def _clustering(at: PlanContext, spec_id: int, group: list[ListedManifest]) -> Clustering:
    entries = pa.concat_tables([at.repository.lists.live_entries(at.state, m) for m in group])
    spec = at.state.metadata.spec_by_id(spec_id)
    return Clustering(spec_id, tuple(group), clustered(entries, spec, at.state.metadata.all_fields))
