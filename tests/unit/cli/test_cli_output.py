"""Values as text and as JSON."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.common.text import printable
from icecore.engine.display import output
from icecore.engine.display.cells import cell, plain
from icecore.engine.display.output import Form, pair_lines, print_arrow
from icecore.engine.display.python_values import python_values
from icecore.engine.display.table_layout import MAX_TABLE_ROWS, cut, fitted, table_lines, text_width

Captured = Callable[[], Any]
_POINT = pa.struct({"a": pa.int32()})
_TIMES = pa.struct({"d": pa.date32(), "n": pa.timestamp("ns")})


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
    print_arrow(table, Form("json"))
    [row] = orjson.loads(capsys.readouterr().out)
    assert row["ts"] == "1970-01-01T00:00:00Z"
    assert row["ns"] == "1970-01-01 00:00:00.000000001"
    assert str(2**62) in row["far"]
    assert row["m"] == {"1": "02"}
    assert row["l"] == [{"a": {"k": "v"}}]
    assert row["f"] == "NaN"


def test_keys_that_python_cannot_hash_are_their_text() -> None:
    """Structs and lists as keys of a map, which dicts of Python can't have; within a list too."""
    by_struct = pa.array([[({"a": 1}, [({"a": 2}, 3)])], None], pa.map_(_POINT, pa.map_(_POINT, pa.int32())))
    assert python_values(pa.chunked_array([by_struct])) == [{'{"a":1}': {'{"a":2}': 3}}, None]
    by_list = pa.array([[[([1, None], "x")]], []], pa.list_(pa.map_(pa.list_(pa.int32()), pa.string())))
    assert python_values(pa.chunked_array([by_list.slice(0, 1), by_list])) == [[{"[1,null]": "x"}]] * 2 + [[]]


def test_only_times_that_python_lacks_are_text() -> None:
    """Days after the year 9999 and nanoseconds, at any depth; what is beside them stays as it is."""
    days = pa.array([[{"d": 0, "n": 1}, None, {"d": 3_000_000, "n": None}], None], pa.list_(_TIMES))
    day, far = dt.date(1970, 1, 1), "10183-09-21"
    assert python_values(pa.chunked_array([days, days.slice(1)])) == [
        [{"d": day, "n": "1970-01-01 00:00:00.000000001"}, None, {"d": far, "n": None}],
        None,
        None,
    ]
    column = pa.chunked_array([pa.array([0, None, 2**62], pa.timestamp("us"))])
    assert python_values(column)[:2] == [dt.datetime(1970, 1, 1), None] and isinstance(python_values(column)[2], str)
    fixed = pa.array([[0, 3_000_000], None], pa.list_(pa.date32(), 2))
    assert python_values(pa.chunked_array([fixed])) == [[day, far], None]


def test_text_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A long result ends with the number of rows that are missing; JSON has them all."""
    table = pa.table({"n": list(range(MAX_TABLE_ROWS + 3))})
    print_arrow(table)
    assert "3 more rows" in capsys.readouterr().out.splitlines()[-1]
    print_arrow(table, Form("json"))
    assert len(orjson.loads(capsys.readouterr().out)) == MAX_TABLE_ROWS + 3


def test_markup_in_values_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that looks like markup or an emoji is read as such."""
    print_arrow(pa.table({"[b]x[/b]": ["[red]:smile:[/red]"]}))
    out = capsys.readouterr().out
    assert "[b]x[/b]" in out and "[red]:smile:[/red]" in out
    assert pair_lines({"a": "[red]", "b": ["[blue]\x07"]}) == ["a  [red]", "b", "  [blue]\\x07"]


def test_printable_keeps_new_lines() -> None:
    """And every letter of every script."""
    assert printable("a\nü東\t\u202e") == "a\nü東\\t\\u202e"


