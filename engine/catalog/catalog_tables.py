"""The tables of a catalog, created, loaded, renamed, dropped and registered; views share their names.

With `dry_run` nothing is stored, and the result says what the commit would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, Unpack, overload

from icecore.engine.catalog.catalog_handle import CatalogHandle, check_new_name, commit, table_of, table_streams
from icecore.engine.common.identifiers import Identifier, IdentifierLike, identifier_tuple, namespace_tuple
from icecore.engine.common.keyword_options import takes_options
from icecore.engine.errors import NoSuchTableError
from icecore.engine.events.provenance import provenance
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION
from icecore.engine.table.commit_options import CreateTable
from icecore.engine.table.table import Table

if TYPE_CHECKING:
    from icecore.engine.catalog.clients.client_commits import CommittedTable
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.data.given_schema import PartitionSpecLike, SchemaLike, SortOrderLike
    from icecore.engine.data.pyiceberg_values import PyIcebergValue
    from icecore.engine.deletion.purge_table import Purged
    from icecore.engine.metadata.fold import TableState
    from icecore.engine.spec.updates.requirement import TableRequirement
    from icecore.engine.spec.updates.table_update import TableUpdate
    from icecore.engine.table.commit_options import KeyedCommit, RegisterTable, ReplaceTable


class NamedTable(Protocol):
    """A loaded table, ours or PyIceberg's."""

    def name(self) -> Identifier: ...


@overload
def create_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[CreateTable],
) -> Table: ...


@overload
def create_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: bool,
    **options: Unpack[CreateTable],
) -> Table | CatalogDryRun: ...


def create_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    partition_spec: PartitionSpecLike | None = None,
    sort_order: SortOrderLike | None = None,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    format_version: int = DEFAULT_FORMAT_VERSION,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Table | CatalogDryRun:
    """Creates an empty table. Field ids are assigned anew; spec and order may be terms, as in `bucket(8, id)`.

    The schema may be Arrow's, or the one of a Spark DataFrame, whose columns are optional.
    Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError.
    """
    from icecore.engine.catalog.table_parts import new_table

    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    name = identifier_tuple(identifier)
    check_new_name(catalog, name, idempotency_key)
    part = new_table(
        catalog,
        name,
        schema,
        partition_spec=partition_spec,
        sort_order=sort_order,
        location=location,
        properties=properties,
        format_version=format_version,
    )
    return commit(catalog, part, message, author, dry_run, idempotency_key) or table_of(catalog, part.stream)


@overload
def replace_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[ReplaceTable],
) -> Table: ...


@overload
def replace_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: bool,
    **options: Unpack[ReplaceTable],
) -> Table | CatalogDryRun: ...


def replace_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    partition_spec: PartitionSpecLike | None = None,
    sort_order: SortOrderLike | None = None,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Table | CatalogDryRun:
    """Replaces a table by an empty one with a new schema, spec and order; uuid, snapshots and properties stay.

    Columns that keep their name and type keep their id. Raises NoSuchTableError, ValidationError.
    """
    from icecore.engine.catalog.table_parts import replacement
    from icecore.engine.joint_commit.joint_tables import TableChange

    table = load_table(catalog, identifier)
    command = replacement(
        schema,
        partition_spec=partition_spec,
        sort_order=sort_order,
        location=location,
        properties=properties,
        format_version=format_version,
    )
    part = TableChange.of(table.name(), table.state.stream, [command])
    return commit(catalog, part, message, author, dry_run, idempotency_key) or table_of(catalog, part.stream)


@overload
def create_or_replace_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[CreateTable],
) -> Table: ...


@overload
def create_or_replace_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: bool,
    **options: Unpack[CreateTable],
) -> Table | CatalogDryRun: ...


def create_or_replace_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: bool = False,
    **options: Any,
) -> Table | CatalogDryRun:
    """Replaces the table where there is one, else creates it; with the options of both.

    Raises NoSuchNamespaceError, ValidationError, TableAlreadyExistsError where a view has the name.
    """
    if table_exists(catalog, identifier):
        return replace_table(catalog, identifier, schema, dry_run=dry_run, **options)
    return create_table(catalog, identifier, schema, dry_run=dry_run, **options)


@takes_options(CreateTable)
def create_table_if_not_exists(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    dry_run: bool = False,
    **options: Unpack[CreateTable],
) -> Table | CatalogDryRun:
    """The table of that name, created as by `create_table` where there is none; one that is there stays as it is."""
    with suppress(NoSuchTableError):
        return load_table(catalog, identifier)
    return create_table(catalog, identifier, schema, dry_run=dry_run, **options)


def load_table(catalog: CatalogHandle, identifier: IdentifierLike) -> Table:
    """The table of that name. Raises NoSuchTableError."""
    repository = catalog._warehouse.repository
    stream = repository.foreign.stream_of(identifier_tuple(identifier), repository.models.table_stream)
    return table_of(catalog, stream)


def table_exists(catalog: CatalogHandle, identifier: IdentifierLike) -> bool:
    """Whether a table, not a view, has that name."""
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    named = catalog._warehouse.models.find(identifier_tuple(identifier))
    return named is not None and named[0] == "table"


