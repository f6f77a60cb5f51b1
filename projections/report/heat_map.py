"""A heat map of partitions: the deeper the colour, the more bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from icecore.engine.common.text import cut
from icecore.projections.report.html_elements import Markup, element, in_bytes
from icecore.projections.report.svg_charts import WIDTH, drawing

MOST_CELLS, MOST_ROWS, MOST_COLUMNS = 400, 30, 60
_CELL, _LABEL = 14.0, 92.0


@frozen
class Cell:
    """A partition: its path, the values of its fields, its bytes, and the text that is shown where it is pointed at."""

    path: str
    fields: tuple[str, ...]
    size: int
    title: str


def heat_map(cells: Sequence[Cell], label: str) -> Markup:
    """The cells as a grid by their first two fields.

    They are one after another where that has no room, they have fewer, or two would be in one place.
    """
    rows = list(dict.fromkeys(c.fields[0] for c in cells if len(c.fields) > 1))
    columns = sorted({c.fields[1] for c in cells if len(c.fields) > 1})
    places = {c.fields[:2] for c in cells if len(c.fields) > 1}
    if 1 < len(rows) <= MOST_ROWS and 1 < len(columns) <= MOST_COLUMNS and len(places) == len(cells):
        return _grid(cells, rows, columns, label)
    return _in_turn(cells[:MOST_CELLS], label)


def _grid(cells: Sequence[Cell], rows: Sequence[str], columns: Sequence[str], label: str) -> Markup:
    width = min((WIDTH - _LABEL) / len(columns), 40)
    greatest = max(c.size for c in cells)
    across, down = ({name: i for i, name in enumerate(names)} for names in (columns, rows))
    drawn = [
        _square(c, _LABEL + across[c.fields[1]] * width, down[c.fields[0]] * _CELL, width, greatest) for c in cells
    ]
    drawn += [
        element("text", cut(name, 15), x=_LABEL - 5, y=i * _CELL + 10.5, text_anchor="end")
        for i, name in enumerate(rows)
    ]
    height = len(rows) * _CELL + 16
    for i in (0, len(columns) - 1):
        x = _LABEL + (0 if i == 0 else len(columns) * width)
        anchor = "start" if i == 0 else "end"
        drawn.append(element("text", cut(columns[i], 15), x=x, y=height - 4, text_anchor=anchor))
    return drawing(drawn, label, height)


def _in_turn(cells: Sequence[Cell], label: str) -> Markup:
    per_row = min(max(math.ceil(math.sqrt(len(cells) * 3)), 12), 32)
    width = WIDTH / per_row
    greatest = max((c.size for c in cells), default=1)
    drawn = [_square(c, i % per_row * width, i // per_row * _CELL, width, greatest) for i, c in enumerate(cells)]
    return drawing(drawn, label, math.ceil(len(cells) / per_row) * _CELL + 2)


def _square(cell: Cell, x: float, y: float, width: float, greatest: int) -> Markup:
    """A cell; its colour is one of ten classes."""
    heat = min(int(10 * cell.size / greatest), 9) if greatest else 0
    title = element("title", f"{cell.path or 'the table'}: {in_bytes(cell.size)}, {cell.title}")
    return element("rect", title, class_=f"heat h{heat}", x=x + 0.5, y=y + 0.5, width=width - 1, height=_CELL - 1, rx=2)
