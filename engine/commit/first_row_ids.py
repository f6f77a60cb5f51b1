"""Row lineage: the ranges of row ids that data manifests of v3 tables are assigned in a snapshot."""

from __future__ import annotations

from attrs import evolve

from icecore.engine.events.manifest_changes import ListedManifest, ManifestChanges
from icecore.engine.spec.content_file import ManifestContent


def assign_first_row_ids(
    changes: ManifestChanges, parent: tuple[ListedManifest, ...], first_row_id: int
) -> tuple[ManifestChanges, int]:
    """Gives each data manifest without a first row id the next free range, in list order (RL2).

    Returns the changes and the number of row ids assigned. A manifest of the parent's list that gets one, as after an
    upgrade to v3, is listed anew under the same path.
    """
    next_row_id = first_row_id
    added, again, removed = [], [], set(changes.removed)
    for listed in changes.apply(parent):
        manifest = listed.manifest
        is_new = any(listed is m for m in changes.added)
        if manifest.content is ManifestContent.DATA and manifest.first_row_id is None:
            listed = evolve(listed, manifest=evolve(manifest, first_row_id=next_row_id))
            next_row_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
            if not is_new:
                removed.add(manifest.manifest_path)
                again.append(listed)
        if is_new:
            added.append(listed)
    return ManifestChanges((*added, *again), frozenset(removed)), next_row_id - first_row_id
