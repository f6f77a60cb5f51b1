"""Values as text and as JSON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from icecore.engine.common.text import printable
from icecore.engine.display.output import MAX_TABLE_ROWS, cell, plain, print_arrow, print_pairs

Captured = Callable[[], Any]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "true"),
        (dt.datetime(2013, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2013-01-02 03:04:05Z"),
        (dt.datetime(2013, 1, 2, 3, 4, 5, 6000), "2013-01-02 03:04:05.006"),
        (dt.datetime(2013, 1, 2, 3, 4, 5, 6), "2013-01-02 03:04:05.000006"),
        (b"\x00\xff", "00ff"),
        (Decimal("1.50"), "1.50"),
        ([1, None], "[1,null]"),
        ({"a": b"\x01"}, '{"a":"01"}'),
        ("a\x1b[0mb", "a\\x1b[0mb"),
        (1.5, "1.5"),
    ],
)
def test_cells(value: Any, text: str) -> None:
    """One way of writing each kind of value; control characters are written as escapes."""
    assert cell(value, "-") == text


def test_numbers_too_long_for_json_are_text() -> None:
    """No digit is lost; whole decimals that fit are numbers, as DuckDB's sums are."""
    assert plain(2**63) == str(2**63)
    assert plain(-(2**63)) == -(2**63)
    assert plain(Decimal("12345678901234567890.12")) == "12345678901234567890.12"
    assert plain(Decimal(7)) == 7
    assert plain(Decimal("NaN")) == "NaN"


def test_numbers_that_json_lacks_are_text() -> None:
    """Null would say that there is no value."""
    assert plain([float("nan"), float("inf"), {"x": float("-inf")}]) == ["NaN", "Infinity", {"x": "-Infinity"}]
    assert cell({"x": float("inf")}) == '{"x":"Infinity"}'


def test_json_of_every_kind_of_column(capsys: pytest.CaptureFixture[str]) -> None:
    """Times in ISO 8601, maps as objects, times that Python has no value for as text."""
    table = pa.table(
        {
            "ts": pa.array([0], pa.timestamp("us", "UTC")),
            "ns": pa.array([1], pa.timestamp("ns")),
            "far": pa.array([2**62], pa.timestamp("us")),
            "m": pa.array([[(1, b"\x02")]], pa.map_(pa.int32(), pa.binary())),
            "l": pa.array([[{"a": [("k", "v")]}]], pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.string()))]))),
            "f": pa.array([float("nan")]),
        }
    )
    print_arrow(table, as_json=True)
    [row] = orjson.loads(capsys.readouterr().out)
    assert row["ts"] == "1970-01-01T00:00:00Z"
    assert row["ns"] == "1970-01-01 00:00:00.000000001"
    assert str(2**62) in row["far"]
    assert row["m"] == {"1": "02"}
    assert row["l"] == [{"a": {"k": "v"}}]
    assert row["f"] == "NaN"


def test_text_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A long result ends with the number of rows that are missing; JSON has them all."""
    table = pa.table({"n": list(range(MAX_TABLE_ROWS + 3))})
    print_arrow(table, as_json=False)
    assert "3 more rows" in capsys.readouterr().out.splitlines()[-1]
    print_arrow(table, as_json=True)
    assert len(orjson.loads(capsys.readouterr().out)) == MAX_TABLE_ROWS + 3


def test_markup_in_values_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that looks like markup or an emoji is read as such."""
    print_arrow(pa.table({"[b]x[/b]": ["[red]:smile:[/red]"]}), as_json=False)
    out = capsys.readouterr().out
    assert "[b]x[/b]" in out and "[red]:smile:[/red]" in out
    print_pairs({"a": "[red]", "b": ["[blue]\x07"]})
    assert capsys.readouterr().out == "a  [red]\nb\n  [blue]\\x07\n"


def test_printable_keeps_new_lines() -> None:
    """And every letter of every script."""
    assert printable("a\nü東\t\u202e") == "a\nü東\\t\\u202e"
