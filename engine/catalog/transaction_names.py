"""The part of a catalog's transaction that changes namespaces and gives names."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from icecore.engine.catalog.view_parts import registered_view
from icecore.engine.commit.single_use import UsedOnce
from icecore.engine.common.identifiers import IdentifierLike, identifier_tuple
from icecore.engine.joint_commit.joint_commit import CommitTargets, Part
from icecore.engine.joint_commit.joint_names import (
    NameGivenBack,
    dropped_namespace,
    namespace_properties,
    new_namespace,
)


class TransactionNames(UsedOnce):
    """The changes of namespaces and names, in the order of the calls.

    So a namespace is created before its tables and views, and dropped after they were dropped or renamed away.
    """

    _parts: dict[str, Part]
    _desk: CommitTargets

    # Namespaces

    def create_namespace(self, namespace: IdentifierLike, properties: Mapping[str, str] | None = None) -> None:
        """Creates a namespace. Raises ValidationError; NamespaceAlreadyExistsError comes at commit."""
        self._add_name(new_namespace(namespace, properties))

    def update_namespace_properties(
        self, namespace: IdentifierLike, removals: Sequence[str] = (), updates: Mapping[str, str] | None = None
    ) -> None:
        """Sets and removes properties of a namespace.

        Raises UnprocessableEntityError where a key is both removed and updated; NoSuchNamespaceError comes at commit.
        """
        self._add_name(namespace_properties(namespace, removals, updates))

    def drop_namespace(self, namespace: IdentifierLike) -> None:
        """Drops a namespace. At commit: NoSuchNamespaceError, NamespaceNotEmptyError where something in it stays."""
        self._add_name(dropped_namespace(namespace))

    # Names that come, or come back

    def undrop_table(self, identifier: IdentifierLike, *, position: int | None = None) -> None:
        """Gives a table its name back, as `Catalog.undrop_table`.

        At commit: NoSuchTableError, TableAlreadyExistsError, NoSuchNamespaceError.
        """
        self._add_name(NameGivenBack(identifier_tuple(identifier), "table", position))

    def undrop_view(self, identifier: IdentifierLike, *, position: int | None = None) -> None:
        """Gives a view its name back, as `Catalog.undrop_view`.

        At commit: NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError.
        """
        self._add_name(NameGivenBack(identifier_tuple(identifier), "view", position))

    def register_view(self, identifier: IdentifierLike, metadata_location: str) -> None:
        """Registers a view, as `Catalog.register_view`.

        Raises MissingFileError, CorruptFileError, UnsupportedFormatVersionError; TableAlreadyExistsError and
        NoSuchNamespaceError come at commit.
        """
        self._check_open()
        new = registered_view(self._desk.repository, identifier_tuple(identifier), metadata_location)
        new.stream = self._unused(new.stream)
        self._parts[new.stream] = new

    def _unused(self, stream: str) -> str:
        """The stream, or one like it where this transaction already has a part for it."""
        return f"{stream}#{uuid.uuid4()}" if stream in self._parts else stream

    def _add_name(self, part: Part) -> None:
        self._check_open()
        self._parts[f"name {len(self._parts)}"] = part
