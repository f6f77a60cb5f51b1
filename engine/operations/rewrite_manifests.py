"""Rewriting manifests: live files of each partition spec into clustered manifests of the target size."""

from __future__ import annotations

import pyarrow as pa

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.manifest_merge import Clustering, clustered, entries_per_manifest
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.snapshot import Operation


def plan_rewrite(repository: Repository, state: TableState, branch: str, snapshot_id: int) -> ProduceSnapshot | None:
    """The command that puts the live data files of a branch into manifests sorted by partition (L4: replace).

    None where the manifests are few and clean already: one for each partition spec without deleted entries. Delete
    manifests stay as they are. Where the branch moves, this is called again. Raises NoSuchSnapshotError.
    """
    snapshot = state.metadata.snapshot_by_ref(branch)
    if snapshot is None:
        return None
    listed = repository.list_manifests(state, snapshot)
    groups: dict[int, list[ListedManifest]] = {}
    for m in listed:
        if m.manifest.content is ManifestContent.DATA:
            groups.setdefault(m.manifest.partition_spec_id, []).append(m)
    clusterings = tuple(
        _clustering(repository, state, spec_id, group) for spec_id, group in sorted(groups.items()) if not _clean(group)
    )
    if not clusterings:
        return None
    limit = entries_per_manifest(state.metadata.properties)
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
        snapshot_id,
        branch,
        clusterings=clusterings,
        is_planned=True,
        base_snapshot_id=snapshot.snapshot_id,
        summary=summary,
    )


def _clean(group: list[ListedManifest]) -> bool:
    return len(group) == 1 and group[0].manifest.deleted_files_count == 0


def _clustering(repository: Repository, state: TableState, spec_id: int, group: list[ListedManifest]) -> Clustering:
    storage = repository.storage_of(state)
    entries = pa.concat_tables([repository.entries.live(state.stream, m, storage) for m in group])
    spec = state.metadata.spec_by_id(spec_id)
    return Clustering(spec_id, tuple(group), clustered(entries, spec, state.metadata.all_fields))
