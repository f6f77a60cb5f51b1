"""Tables: metadata, changes and reads. The names are PyIceberg's where it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from icecore.engine.common.keyword_options import takes_options
from icecore.engine.table.commit_options import MetadataOptions
from icecore.engine.table.table_rewrites import TableRewrites

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.evolution.manage_snapshots import ManageSnapshots
    from icecore.engine.evolution.update_schema import UpdateSchema
    from icecore.engine.evolution.update_sort_order import UpdateSortOrder
    from icecore.engine.evolution.update_spec import UpdateSpec
    from icecore.engine.forget.forget import Forgotten
    from icecore.engine.maintenance.maintenance import Maintenance


class Table(TableRewrites):
    """One table at one version. It stays as it was loaded until `refresh()` or a commit through it."""

    @takes_options(MetadataOptions)
    def update_schema(
        self, *, allow_incompatible_changes: bool = False, **options: Unpack[MetadataOptions]
    ) -> UpdateSchema:
        """An update of the schema, committed by its `commit()` or the end of a `with` block."""
        from icecore.engine.evolution.update_schema import UpdateSchema

        return UpdateSchema(
            lambda ops: self._commit_with(
                lambda t: t.change_schema(ops, allow_incompatible_changes=allow_incompatible_changes), **options
            )
        )

    @takes_options(MetadataOptions)
    def update_spec(self, **options: Unpack[MetadataOptions]) -> UpdateSpec:
        """An update of the partition spec, committed by its `commit()` or the end of a `with` block."""
        from icecore.engine.evolution.update_spec import UpdateSpec

        return UpdateSpec(lambda ops: self._commit_with(lambda t: t.change_spec(ops), **options))

    @takes_options(MetadataOptions)
    def update_sort_order(self, **options: Unpack[MetadataOptions]) -> UpdateSortOrder:
        """An update of the sort order, committed by its `commit()` or the end of a `with` block."""
        from icecore.engine.evolution.update_sort_order import UpdateSortOrder

        return UpdateSortOrder(lambda terms: self._commit_with(lambda t: t.change_sort_order(terms), **options))

    @takes_options(MetadataOptions)
    def manage_snapshots(self, **options: Unpack[MetadataOptions]) -> ManageSnapshots:
        """An update of branches and tags, committed by its `commit()` or the end of a `with` block."""
        from icecore.engine.evolution.manage_snapshots import ManageSnapshots

        return ManageSnapshots(lambda ops: self._commit_with(lambda t: t.change_refs(ops), **options))

    @property
    def maintenance(self) -> Maintenance:
        """The upkeep of the table: expiring snapshots, removing orphan files. Raises ReadOnlyError."""

        from icecore.engine.maintenance.maintenance import Maintenance

        self._repository.check_writable()
        return Maintenance(self._state.stream, self._repository, self._committed, self._actor)

    @takes_options(MetadataOptions)
    def set_properties(self, updates: Mapping[str, str], **options: Unpack[MetadataOptions]) -> DryRun | None:
        """Sets properties. Raises ValidationError for a reserved one, or a value that it can't have."""
        from icecore.engine.evolution.metadata_commands import changed_properties

        return self._commit_with(lambda t: t.add(changed_properties(updates, ())), **options)

    @takes_options(MetadataOptions)
    def remove_properties(self, *keys: str, **options: Unpack[MetadataOptions]) -> DryRun | None:
        """Removes properties; missing ones are ignored."""
        from icecore.engine.evolution.metadata_commands import changed_properties

        return self._commit_with(lambda t: t.add(changed_properties({}, keys)), **options)

    @takes_options(MetadataOptions)
    def upgrade(self, format_version: int, **options: Unpack[MetadataOptions]) -> DryRun | None:
        """Raises the format version. Raises ValidationError for a lower one, or one above 3."""

        from icecore.engine.evolution.metadata_commands import upgraded

        return self._commit_with(lambda t: t.add(upgraded(format_version)), **options)

    @takes_options(MetadataOptions)
    def forget(
        self,
        *,
        columns: Sequence[str] | None = None,
        files: Sequence[str] | None = None,
        **options: Unpack[MetadataOptions],
    ) -> Forgotten:
        """Removes the bounds of column values from the log for good, of content files that no snapshot holds any more.

        Of all columns and files, or of those named: columns by their names of any time, with all nested in them, files
        by their paths. Positions, hashes and counts stay, so that the log verifies, can be replayed and read as of any
        position: plans of the past have a few files more. Archives are written anew; caches, free pages of the database
        and its WAL are emptied, where others read the log at the next open. Nothing else commits meanwhile.

        Out of reach are logs that were exported before, other copies, what other processes hold in memory, files that
        still lie in storage (`left_files`), and what snapshots hold (`held`). Partition values and paths stay. So do
        hashes, which are over random bytes too that go with the bounds; earlier releases wrote none, and by the hashes
        of their events who guesses rightly can tell that forgotten bounds were the guess. Raises ValidationError for
        a named file that a snapshot holds, a column that the table is partitioned by, and one that it never had;
        ForeignCommitError, MissingArchiveError, StorageError; nothing is forgotten then.
        """
        from icecore.engine.events.provenance import provenance
        from icecore.engine.forget.forget import Forgetter

        self._repository.check_writable()
        who = provenance(self._actor, message=options.get("message"), author=options.get("author"))
        forgetter = Forgetter(self._repository, self._planner)
        return forgetter.bounds(self._state.stream, columns, files, who, dry_run=options.get("dry_run", False))
