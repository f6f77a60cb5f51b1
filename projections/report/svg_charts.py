"""Charts as SVG: pure functions of values. Colours are classes, which the page's style sheet knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

from attrs import frozen

from icecore.engine.common.text import cut
from icecore.projections.report.html_elements import Markup, element

WIDTH, HEIGHT = 460.0, 170.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 8.0, 10.0, 24.0
_PLACES = 2 * WIDTH
_ROUND = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
Told = Callable[[float], str]


@frozen
class Bar:
    """A bar: its parts from below, each a class and a value, and the text that is shown where it is pointed at."""

    label: str
    parts: tuple[tuple[str, float], ...]
    title: str

    @property
    def height(self) -> float:
        """The sum of the parts."""
        return sum(value for _, value in self.parts)


def bars(values: Sequence[Bar], told: Told, label: str) -> Markup:
    """A chart of stacked bars, with as many of their labels as have room."""
    top = nice_top(max((b.height for b in values), default=0))
    step = (WIDTH - LEFT - RIGHT) / max(len(values), 1)
    drawn: list[Markup] = list(_scale(top, told))
    every = math.ceil(len(values) / 6)
    for i, bar in enumerate(values):
        x, y = LEFT + i * step, HEIGHT - BOTTOM
        parts = []
        for kind, value in bar.parts:
            height = value / top * (HEIGHT - TOP - BOTTOM)
            y -= height
            if value:
                width = max(min(step - 1, 40), 0.5)
                at = x + (step - width) / 2
                parts.append(element("rect", class_=kind, x=at, y=y, width=width, height=max(height, 0.5)))
        drawn.append(element("g", element("title", bar.title), *parts))
        if i % every == 0:
            drawn.append(_text(bar.label, x + step / 2, HEIGHT - 8, "middle"))
    return drawing(drawn, label)


def steps(
    points: Sequence[tuple[float, float]], told: Told, told_x: Callable[[float, float], str], label: str, unit: int = 1
) -> Markup:
    """A line that stays at each value until the next one, over a filled area.

    `told_x` gives the label of a place of the scale below, by the length of that scale; for `unit` see `nice_top`. Of
    many points in one place, as of thousands, the least, the greatest and the last are drawn.
    """
    first, last = points[0][0], points[-1][0]
    top = nice_top(max(value for _, value in points), unit)
    span = max(last - first, 1)

    def at(x: float, value: float) -> str:
        across = LEFT + (x - first) / span * (WIDTH - LEFT - RIGHT)
        return f"{across:.1f} {HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM):.1f}"

    path, before = [f"M{at(*points[0])}"], points[0][1]
    for _, group in groupby(points[1:], lambda point: round(_PLACES * (point[0] - first) / span)):
        [x, *_], values = zip(*group, strict=True)
        path += [f"L{at(x, value)}" for value, _ in groupby((before, min(values), max(values), values[-1]))]
        before = values[-1]
    line = "".join(path)
    area = f"{line}L{at(last, 0)}L{at(first, 0)}Z"
    drawn = [
        *_scale(top, told),
        element("path", class_="area", d=area),
        element("path", class_="line", d=line),
        _text(told_x(first, span), LEFT, HEIGHT - 8, "start"),
        _text(told_x(last, span), WIDTH - RIGHT, HEIGHT - 8, "end"),
    ]
    return drawing(drawn, label)


def share(part: float, whole: float, label: str, kind: str = "bad") -> Markup:
    """One bar of which a part is marked."""
    width, height = WIDTH, 16.0
    marked = width * min(part / whole, 1) if whole else 0
    parts = [element("rect", class_="rest", width=width, height=height, rx=3)]
    if marked:
        parts.append(element("rect", class_=kind, width=max(marked, 2), height=height, rx=3))
    return drawing([element("title", label), *parts], label, height)


def nice_top(greatest: float, unit: int = 1) -> float:
    """The end of a scale, not below the greatest value: a round number of units.

    A `unit` of 1024 stands for itself and its powers, as of bytes.
    """
    if greatest <= 0:
        return 1.0
    size = 1.0
    while unit > 1 and greatest >= size * unit:
        size *= unit
    power = 10.0 ** math.floor(math.log10(greatest / size))
    return next(m * power * size for m in _ROUND if m * power * size >= greatest * (1 - 1e-9))


def _scale(top: float, told: Told) -> list[Markup]:
    """Lines at none, half and all of the scale."""
    drawn = []
    for part in (0.0, 0.5, 1.0):
        y = HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
        drawn.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        if part in (0.0, 1.0) or top * part == int(top * part):
            drawn.append(_text(told(top * part), LEFT - 5, y + 3.5, "end"))
    return drawn


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return element("text", cut(text, 24), x=x, y=y, text_anchor=anchor)


def drawing(drawn: Sequence[Markup], label: str, height: float = HEIGHT) -> Markup:
    """A drawing of the common width."""
    return element("svg", *drawn, viewBox=f"0 0 {WIDTH:g} {height:g}", role="img", aria_label=label)
