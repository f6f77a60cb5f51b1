"""Pages of the server that are made of one answer of the library: tables, findings, SQL; and its static files."""

from __future__ import annotations

import pyarrow as pa

from icecore.engine.catalog.audits.audit_tools import first_rows
from icecore.engine.catalog.catalog_handle import table_of, table_streams
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import counted, cut, number_in
from icecore.engine.display.cells import cell
from icecore.engine.display.python_values import python_rows
from icecore.engine.errors import IcecoreError, ValidationError, name_text
from icecore.engine.server.page.kept_findings import kept_findings
from icecore.engine.server.page.page_frame import alert, framed, grid, link, row_filter, static_file, table_path
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.projections.report.html_elements import Markup, element, in_bytes

MOST_ROWS, MOST_CELLS = 1_000, 50_000
MOST_TEXT = 16 * 2**20
"""The characters of an answer's cells; where they have more together, long ones are cut."""
SQL_MEMORY = "512MB"
_SUMS = ("total-records", "total-data-files", "total-delete-files")


def tables_page(call: Call) -> Answer:
    """The tables that the client may read, with their sizes by the totals of their current snapshots."""
    rows = [_table(call, name, stream) for name, stream in table_streams(call.catalog) if call.may_read(name[:-1])]
    columns = ("table", "rows", "data files", "delete files", "size", "format")
    told = grid("Tables", columns, rows, id="tables", class_="stacks")
    facts = counted(len(rows), "table")
    return framed(call, "Tables", "/tables", row_filter("tables", "Filter: names", len(rows)), told, facts=facts)


def _table(call: Call, name: Identifier, stream: str) -> tuple[str | Markup, ...]:
    """The cells of a table; where it can't be read, the reason."""
    way = link(name_text(name), table_path(name))
    try:
        table = table_of(call.catalog, stream)
    except IcecoreError as e:
        return (way, *("" for _ in _SUMS), "", str(e))
    snapshot = table.current_snapshot()
    summary = {} if snapshot is None else dict(snapshot.summary or {})
    size = number_in(summary.get("total-files-size", ""))
    given = (summary.get(key, "") for key in _SUMS)
    sums = (text if (n := number_in(text)) is None else f"{n:,}" for text in given)
    return (way, *sums, "" if size is None else in_bytes(size), f"v{table.metadata.format_version}")


def findings_page(call: Call) -> Answer:
    """The findings of the audit, the gravest first."""
    columns = ("severity", "rule", "table", "finding")
    count, told = kept_findings(call, (), columns, lambda: _findings(call))
    return framed(call, "Findings", "/findings", told, facts=counted(count, "finding"))


def _findings(call: Call) -> list[tuple[str | Markup, ...]]:
    found = call.catalog.audit().findings
    names = {name_text(name): name for name, _ in table_streams(call.catalog)}
    return [
        (
            element("b", str(f.severity), class_=str(f.severity)),
            f.rule,
            link(f.table, table_path(names[f.table])) if f.table in names else f.table or "",
            f.message,
        )
        for f in found
    ]


def sql_page(call: Call) -> Answer:
    """The answer of a query over the log and all metadata, which can change nothing and has a time limit."""
    query = call.query.get("q", "")
    shown: list[Markup] = []
    if query:
        try:
            timeout = call.serving.settings.query_s
            shown = _told(first_rows(call.catalog, query, MOST_ROWS + 1, timeout=timeout, memory_limit=SQL_MEMORY))
        except IcecoreError as e:
            shown = [alert(str(e))]
    name = element("label", "SQL", for_="query")
    words = element("textarea", query, id="query", name="q", rows="5", spellcheck="false")
    form = element("form", name, words, element("button", "Run"), action="/sql", method="get")
    facts = "one query over events, commits, tables, snapshots, files and more; Ctrl+Enter runs it"
    return framed(call, "SQL", "/sql", form, *shown, facts=facts)


def _told(found: pa.Table) -> list[Markup]:
    """The rows of an answer, as many as are shown, and how many there are."""
    most = max(1, min(MOST_ROWS, MOST_CELLS // max(1, found.num_columns)))
    rows = python_rows(found.slice(0, most))
    longest = max(1, MOST_TEXT // max(1, len(rows) * found.num_columns))
    cells = [tuple(cut(cell(v), longest) for v in row) for row in rows]
    count = counted(found.num_rows, "row") if found.num_rows <= most else f"the first {counted(most, 'row')}"
    return [element("p", count, role="status"), grid("Answer", found.column_names, cells, class_="answer")]


_KINDS = {"page.js": "text/javascript", "page.css": "text/css", "report.css": "text/css", "icon.svg": "image/svg+xml"}


def static(call: Call) -> Answer:
    """A file of the pages. Raises ValidationError."""
    name = call.names["file"]
    if name not in _KINDS:
        raise ValidationError(f"there is no file {name[:60]!r}")
    return static_file(name, f"{_KINDS[name]}; charset=utf-8")
