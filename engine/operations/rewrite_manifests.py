"""Rewrites of manifests: live files of each partition spec in clustered manifests of the target size."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.manifest_merge import Clustering, clustered, entries_per_manifest
from icecore.engine.commit.manifest_summary import field_summaries
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.operations.action import PlanContext
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.snapshot import Operation


@frozen
class RewriteManifests:
    """A rewrite of the manifests of a branch, as a snapshot of this id."""

    branch: str
    snapshot_id: int

    def plan(self, at: PlanContext) -> ProduceSnapshot | None:
        """The command that puts the live data files into manifests sorted by partition (L4: replace).

        None where the manifests are few and clean already: one for each partition spec without deleted entries, of
        which another engine's list tells the counts and the partitions that it has. Delete manifests stay as they are.
        Raises NoSuchSnapshotError.
        """
        snapshot = at.head(self.branch)
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
            "manifests-created": str(created),
            "manifests-kept": str(len(listed) - replaced),
            "manifests-replaced": str(replaced),
            "entries-processed": str(sum(c.entries.num_rows for c in clusterings)),
        }
        return ProduceSnapshot(
            Operation.REPLACE,
            self.snapshot_id,
            self.branch,
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
    """Whether a list says of a manifest what its live entries come to, by which readers leave it out."""
    said, entries = listed.manifest, at.repository.lists.live_entries(at.state, listed)
    spec = at.state.metadata.spec_by_id(said.partition_spec_id)
    files, rows = said.existing_files_count, said.existing_rows_count
    if (entries.num_rows, pc.sum(entries["record_count"]).as_py() or 0) != (
        (files or 0) + (said.added_files_count or 0),
        (rows or 0) + (said.added_rows_count or 0),
    ):
        return False
    if spec.has_unknown_transform or said.partitions is None:
        return True
    found = field_summaries(entries["partition"], spec, at.state.metadata.all_fields)
    told = [[(s.contains_null, s.lower_bound, s.upper_bound) for s in each] for each in (said.partitions, found)]
    return told[0] == told[1]


def _clustering(at: PlanContext, spec_id: int, group: list[ListedManifest]) -> Clustering:
    entries = pa.concat_tables([at.repository.lists.live_entries(at.state, m) for m in group])
    spec = at.state.metadata.spec_by_id(spec_id)
    return Clustering(spec_id, tuple(group), clustered(entries, spec, at.state.metadata.all_fields))
