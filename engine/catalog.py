"""The catalog: a warehouse folder with its log, namespaces, tables and views."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from attrs import evolve

from icecore.engine import events as ev
from icecore.engine.catalog_transaction import CatalogTransaction
from icecore.engine.create import creation_updates
from icecore.engine.errors import IcecoreError, ReadOnlyError, StorageError, ValidationError
from icecore.engine.identifiers import Identifier, IdentifierLike, folder_name, identifier_tuple, namespace_tuple
from icecore.engine.log.read_models import ReadModels, dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.log_tools import CatalogLogTools
from icecore.engine.provenance import provenance
from icecore.engine.register import registration_payload
from icecore.engine.replace import replaced_table
from icecore.engine.repository import Repository
from icecore.engine.requirements import ASSERT_CREATE
from icecore.engine.scratch import sweep
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.state import TableState
from icecore.engine.storage import Storage, to_uri
from icecore.engine.table import Table
from icecore.engine.view_catalog import CatalogViews
from icecore.engine.view_repository import ViewRepository
from icecore.engine.warehouse_mapping import storage_of
from icecore.projections.manifest_entries import ManifestEntries
from icecore.projections.materialize import Materializer
from icecore.projections.planner import Planner

if TYPE_CHECKING:
    from icecore.engine.history import CatalogAt
    from icecore.projections.verify import Verification

LOG_FILE = "icecore.db"
CACHE_FOLDER = ".icecore"
SCRATCH_FOLDER = "unfinished"
DEFAULT_CATALOG_NAME = "icecore"


def open_catalog(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    actor: str | None = None,
    name: str = DEFAULT_CATALOG_NAME,
) -> Catalog:
    """Opens a warehouse folder, making it where there is none.

    `actor` is who commits where a call names no author. `name` is what a new warehouse is called in `iceberg_tables`,
    which PyIceberg's `sql` catalog must be opened under. The environment variable ICECORE_CACHE_MEMORY is how much of
    the entries of manifests plans may hold in memory, `1GB` unless set. Raises StorageError, ReadOnlyError,
    CorruptLogError, WarehouseLockedError.
    """
    return Catalog(path, create=create, read_only=read_only, actor=actor, name=name)


class Catalog(CatalogViews, CatalogLogTools):
    """A warehouse. Every change is one event of its log; everything else follows from the log."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        actor: str | None = None,
        name: str = DEFAULT_CATALOG_NAME,
    ) -> None:
        self.path = Path(path).absolute()
        self.read_only = read_only
        self.actor = actor
        if create and not read_only:
            _make_folder(self.path)
        self._store = EventStore(self.path / LOG_FILE, create=create, read_only=read_only)
        if not read_only and self._store.warehouse_value("catalog-name") is None:
            with self._store.write():
                self._store.execute(MODELS, "set_warehouse", key="catalog-name", value=name)
                self._store.execute(MODELS, "set_warehouse", key="warehouse-uuid", value=str(uuid.uuid4()))
        self._models = ReadModels(self._store)
        entries = ManifestEntries(self._store, self._models)
        scratch = os.fspath(self.path / CACHE_FOLDER / SCRATCH_FOLDER)
        materializer = Materializer(self._store, self._models, entries, Storage(scratch=scratch))
        storage = evolve(storage_of(self._store), scratch=scratch)
        self._repository = Repository(self._store, self._models, entries, materializer, storage)
        self._views = ViewRepository(self._repository)
        cache = None if read_only and not os.access(self.path, os.W_OK) else self.path / CACHE_FOLDER / "segments"
        self._planner = Planner(self._repository, cache)
        self._repository.foreign.sync()
        if not read_only:
            sweep(scratch)
            self._repository.files.heal()
            self._views.heal()

    @property
    def name(self) -> str:
        """The catalog's name in `iceberg_tables`."""
        return self._models.catalog_name

    def close(self) -> None:
        """Closes the log and drops what is cached."""
        self._planner.close()
        self._store.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Catalog({str(self.path)!r})"

    # Namespaces

    def create_namespace(
        self, namespace: IdentifierLike, properties: Mapping[str, str] | None = None, *, message: str | None = None
    ) -> None:
        """Raises NamespaceAlreadyExistsError."""
        levels = namespace_tuple(namespace)
        self._catalog_event(
            ev.NAMESPACE_CREATED,
            {"namespace": list(levels), "properties": _checked_properties(properties)},
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
        levels, new = namespace_tuple(namespace), _checked_properties(updates)
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

    def _catalog_event(self, kind: str, payload: dict[str, Any], check: Any, message: str | None) -> None:
        self._repository.append_simple(ev.CATALOG_STREAM, kind, payload, provenance(self.actor, message=message), check)

    # Tables

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
    ) -> Table:
        """Makes an empty table. Field ids are assigned anew; spec and order may be terms, as in `bucket(8, id)`.

        Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError.
        """
        name = identifier_tuple(identifier)
        self._repository.foreign.sync_if_changed()
        self._models.check_new_name(name)
        table_uuid = str(uuid.uuid4())
        updates = creation_updates(
            table_uuid,
            self.new_location(name, table_uuid, location),
            schema,
            partition_spec,
            sort_order,
            _checked_properties(properties),
            format_version,
        )
        payload = {"identifier": list(name), "updates": updates, "requirements": [ASSERT_CREATE]}
        state = self._repository.create(
            ev.table_stream(table_uuid),
            ev.TABLE_CREATED,
            payload,
            name,
            provenance(self.actor, message=message, author=author),
        )
        return self._table(state)

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
    ) -> Table:
        """Makes a table empty under a new schema, spec and order; its uuid, snapshots and properties stay.

        Columns that keep their name and type keep their id. Raises NoSuchTableError, ValidationError.
        """
        table = self.load_table(identifier)
        where = None if location is None else to_uri(location).rstrip("/")
        change = replaced_table(
            schema, partition_spec, sort_order, where, _checked_properties(properties), format_version
        )
        with table.transaction(message=message, author=author) as transaction:
            transaction.add(change)
        return table

    def create_or_replace_table(self, identifier: IdentifierLike, schema: Schema | pa.Schema, **options: Any) -> Table:
        """Replaces the table where there is one, else makes it; with the options of both.

        Raises NoSuchNamespaceError, ValidationError, TableAlreadyExistsError where a view has the name.
        """
        exists = self.table_exists(identifier)
        return (self.replace_table if exists else self.create_table)(identifier, schema, **options)

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
        self._repository.foreign.sync_if_changed()
        found = self._models.find(identifier_tuple(identifier))
        return found is not None and found[0] == "table"

    def list_tables(self, namespace: IdentifierLike) -> list[Identifier]:
        """Raises NoSuchNamespaceError."""
        levels = namespace_tuple(namespace)
        self._repository.foreign.sync_if_changed()
        self._models.namespace_properties(levels)
        return [(*levels, name) for name, _ in self._models.names_in(levels, "table")]

    def tables(self) -> Iterator[Table]:
        """All tables, by name."""
        self._repository.foreign.sync_if_changed()
        for _, kind, stream in self._models.all_names():
            if kind == "table":
                yield self._table(self._repository.state(stream))

    def rename_table(
        self, from_identifier: IdentifierLike, to_identifier: IdentifierLike, *, message: str | None = None
    ) -> Table:
        """Raises NoSuchTableError, TableAlreadyExistsError, NoSuchNamespaceError."""
        old, new = identifier_tuple(from_identifier), identifier_tuple(to_identifier)
        self._repository.foreign.sync_if_changed()
        stream = self._models.table_stream(old)

        def check() -> None:
            _same(self._models.table_stream(old), stream, old)
            self._models.check_new_name(new)

        self._repository.append_simple(
            stream,
            ev.TABLE_RENAMED,
            {"from": list(old), "to": list(new)},
            provenance(self.actor, message=message),
            check,
        )
        state = self._repository.state(stream)
        self._repository.files.follow(state)
        return self._table(state)

    def drop_table(self, identifier: IdentifierLike, *, message: str | None = None) -> None:
        """Takes the name away; the log keeps the table, and its files stay. Raises NoSuchTableError."""
        name = identifier_tuple(identifier)
        self._repository.foreign.look_for(name)
        stream = self._models.table_stream(name)
        self._repository.append_simple(
            stream,
            ev.TABLE_DROPPED,
            {"identifier": list(name)},
            provenance(self.actor, message=message),
            lambda: _same(self._models.table_stream(name), stream, name),
        )
        self._repository.files.follow(self._repository.state(stream))

    def register_table(
        self,
        identifier: IdentifierLike,
        metadata_location: str,
        *,
        location_mapping: Mapping[str, str] | None = None,
        message: str | None = None,
        author: str | None = None,
    ) -> Table:
        """Adopts a table by its metadata file, written by any engine; nothing of it is copied or changed.

        `location_mapping` maps location prefixes in its metadata to where the files lie now. Raises
        TableAlreadyExistsError, MissingFileError, CorruptFileError, UnsupportedFormatVersionError.
        """
        name = identifier_tuple(identifier)
        self._repository.foreign.sync_if_changed()
        self._models.check_new_name(name)
        payload, table_uuid = registration_payload(name, metadata_location, location_mapping, Storage())
        stream = ev.table_stream(table_uuid)
        if self._store.row(MODELS, "get_head", stream=stream) is not None:
            # The same table was here before, or still is under another name: a stream of its own tells them apart.
            stream = ev.table_stream(f"{table_uuid}#{uuid.uuid4()}")
        state = self._repository.create(
            stream, ev.TABLE_REGISTERED, payload, name, provenance(self.actor, message=message, author=author)
        )
        return self._table(state)

    def transaction(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> CatalogTransaction:
        """Changes of tables, views and names as one commit: all or nothing, made when the `with` block ends well.

        A dry run stores nothing, and says in `outcome` what the commit would be.
        """
        self._repository.check_writable()
        who = provenance(self.actor, message=message, author=author, idempotency_key=idempotency_key)
        return CatalogTransaction(self._repository, self._views, self._planner, who, self, dry_run)

    def materialize(self, identifier: IdentifierLike | None = None, *, message: str | None = None) -> None:
        """Writes out the files of one table, or of all, whose commits are materialized by hand."""
        if identifier is not None:
            name = identifier_tuple(identifier)
            streams = [self._repository.foreign.stream_of(name, self._models.table_stream)]
        else:
            self._repository.foreign.sync_if_changed()
            streams = [s for _, kind, s in self._models.all_names() if kind == "table"]
        for stream in streams:
            self._repository.materialize_pending(stream, provenance(self.actor, message=message))

    # The log as a tool

    def log(
        self,
        identifier: IdentifierLike | None = None,
        *,
        actor: str | None = None,
        kind: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        after: int | None = None,
        up_to: int | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The events as a table, oldest first: who did what, when and why. `limit` keeps the newest.

        `identifier` is that of a table or a view. Raises NoSuchTableError.
        """
        from icecore.projections.history import log_table

        self._repository.foreign.sync_if_changed()
        stream = None if identifier is None else self._models.stream(identifier_tuple(identifier))
        events = self._store.filtered_events(
            stream=stream, actor=actor, kind=kind, since_ms=since_ms, until_ms=until_ms, after=after, up_to=up_to
        )
        return log_table(self._store, events, limit)

    def sql(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Runs DuckDB SQL over the log and the metadata of all tables; `icecore sql --tables` lists them."""
        from icecore.projections.audit import run_sql

        return run_sql(self, query, parameters)

    def verify(self) -> Verification:
        """Checks log, read models, checkpoints and files on disk; `problems` is empty where all is well."""
        from icecore.projections.verify import verify

        return verify(self._store, self._repository)

    def rebuild(self) -> None:
        """Drops everything that follows from the log and makes it again: read models, and all metadata files."""
        if self.read_only:
            raise ReadOnlyError(f"the warehouse {self.path} was opened read-only")
        from icecore.projections.rebuild import rebuild

        self._planner.clear()
        rebuild(self._store, self._repository, self._views)

    def at(self, position: int | None = None, *, timestamp_ms: int | None = None) -> CatalogAt:
        """The catalog as of a position of the log, or a time in milliseconds since the epoch; for reading."""
        from icecore.engine.history import CatalogAt

        if (position is None) == (timestamp_ms is None):
            raise ValidationError("at() takes a position or a timestamp_ms")
        head = self._store.head()[0]
        at = self._store.position_at(timestamp_ms) if timestamp_ms is not None else position
        if at is None or not 0 <= at <= head:
            raise ValidationError(f"there is no position {at}: the log ends at {head}")
        return CatalogAt(self._store, self._repository, self._views, self._planner, at)

    @property
    def position(self) -> int:
        """The position of the last event of the log."""
        return self._store.head()[0]


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except PermissionError as e:
        raise ReadOnlyError(f"can't make the warehouse folder {path}: {e.strerror}") from e
    except OSError as e:
        raise StorageError(f"can't make the warehouse folder {path}: {e.strerror}") from e


def _checked_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    for key, value in (properties or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValidationError(f"properties map strings to strings, found {key!r}: {value!r}")
    return dict(properties or {})


def _same(found: str, expected: str, name: Identifier) -> None:
    if found != expected:
        raise IcecoreError(f"{dotted(name)} was replaced by another table meanwhile")


__all__ = ["Catalog", "open_catalog"]
