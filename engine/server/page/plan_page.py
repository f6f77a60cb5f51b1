"""The page of a plan: a filter, and why each file and each manifest is in the plan or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import counted
from icecore.engine.errors import IcecoreError, name_text
from icecore.engine.expression.sql.sql_text import expression_text
from icecore.engine.server.page.page_frame import alert, framed, grid, link, row_filter, table_path
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.table.table import Table
from icecore.projections.explain.explain import Explanation
from icecore.projections.explain.explained_files import MANIFEST, METRICS, PARTITION, PLANNED
from icecore.projections.report.html_elements import Markup, element, in_bytes
from icecore.projections.report.report_page import tiles
from icecore.projections.report.svg_charts import share

MOST_FILES = 1_000
MOST_MANIFESTS = 500
_OUT = {MANIFEST: "manifest summary", PARTITION: "partition", METRICS: "column metrics"}


def plan_page(call: Call) -> Answer:
    """The plan of a filter over a branch or tag: its files and manifests, and the reasons why others are left out."""
    name = call.table
    table = call.catalog.load_table(name)
    row_filter, ref = call.query.get("filter", "").strip(), call.query.get("ref") or MAIN_BRANCH
    try:
        scan = table.scan(row_filter or None, ref=None if ref == MAIN_BRANCH else ref)
        shown = _explained(name, scan.explain())
    except IcecoreError as e:
        shown = [alert(str(e))]
    path = table_path(name, "/plan")
    facts = "which files a scan reads by this filter, and what is known of those that it does not"
    form = _form(path, table, row_filter, ref)
    return framed(call, f"Plan: {name_text(name)}", path, form, *shown, facts=facts, table=name)


def _form(path: str, table: Table, row_filter: str, ref: str) -> Markup:
    known = sorted({MAIN_BRANCH, *table.refs()})
    refs = [element("option", r, value=r, selected="selected" if r == ref else None) for r in known]
    columns = ", ".join(f"{f.name} {f.field_type}" for f in table.schema().fields)
    return element(
        "form",
        element("label", "Of", for_="ref"),
        element("select", *refs, id="ref", name="ref"),
        element("label", "Filter", for_="filter"),
        element("input", id="filter", name="filter", value=row_filter, autocomplete="off", spellcheck="false"),
        element("button", "Plan"),
        element("small", f"as in SQL's WHERE; columns: {columns}"),
        action=path,
        method="get",
        class_="asks",
    )


def _explained(name: Identifier, found: Explanation) -> list[Markup]:
    files = found.files
    planned = files.filter(pc.field("reason") == PLANNED)
    size, read = (pc.sum(t["file_size_in_bytes"]).as_py() or 0 for t in (files, planned))
    told = f"{planned.num_rows:,} of {counted(files.num_rows, 'file')} planned"
    counts = {
        "files planned": f"{planned.num_rows:,} of {files.num_rows:,}",
        "rows in them": f"{pc.sum(planned['record_count']).as_py() or 0:,}",
        "bytes to read": in_bytes(read),
        "bytes left out": in_bytes(size - read),
    }
    parts = [
        element("p", f"{expression_text(found.row_filter)}: {told}", role="status", class_="facts"),
        tiles(counts),
        share(planned.num_rows, files.num_rows, told, "plain"),
    ]
    return [*parts, _reasons(found), _manifests(files), _files(name, files)] if files.num_rows else parts


def _reasons(found: Explanation) -> Markup:
    rows = [
        (
            _verdict(r),
            _why(r),
            *(f"{r[n]:,}" for n in ("manifests", "files", "records")),
        )
        for r in found.summary.to_pylist()
    ]
    return _section("Why", grid("Why", ("", "reason", "manifests", "files", "rows"), rows, class_="stacks"))


def _manifests(files: pa.Table) -> Markup:
    """A row for each manifest: the number of its files in the plan, or the reason why it was not looked into."""
    flags = pc.cast(pc.equal(files["reason"], PLANNED), pa.int64())
    sums = [("is_planned", "sum"), ("is_planned", "count"), ("reason", "max"), ("predicate", "min"), ("known", "min")]
    by = files.append_column("is_planned", flags).group_by("manifest_path").aggregate(sums)
    rows = []
    for r in by.sort_by([("is_planned_sum", "descending"), ("manifest_path", "ascending")]).to_pylist():
        is_read = r["reason_max"] != MANIFEST
        planned = f"{r['is_planned_sum']:,} of {r['is_planned_count']:,}"
        why = "some of its rows may be in the answer" if is_read else f"none of its rows can have {r['predicate_min']}"
        known = "" if is_read else r["known_min"] or ""
        verdict = "in" if r["is_planned_sum"] else "looked into" if is_read else "out"
        rows.append((_marked(verdict), _last(r["manifest_path"]), planned, why, known))
    told = grid("Manifests", ("", "manifest", "files planned", "why", "known"), rows[:MOST_MANIFESTS], class_="stacks")
    return _section(f"Manifests: {len(rows):,}{_shown(len(rows), MOST_MANIFESTS)}", told)


def _files(name: Identifier, files: pa.Table) -> Markup:
    """The files, planned ones first, as many as are shown."""
    order = [("reason", "descending"), ("file_path", "ascending")]
    chosen = files.take(pc.select_k_unstable(files, k=min(MOST_FILES, files.num_rows), sort_keys=order)).to_pylist()
    rows = [
        (
            _verdict(r),
            _blamed(name, "file", r["file_path"]),
            _blamed(name, "partition", r["partition"]) if r["partition"] else "",
            f"{r['record_count']:,}",
            in_bytes(r["file_size_in_bytes"]),
            f"{r['delete_files']:,}" if r["delete_files"] else "",
            f"left to filter: {r['residual']}" if r["reason"] == PLANNED and r["residual"] != "TRUE" else _why(r),
            r["known"] or "",
        )
        for r in chosen
    ]
    columns = ("", "file", "partition", "rows", "size", "delete files", "why", "known")
    told = grid("Files", columns, rows, id="files", class_="stacks")
    title = f"Files: {files.num_rows:,}{_shown(files.num_rows, MOST_FILES)}"
    return _section(title, row_filter("files", "Filter: path, reason", len(rows)), told)


def _blamed(name: Identifier, of: str, value: str) -> Markup:
    return link(_last(value) if of == "file" else value, table_path(name, "/blame", {"of": of, "value": value}))


def _verdict(row: Mapping[str, Any]) -> Markup:
    return _marked("in" if row["reason"] == PLANNED else "out")


def _marked(verdict: str) -> Markup:
    return element("b", verdict, class_=f"is-{verdict.partition(' ')[0]}")


def _why(row: Mapping[str, Any]) -> str:
    """The reason of a file or of several, in words."""
    if row["reason"] == PLANNED:
        return "by its metadata it may have rows of the answer"
    by = f" of {row['field']}" if row["field"] else ""
    return f"by {_OUT[row['reason']]}{by}: {row['predicate'] or 'no rows'}"


def _shown(count: int, most: int) -> str:
    return f", of which {most:,} are shown" if count > most else ""


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _section(title: str, *content: Markup) -> Markup:
    return element("section", element("h2", title), *content)
