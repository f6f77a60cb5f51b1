"""SQL over the log and the metadata of all tables, in one DuckDB prompt.

Only the tables that a query names are loaded. They are:

    log           one row for each event: see `history.LOG_SCHEMA`
    namespaces    one row for each namespace, with its properties
    tables        one row for each table that has a name now
    columns       one row for each top-level or nested column of each table's current schema
    properties    one row for each property of each table
    snapshots     one row for each snapshot of each table
    refs          one row for each branch and tag
    manifests     one row for each manifest of each table's current snapshot
    files         one row for each live data and delete file of each table's current snapshot
    views         one row for each view that has a name now, with the SQL of its current version by dialect
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query as named_query
from icecore.engine.table.table import Table
from icecore.engine.view.view import View
from icecore.projections.inspect.live_files import LIVE_FILES
from icecore.projections.inspect.log_table import LOG_SCHEMA


class AuditedCatalog(Protocol):
    """A catalog as audits see it."""

    def log(self) -> pa.Table: ...

    def all_namespaces(self) -> Iterable[Identifier]: ...

    def load_namespace_properties(self, namespace: Identifier) -> Mapping[str, str]: ...

    def tables(self) -> Iterable[Table]: ...

    def views(self) -> Iterable[View]: ...


_TEXT_MAP = pa.map_(pa.string(), pa.string())
_AT = pa.timestamp("ms", "UTC")


def run_sql(
    catalog: AuditedCatalog, query: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None
) -> pa.Table:
    """The result of a query as Arrow. Raises ValidationError with DuckDB's words where the query is wrong."""
    names = _named_tables(query)
    con = duckdb.connect(":memory:")
    try:
        duck.rows(con, named_query(duck.SETTINGS, "utc"))
        for name in sorted(names & AUDIT_TABLES.keys()):
            con.register(name, AUDIT_TABLES[name](catalog))
        duck.rows(con, named_query(duck.SETTINGS, "no_files"))
        return duck.arrow(con, query, _by_name(parameters))
    except duckdb.Error as e:
        known = ", ".join(AUDIT_TABLES)
        raise ValidationError(f"the query can't be run: {e}\nthe tables are: {known}") from e
    finally:
        con.close()


def _by_name(parameters: Mapping[str, Any] | Sequence[Any] | None) -> Mapping[str, Any] | None:
    """DuckDB calls what is given by position `1`, `2` and so on."""
    if parameters is None or isinstance(parameters, Mapping):
        return parameters
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Sequence):
        raise ValidationError(f"parameters must be a mapping or a list, found {type(parameters).__name__}")
    return {str(i): value for i, value in enumerate(parameters, 1)}


def _named_tables(query: str) -> set[str]:
    try:
        statements = [s for s in sqlglot.parse(query, dialect="duckdb") if s is not None]
    except sqlglot.errors.SqlglotError as e:
        found = getattr(e, "errors", None)
        reason = found[0].get("description") if found else str(e)
        raise ExpressionError(f"the query can't be parsed: {reason}") from e
    if len(statements) != 1:
        raise ValidationError(f"expected one SQL statement, found {len(statements)}")
    return {t.name.lower() for t in statements[0].find_all(exp.Table)}


def _log(catalog: AuditedCatalog) -> pa.Table:
    return catalog.log()


NAMESPACES = pa.schema([("name", pa.string()), ("properties", _TEXT_MAP)])


def _namespaces(catalog: AuditedCatalog) -> pa.Table:
    rows = [
        {"name": ".".join(n), "properties": list(catalog.load_namespace_properties(n).items())}
        for n in catalog.all_namespaces()
    ]
    return pa.Table.from_pylist(rows, schema=NAMESPACES)


TABLES = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("table_uuid", pa.string()),
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
    ]
)


def _tables(catalog: AuditedCatalog) -> pa.Table:
    return _rows(catalog, TABLES, _table_row)


