"""The namespaces of a catalog, created, listed and dropped; their events are of the catalog's own stream.

With `dry_run` nothing is stored, and the result says what the commit would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Unpack, overload

from icecore.engine.catalog.catalog_handle import CatalogHandle, commit
from icecore.engine.common.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.common.keyword_options import takes_options
from icecore.engine.errors import NamespaceAlreadyExistsError, NoSuchNamespaceError
from icecore.engine.table.commit_options import CommitOptions

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.log.namespaces import ChangedProperties
    from icecore.engine.table.commit_options import KeyedCommit


def create_namespace(
    catalog: CatalogHandle,
    namespace: IdentifierLike,
    properties: Mapping[str, str] | None = None,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> CatalogDryRun | None:
    """Creates a namespace. Raises NamespaceAlreadyExistsError, ValidationError.

    Its parents need not be created: they exist without properties as long as it does, and are created with the first
    table, view or property that they get.
    """
    from icecore.engine.joint_commit.joint_names import new_namespace

    return commit(catalog, new_namespace(namespace, properties), message, author, dry_run, idempotency_key)


@takes_options(CommitOptions)
def create_namespace_if_not_exists(
    catalog: CatalogHandle,
    namespace: IdentifierLike,
    properties: Mapping[str, str] | None = None,
    **options: Unpack[CommitOptions],
) -> CatalogDryRun | None:
    """Creates a namespace, unless it is there; its properties stay as they are then."""
    with suppress(NamespaceAlreadyExistsError):
        return create_namespace(catalog, namespace, properties, **options)
    return None


def namespace_exists(catalog: CatalogHandle, namespace: IdentifierLike) -> bool:
    """Whether there is a namespace of that name."""
    try:
        load_namespace_properties(catalog, namespace)
    except NoSuchNamespaceError:
        return False
    return True


def list_namespaces(catalog: CatalogHandle, namespace: IdentifierLike = ()) -> list[Identifier]:
    """The namespaces directly inside of one, or at the top. Raises NoSuchNamespaceError.

    They include those that were never created but have namespaces inside.
    """
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    parent = namespace_tuple(namespace) if namespace else ()
    if parent:
        catalog._warehouse.models.namespace_properties(parent)
    return sorted((*parent, level) for level in catalog._warehouse.models.inner_namespaces(parent))


def all_namespaces(catalog: CatalogHandle) -> list[Identifier]:
    """All namespaces at any depth."""
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    return sorted(catalog._warehouse.models.namespaces())


def load_namespace_properties(catalog: CatalogHandle, namespace: IdentifierLike) -> dict[str, str]:
    """The properties of a namespace, none of one that only has namespaces inside. Raises NoSuchNamespaceError."""
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    return catalog._warehouse.models.namespace_properties(namespace_tuple(namespace))


@overload
def update_namespace_properties(
    catalog: CatalogHandle,
    namespace: IdentifierLike,
    removals: Sequence[str] = (),
    updates: Mapping[str, str] | None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[KeyedCommit],
) -> ChangedProperties: ...


@overload
def update_namespace_properties(
    catalog: CatalogHandle,
    namespace: IdentifierLike,
    removals: Sequence[str] = (),
    updates: Mapping[str, str] | None = None,
    *,
    dry_run: bool,
    **options: Unpack[KeyedCommit],
) -> ChangedProperties | CatalogDryRun: ...


def update_namespace_properties(
    catalog: CatalogHandle,
    namespace: IdentifierLike,
    removals: Sequence[str] = (),
    updates: Mapping[str, str] | None = None,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> ChangedProperties | CatalogDryRun:
    """Sets and removes properties of a namespace; returns the keys that were updated, removed, and not there to remove.

    Raises NoSuchNamespaceError, UnprocessableEntityError where a key is both removed and updated.
    """
    from icecore.engine.joint_commit.joint_names import NamespaceChange
    from icecore.engine.log.namespaces import ChangedProperties, updated_properties

    change = updated_properties(namespace_tuple(namespace), removals, updates)
    part = NamespaceChange(change)
    dry = commit(catalog, part, message, author, dry_run, idempotency_key)
    return dry or part.outcome or ChangedProperties.of(change, _before(catalog, part.name, idempotency_key))


def _before(catalog: CatalogHandle, namespace: Identifier, idempotency_key: str | None) -> Mapping[str, str]:
    """The properties before the change that an earlier call with that key made."""
    from icecore.engine.log.names_at import CatalogNames

    store = catalog._warehouse.store
    event = None if idempotency_key is None else store.event_by_idempotency_key(idempotency_key)
    return {} if event is None else CatalogNames.at(store, event.position - 1).namespaces.get(namespace, {})


def drop_namespace(
    catalog: CatalogHandle,
    namespace: IdentifierLike,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool = False,
) -> CatalogDryRun | None:
    """Drops an empty namespace. Raises NamespaceNotEmptyError, NoSuchNamespaceError."""
    from icecore.engine.joint_commit.joint_names import dropped_namespace

    return commit(catalog, dropped_namespace(namespace), message, author, dry_run, idempotency_key)
