"""The part of a catalog's transaction that makes, changes and drops namespaces, and gives names."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from icecore.engine.commit.single_use import UsedOnce
from icecore.engine.common.identifiers import IdentifierLike, identifier_tuple, namespace_tuple
from icecore.engine.events import event as ev
from icecore.engine.foreign.register import view_registration_payload
from icecore.engine.joint_commit.joint_commit import CommitTargets, Part
from icecore.engine.joint_commit.joint_names import NameGivenBack, NamespaceChange, RegisteredView
from icecore.engine.log.namespaces import updated_properties
from icecore.engine.properties.string_properties import string_properties


class TransactionNames(UsedOnce):
    """What is done with namespaces and names, in the order of the calls.

    So a namespace is made before what goes into it, and dropped after what was in it was dropped or moved away.
    """

    _parts: dict[str, Part]
    _desk: CommitTargets

    # Namespaces

    def create_namespace(self, namespace: IdentifierLike, properties: Mapping[str, str] | None = None) -> None:
        """Raises ValidationError; NamespaceAlreadyExistsError comes at commit."""
        levels = namespace_tuple(namespace)
        payload = {"namespace": list(levels), "properties": string_properties(properties)}
        self._add_name(NamespaceChange(levels, ev.NAMESPACE_CREATED, payload))

    def update_namespace_properties(
        self, namespace: IdentifierLike, removals: Sequence[str] = (), updates: Mapping[str, str] | None = None
    ) -> None:
        """Raises ValidationError where a key is both removed and updated; NoSuchNamespaceError comes at commit."""
        levels = namespace_tuple(namespace)
        payload = updated_properties(levels, removals, updates)
        self._add_name(NamespaceChange(levels, ev.NAMESPACE_PROPERTIES_UPDATED, payload))

    def drop_namespace(self, namespace: IdentifierLike) -> None:
        """At commit: NoSuchNamespaceError, NamespaceNotEmptyError where something is in it that stays."""
        levels = namespace_tuple(namespace)
        self._add_name(NamespaceChange(levels, ev.NAMESPACE_DROPPED, {"namespace": list(levels)}))

    # Names that come, or come back

    def undrop_table(self, identifier: IdentifierLike, *, position: int | None = None) -> None:
        """As `Catalog.undrop_table`. At commit: NoSuchTableError, TableAlreadyExistsError, NoSuchNamespaceError."""
        self._add_name(NameGivenBack(identifier_tuple(identifier), "table", position))

    def undrop_view(self, identifier: IdentifierLike, *, position: int | None = None) -> None:
        """As `Catalog.undrop_view`. At commit: NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError."""
        self._add_name(NameGivenBack(identifier_tuple(identifier), "view", position))

    def register_view(self, identifier: IdentifierLike, metadata_location: str) -> None:
        """As `Catalog.register_view`. Raises MissingFileError, CorruptFileError, UnsupportedFormatVersionError.

        TableAlreadyExistsError and NoSuchNamespaceError come at commit.
        """
        self._check_open()
        name = identifier_tuple(identifier)
        payload, view_uuid = view_registration_payload(name, metadata_location, self._desk.repository.storage)
        stream = self._unused_stream(ev.view_stream(view_uuid))
        self._parts[stream] = RegisteredView(name, stream, payload)

    def _unused_stream(self, stream: str) -> str:
        """As `ReadModels.unused_stream`, also not one of this transaction."""
        self._check_open()
        free = self._desk.repository.models.unused_stream(stream)
        return f"{stream}#{uuid.uuid4()}" if free in self._parts else free

    def _add_name(self, part: Part) -> None:
        self._check_open()
        self._parts[f"name {len(self._parts)}"] = part
