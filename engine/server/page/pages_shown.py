"""The pages of the server, made of what the library answers: the log, a table's report, findings, SQL."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from urllib.parse import quote

from icecore.engine.catalog.audits.audit_tools import report_text
from icecore.engine.common.identifiers import identifier_tuple
from icecore.engine.display.cells import cell
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.server.page.page_frame import framed, grid, html, static_file
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.projections.report.html_elements import Markup, counted, element, in_bytes
from icecore.projections.report.svg_charts import Bar, bars

MOST_EVENTS = 10_000
MOST_ROWS = 1_000
SQL_SECONDS, SQL_MEMORY = 10.0, "512MB"
_DAYS = 60


def log_page(call: Call) -> Answer:
    """The newest events, newest first, and how many commits each day had."""
    rows = call.catalog.log().slice(max(0, call.catalog.position - MOST_EVENTS)).to_pylist()[::-1]
    days = Counter(r["recorded_at"].date() for r in rows)
    drawn = [_day(day, days[day]) for day in sorted(days)[-_DAYS:]]
    told = [
        (
            str(r["position"]),
            r["recorded_at"].strftime("%Y-%m-%d %H:%M:%S"),
            r["actor"] or "",
            _linked(r["name"]),
            r["kind"],
            r["message"] or "",
            r["changes"] or "",
        )
        for r in rows
    ]
    chart = element(
        "figure", element("figcaption", "commits by day"), bars(drawn, lambda n: f"{n:g}", "commits by day")
    )
    asked = element(
        "input", type="search", placeholder="Filter: who, what, why  ( / )", data_filters="events", aria_label="Filter"
    )
    columns = ("position", "time (UTC)", "actor", "name", "kind", "message", "changes")
    facts = f"{call.catalog.path}, {counted(call.catalog.position, 'event')}"
    return framed("The log", "/", chart, asked, grid(columns, told, id="events"), facts=facts)


def _day(day: dt.date, count: int) -> Bar:
    return Bar(day.strftime("%m-%d"), (("append", count),), f"{day}: {counted(count, 'event')}")


def _linked(name: str | None) -> str | Markup:
    return "" if not name else element("a", name, href=f"/table?name={quote(name, safe='')}") if "." in name else name


def tables_page(call: Call) -> Answer:
    """The tables with their sizes, by the totals of their current snapshots."""
    rows: list[tuple[str | Markup, ...]] = []
    for table in call.catalog.tables():
        snapshot = table.current_snapshot()
        summary = {} if snapshot is None else dict(snapshot.summary or {})
        size = summary.get("total-files-size", "")
        rows.append(
            (
                _linked(".".join(table.name())),
                *(summary.get(key, "") for key in ("total-records", "total-data-files", "total-delete-files")),
                in_bytes(int(size)) if size.isdecimal() else "",
                f"v{table.metadata.format_version}",
            )
        )
    columns = ("table", "rows", "data files", "delete files", "size", "format")
    return framed("Tables", "/tables", grid(columns, rows), facts=counted(len(rows), "table"))


def table_page(call: Call) -> Answer:
    """The report of one table: commits, growth, files, partitions, delete debt, snapshots, findings."""
    name = call.query.get("name", "")
    return html(report_text(call.catalog, identifier_tuple(name)))


def findings_page(call: Call) -> Answer:
    """The findings of the audit, the gravest first."""
    found = call.catalog.audit().findings
    rows: list[tuple[str | Markup, ...]] = [
        (element("b", str(f.severity), class_=str(f.severity)), f.rule, _linked(f.table), f.message) for f in found
    ]
    told = grid(("severity", "rule", "table", "finding"), rows)
    return framed("Findings", "/findings", told, facts=counted(len(rows), "finding"))


def sql_page(call: Call) -> Answer:
    """The answer of a query over the log and all metadata, which can change nothing and takes no longer than it may."""
    query = call.query.get("q", "")
    shown: list[Markup] = []
    if query:
        try:
            found = call.catalog.sql(query, timeout=SQL_SECONDS, memory_limit=SQL_MEMORY)
            rows = [tuple(map(cell, r.values())) for r in found.slice(0, MOST_ROWS).to_pylist()]
            shown = [element("p", counted(found.num_rows, "row")), grid(found.column_names, rows, class_="answer")]
        except IcecoreError as e:
            shown = [element("p", str(e), class_="error", role="alert")]
    words = element("textarea", query, name="q", rows="5", spellcheck="false", aria_label="SQL")
    form = element("form", words, element("button", "Run"), action="/sql", method="get")
    return framed(
        "SQL", "/sql", form, *shown, facts="one query over events, commits, tables, snapshots, files and more"
    )


def static(call: Call) -> Answer:
    """A file of the pages. Raises ValidationError."""
    kinds = {"page.js": "text/javascript", "page.css": "text/css", "report.css": "text/css"}
    name = call.names["file"]
    if name not in kinds:
        raise ValidationError(f"there is no file {name[:60]!r}")
    return static_file(name, f"{kinds[name]}; charset=utf-8")


PAGES = (
    Endpoint("GET", "/", log_page, is_of_all=True, is_page=True),
    Endpoint("GET", "/tables", tables_page, is_of_all=True, is_page=True),
    Endpoint("GET", "/table", table_page, is_of_all=True, is_page=True),
    Endpoint("GET", "/findings", findings_page, is_of_all=True, is_page=True),
    Endpoint("GET", "/sql", sql_page, is_of_all=True, is_page=True),
    Endpoint("GET", "/static/{file}", static, is_open=True, is_page=True),
)
