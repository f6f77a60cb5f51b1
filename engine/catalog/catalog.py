"""Catalogs: a warehouse folder with its log. Namespaces, tables and views have modules of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icecore.engine.catalog.log_tools import CatalogLogTools
from icecore.engine.catalog.warehouse import open_warehouse
from icecore.engine.common.identifiers import IdentifierLike, identifier_tuple
from icecore.engine.errors import ValidationError
from icecore.engine.events.provenance import provenance
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms
from icecore.engine.repository.pending_files import materialize_pending

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog_at import CatalogAt
    from icecore.engine.catalog.catalog_transaction import CatalogTransaction
    from icecore.projections.audit.audited_tables import AuditedTable
    from icecore.projections.verify.findings import Verification
    from icecore.projections.verify.verify_tables import Progress

DEFAULT_CATALOG_NAME = "icecore"


def open_catalog(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    actor: str | None = None,
    name: str = DEFAULT_CATALOG_NAME,
) -> Catalog:
    """The catalog of a warehouse folder on a local disk, which is created where there is none.

    `actor` is who commits where a call names no author. `name` is what a new warehouse is called in `iceberg_tables`,
    which PyIceberg's `sql` catalog must be opened under. The environment variable ICECORE_CACHE_MEMORY is how much of
    the entries of manifests plans may hold in memory, `1GB` unless set. A warehouse that was copied or moved from
    another folder is read by translation, with a MovedWarehouseWarning; each change of it is a MovedWarehouseError.
    Raises StorageError, ReadOnlyError, CorruptLogError, WarehouseLockedError.
    """
    return Catalog(path, create=create, read_only=read_only, actor=actor, name=name)


class Catalog(CatalogLogTools):
    """The catalog of a warehouse. Every change is one event of its log; everything else follows from the log."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        actor: str | None = None,
        name: str = DEFAULT_CATALOG_NAME,
    ) -> None:
        super().__init__(open_warehouse(path, create=create, read_only=read_only, name=name), actor)

    @property
    def path(self) -> Path:
        """The warehouse folder."""
        return self._warehouse.path

    @property
    def read_only(self) -> bool:
        """Whether it was opened only to be read."""
        return self._warehouse.store.read_only

    def close(self) -> None:
        """Closes the log and drops all caches."""
        self._warehouse.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Catalog({str(self.path)!r})"

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

        from icecore.engine.catalog.catalog_transaction import CatalogTransaction

        self._warehouse.store.check_writable()
        who = provenance(self.actor, message=message, author=author, idempotency_key=idempotency_key)
        return CatalogTransaction(self._warehouse, who, self, dry_run)

    def materialize(
        self, identifier: IdentifierLike | None = None, *, message: str | None = None, author: str | None = None
    ) -> None:
        """Writes out the files of one table, or of all, whose commits are materialized by hand."""
        repository = self._warehouse.repository
        if identifier is None:
            streams = [stream for _, stream in self._table_streams()]
        else:
            streams = [repository.foreign.stream_of(identifier_tuple(identifier), repository.models.table_stream)]
        who = provenance(self.actor, message=message, author=author)
        for stream in streams:
            materialize_pending(repository, stream, who)

    # The log as a tool

    def log(
        self,
        identifier: IdentifierLike | None = None,
        *,
        actor: str | None = None,
        kind: str | None = None,
        since: TimestampLike | None = None,
        until: TimestampLike | None = None,
        after: int | None = None,
        up_to: int | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The events as a table, oldest first: author, change, time and reason. `limit` keeps the newest.

        `identifier` is that of a table or a view; `since` and `until` are times (see `timestamps`), both included.
        Raises NoSuchTableError, ValidationError.
        """
        from icecore.projections.inspect.log_table import log_table

        since_ms = None if since is None else to_epoch_ms(since, "since")
        until_ms = None if until is None else to_epoch_ms(until, "until")

        self._warehouse.repository.foreign.adopt_all_if_changed()
        stream = None if identifier is None else self._warehouse.models.stream(identifier_tuple(identifier))
        events = self._warehouse.store.filtered_events(
            stream=stream, actor=actor, kind=kind, since_ms=since_ms, until_ms=until_ms, after=after, up_to=up_to
        )
        return log_table(self._warehouse.store, events, limit)

    def sql(
        self,
        query: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        timeout: float | None = None,
        memory_limit: str | None = None,
    ) -> pa.Table:
        """The rows of DuckDB SQL over the log and the metadata of all tables; `icecore sql --tables` lists them.

        `parameters` gives the values of `$name` by name, or those of `?` and `$1` by position. `timeout` is in seconds,
        `memory_limit` a size, as `512MB`. Tables that can't be read are left out of the answer, with an
        UnreadableTableWarning: the table `problems` says why. Raises ValidationError, QueryLimitError.
        """
        from icecore.projections.audit.sql_prompt import run_sql

        listed = self._audited_tables
        return run_sql(self, listed, query, parameters, timeout=timeout, memory_limit=memory_limit)

    def _audited_tables(self) -> list[AuditedTable]:
        """All tables, by name; each is read when it is needed."""
        from icecore.projections.audit.audited_tables import AuditedTable

        return [AuditedTable(name, stream, partial(self._table_of, stream)) for name, stream in self._table_streams()]

    def verify(
        self, *identifiers: IdentifierLike, deep: bool = False, progress: Progress | None = None
    ) -> Verification:
        """Checks the log, the read models, and that every file that a snapshot needs is there as it was written.

        Of dropped tables and views too, as they can be undropped; with `identifiers` only what these tables and views
        need. `deep` opens the files: footers, rows, manifests, deletion vectors. `progress` is told how far it is: see
        `Progress`. `problems` is empty where all is well. Raises NoSuchTableError.
        """
        from icecore.projections.verify.verify import verify

        streams = [self._warehouse.models.stream(identifier_tuple(i)) for i in identifiers]
        return verify(self._warehouse.store, self._warehouse.repository, streams or None, deep=deep, progress=progress)

    def rebuild(self, identifier: IdentifierLike | None = None) -> None:
        """Rebuilds everything that follows from the log: read models, and all metadata files.

        Of one table or view its metadata files only. Others see what was there until all is made. Raises
        CorruptLogError where the log can't be trusted, ForeignCommitError where another engine's commit can't be
        adopted, NoSuchTableError, and RebuildError where some tables can't be made again: these keep what they had.
        """
        self._warehouse.store.check_writable()
        from icecore.projections.verify.rebuild import rebuild, rebuild_one

        self._warehouse.planning.clear()
        if identifier is None:
            rebuild(self._warehouse.store, self._warehouse.repository, self._warehouse.views)
        else:
            stream = self._warehouse.models.stream(identifier_tuple(identifier))
            rebuild_one(self._warehouse.store, self._warehouse.repository, self._warehouse.views, stream)

    def at(
        self,
        position: int | None = None,
        *,
        timestamp: TimestampLike | None = None,
        timestamp_ms: int | None = None,
    ) -> CatalogAt:
        """The catalog as of a position of the log, or a time; for reading.

        A `timestamp`, or `timestamp_ms`, is a datetime, ISO 8601 text or milliseconds since the epoch: see
        `timestamps`. Raises ValidationError.
        """
        from icecore.engine.catalog.catalog_at import CatalogAt

        if sum(x is not None for x in (position, timestamp, timestamp_ms)) != 1:
            raise ValidationError("at() takes a position or a timestamp")
        head = self._warehouse.store.head()[0]
        time = timestamp if timestamp_ms is None else timestamp_ms
        at = position if time is None else self._warehouse.store.position_at(to_epoch_ms(time, "timestamp"))
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at <= head:
            raise ValidationError(f"there is no position {at}: the log ends at {head}")
        return CatalogAt(self._warehouse, at)

    @property
    def position(self) -> int:
        """The position of the last event of the log."""
        return self._warehouse.store.head()[0]


__all__ = ["Catalog", "open_catalog"]
