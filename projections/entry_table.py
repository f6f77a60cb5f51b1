"""The entries of one table in DuckDB: its segments, and which manifest is in which of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.spec.schema import Schema
from icecore.projections.entry_scope import Scope
from icecore.projections.entry_typing import EntryTyping
from icecore.projections.segment_files import NUMBER_BITS, Segment, SegmentFolder


def manifest_key(listed: ListedManifest) -> str:
    """What tells manifests apart, together with all that entries inherit.

    Ours have no length before they are written out; their paths are unique as they are.
    """
    m = listed.manifest
    length = m.manifest_length if listed.is_foreign else 0
    return f"{m.manifest_path}|{length}|{m.partition_spec_id}|{m.sequence_number}|{m.added_snapshot_id}"


@define
class EntryTable:
    """The entries of one table: its segments, and which manifest is where.

    `columns` maps the names of the columns that any segment has to their DuckDB types; `name` is that of a view over
    what a scan looks into, while there is one. `kept` are manifests that no merge may leave behind now. `version`
    changes whenever segments do. `passed_over` are files, and their manifests, that have nothing that others lack.
    """

    name: str
    stream: str
    typing: EntryTyping
    folder: SegmentFolder | None
    segments: list[Segment] = field(factory=list)
    where: dict[str, int] = field(factory=dict)
    columns: dict[str, str] = field(factory=dict)
    kept: frozenset[str] = frozenset()
    passed_over: dict[str, tuple[str, ...]] = field(factory=dict)
    version: int = 0

    @property
    def schema(self) -> Schema:
        return self.typing.schema

    def changed(self) -> None:
        """Brings what follows from the segments up to date; a manifest of several is taken from the first."""
        self.version += 1
        self.columns = {}
        self.where = {}
        for segment in self.segments:
            self.columns = {**segment.usable_columns(self.typing), **self.columns}
            for number, key in enumerate(segment.info.manifests):
                self.where.setdefault(key, segment.offset + number)

    def segment(self, number: int) -> Segment:
        return next(s for s in self.segments if s.number == number)

    def in_memory(self) -> Segment | None:
        return next((s for s in self.segments if s.path is None), None)

    def missing(self, manifests: Iterable[ListedManifest]) -> list[ListedManifest]:
        """Those that are in no segment, each once."""
        found = {key: m for m in manifests if (key := manifest_key(m)) not in self.where}
        return list(found.values())

    def scope(self, manifests: Sequence[ListedManifest]) -> Scope:
        """Where these manifests are; those that are not loaded are not in it."""
        found = [self.where.get(manifest_key(m)) for m in manifests]
        scope = Scope.of(self.segments, self.typing, manifests, found)
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
    scope: Scope

    @property
    def schema(self) -> Schema:
        """All fields that the entries are typed by."""
        return self.scope.typing.schema
