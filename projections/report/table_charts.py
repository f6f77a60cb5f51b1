"""The charts of one table."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Sequence

from icecore.engine.common.text import counted
from icecore.projections.report.heat_map import MOST_CELLS, Cell, heat_map
from icecore.projections.report.html_elements import Markup, element, in_bytes, in_short
from icecore.projections.report.report_data import Row, TableData
from icecore.projections.report.snapshot_graph import MOST, Dot, snapshot_graph
from icecore.projections.report.svg_charts import Bar, bars, share, steps

_SECOND, _MINUTE, _DAY = 1000, 60_000, 24 * 60 * 60_000
_SPANS = [_SECOND, 10 * _SECOND, _MINUTE, 10 * _MINUTE, 60 * _MINUTE, _DAY // 4, *(n * _DAY for n in (1, 7, 30, 365))]
_MOST_BARS = 48
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_000
_OPERATIONS = ("append", "overwrite", "delete", "replace")


def charts(table: TableData) -> list[tuple[str, str, Markup]]:
    """The charts with their titles and what is said below."""
    found = [_commits(table), *_growth(table), _sizes(table), _partitions(table), _snapshots(table), _deletes(table)]
    return [chart for chart in found if chart is not None]


def _commits(table: TableData) -> tuple[str, str, Markup] | None:
    """Commits over time, by what they did."""
    if not table.commits:
        return None
    times = [c["committed_ms"] for c in table.commits]
    whole = max(times) - min(times)
    span = next((s for s in _SPANS if whole // s < _MOST_BARS), whole // _MOST_BARS + 1)
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for commit in table.commits:
        counts[commit["committed_ms"] // span][_kind(commit["operation"])] += 1
    first, last = min(counts), max(counts)
    found = [_bar_of_commits(at, span, counts.get(at, Counter())) for at in range(first, last + 1)]
    actors = Counter(c["actor"] for c in table.commits).most_common(3)
    said = ", ".join(f"{actor} {number:,}" for actor, number in actors)
    return "Commits", f"{counted(len(table.commits), 'commit')}; {said}", bars(found, in_short, "commits over time")


def _bar_of_commits(at: int, span: int, counts: Counter[str]) -> Bar:
    when = _time(at * span, span)
    parts = tuple((f"op {kind}", float(counts[kind])) for kind in (*_OPERATIONS, "other"))
    said = ", ".join(f"{n} {kind}" for kind, n in counts.items()) or "none"
    return Bar(when, parts, f"{when}: {said}")


def _growth(table: TableData) -> list[tuple[str, str, Markup]]:
    """Rows and bytes over time, of the snapshots of main that say so."""
    found = []
    for what, title, told, unit in (("records", "Rows", in_short, 1), ("bytes", "Bytes", in_bytes, 1024)):
        points = [
            (float(c["committed_ms"]), c[what]) for c in table.commits if c["branch"] == "main" and c[what] is not None
        ]
        if len(points) > 1:
            label = f"{title.lower()} over time"
            chart = steps(points, told, lambda ms, span: _time(int(ms), int(span) // _MOST_BARS), label, unit)
            found.append((f"Growth: {title.lower()}", f"from {told(points[0][1])} to {told(points[-1][1])}", chart))
    return found


def _sizes(table: TableData) -> tuple[str, str, Markup] | None:
    """The numbers of data files by size."""
    if not table.sizes:
        return None
    by_power = {s["power"]: s for s in table.sizes}
    found = []
    for power in range(min(by_power), max(by_power) + 1):
        row = by_power.get(power)
        files = row["files"] if row else 0
        label = in_bytes(2**power)
        found.append(Bar(label, (("plain", float(files)),), f"from {label}: {counted(files, 'file')}"))
    files, size = table.sum("files"), table.sum("bytes")
    said = f"{counted(files, 'data file')}, {in_bytes(size / max(files, 1))} on average"
    return "File sizes", said, bars(found, in_short, "data files by size")


def _partitions(table: TableData) -> tuple[str, str, Markup] | None:
    """The bytes of each partition."""
    rows = [p for p in table.partitions if p["partition"]]
    if not rows:
        return None
    cells = [
        Cell(p["partition"], tuple(f or "null" for f in p["fields"] or ()), p["bytes"], counted(p["files"], "file"))
        for p in rows
    ]
    greatest = max(rows, key=lambda p: p["bytes"])
    more = f"; the first {MOST_CELLS} are shown" if len(rows) > MOST_CELLS else ""
    largest = f"the largest {greatest['partition']} with {in_bytes(greatest['bytes'])}"
    said = f"{counted(len(rows), 'partition')}, {largest}{more}"
    return "Partitions", said, heat_map(cells, "bytes by partition")


def _deletes(table: TableData) -> tuple[str, str, Markup] | None:
    """The deletes in delete files and deletion vectors, as a part of all rows."""
    records, deletes, files = (table.sum(n) for n in ("records", "deletes", "delete_files"))
    if not records:
        return None
    said = f"{counted(deletes, 'delete')} in {counted(files, 'delete file')} for {counted(records, 'row')}"
    return "Delete debt", f"{100 * deletes / records:.1f} %: {said}", share(deletes, records, said)


def _snapshots(table: TableData) -> tuple[str, str, Markup] | None:
    """The last snapshots, and what leads to them."""
    if not table.commits:
        return None
    refs: defaultdict[int, list[str]] = defaultdict(list)
    for ref in table.refs:
        refs[ref["snapshot_id"]].append(ref["ref"])
    dots = [_dot(c) for c in table.commits]
    shown = f"the last {MOST} of " if len(dots) > MOST else ""
    said = f"{shown}{counted(len(dots), 'snapshot')} in the log, {table.about['snapshots']:,} of them there"
    return "Snapshots", said, snapshot_graph(dots, refs, "snapshots and their parents")


def _dot(commit: Row) -> Dot:
    when = _time(commit["committed_ms"], _MINUTE)
    reason = commit["message"] or "no reason"
    title = f"position {commit['position']}, {when}, {commit['actor']}: {commit['operation']}, {reason}"
    return Dot(
        commit["snapshot_id"], commit["parent_id"], commit["branch"] or "no branch", commit["operation"] or "", title
    )


def _kind(operation: str | None) -> str:
    return operation if operation in _OPERATIONS else "other"


def _time(ms: int, span: int) -> str:
    """A time in UTC, as exact as spans of `span` milliseconds need; the nearest one that has a year of four digits."""
    at = dt.datetime.fromtimestamp(min(max(ms, _FIRST_MS), _LAST_MS) / 1000, dt.UTC)
    return at.strftime("%Y-%m-%d" if span >= _DAY else "%m-%d %H:%M" if span >= _MINUTE else "%H:%M:%S")


def legend(tables: Sequence[TableData]) -> Markup:
    """The colours of operations that occur."""
    used = {_kind(c["operation"]) for t in tables for c in t.commits}
    items = [
        element("span", element("i", class_=f"key {kind}"), kind) for kind in (*_OPERATIONS, "other") if kind in used
    ]
    return element("p", *items, class_="legend")
