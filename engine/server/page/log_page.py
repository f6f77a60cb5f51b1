"""The page of the log: its newest events, and how many each day had."""

from __future__ import annotations

import datetime as dt
from collections import Counter

from icecore.engine.catalog.catalog_handle import table_streams
from icecore.engine.common.text import counted
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.events.event import Event
from icecore.engine.server.page.page_frame import framed, lines, link, row_filter, table_path
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.projections.inspect.log_table import log_lines
from icecore.projections.report.html_elements import Markup, element
from icecore.projections.report.svg_charts import Bar, bars

MOST_EVENTS = 10_000
_COLUMNS = ("position", "time (UTC)", "actor", "name", "kind", "message", "changes")
_DAYS = 60
_DIGITS = 18


def log_page(call: Call) -> Answer:
    """The newest events, newest first, and the number of each day; with `after` only those after that position.

    An open page follows the log: the server's events wake it, and it asks for those that it lacks. Raises
    ValidationError.
    """
    catalog, after = call.catalog, call.query.get("after", "0")
    if not after.isdecimal() or len(after) > _DIGITS:
        raise ValidationError(f"there is no event {after[:60]!r}")
    first = max(int(after), catalog.position - MOST_EVENTS)
    ways = {(n := name_text(name)): link(n, table_path(name)) for name, _ in table_streams(catalog)}
    store = catalog._warehouse.store
    rows = list(log_lines(store, store.events(first)))[::-1]
    days = Counter(_time(event).date() for event, _, _ in rows)
    drawn = [_day(day, days[day]) for day in sorted(days)[-_DAYS:]]
    caption = element("figcaption", "events by day")
    chart = element("figure", caption, bars(drawn, lambda n: f"{n:g}", "events by day"))
    told = lines("Events", _COLUMNS, [_row(*row, ways) for row in rows], "events", data_follows="/v1/events")
    asked = row_filter("events", "Filter: who, what, why", len(rows))
    facts = f"{catalog.path}, {counted(catalog.position, 'event')}"
    return framed(call, "The log", "/", chart, asked, told, facts=facts)


def _row(event: Event, name: str | None, changes: str, ways: dict[str, Markup]) -> tuple[str | Markup, ...]:
    """The cells of an event; the name links to the table that has it now, if there is one."""
    return (
        str(event.position),
        _time(event).strftime("%Y-%m-%d %H:%M:%S"),
        event.provenance.actor or "",
        ways.get(name or "", name or ""),
        event.kind,
        event.provenance.message or "",
        changes,
    )


def _time(event: Event) -> dt.datetime:
    return dt.datetime.fromtimestamp(event.recorded_at_ms / 1000, dt.UTC)


def _day(day: dt.date, count: int) -> Bar:
    return Bar(day.strftime("%m-%d"), (("append", count),), f"{day}: {counted(count, 'event')}")