def _table_row(table: Table) -> Iterator[dict[str, Any]]:
    m = table.metadata
    snapshot = m.current_snapshot()
    summary = (snapshot.summary or {}) if snapshot else {"total-data-files": "0", "total-records": "0"}
    yield {
        "table_uuid": m.table_uuid,
        "format_version": m.format_version,
        "location": m.location,
        "metadata_location": table.metadata_location,
        "current_snapshot_id": _signed(m.current_snapshot_id),
        "last_updated_at": m.last_updated_ms,
        "last_sequence_number": m.last_sequence_number,
        "columns": len(m.schema().fields),
        "partition_spec": str(m.spec()),
        "snapshots": len(m.snapshots),
        "data_files": _number(summary.get("total-data-files")),
        "records": _number(summary.get("total-records")),
        "position": table.state.position,
    }


COLUMNS = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("field_id", pa.int32()),
        ("column", pa.string()),
        ("type", pa.string()),
        ("required", pa.bool_()),
        ("doc", pa.string()),
    ]
)


def _columns(catalog: AuditedCatalog) -> pa.Table:
    def rows(table: Table) -> Iterator[dict[str, Any]]:
        schema = table.schema()
        for field_id in sorted(schema.field_ids):
            f = schema.find_field(field_id)
            yield {
                "field_id": field_id,
                "column": schema.name_of(field_id),
                "type": str(f.field_type),
                "required": f.required,
                "doc": f.doc,
            }

    return _rows(catalog, COLUMNS, rows)


PROPERTIES = pa.schema(
    [("namespace", pa.string()), ("name", pa.string()), ("key", pa.string()), ("value", pa.string())]
)


def _properties(catalog: AuditedCatalog) -> pa.Table:
    def rows(table: Table) -> Iterator[dict[str, Any]]:
        for key, value in sorted(table.properties.items()):
            yield {"key": key, "value": value}

    return _rows(catalog, PROPERTIES, rows)


SNAPSHOTS = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("snapshot_id", pa.int64()),
        ("parent_snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("committed_at", _AT),
        ("operation", pa.string()),
        ("schema_id", pa.int32()),
        ("manifest_list", pa.string()),
        ("summary", _TEXT_MAP),
        ("is_current_ancestor", pa.bool_()),
    ]
)


def _snapshots(catalog: AuditedCatalog) -> pa.Table:
    def rows(table: Table) -> Iterator[dict[str, Any]]:
        m = table.metadata
        current = {s.snapshot_id for s in m.ancestors(m.current_snapshot_id)}
        for s in m.snapshots:
            yield {
                "snapshot_id": _signed(s.snapshot_id),
                "parent_snapshot_id": _signed(s.parent_snapshot_id),
                "sequence_number": s.sequence_number,
                "committed_at": s.timestamp_ms,
                "operation": s.operation,
                "schema_id": s.schema_id,
                "manifest_list": s.manifest_list,
                "summary": list((s.summary or {}).items()),
                "is_current_ancestor": s.snapshot_id in current,
            }

    return _rows(catalog, SNAPSHOTS, rows)


REFS = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("ref", pa.string()),
        ("type", pa.string()),
        ("snapshot_id", pa.int64()),
        ("min_snapshots_to_keep", pa.int32()),
        ("max_snapshot_age_ms", pa.int64()),
        ("max_ref_age_ms", pa.int64()),
    ]
)


def _refs(catalog: AuditedCatalog) -> pa.Table:
    def rows(table: Table) -> Iterator[dict[str, Any]]:
        for name, ref in table.refs().items():
            yield {
                "ref": name,
                "type": str(ref.type),
                "snapshot_id": _signed(ref.snapshot_id),
                "min_snapshots_to_keep": ref.min_snapshots_to_keep,
                "max_snapshot_age_ms": ref.max_snapshot_age_ms,
                "max_ref_age_ms": ref.max_ref_age_ms,
            }

    return _rows(catalog, REFS, rows)


MANIFESTS = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("manifest_path", pa.string()),
        ("content", pa.string()),
        ("partition_spec_id", pa.int32()),
        ("sequence_number", pa.int64()),
        ("added_snapshot_id", pa.int64()),
        ("added_files_count", pa.int64()),
        ("existing_files_count", pa.int64()),
        ("deleted_files_count", pa.int64()),
        ("added_rows_count", pa.int64()),
        ("existing_rows_count", pa.int64()),
        ("deleted_rows_count", pa.int64()),
    ]
)


