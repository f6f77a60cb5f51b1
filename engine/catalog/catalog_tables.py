"""The tables of a catalog: the part of `Catalog` that creates, loads, renames, drops and registers them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import pyarrow as pa

from icecore.engine.catalog.catalog_namespaces import CatalogNamespaces
from icecore.engine.common.identifiers import Identifier, IdentifierLike, folder_name, identifier_tuple, namespace_tuple
from icecore.engine.common.location import to_uri
from icecore.engine.events.provenance import provenance
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.table.table import Table

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.deletion.purge_table import Purged
    from icecore.engine.table.commit_options import Commit, CreateTable, RegisterTable, ReplaceTable


class CatalogTables(CatalogNamespaces):
    """The tables of a catalog. Tables and views share their names.

    With `dry_run` nothing is stored, and the result says what the commit would be.
    """

    @overload
    def create_table(
        self,
        identifier: IdentifierLike,
        schema: Schema | pa.Schema,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[CreateTable],
    ) -> Table: ...

    @overload
    def create_table(
        self, identifier: IdentifierLike, schema: Schema | pa.Schema, *, dry_run: bool, **options: Unpack[CreateTable]
    ) -> Table | CatalogDryRun: ...

    def create_table(
        self,
        identifier: IdentifierLike,
        schema: Schema | pa.Schema,
        *,
        partition_spec: PartitionSpec | Sequence[str] | None = None,
        sort_order: SortOrder | Sequence[str] | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int = DEFAULT_FORMAT_VERSION,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """Creates an empty table. Field ids are assigned anew; spec and order may be terms, as in `bucket(8, id)`.

        Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError.
        """
        from icecore.engine.catalog.table_parts import new_table

        self._warehouse.repository.foreign.adopt_all_if_changed()
        name = identifier_tuple(identifier)
        self._warehouse.models.check_new_name(name)
        part = new_table(
            self,
            name,
            schema,
            partition_spec=partition_spec,
            sort_order=sort_order,
            location=location,
            properties=properties,
            format_version=format_version,
        )
        return self._commit(part, message, author, dry_run) or self._table_of(part.stream)

    @overload
    def replace_table(
        self,
        identifier: IdentifierLike,
        schema: Schema | pa.Schema,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[ReplaceTable],
    ) -> Table: ...

    @overload
    def replace_table(
        self, identifier: IdentifierLike, schema: Schema | pa.Schema, *, dry_run: bool, **options: Unpack[ReplaceTable]
    ) -> Table | CatalogDryRun: ...

    def replace_table(
        self,
        identifier: IdentifierLike,
        schema: Schema | pa.Schema,
        *,
        partition_spec: PartitionSpec | Sequence[str] | None = None,
        sort_order: SortOrder | Sequence[str] | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """Replaces a table by an empty one with a new schema, spec and order; uuid, snapshots and properties stay.

        Columns that keep their name and type keep their id. Raises NoSuchTableError, ValidationError.
        """
        from icecore.engine.catalog.table_parts import replacement
        from icecore.engine.joint_commit.joint_tables import TableChange

        table = self.load_table(identifier)
        command = replacement(
            schema,
            partition_spec=partition_spec,
            sort_order=sort_order,
            location=location,
            properties=properties,
            format_version=format_version,
        )
        part = TableChange.of(table.name(), table.state.stream, [command])
        return self._commit(part, message, author, dry_run) or self._table_of(part.stream)

    @overload
    def create_or_replace_table(
        self,
        identifier: IdentifierLike,
        schema: Schema | pa.Schema,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[CreateTable],
    ) -> Table: ...

    @overload
    def create_or_replace_table(
        self, identifier: IdentifierLike, schema: Schema | pa.Schema, *, dry_run: bool, **options: Unpack[CreateTable]
    ) -> Table | CatalogDryRun: ...

    def create_or_replace_table(
        self, identifier: IdentifierLike, schema: Schema | pa.Schema, *, dry_run: bool = False, **options: Any
    ) -> Table | CatalogDryRun:
        """Replaces the table where there is one, else creates it; with the options of both.

        Raises NoSuchNamespaceError, ValidationError, TableAlreadyExistsError where a view has the name.
        """
        if self.table_exists(identifier):
            return self.replace_table(identifier, schema, dry_run=dry_run, **options)
        return self.create_table(identifier, schema, dry_run=dry_run, **options)

    def new_location(self, identifier: Identifier, table_uuid: str, location: str | None) -> str:
        """The location of a new table or view: the one given, else a folder of its own."""
        if location is not None:
            return to_uri(location).rstrip("/")
        folder = self._warehouse.path.joinpath(*map(folder_name, identifier))
        uri = to_uri(folder)
        if folder.exists() or self._warehouse.models.location_in_use(uri):
            uri += f"-{table_uuid[:8]}"
        return uri

    def load_table(self, identifier: IdentifierLike) -> Table:
        """The table of that name. Raises NoSuchTableError."""
        name = identifier_tuple(identifier)
        return self._table_of(self._warehouse.repository.foreign.stream_of(name, self._warehouse.models.table_stream))

    def table_exists(self, identifier: IdentifierLike) -> bool:
        """Whether a table, not a view, has that name."""
        self._warehouse.repository.foreign.adopt_all_if_changed()
        found = self._warehouse.models.find(identifier_tuple(identifier))
        return found is not None and found[0] == "table"

    def list_tables(self, namespace: IdentifierLike) -> list[Identifier]:
        """The names of the tables in a namespace. Raises NoSuchNamespaceError."""
        levels = namespace_tuple(namespace)
        self._warehouse.repository.foreign.adopt_all_if_changed()
        self._warehouse.models.namespace_properties(levels)
        return [(*levels, name) for name, _ in self._warehouse.models.names_in(levels, "table")]

    def tables(self) -> Iterator[Table]:
        """All tables, by name."""
        for _, stream in self._table_streams():
            yield self._table_of(stream)

    def _table_streams(self) -> list[tuple[Identifier, str]]:
        """The names of all tables, in order, with their streams."""
        self._warehouse.repository.foreign.adopt_all_if_changed()
        return [(name, stream) for name, kind, stream in self._warehouse.models.all_names() if kind == "table"]

    def _table_of(self, stream: str) -> Table:
        repository = self._warehouse.repository
        return Table(repository, self._warehouse.planning, repository.state(stream), self.actor)

    @overload
    def rename_table(
        self,
        from_identifier: IdentifierLike,
        to_identifier: IdentifierLike,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[Commit],
    ) -> Table: ...

    @overload
    def rename_table(
        self,
        from_identifier: IdentifierLike,
        to_identifier: IdentifierLike,
        *,
        dry_run: bool,
        **options: Unpack[Commit],
    ) -> Table | CatalogDryRun: ...

    def rename_table(
        self,
        from_identifier: IdentifierLike,
        to_identifier: IdentifierLike,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """Renames a table. Raises NoSuchTableError, TableAlreadyExistsError, NoSuchNamespaceError."""
        from icecore.engine.joint_commit.joint_names import renamed

        part = renamed(identifier_tuple(from_identifier), identifier_tuple(to_identifier), is_view=False)
        return self._commit(part, message, author, dry_run) or self._table_of(part.stream)

    def drop_table(
        self,
        identifier: IdentifierLike,
        *,
        purge: bool = False,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> CatalogDryRun | Purged | None:
        """Drops a table's name; the log keeps the table, and its files stay, unless it is purged too.

        With `purge` its files go for good, as with `purge_table`, and what went is returned. Raises NoSuchTableError.
        """
        name = identifier_tuple(identifier)
        if purge:
            from icecore.engine.joint_commit.joint_purge import drop_and_purge

            who = provenance(self.actor, message=message, author=author)
            return drop_and_purge(self._warehouse.targets, self._warehouse.planning.planner, name, who, dry_run=dry_run)
        from icecore.engine.joint_commit.joint_names import dropped

        return self._commit(dropped(name, is_view=False), message, author, dry_run)

    @overload
    def register_table(
        self,
        identifier: IdentifierLike,
        metadata_location: str,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[RegisterTable],
    ) -> Table: ...

    @overload
    def register_table(
        self, identifier: IdentifierLike, metadata_location: str, *, dry_run: bool, **options: Unpack[RegisterTable]
    ) -> Table | CatalogDryRun: ...

    def register_table(
        self,
        identifier: IdentifierLike,
        metadata_location: str,
        *,
        location_mapping: Mapping[str, str] | None = None,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """Registers a table by its metadata file, written by any engine; nothing of it is copied or changed.

        `location_mapping` maps location prefixes in its metadata to where the files lie now. Raises
        TableAlreadyExistsError, MissingFileError, CorruptFileError, UnsupportedFormatVersionError.
        """
        from icecore.engine.catalog.table_parts import registered_table

        self._warehouse.repository.foreign.adopt_all_if_changed()
        name = identifier_tuple(identifier)
        self._warehouse.models.check_new_name(name)
        part = registered_table(self._warehouse.repository, name, metadata_location, location_mapping)
        return self._commit(part, message, author, dry_run) or self._table_of(part.stream)
