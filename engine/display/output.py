"""Output: text for people, fitted to their terminal, and JSON, CSV or Arrow for programs."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from threading import Timer
from typing import TYPE_CHECKING, Any

import click
import orjson
from attrs import frozen

from icecore.engine.common.text import printable, printable_json
from icecore.engine.display.cells import cell, distinct_names, plain
from icecore.engine.display.python_values import python_rows
from icecore.engine.display.short_text import is_count, short
from icecore.engine.display.table_layout import expanded_lines, table_lines
from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

PATIENCE = 1.0
"""The seconds after which a person is told what the program waits for."""
TABLE, JSON, CSV, ARROW = FORMATS = ("table", "json", "csv", "arrow")


@frozen
class Form:
    """A form of output: one of FORMATS.

    For text, `expanded` puts each field on a line of its own, and `wide` lets lines be wider than the terminal.
    """

    output: str = TABLE
    expanded: bool = False
    wide: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it is text for people, not JSON, CSV or Arrow."""
        return self.output == TABLE

    @property
    def fits(self) -> bool:
        """Whether it is a table that is made to fit a terminal."""
        return self.is_text and not self.expanded and not self.wide and terminal_size() is not None


PLAIN = Form()


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    form: Form = PLAIN,
    *,
    null: str = "",
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    as_data: bool = False,
    below: str | None = None,
) -> None:
    """Prints rows; as text between the lines `before` and `after`, with a column `below` each row as `row_lines` does.

    With `as_data` ids and counts are printed in full. Raises ValidationError for Arrow on a terminal.
    """
    rows = list(rows)
    if form.output == JSON:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif form.output == CSV:
        text = "\n".join(_csv_lines(columns, rows))
        click.echo(printable(text) if sys.stdout.isatty() else text)
    elif form.output == ARROW:
        _write_arrow(_arrow_table(columns, rows))
    else:
        _page([*before, *row_lines(columns, rows, form, null=null, as_data=as_data, below=below), *after])


def print_arrow(
    table: pa.Table, form: Form = PLAIN, *, null: str = "null", as_data: bool = True, below: str | None = None
) -> None:
    """Prints a result as `print_rows` does, as Arrow with its own types."""
    names = distinct_names(table.column_names)
    if form.output == ARROW:
        _write_arrow(table.rename_columns(names))
        return
    print_rows(names, python_rows(table), form, null=null, as_data=as_data, below=below)


def print_record(record: Mapping[str, Any], form: Form, lines: Iterable[str]) -> None:
    """Prints one thing: a JSON object, a row of CSV or Arrow with what is nested as JSON, or the lines."""
    if form.output == JSON:
        print_json(record)
    elif not form.is_text:
        print_rows(list(record), [list(record.values())], form)
    else:
        _page(list(lines))


def row_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    form: Form = PLAIN,
    *,
    null: str = "",
    as_data: bool = False,
    below: str | None = None,
) -> list[str]:
    """Rows as text for people: fitted to the terminal, where there is one, with a column `below` each row."""
    if form.expanded:
        return expanded_lines(columns, rows, null=null)
    size = terminal_size()
    width = size.columns if size is not None and form.fits else None
    return table_lines(
        columns, rows, width=width, null=null, write=None if size is None or as_data else short, below=below
    )


def wrapped_rows(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Rows of a name and a long text, the text broken into as many rows as it takes on the terminal."""
    names = max((len(name) for name, _ in rows), default=0)
    size = terminal_size() or os.terminal_size((80, 24))
    found = []
    for name, text in rows:
        first, *others = wrap(text, max(size.columns - names - 3, 20)) or [""]
        found += [(name, first), *(("", line) for line in others)]
    return found


def pair_lines(pairs: Mapping[str, Any]) -> list[str]:
    """Names and values, one pair a line; the items of a list stand below their name.

    Further lines of a value are indented, so that none looks like another pair. A person reads counts by thousands.
    """
    counts = {n for n in pairs if terminal_size() is not None and any(map(is_count, n.split()))}
    width = max(map(len, pairs), default=0)
    lines = []
    for name, value in pairs.items():
        if isinstance(value, list):
            lines += [name, *("  " + cell(item).replace("\n", "\n  ") for item in value)]
        else:
            text = f"{value:,}" if name in counts and isinstance(value, int) else cell(value)
            lines.append(f"{name:<{width}}  " + text.replace("\n", "\n" + " " * (width + 2)))
    return lines


def print_json(value: Any) -> None:
    """Prints one JSON value: ISO 8601 times, hexadecimal bytes, decimals as text where a number would lose digits."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
    text = orjson.dumps(plain(value), option=options).decode()
    click.echo(printable_json(text) if sys.stdout.isatty() else text)


def print_text(what: RenderableType) -> None:
    """Prints text, or what rich can draw."""
    if isinstance(what, str):
        _page(what.split("\n"))
        return
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, force_terminal=sys.stdout.isatty(), highlight=False, markup=False, emoji=False).print(what)
    click.echo("\n".join(line.rstrip() for line in file.getvalue().splitlines()))


@contextmanager
def waiting(what: str) -> Iterator[object]:
    """A context with a spinner on standard error after PATIENCE seconds, if a person is there to see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.text import Text

    # A name is no markup, whatever brackets it has.
    status = Console(stderr=True).status(Text(printable(what)))
    later = Timer(PATIENCE, status.start)
    later.daemon = True
    later.start()
    try:
        yield status
    finally:
        later.cancel()
        later.join()
        status.stop()


def terminal_size() -> os.terminal_size | None:
    """The size of the terminal that the output goes to; None where it goes elsewhere."""
    return shutil.get_terminal_size() if sys.stdout.isatty() else None


def _page(lines: Sequence[str]) -> None:
    """Prints lines, by a pager where they are more than the terminal has."""
    text = "\n".join(printable(line).rstrip() for line in lines)
    size = terminal_size()
    if size is None or text.count("\n") + 2 <= size.lines:
        click.echo(text)
        return
    # As git has it: quit at the end of a short text, cut what is wider.
    os.environ.setdefault("LESS", "FRSX")
    click.echo_via_pager(text)


def _csv_lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    # Readers skip an empty line: null alone in a row is two quotes, as Python's csv module has it.
    return [",".join(map(_csv_field, row)) or '""' * len(row) for row in (columns, *rows)]


def _csv_field(value: Any) -> str:
    """A value in CSV: nothing for null, which the quoted empty text is not."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else cell(value)
    return '"' + text.replace('"', '""') + '"' if not text or set(text) & set(',"\r\n') else text


def _arrow_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows as Arrow, what is nested as JSON."""
    import pyarrow as pa

    found = {}
    for i, name in enumerate(columns):
        values = [cell(v) if isinstance(v, Mapping | list | tuple) else v for v in (row[i] for row in rows)]
        found[name] = pa.array(values)
    return pa.table(found)


def _write_arrow(table: pa.Table) -> None:
    """Writes an IPC stream. Raises ValidationError on a terminal."""
    from pyarrow import RecordBatchStreamWriter

    if sys.stdout.isatty():
        raise ValidationError("--output arrow writes bytes: send them to a file or a program")
    out = sys.stdout.buffer
    with RecordBatchStreamWriter(out, table.schema) as writer:
        writer.write_table(table)
    out.flush()
