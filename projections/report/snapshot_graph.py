"""A graph of snapshots: a dot for each, in the order of the log, a lane for each branch, a line from its parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from icecore.engine.common.text import cut
from icecore.projections.report.html_elements import Markup, element
from icecore.projections.report.svg_charts import WIDTH, drawing

MOST = 40
_LANE, _LEFT, _TOP = 26.0, 12.0, 18.0
_REFS, _REF = 2, 9.0
"""The refs of a snapshot that are shown, one above the other, and their height."""


@frozen
class Dot:
    """A snapshot: its parent, its branch, its operation, and the text that is shown where it is pointed at."""

    snapshot_id: int
    parent_id: int | None
    branch: str
    operation: str
    title: str


def snapshot_graph(dots: Sequence[Dot], refs: Mapping[int, Sequence[str]], label: str) -> Markup:
    """The last snapshots and the refs that name them."""
    shown = dots[-MOST:]
    lanes = {name: i for i, name in enumerate(sorted({d.branch for d in shown}, key=lambda n: (n != "main", n)))}
    labels = max((len(name) for d in shown[-1:] for name in refs.get(d.snapshot_id, ())), default=0)
    step = (WIDTH - 2 * _LEFT - min(labels, 18) * 3) / max(len(shown) - 1, 1)
    step = min(step, 60)
    top = _TOP + max((_REF * (len(refs.get(d.snapshot_id, ())[:_REFS]) - 1) for d in shown), default=0)
    places = {d.snapshot_id: (_LEFT + i * step, top + lanes[d.branch] * _LANE) for i, d in enumerate(shown)}
    drawn: list[Markup] = []
    for dot in shown:
        x, y = places[dot.snapshot_id]
        if dot.parent_id in places:
            drawn.append(_edge(places[dot.parent_id], (x, y)))
    for dot in shown:
        x, y = places[dot.snapshot_id]
        drawn.append(
            element("circle", element("title", dot.title), class_=f"op {_kind(dot.operation)}", cx=x, cy=y, r=5)
        )
        for i, name in enumerate(refs.get(dot.snapshot_id, ())[:_REFS]):
            anchor = "end" if x > WIDTH * 0.75 else "start" if x < 60 else "middle"
            drawn.append(element("text", cut(name, 18), class_="ref", x=x, y=y - 8 - i * _REF, text_anchor=anchor))
    height = top + len(lanes) * _LANE
    return drawing(drawn, label, height)


def _edge(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    (x, y), (to_x, to_y) = start, end
    middle = (x + to_x) / 2
    return element(
        "path", class_="edge", d=f"M{x:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    )


def _kind(operation: str) -> str:
    return operation if operation in ("append", "overwrite", "delete", "replace") else "other"
