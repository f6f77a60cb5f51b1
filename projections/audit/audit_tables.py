"""The tables of the SQL prompt: the columns of each, and the maker of its rows.

    log           one row for each event: see `log_table.LOG_SCHEMA`
    namespaces    one row for each namespace, with its properties
    tables        one row for each table that has a name now
    columns       one row for each top-level or nested column of each table's current schema
    properties    one row for each property of each table
    snapshots     one row for each snapshot of each table
    refs          one row for each branch and tag
    manifests     one row for each manifest of each table's current snapshot
    files         one row for each live data and delete file of each table's current snapshot
    views         one row for each view that has a name now, with the SQL of its current version by dialect
    problems      one row for each table that can't be read, with the kind of error and its message
    warehouse     one row: where the log says that the warehouse lies, and the folder that was opened

What the rules of `icecore audit` compare, made only where a query names it:

    manifest_contents one row for each manifest of any snapshot: what its list says beside what its entries come to
    file_faults       one row for each fault that files of a table share: gone, of another size, and so on
    orphan_files      one row for each file in a table's folders that nothing references

Iceberg's metadata tables, of each table: see `iceberg_rows`; and what only a log can give, of dropped tables too:

    events            one row for each event, with the table's UUID, its name then and its name now
    commits           one row for each snapshot that an event brought, with the files that it added and removed
    file_history      one row for each file that a snapshot added or removed
    schema_history    one row for each column that an event added, removed or changed
    spec_history      one row for each event that made another partition spec the default
    property_history  one row for each property that an event added, removed or changed
    ref_history       one row for each branch or tag that an event added, removed or changed
    dropped_tables    one row for each table that was dropped
    log_health        one row for each aspect of the log, and whether it is as it should be

What clients told the server, beside the log, as far as it is kept:

    scan_reports      one row for each report of a scan
    commit_reports    one row for each report of a commit

A table that can't be read has no rows in those of these tables for which it would have to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from icecore.projections.audit import catalog_rows, file_rows, iceberg_rows, metadata_rows, report_rows
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.checks import disk_rows, manifest_contents
from icecore.projections.audit.history import dropped_rows
from icecore.projections.audit.together.file_history_rows import file_history_rows
from icecore.projections.history import commit_rows, shape_rows
from icecore.projections.history.event_rows import EVENTS
from icecore.projections.history.logged_tables import LoggedTable, LoggedTables
from icecore.projections.inspect.log_table import LOG_SCHEMA

ICEBERG_TABLES: dict[str, tuple[pa.Schema, Callable[[AuditedRows], pa.Table]]] = {
    "history": (iceberg_rows.HISTORIES, iceberg_rows.history),
    "metadata_log_entries": (iceberg_rows.METADATA_LOGS, iceberg_rows.metadata_log_entries),
    "all_manifests": (iceberg_rows.MANIFESTS_OF_ALL, iceberg_rows.all_manifests),
    "entries": (iceberg_rows.ENTRIES, iceberg_rows.entries),
    "all_entries": (iceberg_rows.ENTRIES, iceberg_rows.all_entries),
    "data_files": (file_rows.FILES, iceberg_rows.data_files),
    "delete_files": (file_rows.FILES, iceberg_rows.delete_files),
    "all_files": (file_rows.FILES, iceberg_rows.all_files),
    "all_data_files": (file_rows.FILES, iceberg_rows.all_data_files),
    "all_delete_files": (file_rows.FILES, iceberg_rows.all_delete_files),
    "partitions": (iceberg_rows.PARTITIONS, iceberg_rows.partitions),
    "position_deletes": (iceberg_rows.POSITION_DELETES, iceberg_rows.position_deletes),
}

_History = Callable[[LoggedTables, LoggedTable], Sequence[pa.Table]]
HISTORIES: dict[str, tuple[pa.Schema, _History]] = {
    "commits": (commit_rows.COMMITS, commit_rows.commits),
    "file_history": (commit_rows.FILE_HISTORY, commit_rows.file_history),
    "schema_history": (shape_rows.SCHEMA_HISTORY, shape_rows.schema_history),
    "spec_history": (shape_rows.SPEC_HISTORY, shape_rows.spec_history),
    "property_history": (shape_rows.PROPERTY_HISTORY, shape_rows.property_history),
    "ref_history": (shape_rows.REF_HISTORY, shape_rows.ref_history),
    "dropped_tables": (dropped_rows.DROPPED_TABLES, dropped_rows.dropped),
}


def _of_log(schema: pa.Schema, rows: _History) -> Callable[[AuditedRows], pa.Table]:
    return lambda of: of.of_log(schema, rows)


def _commits(of: AuditedRows) -> pa.Table:
    with_files = of.asks_for(commit_rows.COUNTED)
    return of.of_log(commit_rows.COMMITS, partial(commit_rows.commits, with_files=with_files))


AUDIT_TABLES: dict[str, Callable[[AuditedRows], pa.Table]] = {
    "log": catalog_rows.log,
    "namespaces": catalog_rows.namespaces,
    "tables": catalog_rows.tables,
    "columns": metadata_rows.columns,
    "properties": metadata_rows.properties,
    "snapshots": metadata_rows.snapshots,
    "refs": metadata_rows.refs,
    "manifests": file_rows.manifests,
    "files": file_rows.files,
    "views": catalog_rows.views,
    "problems": file_rows.problems,
    "warehouse": disk_rows.warehouse,
    "manifest_contents": manifest_contents.manifest_contents,
    "file_faults": disk_rows.file_faults,
    "orphan_files": disk_rows.orphan_files,
    "events": catalog_rows.events,
    "log_health": lambda of: dropped_rows.log_health(of.log),
    "scan_reports": report_rows.scan_reports,
    "commit_reports": report_rows.commit_reports,
    **{name: rows for name, (_, rows) in ICEBERG_TABLES.items()},
    **{name: _of_log(schema, rows) for name, (schema, rows) in HISTORIES.items()},
    "commits": _commits,
    "file_history": file_history_rows,
}

AUDIT_SCHEMAS: dict[str, pa.Schema] = {
    "log": LOG_SCHEMA,
    "namespaces": catalog_rows.NAMESPACES,
    "tables": catalog_rows.TABLES,
    "views": catalog_rows.VIEWS,
    "columns": metadata_rows.COLUMNS,
    "properties": metadata_rows.PROPERTIES,
    "snapshots": metadata_rows.SNAPSHOTS,
    "refs": metadata_rows.REFS,
    "manifests": file_rows.MANIFESTS,
    "files": file_rows.FILES,
    "problems": file_rows.PROBLEMS,
    "warehouse": disk_rows.WAREHOUSE,
    "manifest_contents": manifest_contents.MANIFEST_CONTENTS,
    "file_faults": disk_rows.FILE_FAULTS,
    "orphan_files": disk_rows.ORPHAN_FILES,
    "events": EVENTS,
    "log_health": dropped_rows.LOG_HEALTH,
    "scan_reports": report_rows.SCAN_REPORTS,
    "commit_reports": report_rows.COMMIT_REPORTS,
    **{name: schema for name, (schema, _) in (ICEBERG_TABLES | HISTORIES).items()},
}

_LAST_MS = 9_223_372_022_399_999
"""The last milliseconds since the epoch that are a time in DuckDB, whose first ones are as many before it."""


def audit_table(name: str, source: AuditedRows) -> pa.Table:
    """The rows of an audit table. A time that DuckDB can't tell, as hand-made metadata may have, is null."""
    rows = AUDIT_TABLES[name](source)
    for place, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ms":
            values = rows[column.name].cast(pa.int64())
            told = pc.and_(pc.less_equal(values, _LAST_MS), pc.greater_equal(values, -_LAST_MS))
            if not pc.all(told).as_py():
                rows = rows.set_column(place, column, pc.if_else(told, values, None).cast(column.type))
    return rows
