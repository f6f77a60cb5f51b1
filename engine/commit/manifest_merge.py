"""The merging of manifests into larger ones. Spec: Manifests; properties `commit.manifest.*`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, decode_partition
from icecore.engine.properties.table_properties import MANIFEST_SIZE, MERGE_ENABLED, MIN_COUNT_TO_MERGE
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema

BYTES_PER_ENTRY = 256
"""The assumed bytes of an entry, as the length of a manifest is not known before it is written."""
MAX_DEPTH = 4
"""The most manifests that may build on each other; the next one keeps all its entries in the log.

Each level is looked up when a manifest is read, and each manifest that keeps all its entries makes the log longer.
"""


@frozen
class Clustering:
    """Live entries of one partition spec that are to be in new manifests, in place of the manifests `replaced`."""

    spec_id: int
    replaced: tuple[ListedManifest, ...]
    entries: pa.Table = field(repr=False)


def entries_per_manifest(properties: Mapping[str, str]) -> int:
    """The number of entries in a manifest of the target size."""
    return max(1, MANIFEST_SIZE.or_default(properties) // BYTES_PER_ENTRY)


def bins_to_merge(
    manifests: Sequence[ListedManifest], new: frozenset[str], properties: Mapping[str, str]
) -> list[tuple[ListedManifest, ...]]:
    """The groups of manifests to merge into one each, from a list with the newest first.

    As in Java, manifests of one spec and content are packed from the oldest on up to the target size; the bin of the
    newest is merged once it has the minimum count. The manifests `new`, of this commit, count but are not merged, so
    that their entries stay added.
    """
    if not MERGE_ENABLED.of(properties):
        return []
    limit = entries_per_manifest(properties)
    least = MIN_COUNT_TO_MERGE.or_default(properties)
    groups: dict[tuple[ManifestContent, int], list[ListedManifest]] = {}
    for listed in manifests:
        groups.setdefault((listed.manifest.content, listed.manifest.partition_spec_id), []).append(listed)
    out = []
    for group in groups.values():
        for packed in _packed_from_the_end(group, limit):
            if packed[0] is group[0] and len(packed) < least:
                continue
            settled = tuple(m for m in packed if m.manifest.manifest_path not in new)
            if len(settled) > 1:
                out.append(settled)
    return out


def clustered(entries: pa.Table, spec: PartitionSpec, schema: Schema) -> pa.Table:
    """The entries sorted by partition, nulls first, so that manifests cover few partitions each; otherwise as found."""
    partitions = [tuple(p or ()) for p in entries["partition"].to_pylist()]
    known = {p: _sortable(decode_partition(spec, schema, p)) for p in set(partitions)}
    keys = [known[p] for p in partitions]
    return entries.select(ENTRY_SCHEMA.names).take(pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64()))


def _sortable(values: Iterable[Any]) -> tuple[tuple[bool, bool, Any], ...]:
    # NaN compares with nothing, so it comes after the numbers by its own flag.
    return tuple((v is not None, v != v, 0 if v is None or v != v else v) for v in values)


def _packed_from_the_end(group: Sequence[ListedManifest], limit: int) -> list[list[ListedManifest]]:
    """Bins in the order of the list, filled from its end, so that the bin that is not full has the newest."""
    bins: list[list[ListedManifest]] = []
    room = 0
    for listed in reversed(group):
        size = _live_files(listed)
        if not bins or size > room:
            bins.append([])
            room = limit
        bins[-1].append(listed)
        room -= size
    return [packed[::-1] for packed in reversed(bins)]


def _live_files(listed: ListedManifest) -> int:
    return (listed.manifest.added_files_count or 0) + (listed.manifest.existing_files_count or 0)
