"""The namespaces of a catalog: the part of `Catalog` that makes, finds and drops them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icecore.engine.common.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.events import event as ev
from icecore.engine.events.provenance import provenance
from icecore.engine.joint_commit.with_dry_run import with_dry_run
from icecore.engine.log.namespaces import check_namespace_change, updated_properties
from icecore.engine.log.read_models import ReadModels
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.repository.repository import Repository

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun


class CatalogNamespaces:
    """What `Catalog` says about namespaces. Their events are all of the catalog's own stream.

    With `dry_run` nothing is stored, and the result says what the commit would be.
    """

    actor: str | None
    _models: ReadModels
    _repository: Repository

    @with_dry_run
    def create_namespace(
        self,
        namespace: IdentifierLike,
        properties: Mapping[str, str] | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> CatalogDryRun | None:
        """Raises NamespaceAlreadyExistsError."""
        levels = namespace_tuple(namespace)
        payload = {"namespace": list(levels), "properties": string_properties(properties)}
        self._change_namespace(ev.NAMESPACE_CREATED, payload, message, author)
        return None

    def list_namespaces(self, namespace: IdentifierLike = ()) -> list[Identifier]:
        """The namespaces directly inside of one, or at the top. Raises NoSuchNamespaceError."""
        self._repository.foreign.adopt_all_if_changed()
        parent = namespace_tuple(namespace) if namespace else ()
        if parent:
            self._models.namespace_properties(parent)
        depth = len(parent) + 1
        found = {n[:depth] for n in self._models.namespaces() if len(n) >= depth and n[: len(parent)] == parent}
        return sorted(found)

    def all_namespaces(self) -> list[Identifier]:
        """All namespaces at any depth."""
        self._repository.foreign.adopt_all_if_changed()
        return sorted(self._models.namespaces())

    def load_namespace_properties(self, namespace: IdentifierLike) -> dict[str, str]:
        """Raises NoSuchNamespaceError."""
        self._repository.foreign.adopt_all_if_changed()
        return self._models.namespace_properties(namespace_tuple(namespace))

    @with_dry_run
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
        """Raises NoSuchNamespaceError, ValidationError where a key is both removed and updated."""
        payload = updated_properties(namespace_tuple(namespace), removals, updates)
        self._change_namespace(ev.NAMESPACE_PROPERTIES_UPDATED, payload, message, author)
        return None

    @with_dry_run
    def drop_namespace(
        self,
        namespace: IdentifierLike,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> CatalogDryRun | None:
        """Raises NamespaceNotEmptyError, NoSuchNamespaceError."""
        payload = {"namespace": list(namespace_tuple(namespace))}
        self._change_namespace(ev.NAMESPACE_DROPPED, payload, message, author)
        return None

    def _change_namespace(self, kind: str, payload: Mapping[str, Any], message: str | None, author: str | None) -> None:
        who = provenance(self.actor, message=message, author=author)

        def check() -> None:
            check_namespace_change(self._models, kind, payload)

        self._repository.append_simple(ev.CATALOG_STREAM, kind, payload, who, check)
