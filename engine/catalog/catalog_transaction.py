"""Changes to several tables and views, names and namespaces as one commit: all or nothing, one transaction id."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Unpack

from attrs import evolve

from icecore.engine.catalog.pending_names import NameLookup, PendingNames
from icecore.engine.catalog.table_parts import new_table, registered_table, replacement
from icecore.engine.catalog.transaction_names import TransactionNames
from icecore.engine.catalog.view_parts import new_view
from icecore.engine.catalog.warehouse import Warehouse
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.commit.single_use import OnceInBlock
from icecore.engine.common.identifiers import Identifier, IdentifierLike, identifier_tuple
from icecore.engine.common.ids import now_ms
from icecore.engine.data.given_schema import PartitionSpecLike, SchemaLike, SortOrderLike
from icecore.engine.errors import REFUSED, CommitConflictError, IcecoreError, NotFoundError, name_text
from icecore.engine.events.event import Provenance
from icecore.engine.joint_commit.joint_commit import Part, commit_jointly, dry_run_jointly
from icecore.engine.joint_commit.joint_names import dropped, renamed
from icecore.engine.joint_commit.joint_tables import NewTable, TableChange, provisional_state
from icecore.engine.joint_commit.joint_views import ViewChange
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import CommitResult, TablePart
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION
from icecore.engine.spec.view import DUCKDB
from icecore.engine.table.commit_options import NewTableOptions
from icecore.engine.table.table import Table
from icecore.engine.table.transaction import Transaction
from icecore.engine.view.view import View
from icecore.engine.view.view_changes import ViewChanges


class CatalogTransaction(TransactionNames, OnceInBlock):
    """The changes of one commit so far; `commit()`, or the end of a `with` block, makes them in one SQLite transaction.

    They are made in the order of the calls; all changes of one table or view are made at the place of its first. The
    events share a `transaction_id`. Where one change loses a race all are prepared again, and where one is refused none
    is made. A dry run makes none, and sets `outcome`.
    """

    def __init__(
        self, warehouse: Warehouse, provenance: Provenance, catalog: NameLookup, dry_run: bool = False
    ) -> None:
        self._desk = warehouse.targets
        self._planning = warehouse.planning
        self._provenance = provenance
        self._catalog = catalog
        self._is_dry = dry_run
        self._parts: dict[str, Part] = {}
        self._tables: dict[str, _Part] = {}
        self._new_streams: list[str] = []
        self._names = PendingNames(catalog)
        self._outcome: CatalogDryRun | None = None

    def __repr__(self) -> str:
        return self._shown(None, [name_text(part.name) for part in self._parts.values()])

    @property
    def outcome(self) -> CatalogDryRun | None:
        """The outcome of a dry run, once it ended; None unless this is one."""
        return self._outcome

    # Tables

    def table(self, identifier: IdentifierLike) -> Transaction:
        """The changes of one table, also of one created here; the same object for each name of it.

        They are committed with all others: its own `commit()` and `with` block do not commit them. Raises
        NoSuchTableError.
        """
        self._check_open()
        name = identifier_tuple(identifier)
        stream = self._names.table_stream(name)
        if stream not in self._tables:
            part = self._gathering(self._desk.repository.state(stream))
            self._parts[stream] = TableChange(name, stream, part.changes, part.end)
        return self._tables[stream]

    def create_table(
        self,
        identifier: IdentifierLike,
        schema: SchemaLike,
        *,
        partition_spec: PartitionSpecLike | None = None,
        sort_order: SortOrderLike | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int = DEFAULT_FORMAT_VERSION,
    ) -> Transaction:
        """Creates a table, as `Catalog.create_table`; changes of the returned object are part of the same commit.

        Raises ValidationError; TableAlreadyExistsError and NoSuchNamespaceError come at commit.
        """
        return self._new_table(
            new_table(
                self._catalog,
                identifier_tuple(identifier),
                schema,
                partition_spec=partition_spec,
                sort_order=sort_order,
                location=location,
                properties=properties,
                format_version=format_version,
            )
        )

    def create_alone(
        self, identifier: IdentifierLike, schema: SchemaLike, **options: Unpack[NewTableOptions]
    ) -> Transaction:
        """Creates a table as `create_table`; the returned object's `commit()` commits the whole transaction."""
        part = self.create_table(identifier, schema, **options)
        assert isinstance(part, _Part), "all tables of a transaction are parts of it"
        part.whole = self
        return part

    def replace_table(
        self,
        identifier: IdentifierLike,
        schema: SchemaLike,
        *,
        partition_spec: PartitionSpecLike | None = None,
        sort_order: SortOrderLike | None = None,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
    ) -> Transaction:
        """Replaces a table, as `Catalog.replace_table`; changes of the returned object are part of the same commit.

        Raises NoSuchTableError, ValidationError.
        """
        part = self.table(identifier)
        part.add(
            replacement(
                schema,
                partition_spec=partition_spec,
                sort_order=sort_order,
                location=location,
                properties=properties,
                format_version=format_version,
            )
        )
        return part

    def register_table(
        self,
        identifier: IdentifierLike,
        metadata_location: str,
        *,
        location_mapping: Mapping[str, str] | None = None,
    ) -> Transaction:
        """Registers a table, as `Catalog.register_table`; changes of the returned object are part of the same commit.

        Raises MissingFileError, CorruptFileError, UnsupportedFormatVersionError; TableAlreadyExistsError and
        NoSuchNamespaceError come at commit.
        """
        self._check_open()
        name = identifier_tuple(identifier)
        new = registered_table(self._desk.repository, name, metadata_location, location_mapping)
        new.stream = self._unused(new.stream)
        return self._new_table(new)

    def _new_table(self, new: NewTable) -> Transaction:
        self._check_open()
        new.provisional = provisional_state(new.stream, new.kind, new.payload, now_ms())
        self._desk.repository.states.put(new.provisional)
        part = self._gathering(new.provisional)
        new.part, new.ended = part.changes, part.end_new
        self._new_streams.append(new.stream)
        self._names.give(new.name, new.stream)
        self._parts[new.stream] = new
        return part

    def rename_table(self, from_identifier: IdentifierLike, to_identifier: IdentifierLike) -> None:
        """Renames a table. At commit: NoSuchTableError, TableAlreadyExistsError, NoSuchNamespaceError."""
        self._rename(identifier_tuple(from_identifier), identifier_tuple(to_identifier), is_view=False)

    def drop_table(self, identifier: IdentifierLike) -> None:
        """Drops a table's name. At commit: NoSuchTableError."""
        self._drop(identifier_tuple(identifier), is_view=False)

    def _gathering(self, state: TableState) -> _Part:
        part = _Part(
            self._desk.repository, self._planning, state, self._provenance, _same_stream(state), dry_run=self._is_dry
        )
        self._tables[state.stream] = part
        return part

    # Views

    def view(self, identifier: IdentifierLike) -> ViewChanges:
        """The changes of one view. Short names in its SQL may be of tables that this transaction creates, too.

        Raises NoSuchViewError.
        """
        self._check_open()
        name = identifier_tuple(identifier)
        stream = self._names.view_stream(name)
        part = self._parts.get(stream)
        if not isinstance(part, ViewChange):
            part = self._parts[stream] = ViewChange(name, stream)
        view = View(self._desk.views, _Lookup(self), self._desk.views.state(stream), None)
        return ViewChanges(view, part.changes, self._check_open)

    def create_view(
        self,
        identifier: IdentifierLike,
        sql: str | None = None,
        *,
        dialect: str = DUCKDB,
        representations: Mapping[str, str] | None = None,
        schema: SchemaLike | None = None,
        default_namespace: IdentifierLike | None = None,
        default_catalog: str | None = None,
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        summary: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> None:
        """Creates a view, as `Catalog.create_view`; its SQL may name tables that this transaction creates or changes.

        Raises ValidationError, NoSuchTableError; TableAlreadyExistsError and NoSuchNamespaceError come at commit.
        """
        self._check_open()
        new = new_view(
            self._catalog,
            _Lookup(self),
            identifier_tuple(identifier),
            sql,
            dialect=dialect,
            representations=representations,
            schema=schema,
            default_namespace=default_namespace,
            default_catalog=default_catalog,
            properties=properties,
            comment=comment,
            summary=summary,
            location=location,
        )
        self._parts[new.stream] = new

    def rename_view(self, from_identifier: IdentifierLike, to_identifier: IdentifierLike) -> None:
        """Renames a view. At commit: NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError."""
        self._rename(identifier_tuple(from_identifier), identifier_tuple(to_identifier), is_view=True)

    def drop_view(self, identifier: IdentifierLike) -> None:
        """Drops a view's name. At commit: NoSuchViewError."""
        self._drop(identifier_tuple(identifier), is_view=True)

    # Names

    def _rename(self, old: Identifier, new: Identifier, *, is_view: bool) -> None:
        self._check_open()
        self._names.move(old, new, is_view=is_view)
        self._add_name(renamed(old, new, is_view=is_view))

    def _drop(self, name: Identifier, *, is_view: bool) -> None:
        self._check_open()
        self._names.take(name)
        self._add_name(dropped(name, is_view=is_view))

    # The end

    def commit(self) -> None:
        """Commits all.

        Raises CommitConflictError, ValidationError, NoSuchTableError and the like; nothing is changed then.
        """
        self._use_up()
        parts = tuple(self._parts.values())
        logged: list[bool] = []
        try:
            if self._is_dry:
                self._outcome = dry_run_jointly(self._desk, parts, self._provenance)
            elif parts:
                commit_jointly(self._desk, parts, self._provenance, lambda: logged.append(True))
        except REFUSED:
            if not logged:
                self._forget_files()
            raise
        finally:
            self._forget()

    def _forget_files(self) -> None:
        for table in self._tables.values():
            with contextlib.suppress(IcecoreError):
                table.forget_files()

    def _forget(self) -> None:
        for table in self._tables.values():
            table.end_with_all()
            if self._is_dry:
                table.forget_files()
        for stream in self._new_streams:
            self._desk.repository.states.drop(stream)
        self._parts, self._tables, self._new_streams = {}, {}, []
        self._names.forget()

    def _abandon(self) -> None:
        super()._abandon()
        self._forget_files()
        self._forget()


class _Part(Transaction):
    """The transaction of one table, which the whole commits."""

    # The transaction that is committed with this part; None where the part waits for it.
    whole: CatalogTransaction | None = None

    def commit(self) -> None:
        """Commits `whole`, where it is set. Else does nothing: the changes are made with those of other tables."""
        if self.whole is not None:
            self.whole.commit()

    def end_with_all(self) -> None:
        """Ends the part once all was committed, or never will be."""
        self._is_used = True

    def _abandon(self) -> None:
        """Abandons `whole`, where that is set. Else does nothing: the changes so far stay part of the transaction."""
        if self.whole is not None:
            self.whole._abandon()

    def changes(self) -> TablePart | None:
        """The table's part of the commit; None for no changes."""
        return self._pending.part() if self.has_changes else None

    def end(self, result: CommitResult) -> None:
        """Ends the part after the commit."""
        self._pending.end(result)
        self._committed(result.state)
        if self.whole is not None:
            actor = self.whole._catalog.actor
            self._table = Table(self._pending.repository, self._pending.planning, result.state, actor)

    def end_new(self, state: TableState) -> None:
        """Ends the part after its table was created."""
        self._pending.keep_planned()
        self.end(CommitResult(state, None))

    def forget_files(self) -> None:
        """Deletes the files that were written for a commit that is never made."""
        self._pending.forget_files()

    def latest(self) -> TableState:
        """The table with the changes of metadata so far."""
        return evolve(self._pending.state, metadata=self.metadata)


class _Lookup:
    """The look-up of names in the catalog, with the tables as the transaction leaves them."""

    def __init__(self, transaction: CatalogTransaction) -> None:
        self._transaction = transaction
        self._catalog = transaction._catalog

    @property
    def name(self) -> str:
        return self._catalog.name

    def table_exists(self, identifier: Identifier) -> bool:
        return self._exists(self._transaction._names.table_stream, identifier)

    def view_exists(self, identifier: Identifier) -> bool:
        return self._exists(self._transaction._names.view_stream, identifier)

    def _exists(self, find: Callable[[Identifier], str], identifier: Identifier) -> bool:
        with contextlib.suppress(NotFoundError):
            return bool(find(identifier))
        return False

    def load_table(self, identifier: Identifier) -> Table:
        transaction = self._transaction
        stream = transaction._names.table_stream(identifier)
        part = transaction._tables.get(stream)
        state = transaction._desk.repository.state(stream) if part is None else part.latest()
        return Table(transaction._desk.repository, transaction._planning, state, None)

    def load_view(self, identifier: Identifier) -> View:
        transaction = self._transaction
        state = transaction._desk.views.state(transaction._names.view_stream(identifier))
        return View(transaction._desk.views, self, state, None)


def _same_stream(before: TableState) -> Callable[[TableState], None]:
    def check(after: TableState) -> None:
        if after.stream != before.stream:
            raise CommitConflictError(f"{name_text(before.identifier)} was replaced by another table meanwhile")

    return check
