"""The manifests of a plan, data and deletes apart."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.spec.content_file import ManifestContent
from icecore.projections.segments.entry_table import EntryTable, Loaded
from icecore.projections.segments.manifest_selection import ManifestSelection


@define
class PlannedManifests:
    """The manifests of a plan, and the places where their loaded entries were last found."""

    listed: Sequence[ListedManifest]
    data: tuple[ListedManifest, ...]
    deletes: tuple[ListedManifest, ...]
    scopes: tuple[Loaded, ManifestSelection, ManifestSelection] | None = None

    @classmethod
    def of(cls, listed: Sequence[ListedManifest]) -> PlannedManifests:
        """The manifests of a list that have live files."""
        live = [m for m in listed if m.manifest.has_live_files]
        data = tuple(m for m in live if m.manifest.content is ManifestContent.DATA)
        return cls(listed, data, tuple(m for m in live if m.manifest.content is ManifestContent.DELETES))

    def scopes_in(self, table: EntryTable) -> tuple[ManifestSelection, ManifestSelection]:
        """The loaded entries of both kinds of manifests in a table."""
        known = self.scopes
        if known is None or known[0] is not table.loaded:
            known = (table.loaded, table.scope(self.data), table.scope(self.deletes))
            self.scopes = known
        return known[1:]

    def totals(self, *, added_only: bool) -> tuple[int, int] | None:
        """Live or added files and rows of all data manifests; None where a v1 writer left the counts out."""
        files = rows = 0
        for m in (each.manifest for each in self.listed if each.manifest.content is ManifestContent.DATA):
            counts = (m.added_files_count, m.existing_files_count, m.added_rows_count, m.existing_rows_count)
            if any(c is None for c in counts):
                return None
            files += (m.added_files_count or 0) + (0 if added_only else m.existing_files_count or 0)
            rows += (m.added_rows_count or 0) + (0 if added_only else m.existing_rows_count or 0)
        return files, rows


def within(
    manifests: Sequence[ListedManifest], listed: Sequence[ListedManifest], places: range
) -> list[ListedManifest]:
    """The given manifests that are at these places of the list `listed`."""
    wanted = {id(m) for m in listed[places.start : places.stop]}
    return [m for m in manifests if id(m) in wanted]
