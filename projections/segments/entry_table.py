"""The entries of one table in DuckDB: its segments, and the segment that has each manifest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import define, evolve, field, frozen

from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.spec.schema import Schema
from icecore.projections.segments.entry_typing import EntryTyping
from icecore.projections.segments.manifest_selection import ManifestSelection
from icecore.projections.segments.segment_files import NUMBER_BITS, Segment, SegmentFolder, SegmentInfo


def manifest_key(listed: ListedManifest) -> str:
    """A key that tells manifests apart, together with all that entries inherit.

    Ours have no length before they are written out; their paths are unique as they are.
    """
    m = listed.manifest
    length = m.manifest_length if listed.is_foreign else 0
    return f"{m.manifest_path}|{length}|{m.partition_spec_id}|{m.sequence_number}|{m.added_snapshot_id}"


@frozen(eq=False)
class Loaded:
    """The segments of a table and lookups over them, immutable: a change puts another value in its place.

    `where` maps the key of each manifest to its number, `columns` the names of the columns that any segment has to
    their DuckDB types.
    """

    typing: EntryTyping
    segments: tuple[Segment, ...]
    where: Mapping[str, int]
    columns: Mapping[str, str]

    @classmethod
    def of(cls, typing: EntryTyping, segments: Iterable[Segment]) -> Loaded:
        """The lookups over segments; a manifest that is in several is taken from the first."""
        segments, where, columns = tuple(segments), dict[str, int](), dict[str, str]()
        for segment in segments:
            columns = {**segment.usable_columns(typing), **columns}
            for number, key in enumerate(segment.info.manifests):
                where.setdefault(key, segment.offset + number)
        return cls(typing, segments, where, columns)

    def changed(
        self, *, gone: Collection[Segment] = (), first: Sequence[Segment] = (), last: Sequence[Segment] = ()
    ) -> Loaded:
        """The same with segments taken away, and others put first and last."""
        numbers = {s.number for s in gone}
        return Loaded.of(self.typing, (*first, *(s for s in self.segments if s.number not in numbers), *last))


@define(eq=False)
class EntryTable:
    """The entries of one table: its segments, and the segment that has each manifest.

    `name` is that of a view over the entries that a scan looks into, while there is one. `kept` are manifests that a
    merge must not leave behind now. `passed_over` maps files whose manifests are all in others to these
    manifests. `forgotten` is the position at which bounds were forgotten last, before any of this was loaded.
    """

    name: str
    stream: str
    folder: SegmentFolder | None
    loaded: Loaded
    kept: frozenset[str] = frozenset()
    passed_over: dict[str, tuple[str, ...]] = field(factory=dict)
    forgotten: str = ""

    @property
    def typing(self) -> EntryTyping:
        """The types of the entries."""
        return self.loaded.typing

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments."""
        return self.loaded.segments

    @property
    def schema(self) -> Schema:
        """All fields that the entries are typed by."""
        return self.typing.schema

    def in_memory(self) -> Segment | None:
        """The segment in memory; None where there is none."""
        return next((s for s in self.segments if s.path is None), None)

    def grown(self, segment: Segment, info: SegmentInfo) -> None:
        """Replaces the segment in memory, the first of all, by one with more entries."""
        self.loaded = self.loaded.changed(gone=[segment], first=[evolve(segment, info=info)])

    def missing(self, manifests: Iterable[ListedManifest]) -> list[ListedManifest]:
        """The manifests that are in no segment, each once."""
        found = {key: m for m in manifests if (key := manifest_key(m)) not in self.loaded.where}
        return list(found.values())

    def scope(self, manifests: Sequence[ListedManifest]) -> ManifestSelection:
        """The selection of these manifests, without those that are not loaded. Raises StrayEntriesError."""
        where = self.loaded.where
        scope = ManifestSelection.of(
            self.segments, self.typing, manifests, [where.get(manifest_key(m)) for m in manifests]
        )
        for segment in self.segments:
            inside = scope.numbers[(scope.numbers >> NUMBER_BITS) == segment.number] - segment.offset
            segment.looked_for.update(inside.tolist())
        return scope


@frozen(eq=False)
class ScannedEntries:
    """The entries of a scope as a view in DuckDB: its name, and its columns with their DuckDB types.

    The view may hold entries of other manifests too: `scan_manifests` has the numbers of those that count.
    """

    name: str
    columns: Mapping[str, str]
    scope: ManifestSelection

    @property
    def schema(self) -> Schema:
        """All fields that the entries are typed by."""
        return self.scope.typing.schema
