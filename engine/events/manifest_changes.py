"""The change of a new snapshot's manifest list against that of its parent, as an event holds it.

A snapshot's list is: the manifests in `added`, then those of the parent's list that are not in `removed`. A manifest
that the commit makes says what it holds: `rows`, a range of the event's content files (added or deleted entries), and
`sources`, manifests whose live entries it carries over as existing, except those that the rows delete. So the bytes of
each manifest and list follow from the log alone, and a commit costs what it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from icecore.engine.common.json_reader import get, get_list
from icecore.engine.common.text import short_repr
from icecore.engine.spec.content_file import FieldSummary, ManifestContent, ManifestFile

WHERE = "manifest record"
OWN_EVENT = -1
"""The position of a manifest whose event is still in the making; reading the event back fills it in."""
_NUMBERS = (
    "manifest_length",
    "partition_spec_id",
    "sequence_number",
    "min_sequence_number",
    "added_snapshot_id",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
    "first_row_id",
)
_KEYS = tuple((name, name.replace("_", "-")) for name in _NUMBERS)

Listing = tuple[str, int | None]
"""The identity of a manifest's place in lists: its path, and the first row id that it is listed under (RL7)."""


@frozen
class ListedManifest:
    """A manifest in a list, with the recipe of its entries where this log made it.

    `position` is the event whose content holds the rows `row_offset` to `row_offset + row_count`; 0 for a manifest
    that came from outside, whose entries only its file has. `source_first_row_ids` are those under which the sources
    were listed when this was made: branches list one manifest under different ones (RL7). `depth` is how many manifests
    one after another have to be looked up to know the entries.
    """

    __repr__ = short_repr

    manifest: ManifestFile
    position: int = 0
    row_offset: int = 0
    row_count: int = 0
    sources: tuple[str, ...] = ()
    source_first_row_ids: tuple[int | None, ...] = ()
    depth: int = 0

    @property
    def listing(self) -> Listing:
        """The identity of its place in lists."""
        return self.manifest.manifest_path, self.manifest.first_row_id

    @property
    def is_foreign(self) -> bool:
        """Whether only a file has the entries: the manifest came from outside of the log."""
        return self.position == 0

    def to_dict(self) -> dict[str, Any]:
        """JSON; the position is left out where it is that of the event which holds the JSON."""
        out = manifest_to_dict(self.manifest)
        if not self.is_foreign:
            out["rows"] = [self.row_offset, self.row_count]
            if self.position != OWN_EVENT:
                out["position"] = self.position
        if self.sources:
            out["sources"] = list(self.sources)
            if self.source_first_row_ids:
                out["source-first-row-ids"] = list(self.source_first_row_ids)
            if self.depth > 1:
                out["depth"] = self.depth
        return out

    @classmethod
    def from_dict(cls, obj: Any, position: int) -> ListedManifest:
        """The manifest of a JSON object in the event at `position`. Raises ValidationError where it is none."""
        rows = get_list(obj, "rows", WHERE, default=None)
        manifest = manifest_from_dict(obj)
        if rows is None:
            return cls(manifest)
        made_at = get(obj, "position", int, WHERE, position)
        sources = tuple(get_list(obj, "sources", WHERE, default=[]))
        first_row_ids = tuple(get_list(obj, "source-first-row-ids", WHERE, default=[]))
        depth = get(obj, "depth", int, WHERE, 1 if sources else 0)
        return cls(manifest, made_at, rows[0], rows[1], sources, first_row_ids, depth)

    def with_length(self, length: int) -> ManifestFile:
        """The manifest, with the length of its file."""
        return _with_length(self.manifest, length)


@lru_cache(maxsize=20_000)
def _with_length(manifest: ManifestFile, length: int) -> ManifestFile:
    return evolve(manifest, manifest_length=length)


