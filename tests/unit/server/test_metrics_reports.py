"""Reports of clients: kept beside the log, by number and size, for whoever audits by SQL."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from rest_client import RestClient, make_table, served

import icecore
from icecore.engine.log.reports import client_reports
from icecore.engine.log.reports.client_reports import ClientReport, ClientReports

METRICS = "/v1/namespaces/ns/tables/t/metrics"
SCAN = {
    "report-type": "scan-report",
    "table-name": "lake.ns.t",
    "snapshot-id": 7,
    "filter": {"type": "eq", "term": "city", "value": "Osló"},
    "schema-id": 0,
    "projected-field-ids": [1],
    "projected-field-names": ["id"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "milliseconds", "total-duration": 2},
        "result-data-files": {"unit": "count", "value": 3},
        "odd": "?",
    },
    "metadata": {"engine-name": "spark"},
}
NO_TABLE = "/v1/namespaces/ns/tables/none/metrics"
COMMIT = {
    "report-type": "commit-report",
    "table-name": "lake.ns.t",
    "snapshot-id": 8,
    "sequence-number": 2,
    "operation": "append",
    "metrics": {},
}


def test_reports_are_there_as_sql_and_change_nothing_of_the_log(tmp_path: Path) -> None:
    """All are stored when the server ends. They keep the table when it gets another name."""
    with icecore.open(tmp_path / "w") as catalog:
        assert catalog.sql("SELECT * FROM scan_reports").num_rows == 0
        with served(catalog) as rest:
            make_table(rest)
            told, position = catalog.log(), catalog.position
            assert [rest.post(METRICS, r, user_agent="spark/4").status for r in (SCAN, COMMIT, SCAN)] == [204] * 3
            wrong: list[tuple[str, Any]] = [
                (METRICS, {"report-type": "?"}),
                (METRICS, SCAN | {"filter": "x" * 70_000}),
                (NO_TABLE, SCAN),
            ]
            assert [rest.post(path, body).status for path, body in wrong] == [400, 400, 404]
            assert rest.post(NO_TABLE, COMMIT).status == 204, "Java reports it before it makes the table"
            catalog.rename_table("ns.t", "ns.u")
        assert catalog.log().slice(0, told.num_rows) == told and catalog.verify().problems == ()
        row, _ = catalog.sql("SELECT * EXCLUDE (table_uuid) FROM scan_reports").to_pylist()
        assert isinstance(row.pop("received_at"), datetime.datetime)
        told_of_table = {"namespace": "ns", "name": "t", "name_now": "ns.u", "position": position}
        assert row == told_of_table | {
            "actor": None,
            "engine": "spark/4",
            "snapshot_id": 7,
            "schema_id": 0,
            "filter": '{"type":"eq","term":"city","value":"Osló"}',
            "projected_field_names": ["id"],
            "metrics": [("total-planning-duration", 2_000_000), ("result-data-files", 3)],
            "metadata": [("engine-name", "spark")],
        }
        query = "SELECT snapshot_id, sequence_number, operation FROM commit_reports WHERE name = 't'"
        assert catalog.sql(query).to_pylist() == [{"snapshot_id": 8, "sequence_number": 2, "operation": "append"}]
        assert catalog.at(position - 1).sql(query).num_rows == 0
        catalog.forget_text("Osló")
        assert catalog.sql("SELECT * FROM scan_reports").num_rows == 0
        assert not any("Osló".encode() in p.read_bytes() for p in (tmp_path / "w").glob("icecore.reports.db*"))


@pytest.mark.parametrize("report", [SCAN, COMMIT], ids=["scan", "commit"])
def test_a_report_has_what_the_document_requires(rest: RestClient, report: dict[str, Any]) -> None:
    """Of a scan-report that was nothing else the audit would have nothing to tell."""
    make_table(rest)
    assert rest.post(METRICS, {"report-type": report["report-type"]}).error[0] == 400
    for field in report.keys() - {"report-type", "metadata"}:
        for value in (None, ...):
            told = {k: v for k, v in report.items() if k != field} | ({} if value is ... else {field: value})
            code, _, text = rest.post(METRICS, told).error
            assert code == 400 and repr(field) in text
    assert rest.post(METRICS, report | {"metrics": []}).status == 400
    without = {k: v for k, v in report.items() if k != "metadata"}
    assert rest.post(METRICS, without | {"unknown": 1}).status == 204


def test_the_oldest_reports_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number and by bytes; the newest one that fits is kept."""
    monkeypatch.setattr(client_reports, "MOST_KEPT", 3)
    monkeypatch.setattr(client_reports, "MOST_KEPT_BYTES", 100)
    reports = ClientReports(tmp_path / "icecore.db")

    def put(*texts: str) -> list[str]:
        reports.put([ClientReport("scan-report", "s", 1, 1, None, None, t) for t in texts])
        return [r.report for r in reports.of_kind("scan-report")]

    assert put("1", "2") == ["1", "2"]
    assert put("3", "4", "5") == ["3", "4", "5"]
    assert put("x" * 99) == ["5", "x" * 99]
