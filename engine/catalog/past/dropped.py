"""The calls of a catalog that unregister a table for another catalog, undrop tables and views, and purge tables.

With `dry_run` nothing is stored, and the result says what the commit would be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack, overload

from attrs import evolve

from icecore.engine.catalog.catalog_handle import CatalogHandle, commit, table_of, view_of
from icecore.engine.common.identifiers import Identifier, IdentifierLike, identifier_tuple
from icecore.engine.events.event import Provenance
from icecore.engine.events.provenance import provenance

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.deletion.purge_table import Purged
    from icecore.engine.table.commit_options import KeyedCommit, Undrop
    from icecore.engine.table.table import Table
    from icecore.engine.view.view import View


@overload
def unregister_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> Table: ...


@overload
def unregister_table(
    catalog: CatalogHandle, identifier: IdentifierLike, *, dry_run: bool, **options: Unpack[KeyedCommit]
) -> Table | CatalogDryRun: ...


def unregister_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Table | CatalogDryRun:
    """Drops a table for another catalog to register by its `metadata_location`, and returns it as it was.

    No file of it is deleted, now or later: it can't be purged, as its files are another catalog's now; it can be
    undropped. Raises NoSuchTableError, MissingFileError where its metadata file is gone, CommitFailedError.
    """
    from icecore.engine.joint_commit.unregistering import Unregistration

    part = Unregistration.of(identifier_tuple(identifier))
    if not dry_run:
        _write_pending(catalog, part.name, provenance(catalog.actor, message=message, author=author))
    return commit(catalog, part, message, author, dry_run, idempotency_key) or table_of(catalog, part.stream)


def _write_pending(catalog: CatalogHandle, name: Identifier, who: Provenance) -> None:
    """Writes the files of a table whose commits are materialized by hand: its metadata file has to tell all."""
    from icecore.engine.repository.pending_files import materialize_pending

    repository = catalog._warehouse.repository
    match repository.models.find(name):
        case ("table", stream) if repository.state(stream).pending:
            materialize_pending(repository, stream, evolve(who, idempotency_key=None))


@overload
def undrop_table(
    catalog: CatalogHandle, identifier: IdentifierLike, *, dry_run: Literal[False] = False, **options: Unpack[Undrop]
) -> Table: ...


@overload
def undrop_table(
    catalog: CatalogHandle, identifier: IdentifierLike, *, dry_run: bool, **options: Unpack[Undrop]
) -> Table | CatalogDryRun: ...


def undrop_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    position: int | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Table | CatalogDryRun:
    """Gives the table that was last dropped under a name its name back, with all its data.

    `position` is that of the drop to undo where several tables of that name were dropped. Raises NoSuchTableError,
    TableAlreadyExistsError where the name is taken, NoSuchNamespaceError where its namespace is gone.
    """
    from icecore.engine.joint_commit.joint_names import NameGivenBack

    part = NameGivenBack(identifier_tuple(identifier), "table", position)
    return commit(catalog, part, message, author, dry_run, idempotency_key) or table_of(catalog, part.stream)


def purge_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    position: int | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Purged:
    """Deletes the files of the table that was last dropped under a name, for good; an event names them first.

    `position` is that of the drop where several tables of that name were dropped. Files that anything else in the
    warehouse references are retained, and files neither in the table's folders nor in the warehouse are left. A purged
    table can't be undropped; purging it again deletes files that were retained before and are unreferenced now. With an
    `idempotency_key` a repeated call returns the result of the first one, whatever was dropped under that name since.
    Raises NoSuchTableError, ValidationError where `gc.enabled` is false or it was unregistered, CommitConflictError,
    StorageError, CorruptFileError; no file was deleted then.
    """
    from icecore.engine.deletion.purge_table import purge_dropped

    who = provenance(catalog.actor, message=message, author=author, idempotency_key=idempotency_key)
    name = identifier_tuple(identifier)
    return purge_dropped(
        catalog._warehouse.repository, catalog._warehouse.planning.planner, name, position, who, dry_run=dry_run
    )


@overload
def undrop_view(
    catalog: CatalogHandle, identifier: IdentifierLike, *, dry_run: Literal[False] = False, **options: Unpack[Undrop]
) -> View: ...


@overload
def undrop_view(
    catalog: CatalogHandle, identifier: IdentifierLike, *, dry_run: bool, **options: Unpack[Undrop]
) -> View | CatalogDryRun: ...


def undrop_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    position: int | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> View | CatalogDryRun:
    """Gives a view its name back, as `undrop_table`.

    Raises NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError.
    """
    from icecore.engine.joint_commit.joint_names import NameGivenBack

    part = NameGivenBack(identifier_tuple(identifier), "view", position)
    return commit(catalog, part, message, author, dry_run, idempotency_key) or view_of(catalog, part.stream)