def _manifests(catalog: AuditedCatalog) -> pa.Table:
    def rows(table: Table) -> Iterator[dict[str, Any]]:
        for listed in table.manifests():
            m = listed.manifest
            yield {
                **{n: getattr(m, n) for n in MANIFESTS.names if n not in ("namespace", "name", "content")},
                "content": m.content.name.lower(),
                "added_snapshot_id": _signed(m.added_snapshot_id),
            }

    return _rows(catalog, MANIFESTS, rows)


_NAMED = (pa.field("namespace", pa.string()), pa.field("name", pa.string()))
FILES = pa.schema([*_NAMED, *LIVE_FILES])


def _files(catalog: AuditedCatalog) -> pa.Table:
    found = [FILES.empty_table()]
    for table in catalog.tables():
        files = table.files()
        *namespace, name = table.name()
        names = (pa.repeat(pa.scalar(text, pa.string()), files.num_rows) for text in (".".join(namespace), name))
        found.append(pa.table([*names, *files.columns], schema=FILES))
    return pa.concat_tables(found)


VIEWS = pa.schema(
    [
        ("namespace", pa.string()),
        ("name", pa.string()),
        ("view_uuid", pa.string()),
        ("format_version", pa.int32()),
        ("location", pa.string()),
        ("metadata_location", pa.string()),
        ("current_version_id", pa.int32()),
        ("current_since", _AT),
        ("versions", pa.int32()),
        ("columns", pa.int32()),
        ("default_catalog", pa.string()),
        ("default_namespace", pa.string()),
        ("sql", _TEXT_MAP),
        ("summary", _TEXT_MAP),
        ("properties", _TEXT_MAP),
        ("position", pa.int64()),
    ]
)


def _views(catalog: AuditedCatalog) -> pa.Table:
    return pa.Table.from_pylist([_view_row(view) for view in catalog.views()], schema=VIEWS)


def _view_row(view: View) -> dict[str, Any]:
    m, version = view.metadata, view.current_version()
    *namespace, name = view.name()
    return {
        "namespace": ".".join(namespace),
        "name": name,
        "view_uuid": m.view_uuid,
        "format_version": m.format_version,
        "location": m.location,
        "metadata_location": view.metadata_location,
        "current_version_id": m.current_version_id,
        "current_since": m.version_log[-1].timestamp_ms if m.version_log else version.timestamp_ms,
        "versions": len(m.versions),
        "columns": len(m.schema().fields),
        "default_catalog": version.default_catalog,
        "default_namespace": ".".join(version.default_namespace),
        "sql": [(r.dialect, r.sql) for r in version.representations if r.dialect is not None],
        "summary": list(version.summary.items()),
        "properties": list(m.properties.items()),
        "position": view.state.position,
    }


def _rows(catalog: AuditedCatalog, schema: pa.Schema, rows: Callable[[Table], Iterator[dict[str, Any]]]) -> pa.Table:
    found = []
    for table in catalog.tables():
        *namespace, name = table.name()
        found += [{"namespace": ".".join(namespace), "name": name, **row} for row in rows(table)]
    return pa.Table.from_pylist(found, schema=schema)


def _signed(value: int | None) -> int | None:
    return value - 2**64 if value is not None and value >= 2**63 else value


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


AUDIT_TABLES: dict[str, Callable[[AuditedCatalog], pa.Table]] = {
    "log": _log,
    "namespaces": _namespaces,
    "tables": _tables,
    "columns": _columns,
    "properties": _properties,
    "snapshots": _snapshots,
    "refs": _refs,
    "manifests": _manifests,
    "files": _files,
    "views": _views,
}

AUDIT_SCHEMAS: dict[str, pa.Schema] = {
    "log": LOG_SCHEMA,
    "namespaces": NAMESPACES,
    "tables": TABLES,
    "views": VIEWS,
    "columns": COLUMNS,
    "properties": PROPERTIES,
    "snapshots": SNAPSHOTS,
    "refs": REFS,
    "manifests": MANIFESTS,
    "files": FILES,
}
