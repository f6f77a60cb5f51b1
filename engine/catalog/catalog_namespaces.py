"""The namespaces of a catalog: the part of `Catalog` that creates, lists and drops them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from icecore.engine.catalog.warehouse import Warehouse
from icecore.engine.common.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.events.provenance import provenance

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.joint_commit.joint_commit import Part


class CatalogNamespaces:
    """The namespaces of a catalog. Their events are all of the catalog's own stream.

    With `dry_run` nothing is stored, and the result says what the commit would be.
    """

    def __init__(self, warehouse: Warehouse, actor: str | None) -> None:
        self._warehouse = warehouse
        self.actor = actor

    @property
    def name(self) -> str:
        """The catalog's name in `iceberg_tables`."""
        return self._warehouse.models.catalog_name

    def _commit(self, part: Part, message: str | None, author: str | None, dry_run: bool) -> CatalogDryRun | None:
        """Makes one change, or says what it would be. Raises ReadOnlyError, and what the part raises."""
        return self._warehouse.commit(part, provenance(self.actor, message=message, author=author), dry_run=dry_run)

    def create_namespace(
        self,
        namespace: IdentifierLike,
        properties: Mapping[str, str] | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> CatalogDryRun | None:
        """Creates a namespace. Raises NamespaceAlreadyExistsError."""
        from icecore.engine.joint_commit.joint_names import new_namespace

        return self._commit(new_namespace(namespace, properties), message, author, dry_run)

    def list_namespaces(self, namespace: IdentifierLike = ()) -> list[Identifier]:
        """The namespaces directly inside of one, or at the top. Raises NoSuchNamespaceError."""
        self._warehouse.repository.foreign.adopt_all_if_changed()
        parent = namespace_tuple(namespace) if namespace else ()
        if parent:
            self._warehouse.models.namespace_properties(parent)
        depth = len(parent) + 1
        all_of_them = self._warehouse.models.namespaces()
        return sorted({n[:depth] for n in all_of_them if len(n) >= depth and n[: len(parent)] == parent})

    def all_namespaces(self) -> list[Identifier]:
        """All namespaces at any depth."""
        self._warehouse.repository.foreign.adopt_all_if_changed()
        return sorted(self._warehouse.models.namespaces())

    def load_namespace_properties(self, namespace: IdentifierLike) -> dict[str, str]:
        """The properties of a namespace. Raises NoSuchNamespaceError."""
        self._warehouse.repository.foreign.adopt_all_if_changed()
        return self._warehouse.models.namespace_properties(namespace_tuple(namespace))

    def update_namespace_properties(
        self,
        namespace: IdentifierLike,
        removals: Sequence[str] = (),
        updates: Mapping[str, str] | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> CatalogDryRun | None:
        """Sets and removes properties of a namespace.

        Raises NoSuchNamespaceError, ValidationError where a key is both removed and updated.

        Raises NoSuchNamespaceError, ValidationError where a key is both removed and updated.
        """
        from icecore.engine.joint_commit.joint_names import namespace_properties

        return self._commit(namespace_properties(namespace, removals, updates), message, author, dry_run)

    def drop_namespace(
        self,
        namespace: IdentifierLike,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> CatalogDryRun | None:
        """Drops an empty namespace. Raises NamespaceNotEmptyError, NoSuchNamespaceError."""
        from icecore.engine.joint_commit.joint_names import dropped_namespace

        return self._commit(dropped_namespace(namespace), message, author, dry_run)