@frozen
class ManifestChanges:
    """The change of one snapshot's list against its parent's.

    `base` is the parent's whole list where the parent came from outside, so that the log needs no file to know it.
    """

    added: tuple[ListedManifest, ...] = ()
    removed: frozenset[str] = frozenset()
    base: tuple[ListedManifest, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"added": [m.to_dict() for m in self.added], "removed": sorted(self.removed)}
        if self.base is not None:
            out["base"] = [m.to_dict() for m in self.base]
        return out

    @classmethod
    def from_dict(cls, obj: Any, position: int) -> ManifestChanges:
        """The changes of a JSON object in the event at `position`. Raises ValidationError where it is none."""
        added = tuple(ListedManifest.from_dict(m, position) for m in get_list(obj, "added", "snapshot manifests"))
        base = get_list(obj, "base", "snapshot manifests", default=None)
        return cls(
            added,
            frozenset(get_list(obj, "removed", "snapshot manifests")),
            None if base is None else tuple(ListedManifest.from_dict(m, position) for m in base),
        )

    def apply(self, parent: Iterable[ListedManifest]) -> tuple[ListedManifest, ...]:
        """The snapshot's list from its parent's."""
        return (*self.added, *(m for m in parent if m.manifest.manifest_path not in self.removed))


def changes_of(payload: Mapping[str, Any], position: int) -> dict[int, ManifestChanges]:
    """The changes of all snapshots that an event's payload adds, by snapshot id, parents before their children."""
    snapshots = get(payload, "snapshots", dict, "payload", {})
    # The order in which the commit added them: JSON objects are stored with sorted keys.
    updates = get_list(payload, "updates", "payload", default=[])
    added = [u["snapshot"]["snapshot-id"] for u in updates if u.get("action") == "add-snapshot"]
    return {i: ManifestChanges.from_dict(snapshots[str(i)], position) for i in added if str(i) in snapshots}


def manifest_to_dict(manifest: ManifestFile) -> dict[str, Any]:
    """The JSON object of a manifest list's row."""
    out: dict[str, Any] = {"manifest-path": manifest.manifest_path, "content": int(manifest.content)}
    for name, key in _KEYS:
        value = getattr(manifest, name)
        if value is not None:
            out[key] = value
    if manifest.partitions is not None:
        out["partitions"] = [_summary_to_dict(p) for p in manifest.partitions]
    if manifest.key_metadata is not None:
        out["key-metadata"] = manifest.key_metadata.hex()
    return out


def manifest_from_dict(obj: Any) -> ManifestFile:
    """The manifest list's row of a JSON object. Raises ValidationError where it is none."""
    numbers = {name: get(obj, key, int, WHERE, None) for name, key in _KEYS}
    partitions = get_list(obj, "partitions", WHERE, default=None)
    key_metadata = get(obj, "key-metadata", str, WHERE, None)
    return ManifestFile(
        manifest_path=get(obj, "manifest-path", str, WHERE),
        content=ManifestContent(get(obj, "content", int, WHERE)),
        partitions=None if partitions is None else tuple(map(_summary_from_dict, partitions)),
        key_metadata=None if key_metadata is None else bytes.fromhex(key_metadata),
        **numbers,
    )


def _summary_to_dict(summary: FieldSummary) -> dict[str, Any]:
    out: dict[str, Any] = {"contains-null": summary.contains_null}
    if summary.contains_nan is not None:
        out["contains-nan"] = summary.contains_nan
    if summary.lower_bound is not None:
        out["lower-bound"] = summary.lower_bound.hex()
    if summary.upper_bound is not None:
        out["upper-bound"] = summary.upper_bound.hex()
    return out


def _summary_from_dict(obj: Any) -> FieldSummary:
    lower, upper = obj.get("lower-bound"), obj.get("upper-bound")
    return FieldSummary(
        get(obj, "contains-null", bool, WHERE),
        get(obj, "contains-nan", bool, WHERE, None),
        None if lower is None else bytes.fromhex(lower),
        None if upper is None else bytes.fromhex(upper),
    )
