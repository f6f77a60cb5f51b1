"""The rows of the audit tables of what clients reported to the server, on their scans and commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pyarrow as pa

from icecore.engine.log.reports.client_reports import ClientReport, ClientReports, ReportKind
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.audited_tables import TEXT_MAP
from icecore.projections.history.logged_tables import NAMED

_NANOSECONDS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_BEGIN = [
    *NAMED,
    ("position", pa.int64()),
    ("received_at", pa.timestamp("ms", "UTC")),
    ("actor", pa.string()),
    ("engine", pa.string()),
    ("snapshot_id", pa.int64()),
]
_END = [("metrics", pa.map_(pa.string(), pa.int64())), ("metadata", TEXT_MAP)]
SCAN_REPORTS = pa.schema(
    [
        *_BEGIN,
        ("schema_id", pa.int64()),
        ("filter", pa.string()),
        ("projected_field_names", pa.list_(pa.string())),
        *_END,
    ]
)
COMMIT_REPORTS = pa.schema([*_BEGIN, ("sequence_number", pa.int64()), ("operation", pa.string()), *_END])


def scan_reports(of: AuditedRows) -> pa.Table:
    """The rows of `scan_reports`."""

    def told(said: Mapping[str, Any]) -> dict[str, Any]:
        names = said.get("projected-field-names")
        row_filter = said.get("filter")
        return {
            "schema_id": _long(said.get("schema-id")),
            "filter": None if row_filter is None else orjson.dumps(row_filter).decode(),
            "projected_field_names": [str(n) for n in names] if isinstance(names, list) else None,
        }

    return _rows(of, "scan-report", SCAN_REPORTS, told)


def commit_reports(of: AuditedRows) -> pa.Table:
    """The rows of `commit_reports`."""

    def told(said: Mapping[str, Any]) -> dict[str, Any]:
        operation = said.get("operation")
        number = _long(said.get("sequence-number"))
        return {"sequence_number": number, "operation": None if operation is None else str(operation)}

    return _rows(of, "commit-report", COMMIT_REPORTS, told)


def _rows(
    of: AuditedRows, kind: ReportKind, schema: pa.Schema, told: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> pa.Table:
    known = of.log.named
    rows = [
        {**known[r.stream].named(r.position), **_said(r), **told(r.content)}
        for r in ClientReports(of.log.store.path).of_kind(kind, of.log.up_to)
        if r.stream in known
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _said(report: ClientReport) -> dict[str, Any]:
    """The columns that all reports have. What clients say may be anything: what is not as documented is left out."""
    said = report.content
    metrics, metadata = (said.get(key) for key in ("metrics", "metadata"))
    numbers = {k: _number(v) for k, v in metrics.items()} if isinstance(metrics, dict) else {}
    return {
        "position": report.position,
        "received_at": report.received_at_ms,
        "actor": report.actor,
        "engine": report.engine,
        "snapshot_id": _long(said.get("snapshot-id")),
        "metrics": [(k, v) for k, v in numbers.items() if v is not None],
        "metadata": [(k, str(v)) for k, v in metadata.items()] if isinstance(metadata, dict) else [],
    }


def _number(metric: Any) -> int | None:
    """The value of a counter, or the duration of a timer in nanoseconds."""
    if not isinstance(metric, dict):
        return None
    duration, unit = _long(metric.get("total-duration")), metric.get("time-unit")
    if duration is None:
        return _long(metric.get("value"))
    return _long(duration * _NANOSECONDS.get(str(unit).lower(), 1))


def _long(value: Any) -> int | None:
    is_long = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return value if is_long else None