def test_no_text_steers_a_terminal_that_json_is_printed_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Controls beyond those that JSON escapes, and marks that turn the direction: the values are the same."""
    value = "a\x7f\x9b31m\u202e\U000e0001 é漢"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_arrow(pa.table({"a": [value]}), Form("json"))
    text = capsys.readouterr().out
    assert orjson.loads(text) == [{"a": value}]
    assert text.replace("\n", "").isprintable() and "é漢" in text


def test_csv_tells_null_from_the_empty_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Commas, quotes and new lines are quoted; what is nested is JSON."""
    table = pa.table(
        {
            "a": pa.array([None, "", 'say "hi"']),
            "b": pa.array([[1], None, []]),
            "t": pa.array([0, None, 1], pa.timestamp("s")),
        }
    )
    print_arrow(table, Form("csv"))
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["a,b,t", ",[1],1970-01-01 00:00:00", '"",,', '"say ""hi""",[],1970-01-01 00:00:01']


def test_csv_of_one_column_has_a_line_for_null(capsys: pytest.CaptureFixture[str]) -> None:
    """Readers skip empty lines, and Python's csv module writes two quotes too."""
    print_arrow(pa.table({"a": [1, None]}), Form("csv"))
    assert capsys.readouterr().out.splitlines() == ["a", "1", '""']


def test_arrow_is_a_stream_of_the_result(run: Callable[..., Any], orders: str) -> None:
    """Rows with their own types; one thing is one row, what is nested as JSON."""
    rows = pa.ipc.open_stream(run("show", orders, "--output", "arrow").stdout_bytes).read_all()
    assert rows.schema.field("ts").type == pa.timestamp("us", "UTC") and rows.num_rows == 3
    [told] = pa.ipc.open_stream(run("describe", orders, "--output", "arrow").stdout_bytes).read_all().to_pylist()
    assert told["name"] == orders and orjson.loads(told["schema"])["type"] == "struct"
    [*_, event] = pa.ipc.open_stream(run("log", "--full", "-o", "arrow").stdout_bytes).read_all().to_pylist()
    assert event["position"] == 1
    files = run("plan", orders, "--output", "csv", "--limit", "2").stdout.splitlines()
    assert files[0] == "rows,bytes,deletes,file" and len(files) == 3 and "file:///" in files[1]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc…"),
        ("東京に送る", 6, "東京…"),
        ("data/month=1/name-of-a-file.parquet", 20, "data/mo…file.parquet"),
        ("file:///my lake/name-of-a-file.parquet", 20, "file://…file.parquet"),
        ("read 3/4 of all the files", 14, "read 3/4 of a…"),
        ("abc", 1, "…"),
    ],
)
def test_cut_texts_fit(text: str, width: int, expected: str) -> None:
    """Of a path the end stays too: it tells files apart."""
    assert cut(text, width) == expected
    assert text_width(expected) <= width


@given(
    st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 200),
)
def test_columns_that_stay_fit(columns: list[tuple[int, bool]], width: int) -> None:
    """No column is wider than it needs, numbers are never cut beside others, and one column always stays."""
    widths = fitted([w for w, _ in columns], [t for _, t in columns], width)
    assert sum(widths) + 3 * (len(widths) - 1) <= width
    assert len(widths) >= 1
    for got, (needed, is_text) in zip(widths, columns, strict=False):
        assert got <= needed
        if len(widths) > 1:
            assert got == needed if not is_text else got >= min(needed, 9)


def test_a_row_is_one_line() -> None:
    assert table_lines(["a"], [["x\ny"]], width=None) == ["a", "────", "x\\ny"]


def test_lists_of_columns_are_broken_not_cut(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What `sql --tables` lists is what somebody wants to copy from."""
    run("init")
    whole = run("sql", "--tables").stdout
    monkeypatch.setattr(output, "terminal_size", lambda: os.terminal_size((80, 10_000)))
    text = run("sql", "--tables").stdout
    assert all(len(line) <= 80 for line in text.splitlines()) and "…" not in text
    assert set(text.replace(",", "").split()) - {80 * "─"} == set(whole.replace(",", "").split()) - {max(whole.split())}
