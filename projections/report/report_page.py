"""The page of a report: one HTML file that needs nothing else, for a screen, light or dark, and for paper."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from importlib.resources import files

from attrs import evolve, frozen

from icecore.engine.common.text import counted
from icecore.engine.common.version import ENGINE_VERSION
from icecore.projections.audit.rules.audit_findings import Audit, AuditFinding
from icecore.projections.audit.rules.rule import Severity
from icecore.projections.report.html_elements import Markup, element, in_bytes, joined
from icecore.projections.report.report_data import TableData
from icecore.projections.report.table_charts import charts, legend

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The security policy of the page: nothing is loaded from anywhere and nothing is run, whatever a name says."""
MOST_FINDINGS = 50
_COLUMNS = ("table", "rows", "bytes", "files", "deletes", "snapshots", "findings")


@frozen
class ReportHead:
    """The head of a report: its title, the warehouse, the position and the time."""

    title: str
    warehouse: str
    position: int
    made_at_ms: int


def report_page(head: ReportHead, tables: Sequence[TableData], audit: Audit) -> str:
    """The page as text."""
    style = (files("icecore") / "projections" / "report" / "report.css").read_text(encoding="utf-8")
    at = dt.datetime.fromtimestamp(head.made_at_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    made = f"{head.warehouse}, position {head.position:,} of the log, {at}, {ENGINE_VERSION}"
    top = element("header", element("h1", head.title), element("p", made))
    page = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", head.title),
            element("style", Markup(style)),
        ),
        element("body", element("main", top, *report_parts(tables, audit))),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{page}\n"


def report_parts(tables: Sequence[TableData], audit: Audit | None) -> list[Markup]:
    """The page below its head: sums, an overview, and a section for each table; of findings where there is an audit."""
    sections = [_section(i, t, audit, is_alone=len(tables) == 1) for i, t in enumerate(tables)]
    return [_sums(tables, audit), _overview(tables, audit), _others(tables, audit), legend(tables), *sections]


def _sums(tables: Sequence[TableData], audit: Audit | None) -> Markup:
    """The sums of all."""
    sums = {
        "tables": f"{len(tables):,}",
        "rows": f"{sum(t.sum('records') for t in tables):,}",
        "data files": f"{sum(t.sum('files') for t in tables):,}",
        "bytes": in_bytes(sum(t.sum("bytes") for t in tables)),
        "commits": f"{sum(len(t.commits) for t in tables):,}",
    }
    found = {} if audit is None else {s: audit.count(s) for s in Severity}
    return tiles(
        {**sums, **{f"{s}s": f"{n:,}" for s, n in found.items()}}, {f"{s}s": str(s) for s in found if found[s]}
    )


def tiles(values: Mapping[str, str], kinds: Mapping[str, str] = {}) -> Markup:
    """Values, each with its name below; `kinds` are the classes of some."""
    drawn = [element("div", element("b", v, class_=kinds.get(n)), element("span", n)) for n, v in values.items()]
    return element("section", *drawn, class_="tiles")


def _overview(tables: Sequence[TableData], audit: Audit | None) -> Markup:
    """A line for each table, which leads to its section."""
    if len(tables) < 2:
        return Markup("")
    head = element("tr", *(element("th", name) for name in _COLUMNS))
    rows = [_line(i, t, _findings_of(t, audit)) for i, t in enumerate(tables)]
    return element("section", element("table", element("thead", head), element("tbody", *rows), class_="overview"))


def _line(place: int, table: TableData, found: Sequence[AuditFinding]) -> Markup:
    values = [
        f"{table.sum('records'):,}",
        in_bytes(table.sum("bytes")),
        f"{table.sum('files'):,}",
        f"{table.sum('deletes'):,}",
        f"{table.about['snapshots']:,}",
    ]
    link = element("a", table.name, href=f"#t{place}")
    worst = str(found[0].severity) if found else None
    return element(
        "tr", element("td", link), *(element("td", v) for v in values), element("td", f"{len(found):,}", class_=worst)
    )


def _others(tables: Sequence[TableData], audit: Audit | None) -> Markup:
    """The findings that are of none of the tables; of a dropped one they have its name."""
    own = {f for t in tables for f in _findings_of(t, audit)}
    left = [f for f in _findings(audit) if f not in own]
    named = [f if f.table is None else evolve(f, message=f"{f.table}: {f.message}") for f in left]
    return element("section", element("h2", "Of the warehouse"), _listed(named)) if named else Markup("")


def _section(place: int, table: TableData, audit: Audit | None, *, is_alone: bool) -> Markup:
    """The part about one table; the title of a page about it alone has its name."""
    about = table.about
    facts = [
        f"format version {about['format_version']}",
        counted(about["columns"], "column"),
        f"partitioned by {about['partition_spec']}" if _is_partitioned(table) else "not partitioned",
        str(about["location"]),
    ]
    drawn = [
        element("figure", element("figcaption", title), chart, element("p", said))
        for title, said, chart in charts(table)
    ]
    found = _findings_of(table, audit)
    return element(
        "section",
        Markup("") if is_alone else element("h2", table.name),
        element("p", "; ".join(facts), class_="facts"),
        _listed(found) if found else Markup(""),
        element("div", *drawn, class_="charts"),
        id=f"t{place}",
        class_="of-table",
    )


def _is_partitioned(table: TableData) -> bool:
    return any(p["partition"] for p in table.partitions)


def _findings(audit: Audit | None) -> Sequence[AuditFinding]:
    return () if audit is None else audit.findings


def _findings_of(table: TableData, audit: Audit | None) -> list[AuditFinding]:
    return [f for f in _findings(audit) if f.table == table.name and f.table_uuid in (None, table.about["table_uuid"])]


def _listed(found: Sequence[AuditFinding]) -> Markup:
    """Findings, each with what mends it."""
    items = [
        element(
            "li",
            element("b", str(f.severity), class_=str(f.severity)),
            element("code", f.rule),
            element("span", f.message),
            element("small", f.mend),
        )
        for f in found[:MOST_FINDINGS]
    ]
    if len(found) > MOST_FINDINGS:
        items.append(element("li", f"and {len(found) - MOST_FINDINGS:,} more"))
    return element("ul", joined(items), class_="findings")
