"""The views of a catalog, created, loaded, renamed, dropped and registered; tables share their names.

With `dry_run` nothing is stored, and the result says what the commit would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Unpack, overload

from icecore.engine.catalog.catalog_handle import CatalogHandle, check_new_name, commit, view_of
from icecore.engine.common.identifiers import Identifier, IdentifierLike, identifier_tuple, namespace_tuple
from icecore.engine.errors import ValidationError
from icecore.engine.spec.view import DUCKDB

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.data.given_schema import SchemaLike
    from icecore.engine.data.pyiceberg_values import PyIcebergValue
    from icecore.engine.spec.view import ViewVersion
    from icecore.engine.table.commit_options import CreateView, DefineView, KeyedCommit
    from icecore.engine.view.view import View


@overload
def create_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    sql: str | SchemaLike | None = None,
    view_version: ViewVersion | PyIcebergValue | None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[CreateView],
) -> View: ...


@overload
def create_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    sql: str | SchemaLike | None = None,
    view_version: ViewVersion | PyIcebergValue | None = None,
    *,
    dry_run: bool,
    **options: Unpack[CreateView],
) -> View | CatalogDryRun: ...


def create_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    sql: str | SchemaLike | None = None,
    view_version: ViewVersion | PyIcebergValue | None = None,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    dialect: str = DUCKDB,
    representations: Mapping[str, str] | None = None,
    schema: SchemaLike | None = None,
    default_namespace: IdentifierLike | None = None,
    default_catalog: str | None = None,
    comment: str | None = None,
    summary: Mapping[str, str] | None = None,
    replace: bool = False,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> View | CatalogDryRun:
    """Creates a view of a query, in one dialect or in several by `representations` (dialect to SQL).

    Without a schema the query is run in DuckDB over empty tables to learn it. Short names in the SQL are looked for
    in `default_namespace`, the view's own unless given. With `replace` a view of that name gets a new version. As in
    PyIceberg a schema may come in place of the SQL, with a `view_version` that says the query.
    Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError, NoSuchTableError.
    """
    from icecore.engine.catalog.view_parts import defined_by, new_view, view_replacement

    name = identifier_tuple(identifier)
    catalog._warehouse.repository.check_writable()
    definition: DefineView = {
        "dialect": dialect,
        "representations": representations,
        "schema": schema,
        "default_namespace": name[:-1] if default_namespace is None else default_namespace,
        "default_catalog": default_catalog,
        "properties": properties,
        "comment": comment,
        "summary": summary,
        "location": location,
    }
    if view_version is not None:
        definition |= defined_by(view_version, definition, sql)
        sql = None
    elif not isinstance(sql, str | None):
        raise ValidationError(f"the SQL of a view is text, found {type(sql).__name__}; a schema needs a view_version")
    if replace and view_exists(catalog, name):
        old = load_view(catalog, name)
        change = view_replacement(old, sql, **definition)
        return commit(catalog, change, message, author, dry_run, idempotency_key) or view_of(catalog, change.stream)
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    check_new_name(catalog, name, idempotency_key, kind="view")
    part = new_view(catalog, catalog, name, sql, **definition)
    return commit(catalog, part, message, author, dry_run, idempotency_key) or view_of(catalog, part.stream)


@overload
def register_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    metadata_location: str,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> View: ...


@overload
def register_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    metadata_location: str,
    *,
    dry_run: bool,
    **options: Unpack[KeyedCommit],
) -> View | CatalogDryRun: ...


def register_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    metadata_location: str,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> View | CatalogDryRun:
    """Registers a view by its metadata file, written by any engine; the file stays as it is until the first commit.

    Raises TableAlreadyExistsError, NoSuchNamespaceError, MissingFileError, CorruptFileError,
    UnsupportedFormatVersionError.
    """
    from icecore.engine.catalog.view_parts import registered_view

    catalog._warehouse.repository.check_writable()
    name = identifier_tuple(identifier)
    check_new_name(catalog, name, idempotency_key, kind="view")
    part = registered_view(catalog._warehouse.repository, name, metadata_location)
    return commit(catalog, part, message, author, dry_run, idempotency_key) or view_of(catalog, part.stream)


def load_view(catalog: CatalogHandle, identifier: IdentifierLike) -> View:
    """The view of that name. Raises NoSuchViewError."""
    repository = catalog._warehouse.repository
    stream = repository.foreign.stream_of(identifier_tuple(identifier), repository.models.view_stream)
    return view_of(catalog, stream)


def view_exists(catalog: CatalogHandle, identifier: IdentifierLike) -> bool:
    """Whether a view, not a table, has that name."""
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    named = catalog._warehouse.models.find(identifier_tuple(identifier))
    return named is not None and named[0] == "view"


def list_views(catalog: CatalogHandle, namespace: IdentifierLike) -> list[Identifier]:
    """The names of the views in a namespace. Raises NoSuchNamespaceError."""
    levels = namespace_tuple(namespace)
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    catalog._warehouse.models.namespace_properties(levels)
    return [(*levels, name) for name, _ in catalog._warehouse.models.names_in(levels, "view")]


def views(catalog: CatalogHandle) -> Iterator[View]:
    """All views, by name."""
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    for _, kind, stream in catalog._warehouse.models.all_names():
        if kind == "view":
            yield view_of(catalog, stream)


@overload
def rename_view(
    catalog: CatalogHandle,
    from_identifier: IdentifierLike,
    to_identifier: IdentifierLike,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> View: ...


@overload
def rename_view(
    catalog: CatalogHandle,
    from_identifier: IdentifierLike,
    to_identifier: IdentifierLike,
    *,
    dry_run: bool,
    **options: Unpack[KeyedCommit],
) -> View | CatalogDryRun: ...


def rename_view(
    catalog: CatalogHandle,
    from_identifier: IdentifierLike,
    to_identifier: IdentifierLike,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> View | CatalogDryRun:
    """Renames a view. Raises NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError."""
    from icecore.engine.joint_commit.joint_names import renamed

    part = renamed(identifier_tuple(from_identifier), identifier_tuple(to_identifier), is_view=True)
    return commit(catalog, part, message, author, dry_run, idempotency_key) or view_of(catalog, part.stream)


def drop_view(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> CatalogDryRun | None:
    """Drops a view's name; the log keeps the view, and its files stay. Raises NoSuchViewError."""
    from icecore.engine.joint_commit.joint_names import dropped

    return commit(
        catalog, dropped(identifier_tuple(identifier), is_view=True), message, author, dry_run, idempotency_key
    )
