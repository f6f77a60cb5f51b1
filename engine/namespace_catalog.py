"""The namespaces of a catalog: the part of `Catalog` that makes, finds and drops them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from icecore.engine import events as ev
from icecore.engine.errors import ValidationError
from icecore.engine.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.log.read_models import ReadModels
from icecore.engine.properties import string_properties
from icecore.engine.provenance import provenance
from icecore.engine.repository import Repository


class CatalogNamespaces:
    """What `Catalog` says about namespaces. There is no event for each: all are of the catalog's own stream."""

    actor: str | None
    _models: ReadModels
    _repository: Repository

    def create_namespace(
        self, namespace: IdentifierLike, properties: Mapping[str, str] | None = None, *, message: str | None = None
    ) -> None:
        """Raises NamespaceAlreadyExistsError."""
        levels = namespace_tuple(namespace)
        self._catalog_event(
            ev.NAMESPACE_CREATED,
            {"namespace": list(levels), "properties": string_properties(properties)},
            lambda: self._models.check_new_namespace(levels),
            message,
        )

    def list_namespaces(self, namespace: IdentifierLike = ()) -> list[Identifier]:
        """The namespaces directly inside of one, or at the top. Raises NoSuchNamespaceError."""
        self._repository.foreign.sync_if_changed()
        parent = namespace_tuple(namespace) if namespace else ()
        if parent:
            self._models.namespace_properties(parent)
        depth = len(parent) + 1
        found = {n[:depth] for n in self._models.namespaces() if len(n) >= depth and n[: len(parent)] == parent}
        return sorted(found)

    def all_namespaces(self) -> list[Identifier]:
        """All namespaces at any depth."""
        self._repository.foreign.sync_if_changed()
        return sorted(self._models.namespaces())

    def load_namespace_properties(self, namespace: IdentifierLike) -> dict[str, str]:
        """Raises NoSuchNamespaceError."""
        self._repository.foreign.sync_if_changed()
        return self._models.namespace_properties(namespace_tuple(namespace))

    def update_namespace_properties(
        self,
        namespace: IdentifierLike,
        removals: Sequence[str] = (),
        updates: Mapping[str, str] | None = None,
        *,
        message: str | None = None,
    ) -> None:
        """Raises NoSuchNamespaceError, ValidationError where a key is both removed and updated."""
        levels, new = namespace_tuple(namespace), string_properties(updates)
        if both := sorted(set(removals) & set(new)):
            raise ValidationError(f"the properties {both} are both removed and updated")
        payload = {"namespace": list(levels), "updates": new, "removals": sorted(set(removals))}
        self._catalog_event(
            ev.NAMESPACE_PROPERTIES_UPDATED, payload, lambda: self._models.namespace_properties(levels), message
        )

    def drop_namespace(self, namespace: IdentifierLike, *, message: str | None = None) -> None:
        """Raises NamespaceNotEmptyError, NoSuchNamespaceError."""
        levels = namespace_tuple(namespace)
        self._catalog_event(
            ev.NAMESPACE_DROPPED, {"namespace": list(levels)}, lambda: self._models.check_empty(levels), message
        )

    def _catalog_event(
        self, kind: str, payload: dict[str, Any], check: Callable[[], object], message: str | None
    ) -> None:
        self._repository.append_simple(ev.CATALOG_STREAM, kind, payload, provenance(self.actor, message=message), check)
