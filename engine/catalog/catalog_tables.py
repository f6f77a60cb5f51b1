"""The tables of a catalog: the part of `Catalog` that makes, finds, renames, drops and registers them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import pyarrow as pa

from icecore.engine.common.identifiers import Identifier, IdentifierLike, folder_name, identifier_tuple, namespace_tuple
from icecore.engine.common.location import to_uri
from icecore.engine.errors import IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.events.provenance import provenance
from icecore.engine.foreign.register import registration_payload
from icecore.engine.joint_commit.with_dry_run import with_dry_run
from icecore.engine.log.read_models import ReadModels, dotted
from icecore.engine.metadata.fold import TableState
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.storage.file_io import Storage
from icecore.engine.table.table import Table
from icecore.projections.plan.planner import Planner

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun
    from icecore.engine.deletion.purge_table import Purged
    from icecore.engine.table.commit_options import Commit, CreateTable, RegisterTable, ReplaceTable


class CatalogTables:
    """What `Catalog` says about tables. Tables and views share their names.

    With `dry_run` nothing is stored, and the result says what the commit would be.
    """

    path: Path
    actor: str | None
    _models: ReadModels
    _repository: Repository
    _planner: Planner

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

    @with_dry_run
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
        """Makes an empty table. Field ids are assigned anew; spec and order may be terms, as in `bucket(8, id)`.

        Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError.
        """

        from icecore.engine.evolution.create_table import creation_payload, creation_updates

        name = identifier_tuple(identifier)
        self._repository.foreign.adopt_all_if_changed()
        self._models.check_new_name(name)
        table_uuid = str(uuid.uuid4())
        updates = creation_updates(
            table_uuid,
            self.new_location(name, table_uuid, location),
            schema,
            partition_spec,
            sort_order,
            properties or {},
            format_version,
        )
        state = self._repository.create(
            ev.table_stream(table_uuid),
            ev.TABLE_CREATED,
            creation_payload(name, updates),
            name,
            provenance(self.actor, message=message, author=author),
        )
        return self._table(state)

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

    @with_dry_run
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
        """Makes a table empty under a new schema, spec and order; its uuid, snapshots and properties stay.

        Columns that keep their name and type keep their id. Raises NoSuchTableError, ValidationError.
        """

        from icecore.engine.evolution.replace_table import replaced_table

        table = self.load_table(identifier)
        where = None if location is None else to_uri(location).rstrip("/")
        change = replaced_table(
            schema, partition_spec, sort_order, where, string_properties(properties), format_version
        )
        with table.transaction(message=message, author=author) as transaction:
            transaction.add(change)
        return table

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

    @with_dry_run
    def create_or_replace_table(
        self, identifier: IdentifierLike, schema: Schema | pa.Schema, *, dry_run: bool = False, **options: Any
    ) -> Table | CatalogDryRun:
        """Replaces the table where there is one, else makes it; with the options of both.

        Raises NoSuchNamespaceError, ValidationError, TableAlreadyExistsError where a view has the name.
        """
        exists = self.table_exists(identifier)
        table: Table = (self.replace_table if exists else self.create_table)(identifier, schema, **options)
        return table

    def new_location(self, identifier: Identifier, table_uuid: str, location: str | None) -> str:
        """Where a new table or view goes that is given no location: a folder of its own."""
        if location is not None:
            return to_uri(location).rstrip("/")
        folder = self.path.joinpath(*map(folder_name, identifier))
        uri = to_uri(folder)
        if folder.exists() or self._models.location_in_use(uri):
            uri += f"-{table_uuid[:8]}"
        return uri

    def load_table(self, identifier: IdentifierLike) -> Table:
        """Raises NoSuchTableError."""
        name = identifier_tuple(identifier)
        return self._table(self._repository.state(self._repository.foreign.stream_of(name, self._models.table_stream)))

    def _table(self, state: TableState) -> Table:
        return Table(self._repository, self._planner, state, self.actor)

    def table_exists(self, identifier: IdentifierLike) -> bool:
        self._repository.foreign.adopt_all_if_changed()
        found = self._models.find(identifier_tuple(identifier))
        return found is not None and found[0] == "table"

    def list_tables(self, namespace: IdentifierLike) -> list[Identifier]:
        """Raises NoSuchNamespaceError."""
        levels = namespace_tuple(namespace)
        self._repository.foreign.adopt_all_if_changed()
        self._models.namespace_properties(levels)
        return [(*levels, name) for name, _ in self._models.names_in(levels, "table")]

    def tables(self) -> Iterator[Table]:
        """All tables, by name."""
        for _, stream in self._table_streams():
            yield self._table_of(stream)

    def _table_streams(self) -> list[tuple[Identifier, str]]:
        """The names of all tables, in order, with their streams."""
        self._repository.foreign.adopt_all_if_changed()
        return [(name, stream) for name, kind, stream in self._models.all_names() if kind == "table"]

    def _table_of(self, stream: str) -> Table:
        return self._table(self._repository.state(stream))

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

    @with_dry_run
    def rename_table(
        self,
        from_identifier: IdentifierLike,
        to_identifier: IdentifierLike,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Table | CatalogDryRun:
        """Raises NoSuchTableError, TableAlreadyExistsError, NoSuchNamespaceError."""
        old, new = identifier_tuple(from_identifier), identifier_tuple(to_identifier)
        self._repository.foreign.adopt_all_if_changed()
        stream = self._models.table_stream(old)

        def check() -> None:
            _same(self._models.table_stream(old), stream, old)
            self._models.check_new_name(new)

        self._repository.append_simple(
            stream,
            ev.TABLE_RENAMED,
            {"from": list(old), "to": list(new)},
            provenance(self.actor, message=message, author=author),
            check,
        )
        state = self._repository.state(stream)
        self._repository.files.follow(state)
        return self._table(state)

    @with_dry_run
    def drop_table(
        self,
        identifier: IdentifierLike,
        *,
        purge: bool = False,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> CatalogDryRun | Purged | None:
        """Takes the name away; the log keeps the table, and its files stay, unless it is purged too.

        With `purge` its files go for good, as with `purge_table`, and what went is returned. Raises NoSuchTableError.
        """
        name = identifier_tuple(identifier)
        if purge:
            from icecore.engine.deletion.purge_table import drop_and_purge

            who = provenance(self.actor, message=message, author=author)
            return drop_and_purge(self._repository, self._planner, name, who)
        self._repository.foreign.adopt_name(name)
        stream = self._models.table_stream(name)
        self._repository.append_simple(
            stream,
            ev.TABLE_DROPPED,
            {"identifier": list(name)},
            provenance(self.actor, message=message, author=author),
            lambda: _same(self._models.table_stream(name), stream, name),
        )
        self._repository.files.follow(self._repository.state(stream))
        return None

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

    @with_dry_run
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
        """Adopts a table by its metadata file, written by any engine; nothing of it is copied or changed.

        `location_mapping` maps location prefixes in its metadata to where the files lie now. Raises
        TableAlreadyExistsError, MissingFileError, CorruptFileError, UnsupportedFormatVersionError.
        """
        name = identifier_tuple(identifier)
        self._repository.foreign.adopt_all_if_changed()
        self._models.check_new_name(name)
        payload, table_uuid = registration_payload(name, metadata_location, location_mapping, Storage())
        stream = self._models.unused_stream(ev.table_stream(table_uuid))
        state = self._repository.create(
            stream, ev.TABLE_REGISTERED, payload, name, provenance(self.actor, message=message, author=author)
        )
        return self._table(state)


def _same(found: str, expected: str, name: Identifier) -> None:
    if found != expected:
        raise IcecoreError(f"{dotted(name)} was replaced by another table meanwhile")
