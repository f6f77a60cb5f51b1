"""Rows as lines of text: a table that fits its width, or one field a line."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from icecore.engine.common.text import counted
from icecore.engine.display.cells import cell, is_number

MAX_TABLE_ROWS = 1000
LEAST_TEXT = 9
"""The characters that a column of text keeps at least; where that does not fit, columns to the right are left out."""
_GAP = "   "
_LOCATION = re.compile(r"[a-z][a-z0-9]*://")

Write = Callable[[str, Any], str]
"""The text of a value of a named column."""


@frozen
class _Column:
    name: str
    cells: list[str]
    is_number: bool
    is_text: bool

    @property
    def width(self) -> int:
        """The width of its widest cell, or of its name."""
        return max(map(text_width, (self.name, *self.cells)))

    def lines(self, width: int) -> list[str]:
        """The name, a rule and the cells, all as wide."""
        name, *cells = (_pad(cut(t, width), width, self.is_number) for t in (self.name, *self.cells))
        return [name, "─" * width, *cells]


def table_lines(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    width: int | None,
    null: str = "",
    write: Write | None = None,
    below: str | None = None,
) -> list[str]:
    """Rows under their names, numbers to the right, at most MAX_TABLE_ROWS of them.

    In a `width` long texts are cut, and columns that still do not fit are left out, with their number below. Before
    any is cut the column `below` gets a line of its own under each row.
    """
    shown = rows[:MAX_TABLE_ROWS]
    columns = [_column(name, [row[i] for row in shown], null, write) for i, name in enumerate(names)]
    widths, under = [c.width for c in columns], None
    if width is not None:
        if below is not None and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
            under = columns.pop(names.index(below))
        widths = fitted([c.width for c in columns], [c.is_text for c in columns], width)
    parts = [c.lines(w) for c, w in zip(columns, widths, strict=False)]
    gaps = (_GAP, "─" * len(_GAP))
    lines = [gaps[i == 1].join(line).rstrip() for i, line in enumerate(zip(*parts, strict=True))]
    if width is not None and under is not None:
        first = " " * (widths[0] + len(_GAP))
        name, *cells = (f"{first}{cut(text, width - len(first))}".rstrip() for text in (under.name, *under.cells))
        lines = [lines[0], name, lines[1], *(line for pair in zip(lines[2:], cells, strict=True) for line in pair)]
    if len(widths) < len(columns):
        more = len(columns) - len(widths)
        lines.append(f"… {counted(more, 'more column')}, --wide")
    if len(rows) > MAX_TABLE_ROWS:
        lines.append(f"... and {len(rows) - MAX_TABLE_ROWS} more rows: --output json prints all")
    return lines


def expanded_lines(names: Sequence[str], rows: Sequence[Sequence[Any]], *, null: str = "") -> list[str]:
    """One field a line, under the number of its row; further lines of a text stand below its first."""
    titles = [cell(n) for n in names]
    width = max(map(text_width, titles), default=0)
    lines = []
    for i, row in enumerate(rows[:MAX_TABLE_ROWS], 1):
        lines.append(f"── {i} {'─' * max(width - len(str(i)) - 4, 2)}")
        for title, value in zip(titles, row, strict=True):
            first, *others = cell(value, null).split("\n")
            lines.append(f"{_pad(title, width, False)}  {first}".rstrip())
            lines += [f"{' ' * width}  {line}" for line in others]
    if len(rows) > MAX_TABLE_ROWS:
        lines.append(f"... and {len(rows) - MAX_TABLE_ROWS} more rows: --output json prints all")
    return lines


def fitted(widths: Sequence[int], is_text: Sequence[bool], width: int) -> list[int]:
    """The widths of the columns that fit side by side, from the left; at least one.

    Texts share what numbers and times leave, none wider than it needs.
    """
    for count in range(len(widths), 0, -1):
        room = width - len(_GAP) * (count - 1)
        room -= sum(w for w, cuttable in zip(widths[:count], is_text, strict=False) if not cuttable)
        texts = [w for w, cuttable in zip(widths[:count], is_text, strict=False) if cuttable]
        if sum(min(w, LEAST_TEXT) for w in texts) <= room:
            widest = _widest(texts, room)
            return [min(w, widest) if c else w for w, c in zip(widths[:count], is_text, strict=False)]
    return [min(w, max(width, 1)) for w in widths[:1]]


def cut(text: str, width: int) -> str:
    """The text where it fits; else its beginning, or the beginning and end of a path, around an ellipsis."""
    if text_width(text) <= width:
        return text
    is_path = _LOCATION.match(text) if " " in text else "/" in text
    tail = _tail(text, (width - 1) * 2 // 3) if is_path else ""
    return f"{_start(text, width - 1 - text_width(tail))}…{tail}"


def text_width(text: str) -> int:
    """The columns of a terminal that a text takes: letters of some scripts take two, marks over letters none."""
    if text.isascii() or max(text.replace("…", ""), default="") < "\u0300":
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _column(name: str, values: Sequence[Any], null: str, write: Write | None) -> _Column:
    numeric = any(map(is_number, values)) and all(v is None or is_number(v) for v in values)
    cells = [null if v is None else cell(v, null) if write is None else write(name, v) for v in values]
    is_text = any(not is_number(v) and not isinstance(v, dt.date | dt.time | bool | None) for v in values)
    # Where an id was shortened, it is no number any more.
    return _Column(_one_line(name), [_one_line(c) for c in cells], numeric, is_text)


def _widest(widths: Sequence[int], room: int) -> int:
    """The most that each may take, so that all together take no more than the room."""
    left, widest = room, 0
    for i, width in enumerate(sorted(widths)):
        widest = left // (len(widths) - i)
        if width > widest:
            return widest
        left -= width
    return max(widths, default=0)


def _start(text: str, width: int) -> str:
    used = 0
    for i, letter in enumerate(text):
        used += text_width(letter)
        if used > width:
            return text[:i]
    return text


def _tail(text: str, width: int) -> str:
    return _start(text[::-1], width)[::-1]


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def _one_line(text: str) -> str:
    return cell(text).replace("\n", "\\n")
