"""Catalogs: a warehouse folder with its log.

The class is a table of contents: each call on namespaces, tables, views and the log is a function of the module named,
whose first parameter is the catalog.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from icecore.engine.catalog import catalog_handle, catalog_namespaces, catalog_tables, catalog_views, log_tools
from icecore.engine.catalog.audits import audit_tools
from icecore.engine.catalog.past import blaming, comparing, dropped, searching, undoing
from icecore.engine.catalog.warehouse import check_left_tables, open_warehouse
from icecore.engine.common.identifiers import identifier_tuple
from icecore.engine.events.provenance import provenance
from icecore.engine.query import catalog_query
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION
from icecore.engine.table.method_names import methods_named

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog_transaction import CatalogTransaction
    from icecore.engine.catalog.recovery.register_folder import RegisteredFolder
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.common.identifiers import IdentifierLike
    from icecore.engine.data.given_schema import SchemaLike
    from icecore.engine.foreign.parquet_folder import ParquetFolder
    from icecore.engine.query.kept_queries import KeptQueries
    from icecore.engine.storage.location_rules import LocationRules
    from icecore.engine.table.commit_options import NewTableOptions
    from icecore.engine.table.table import Table
    from icecore.engine.table.transaction import Transaction

DEFAULT_CATALOG_NAME = "icecore"


def open_catalog(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    actor: str | None = None,
    name: str = DEFAULT_CATALOG_NAME,
    location_roots: Iterable[str] | None = None,
    unique_locations: bool = False,
) -> Catalog:
    """The catalog of a warehouse folder on a local disk, which is created where there is none.

    `actor` is who commits where a call names no author. `name` is what a new warehouse is called in `iceberg_tables`,
    and the name under which PyIceberg's `sql` catalog must be opened. The environment variable ICECORE_CACHE_MEMORY
    limits the manifest entries that plans hold in memory, `1GB` by default. A warehouse that was copied or moved from
    another folder is read with its locations mapped, with a MovedWarehouseWarning; changes of it raise
    MovedWarehouseError. A new log in a folder that has tables already, as after their log was lost, comes with a
    LostLogWarning. `location_roots` are the only folders, beside the warehouse's own, that tables and views may be in.
    With `unique_locations` none may be at, in or around the location of another. Commits that break these rules raise
    ForbiddenLocationError. Raises StorageError, ReadOnlyError, CorruptLogError, WarehouseLockedError, ValidationError.
    """
    check_left_tables(path, create=create and not read_only)
    return Catalog(
        path,
        create=create,
        read_only=read_only,
        actor=actor,
        name=name,
        location_roots=location_roots,
        unique_locations=unique_locations,
    )


@methods_named
class Catalog:
    """The catalog of a warehouse. Every change is one event of its log; everything else follows from the log."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        actor: str | None = None,
        name: str = DEFAULT_CATALOG_NAME,
        location_roots: Iterable[str] | None = None,
        unique_locations: bool = False,
    ) -> None:
        self._warehouse = open_warehouse(
            path,
            create=create,
            read_only=read_only,
            name=name,
            location_roots=location_roots,
            unique_locations=unique_locations,
        )
        self.actor = actor

    @property
    def path(self) -> Path:
        """The warehouse folder."""
        return self._warehouse.path

    @property
    def name(self) -> str:
        """The catalog's name in `iceberg_tables`."""
        return self._warehouse.models.catalog_name

    @property
    def read_only(self) -> bool:
        """Whether it was opened only to be read."""
        return self._warehouse.store.read_only

    @property
    def _kept_queries(self) -> KeptQueries:
        return self._warehouse.queries

    @property
    def position(self) -> int:
        """The position of the last event of the log."""
        return self._warehouse.store.head()[0]

    def close(self) -> None:
        """Closes the log and drops all caches."""
        self._warehouse.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Catalog], tuple[object, ...]]:
        return _reopened, (self.path, self.read_only, self.actor, self._warehouse.repository.location_rules)

    def __repr__(self) -> str:
        return f"Catalog({str(self.path)!r})"

    def transaction(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> CatalogTransaction:
        """Changes of tables, views and names as one commit: all or nothing, made when the `with` block ends well.

        A dry run stores nothing, and says in `outcome` what the commit would be.
        """
        from icecore.engine.catalog.catalog_transaction import CatalogTransaction

        self._warehouse.store.check_writable()
        who = provenance(self.actor, message=message, author=author, idempotency_key=idempotency_key)
        return CatalogTransaction(self._warehouse, who, self, dry_run)

    def create_table_transaction(
        self,
        identifier: IdentifierLike,
        schema: SchemaLike,
        *,
        message: str | None = None,
        author: str | None = None,
        **options: Unpack[NewTableOptions],
    ) -> Transaction:
        """A new table with further changes of it as one commit, made by `commit()` or the end of a `with` block.

        Raises ValidationError; NoSuchNamespaceError and TableAlreadyExistsError at the commit.
        """
        return self.transaction(message=message, author=author).create_alone(identifier, schema, **options)

    def migrate_table(
        self,
        folder: str,
        identifier: IdentifierLike,
        *,
        properties: Mapping[str, str] | None = None,
        format_version: int = DEFAULT_FORMAT_VERSION,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """A table of the Parquet files of a folder, at their place, which owns them from then on; none is rewritten.

        Its columns are those of all files and those of Hive-style paths; the latter partition it. Raises
        ValidationError where the files don't fit together or are an Iceberg table's, CorruptFileError,
        NoSuchNamespaceError, TableAlreadyExistsError.
        """
        from icecore.engine.foreign.parquet_folder import ParquetFolder

        def make() -> Table | CatalogDryRun:
            found = ParquetFolder.of(folder, self._warehouse.repository.storage)
            with self.transaction(message=message, author=author, dry_run=dry_run) as changes:
                given = {"migrated": "true", **(properties or {})}
                _take_in(changes, found, identifier, found.location, given, format_version)
            return changes.outcome or self.load_table(identifier)

        asked = [folder, identifier_tuple(identifier), properties, format_version]
        return self._once(idempotency_key, "migrate_table", asked, make, dry_run)

    def snapshot_table(
        self,
        folder: str,
        identifier: IdentifierLike,
        *,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int = DEFAULT_FORMAT_VERSION,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """A table of the Parquet files of a folder, which stay the folder's: the table never deletes a file.

        New files go to the table's own location. Raises as `migrate_table`.
        """
        from icecore.engine.foreign.parquet_folder import ParquetFolder
        from icecore.engine.properties.table_properties import GC_ENABLED

        def make() -> Table | CatalogDryRun:
            found = ParquetFolder.of(folder, self._warehouse.repository.storage)
            with self.transaction(message=message, author=author, dry_run=dry_run) as changes:
                given = {"snapshot": "true", GC_ENABLED.name: "false", **(properties or {})}
                _take_in(changes, found, identifier, location, given, format_version)
            return changes.outcome or self.load_table(identifier)

        asked = [folder, identifier_tuple(identifier), location, properties, format_version]
        return self._once(idempotency_key, "snapshot_table", asked, make, dry_run)

    def register_folder(
        self,
        folder: str,
        namespace: IdentifierLike | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> RegisteredFolder:
        """Registers all tables and views below a local folder, as `register_table` does each, in one commit.

        The name of each is its path below the folder, after `namespace` where one is given; a folder `shop.db` is the
        namespace `shop`, as Hive has it. Namespaces that are missing are made. Left out are tables and views that can't
        be read, are in no namespace, have a name that is taken, or are known to the log, dropped or not; so a later
        call registers those that came since. Raises ValidationError for a folder that is not local.
        """
        from icecore.engine.catalog.recovery.register_folder import register_folder

        who = provenance(self.actor, message=message, author=author)
        return register_folder(self._warehouse, folder, namespace, who, dry_run=dry_run)

    def _once(
        self,
        key: str | None,
        call: str,
        asked: Sequence[object],
        make: Callable[[], Table | CatalogDryRun],
        dry_run: bool,
    ) -> Table | CatalogDryRun:
        again = partial(catalog_handle.table_after, self)
        return catalog_handle.once(self, key, call, asked, make, again, dry_run=dry_run)

    # Namespaces
    create_namespace = catalog_namespaces.create_namespace
    create_namespace_if_not_exists = catalog_namespaces.create_namespace_if_not_exists
    namespace_exists = catalog_namespaces.namespace_exists
    list_namespaces = catalog_namespaces.list_namespaces
    all_namespaces = catalog_namespaces.all_namespaces
    load_namespace_properties = catalog_namespaces.load_namespace_properties
    update_namespace_properties = catalog_namespaces.update_namespace_properties
    drop_namespace = catalog_namespaces.drop_namespace

    # Tables
    create_table = catalog_tables.create_table
    create_table_if_not_exists = catalog_tables.create_table_if_not_exists
    replace_table = catalog_tables.replace_table
    create_or_replace_table = catalog_tables.create_or_replace_table
    register_table = catalog_tables.register_table
    load_table = catalog_tables.load_table
    table_exists = catalog_tables.table_exists
    list_tables = catalog_tables.list_tables
    tables = catalog_tables.tables
    rename_table = catalog_tables.rename_table
    drop_table = catalog_tables.drop_table
    unregister_table = dropped.unregister_table
    undrop_table = dropped.undrop_table
    purge_table = dropped.purge_table
    commit_table = catalog_tables.commit_table
    new_location = catalog_handle.new_location

    # Views
    create_view = catalog_views.create_view
    register_view = catalog_views.register_view
    load_view = catalog_views.load_view
    view_exists = catalog_views.view_exists
    list_views = catalog_views.list_views
    views = catalog_views.views
    rename_view = catalog_views.rename_view
    drop_view = catalog_views.drop_view
    undrop_view = dropped.undrop_view

    # The rows of all of these, in SQL
    query = catalog_query.query

    # The log: read, queried, compared
    log = log_tools.log
    sql = log_tools.sql
    at = log_tools.at
    diff = comparing.diff
    diff_table = comparing.diff_table
    show_commit = comparing.show_commit
    find_value = searching.find_value
    blame = blaming.blame

    # Undone, forgotten
    undo = undoing.undo
    revert = undoing.revert
    restore = undoing.restore
    resolve = log_tools.resolve
    forget = log_tools.forget
    forget_text = log_tools.forget_text

    # Checked, and what follows from the log made again
    verify = log_tools.verify
    audit = audit_tools.audit
    audit_rules = audit_tools.audit_rules
    report = audit_tools.report
    rebuild = log_tools.rebuild
    materialize = log_tools.materialize

    # Exported, archived
    export_log = log_tools.export_log
    archive = log_tools.archive
    archives = log_tools.archives
    checkpoint = log_tools.checkpoint


def _take_in(
    changes: CatalogTransaction,
    found: ParquetFolder,
    identifier: IdentifierLike,
    location: str | None,
    properties: Mapping[str, str],
    format_version: int,
) -> None:
    """Creates a table of a folder's files."""
    by = [f'"{name}"' for name, _ in found.partitions]
    table = changes.create_table(
        identifier,
        found.schema(),
        partition_spec=by or None,
        location=location,
        properties=properties,
        format_version=format_version,
    )
    for schema in found.others():
        table.update_schema().union_by_name(schema).commit()
    table.add_files(found.files)


def _reopened(path: Path, read_only: bool, actor: str | None, rules: LocationRules) -> Catalog:
    """The catalog that was pickled, open where it arrived."""
    catalog = Catalog(path, create=False, read_only=read_only, actor=actor)
    catalog._warehouse.repository.location_rules = rules
    return catalog
