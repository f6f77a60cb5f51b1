"""The rows of the audit tables about the catalog: its log, namespaces, tables and views."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from icecore.engine.common.ids import signed
from icecore.engine.errors import name_text
from icecore.engine.table.table import Table
from icecore.engine.view.view import View
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.audited_tables import TEXT_MAP
from icecore.projections.audit.history.needed_of_log import needed_streams
from icecore.projections.history.commit_rows import told_number
from icecore.projections.history.event_rows import with_names
from icecore.projections.inspect.log_table import log_table

_AT = pa.timestamp("ms", "UTC")


def log(of: AuditedRows) -> pa.Table:
    """The rows of `log`, only those of some tables where an audit is about these.

    A query's condition on the column `name`, which holds whole names, limits nothing.
    """
    limits = of.needed.limits or ()
    return _logged(of) if limits and all("namespace" in limit for limit in limits) else of.catalog.log()


def events(of: AuditedRows) -> pa.Table:
    """The rows of `events`: the log, with what each event's table or view was called then and is now."""
    return with_names(of.log, _logged(of))


def _logged(of: AuditedRows) -> pa.Table:
    """The log, or the events of those tables and views that the query can need."""
    if of.needed.limits is None:
        return of.catalog.log()
    store = of.log.store
    found = [e for s in needed_streams(of.log, of.needed) for e in store.stream_events(s, 0, of.log.up_to)]
    return log_table(store, sorted(found, key=lambda e: e.position))


NAMESPACES = pa.schema([("name", pa.string()), ("properties", TEXT_MAP)])


def namespaces(of: AuditedRows) -> pa.Table:
    """The rows of `namespaces`."""
    rows = [
        {"name": ".".join(n), "properties": list(of.catalog.load_namespace_properties(n).items())}
        for n in of.catalog.all_namespaces()
    ]
    return pa.Table.from_pylist(rows, schema=NAMESPACES)


TABLES = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("table_uuid", pa.string()),
        ("name_now", pa.string()),
        ("format_version", pa.int32()),
        ("location", pa.string()),
        ("metadata_location", pa.string()),
        ("current_snapshot_id", pa.int64()),
        ("last_updated_at", _AT),
        ("last_sequence_number", pa.int64()),
        ("columns", pa.int32()),
        ("partition_spec", pa.string()),
        ("snapshots", pa.int32()),
        ("data_files", pa.int64()),
        ("records", pa.int64()),
        ("position", pa.int64()),
        ("next_row_id", pa.int64()),
    ]
)


def tables(of: AuditedRows) -> pa.Table:
    """The rows of `tables`."""
    return of.of(TABLES, _table_row)


def _table_row(table: Table) -> Iterator[dict[str, Any]]:
    m = table.metadata
    snapshot = m.current_snapshot()
    summary = (snapshot.summary or {}) if snapshot else {"total-data-files": "0", "total-records": "0"}
    yield {
        "format_version": m.format_version,
        "location": m.location,
        "metadata_location": table.metadata_location,
        "current_snapshot_id": signed(m.current_snapshot_id),
        "last_updated_at": m.last_updated_ms,
        "last_sequence_number": m.last_sequence_number,
        "columns": len(m.schema().fields),
        "partition_spec": str(m.spec()),
        "snapshots": len(m.snapshots),
        "data_files": told_number(summary.get("total-data-files")),
        "records": told_number(summary.get("total-records")),
        "position": table.state.position,
        "next_row_id": m.next_row_id,
    }


VIEWS = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("view_uuid", pa.string()),
        ("name_now", pa.string()),
        ("format_version", pa.int32()),
        ("location", pa.string()),
        ("metadata_location", pa.string()),
        ("current_version_id", pa.int32()),
        ("current_since", _AT),
        ("versions", pa.int32()),
        ("columns", pa.int32()),
        ("default_catalog", pa.string()),
        ("default_namespace", pa.string()),
        ("sql", TEXT_MAP),
        ("summary", TEXT_MAP),
        ("properties", TEXT_MAP),
        ("position", pa.int64()),
    ]
)


def views(of: AuditedRows) -> pa.Table:
    """The rows of `views`."""
    return pa.Table.from_pylist([_view_row(of, view) for view in of.catalog.views()], schema=VIEWS)


def _view_row(of: AuditedRows, view: View) -> dict[str, Any]:
    m, version = view.metadata, view.current_version()
    *namespace, name = view.name()
    now = of.log.repository.models.identifier_of(view.state.stream)
    return {
        "namespace": ".".join(namespace),
        "name": name,
        "view_uuid": m.view_uuid,
        "name_now": None if now is None else name_text(now),
        "format_version": m.format_version,
        "location": m.location,
        "metadata_location": view.metadata_location,
        "current_version_id": m.current_version_id,
        "current_since": m.version_log[-1].timestamp_ms if m.version_log else version.timestamp_ms,
        "versions": len(m.versions),
        "columns": len(m.schema().fields),
        "default_catalog": version.default_catalog,
        "default_namespace": ".".join(version.namespace),
        "sql": [(r.dialect, r.sql) for r in version.representations if r.dialect is not None],
        "summary": list(version.summary.items()),
        "properties": list(m.properties.items()),
        "position": view.state.position,
    }
