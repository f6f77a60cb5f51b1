"""Reports of clients on their scans and commits. Spec: the REST document's reportMetrics."""

from __future__ import annotations

import orjson

from icecore.engine.common.ids import now_ms
from icecore.engine.common.json_reader import get
from icecore.engine.errors import NoSuchTableError, ValidationError
from icecore.engine.log.reports.client_reports import ClientReport, ReportKind
from icecore.engine.server.wire.answer import NO_CONTENT, Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint

KINDS: dict[str, ReportKind] = {"scan-report": "scan-report", "commit-report": "commit-report"}
MOST_BYTES = 64 * 1024
_OF_ALL: dict[str, type | tuple[type, ...]] = {"table-name": str, "snapshot-id": int, "metrics": dict}
REQUIRED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "scan-report": _OF_ALL
    | {"filter": (dict, bool), "schema-id": int, "projected-field-ids": list, "projected-field-names": list},
    "commit-report": _OF_ALL | {"sequence-number": int, "operation": str},
}
"""The fields that a report of a kind must have."""


def report_metrics(call: Call) -> Answer:
    """Takes a report, which is kept beside the log. Raises ValidationError, NoSuchTableError.

    A commit report for a missing table is ignored: Java's client sends it before it makes the table.
    """
    kind = get(call.body, "report-type", str, "the report")
    if kind not in KINDS:
        raise ValidationError(f"a report is a {' or a '.join(KINDS)}, found {kind[:60]!r}")
    for field, of in REQUIRED[kind].items():
        get(call.body, field, of, "the report")
    try:
        text = orjson.dumps(call.body)
    except orjson.JSONEncodeError as e:
        raise ValidationError(f"the report can't be kept: {e}") from e
    if len(text) > MOST_BYTES:
        raise ValidationError(f"a report can have {MOST_BYTES} bytes, found {len(text)}")
    warehouse = call.catalog._warehouse
    try:
        stream = warehouse.models.table_stream(call.table)
    except NoSuchTableError:
        if kind == "commit-report":
            return NO_CONTENT
        raise
    actor = None if call.principal is None else call.principal.name
    engine = call.headers.get("user-agent", "")[:200] or None
    position = warehouse.store.head()[0]
    call.serving.reports.take(ClientReport(KINDS[kind], stream, position, now_ms(), actor, engine, text.decode()))
    return NO_CONTENT


ENDPOINTS = (Endpoint("POST", "/namespaces/{namespace}/tables/{table}/metrics", report_metrics),)