def list_tables(catalog: CatalogHandle, namespace: IdentifierLike) -> list[Identifier]:
    """The names of the tables in a namespace. Raises NoSuchNamespaceError."""
    levels = namespace_tuple(namespace)
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    catalog._warehouse.models.namespace_properties(levels)
    return [(*levels, name) for name, _ in catalog._warehouse.models.names_in(levels, "table")]


def tables(catalog: CatalogHandle) -> Iterator[Table]:
    """All tables, by name."""
    for _, stream in table_streams(catalog):
        yield table_of(catalog, stream)


@overload
def rename_table(
    catalog: CatalogHandle,
    from_identifier: IdentifierLike,
    to_identifier: IdentifierLike,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> Table: ...


@overload
def rename_table(
    catalog: CatalogHandle,
    from_identifier: IdentifierLike,
    to_identifier: IdentifierLike,
    *,
    dry_run: bool,
    **options: Unpack[KeyedCommit],
) -> Table | CatalogDryRun: ...


def rename_table(
    catalog: CatalogHandle,
    from_identifier: IdentifierLike,
    to_identifier: IdentifierLike,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Table | CatalogDryRun:
    """Renames a table. Raises NoSuchTableError, TableAlreadyExistsError, NoSuchNamespaceError."""
    from icecore.engine.joint_commit.joint_names import renamed

    part = renamed(identifier_tuple(from_identifier), identifier_tuple(to_identifier), is_view=False)
    return commit(catalog, part, message, author, dry_run, idempotency_key) or table_of(catalog, part.stream)


def drop_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    purge: bool = False,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> CatalogDryRun | Purged | None:
    """Drops a table's name; the log keeps the table, and its files stay, unless it is purged too.

    With `purge` its files are deleted for good, as by `purge_table`, whose result is returned. Raises NoSuchTableError.
    """
    name = identifier_tuple(identifier)
    if purge:
        from icecore.engine.joint_commit.joint_purge import drop_and_purge

        who = provenance(catalog.actor, message=message, author=author, idempotency_key=idempotency_key)
        return drop_and_purge(
            catalog._warehouse.targets, catalog._warehouse.planning.planner, name, who, dry_run=dry_run
        )
    from icecore.engine.joint_commit.joint_names import dropped

    return commit(catalog, dropped(name, is_view=False), message, author, dry_run, idempotency_key)


@overload
def register_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    metadata_location: str,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[RegisterTable],
) -> Table: ...


@overload
def register_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    metadata_location: str,
    *,
    dry_run: bool,
    **options: Unpack[RegisterTable],
) -> Table | CatalogDryRun: ...


def register_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    metadata_location: str,
    overwrite: bool = False,
    *,
    location_mapping: Mapping[str, str] | None = None,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> Table | CatalogDryRun:
    """Registers a table by its metadata file, written by any engine; nothing of it is copied or changed.

    For a folder that is the file which `version-hint.text` names, else the newest (MD7). `location_mapping` maps
    location prefixes in its metadata to where the files lie now; without one, files that moved with the table's folder
    are found. With `overwrite` a table that has the name is dropped in the same commit. Raises TableAlreadyExistsError,
    MissingFileError, CorruptFileError, UnsupportedFormatVersionError.
    """
    from icecore.engine.catalog.table_parts import registered_table

    if overwrite and table_exists(catalog, identifier):
        with catalog.transaction(
            message=message, author=author, idempotency_key=idempotency_key, dry_run=dry_run
        ) as both:
            both.drop_table(identifier)
            both.register_table(identifier, metadata_location, location_mapping=location_mapping)
        return both.outcome or load_table(catalog, identifier)
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    name = identifier_tuple(identifier)
    check_new_name(catalog, name, idempotency_key)
    part = registered_table(catalog._warehouse.repository, name, metadata_location, location_mapping)
    return commit(catalog, part, message, author, dry_run, idempotency_key) or table_of(catalog, part.stream)


def commit_table(
    catalog: CatalogHandle,
    table: NamedTable | IdentifierLike,
    requirements: Iterable[TableRequirement | PyIcebergValue | Mapping[str, Any]],
    updates: Iterable[TableUpdate | PyIcebergValue | Mapping[str, Any]],
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> CommittedTable | CatalogDryRun:
    """Commits updates to a table where its requirements hold; with `assert-create` they make a table of that name.

    Both may be values of ours, of PyIceberg's, or JSON as in the REST document. A table that is given stays as it was
    loaded. Raises CommitFailedError where a requirement does not hold, NoSuchTableError, TableAlreadyExistsError,
    NoSuchNamespaceError, ValidationError.
    """
    from icecore.engine.catalog.clients.client_commits import CommittedTable, asked_part, requirements_of, updates_of

    name = identifier_tuple(table if isinstance(table, str | tuple | list) else table.name())
    asserted, asked = requirements_of(requirements), updates_of(updates)
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    after: list[TableState] = []
    part = asked_part(catalog, name, asserted, asked, after.append)
    if (outcome := commit(catalog, part, message, author, dry_run, idempotency_key)) is not None:
        return outcome
    state = after[-1] if after else load_table(catalog, name).state
    return CommittedTable(state.metadata, state.metadata_location)
