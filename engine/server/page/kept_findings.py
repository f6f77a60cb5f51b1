"""The findings that pages show: found by one thread at a time, and kept for a minute while no event comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.ids import now_ms
from icecore.engine.server.page.page_frame import grid
from icecore.engine.server.wire.call import Call
from icecore.projections.report.html_elements import Markup

KEPT_MS = 60_000
"""The longest time that findings are kept: files may be deleted, and snapshots grow old, without an event."""

Rows = Sequence[tuple[str | Markup, ...]]


def kept_findings(
    call: Call, table: Identifier, columns: tuple[str, ...], find: Callable[[], Rows]
) -> tuple[int, Markup]:
    """The number of findings of a table, or of all tables where its name is empty, and their rows in HTML.

    They are found anew after any event, since the log may have forgotten what they tell. A long history takes seconds
    of CPU and much memory, so one thread looks, and clients that ask at once wait for the same answer.
    """

    def made() -> bytes:
        rows = find()
        return f"{len(rows)}\n{grid('Findings', columns, rows, class_='stacks')}".encode("utf-8", "replace")

    key = ("findings", *table, str(call.catalog.position), str(now_ms() // KEPT_MS))
    count, _, told = call.serving.kept.get(key, made).decode().partition("\n")
    return int(count), Markup(told)
