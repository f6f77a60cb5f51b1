"""Output: tables for people, JSON for programs; no text from a warehouse can steer a terminal."""

from __future__ import annotations

import datetime as dt
import io
import math
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click
import orjson
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from icecore.engine.common.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

MAX_TABLE_ROWS = 1000
_PIPE_WIDTH = 10_000
_INT64 = range(-(2**63), 2**63)


def print_json(value: Any) -> None:
    """Prints one JSON value: ISO 8601 times, hexadecimal bytes, decimals as text where a number would lose digits."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
    click.echo(orjson.dumps(plain(value), option=options).decode())


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, null: str = "") -> None:
    """Prints rows under their column names, numbers to the right, at most MAX_TABLE_ROWS of them."""
    rows = list(rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, column in enumerate(columns):
        numeric = any(_is_number(r[i]) for r in rows) and all(r[i] is None or _is_number(r[i]) for r in rows)
        table.add_column(Text(printable(column)), justify="right" if numeric else "left", overflow="fold")
    for row in rows[:MAX_TABLE_ROWS]:
        table.add_row(*(Text(cell(v, null)) for v in row))
    print_text(table)
    if len(rows) > MAX_TABLE_ROWS:
        print_text(f"... and {len(rows) - MAX_TABLE_ROWS} more rows: --output json prints all")


def print_arrow(table: pa.Table, *, as_json: bool, null: str = "null") -> None:
    """Prints a result: rows of a table, or a JSON array of objects."""
    columns = [_python_values(c) for c in table.columns]
    names = _distinct(table.column_names)
    rows = list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_rows(names, rows, null=null)


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """Prints names and values, one pair a line; the items of a list stand below their name."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        if isinstance(value, list):
            print_text("\n".join([name, *(f"  {cell(item)}" for item in value)]))
        else:
            print_text(f"{name:<{width}}  {cell(value)}")


def print_text(what: RenderableType) -> None:
    """Prints text or a rich table, as wide as the terminal, or unlimited where nobody looks at it."""
    terminal = sys.stdout.isatty()
    console = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=None if terminal else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(printable(what) if isinstance(what, str) else what, soft_wrap=isinstance(what, str))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO above
    click.echo("\n".join(line.rstrip() for line in text.splitlines()))


def waiting(what: str) -> AbstractContextManager[object]:
    """A context with a spinner on standard error, if a person is there to see it."""
    console = Console(stderr=True)
    return console.status(what) if console.is_terminal else nullcontext()


def counted(number: int, what: str) -> str:
    """`1 table`, `2 tables`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def cell(value: Any, null: str = "") -> str:
    """A value as the text in a table's cell."""
    match value:
        case None:
            return null
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            unit = "microseconds" if value.microsecond % 1000 else "milliseconds" if value.microsecond else "seconds"
            return value.isoformat(sep=" ", timespec=unit).replace("+00:00", "Z")
        case str():
            return printable(value)
        case dict() | list():
            return orjson.dumps(plain(value), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z).decode()
        case _:
            return printable(str(plain(value)))


def plain(value: Any) -> Any:
    """A value as JSON has it, with the times that orjson knows."""
    match value:
        case Mapping():
            return {k if isinstance(k, str) else cell(k, "null"): plain(v) for k, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case bytes():
            return value.hex()
        case Decimal():
            whole = value == value.to_integral_value() if value.is_finite() else False
            exact = whole and value.as_tuple().exponent == 0 and int(value) in _INT64
            return int(value) if exact else str(value)
        case int() if value not in _INT64:
            return str(value)
        case float() if not math.isfinite(value):
            # JSON has no number for it, and null would say that there is no value.
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dt.timedelta() | uuid.UUID():
            return str(value)
        case _:
            return value


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; times that Python has no value for as text."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return list(column.cast(pa.string()).to_pylist())
    try:
        return [_maps(v, column.type) for v in column.to_pylist()]
    except (ValueError, OverflowError):
        return list(column.cast(pa.string()).to_pylist())


def _maps(value: Any, kind: pa.DataType) -> Any:
    """A value with its maps, which Arrow gives as pairs, as dicts."""
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_map(kind):
        return {k: _maps(v, kind.item_type) for k, v in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_maps(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: _maps(value[f.name], f.type) for f in kind}
    return value


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occurred before: an object can have a key once."""
    out: list[str] = []
    for name in names:
        unused, n = name, 1
        while unused in out:
            n += 1
            unused = f"{name}_{n}"
        out.append(unused)
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
