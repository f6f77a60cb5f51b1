"""Files that are loaded: what types are guessed of CSV and JSON, and what is refused rather than changed."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import icecore
from icecore.engine.spec.types import DateType, LongType

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_a_file_that_is_there_twice_is_refused(run: Run, run_json: RunJson, tmp_path: Path, orders: str) -> None:
    """As by patterns that overlap, or by another way to it: nobody means to have all its rows twice."""
    file, other = tmp_path / "a.csv", tmp_path / "more" / ".." / "a.csv"
    (tmp_path / "more").mkdir()
    file.write_text("id,note\n7,new\n")
    end = run_json("log")[0]["position"]
    for command in (("load", file, other, orders), ("append", orders, file, file), ("overwrite", orders, file, other)):
        assert "a.csv' is there twice" in run(*map(str, command), code=2).stderr
    assert run_json("log")[0]["position"] == end
    run("load", str(file), orders)
    run("load", str(file), orders)


@pytest.mark.parametrize(
    ("name", "text", "types"),
    [
        ("a.csv", b"a,b\n", ["string", "string"]),
        ("a.csv", b"id,note\n1,\n2,\n", ["long", "string"]),
        ("a.csv", b"a\n1.5\n2\n", ["double"]),
        ("a.csv", b'a\n1.5\n""\n', ["double"]),
        ("a.csv", b'a\n2024-01-01T00:00:00Z\n""\n', ["timestamptz"]),
        ("a.csv", b"a,b\n2024-01-01,2024-01-01T00:00:00Z\n", ["date", "timestamptz"]),
        ("a.json", b'{"a": "2024-01-01T00:00:00+02:00", "b": "2024-01-01 00:00:00"}', ["timestamptz", "timestamp"]),
        ("a.json", b'{"a": "2024-01-01", "b": null, "c": 1.5}', ["date", "string", "double"]),
        ("a.json", b'{"a": "2024-01-01 00:00:00+02"}', ["timestamptz"]),
        ("a.json", b'{"n": 1}\n' * 200_000 + b'{"n": 1, "t": "2024-01-01T00:00:00"}', ["long", "timestamp"]),
        ("a.json", b'{"t": "2024-01-01"}\n' * 100_000 + b'{"t": "2024-01-01T10:00:00"}', ["timestamp"]),
        ("a.json", b'{"a": 1.5}\n{"a": 9223372036854775807}\n', ["double"]),
        ("a.json", b'{"a": [null], "b": {"c": null}}', ["list<string>", "struct<4: c: string>"]),
        ("a.json", b'{"a": "2024-01-01T00:00:00Z"}\n{"a": "2024-01-01T00:00:00"}', ["string"]),
        ("a.json", b'{"a": [{"b": "2024-01-01T00:00:00Z"}, {}]}\n{"a": []}', ["list<struct<3: b: timestamptz>>"]),
        ("a.json", b'{"a": {"b": ["2024-01-01", null]}}\n{"a": null}', ["struct<2: b: list<date>>"]),
        ("a.json", b'{\n"a": 1234567890123456789\n}\n{"a": null}\nnull', ["long"]),
    ],
)
def test_types_hold_the_values_as_they_are(
    run: Run, run_json: RunJson, tmp_path: Path, name: str, text: bytes, types: list[str]
) -> None:
    """A column without values is text."""
    (tmp_path / name).write_bytes(text)
    run("init")
    run("load", str(tmp_path / name), "s.t")
    columns = run_json("sql", "SELECT type FROM columns WHERE NOT contains(column_name, '.') ORDER BY field_id")
    assert [c["type"] for c in columns] == types


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"id,c\n1,9223372036854775808\n", "a.csv: column 'c' has integers of more than 64 bits"),
        (b'{"c": 1}\n\n{"c": 9223372036854775808}', "a.json: column 'c' has integers of more than 64 bits"),
        (b'[{"c": 1.5}, {"d": 1}, {"c": -9223372036854775809}]', "a.json: column 'c' has integers of more than 64"),
        (b'{"c": {"d": [9223372036854775808]}}', "a.json: column 'c' has integers of more than 64 bits"),
        (b"[null]", "a.json: the rows of a JSON file are objects"),
        (b'[[{"c": 1}]]', "a.json: the rows of a JSON file are objects"),
        (b"[" * 100_000, "a.json can't be read: it is nested too deeply"),
        (b'{"c": "\xe9"}', "a.json can't be read: 'utf-8' codec can't decode"),
        (b'[{"c": "\\ud83d"}]', "a.json can't be read: str is not valid UTF-8"),
        (b"a,b\n1,\xe9\n", "a.csv: column 'b' has text that is not UTF-8"),
        (b"x,x\n1.5,2.5\n", "column name 'x' is used twice"),
        (b"caf\xe9,x\n1,2\n", "a.csv can't be read: 'utf-8' codec can't decode"),
    ],
)
def test_what_no_type_holds_is_refused(run: Run, tmp_path: Path, text: bytes, told: str) -> None:
    path = tmp_path / ("a.json" if text[:1] in b"{[" else "a.csv")
    path.write_bytes(text)
    run("init")
    assert told in run("load", str(path), "s.t", code=1).stderr


def test_a_file_of_null_is_no_rows(run: Run, tmp_path: Path) -> None:
    """Arrow's reader of JSON dies of it."""
    (tmp_path / "a.json").write_text("null")
    run("init")
    told = run("load", str(tmp_path / "a.json"), "s.t", code=1).stderr
    assert told == f"error: {tmp_path}/a.json: the rows of a JSON file are objects, one after another or in an array\n"


@pytest.mark.parametrize(
    ("column", "said", "told"),
    [
        ("t timestamp", '"2024-01-05T10:00:00+02:00"', "expected no zone offset"),
        ("t timestamptz", '"2024-01-05T10:00:00"', "expected a zone offset"),
        ("t struct<t: timestamp>", '{"t": "2024-01-05T10:00:00+02:00"}', "expected no zone offset"),
        ("t list<timestamptz>", '["2024-01-05T10:00:00"]', "expected a zone offset"),
        ("t list<date>", '["yesterday"]', "dates and times are written as in ISO 8601"),
    ],
)
def test_a_time_in_json_has_a_zone_where_its_type_has_one(
    run: Run, tmp_path: Path, column: str, said: str, told: str
) -> None:
    """Arrow's reader of JSON takes either for either, and so for another time."""
    run("init")
    run("create", "s.t", "--schema", column, "--create-namespace")
    (tmp_path / "a.json").write_text(f'{{"t": {said}}}')
    assert told in run("append", "s.t", str(tmp_path / "a.json"), code=1).stderr


@pytest.mark.parametrize("form", ["[%s]", "%s", "\ufeff[%s]"])
def test_values_in_json_are_read_by_the_types_of_the_table(
    run: Run, run_json: RunJson, tmp_path: Path, form: str
) -> None:
    """Decimals by their digits, and what is in structs and lists as what is not."""
    row = {
        "d": "1234567890123456789.25",
        "s": {"d": "1.10", "on": "2024-01-05", "at": "10:00:00", "z": "2024-01-05T08:00:00Z", "f": 1.0},
        "l": [["2024-01-05"], None, []],
        "t": "2024-01-05T10:00:00",
    }
    run("init")
    types = "struct<d: decimal(8, 2), on: date, at: time, z: timestamptz, f: float, n: timestamp>"
    schema = f"d decimal(30, 2), s {types}, l list<list<date>>, t timestamp, u date"
    run("create", "s.t", "--schema", schema, "--create-namespace")
    said = json.dumps(row, indent=2).replace('"1234567890123456789.25"', "1234567890123456789.25")
    (tmp_path / "a.json").write_text(form % said.replace("08:00:00Z", "10:00:00+02:00"))
    run("append", "s.t", str(tmp_path / "a.json"))
    assert run_json("show", "s.t") == [row | {"s": row["s"] | {"n": None}, "u": None}]  # type: ignore[operator]  # a dict


def test_what_no_row_of_a_json_file_has_gets_its_default(
    warehouse: Path, run: Run, run_json: RunJson, tmp_path: Path
) -> None:
    """As of a CSV file, though its name be a value or that of another field; a null that is there stays one."""
    run("init")
    run("create", "s.t", "--schema", "s struct<x: long>, x string", "--create-namespace", "--format-version", "3")
    with icecore.open(warehouse) as catalog, catalog.load_table("s.t").update_schema() as schema:
        schema.add_column("d", LongType(), default_value=7).add_column("on", DateType(), default_value="2024-01-05")
        schema.add_column(("s", "y"), LongType(), default_value=5).add_column("y", LongType(), default_value=9)
    for text in ('{"s": {"x": 1}, "x": "on", "y": 8}', '[{"s": null, "d": null}]', "{}"):
        (tmp_path / "a.json").write_text(text)
        run("append", "s.t", str(tmp_path / "a.json"))
    first = {"s": {"x": 1, "y": 5}, "x": "on", "d": 7, "on": "2024-01-05", "y": 8}
    second, third = first | {"s": None, "x": None, "d": None, "y": 9}, first | {"s": None, "x": None, "y": 9}
    assert run_json("query", "SELECT * FROM s.t ORDER BY x, d DESC NULLS FIRST") == [first, second, third]


def test_lists_in_json_without_values_are_lists(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """Arrow's reader loses nulls of lists of which it has to guess the type."""
    lists: list[dict[str, Any]] = [{"l": [None, []]}, {"l": [None]}]
    (tmp_path / "a.json").write_text(json.dumps(lists))
    run("init")
    run("create", "s.t", "--schema", "l list<list<date>>, n long", "--create-namespace")
    run("append", "s.t", str(tmp_path / "a.json"))
    assert run_json("show", "s.t") == [row | {"n": None} for row in lists]


def test_rows_in_json_may_be_long_and_on_several_lines(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """Arrow's reader looks for the ends of rows at the ends of lines, and in blocks of a megabyte."""
    rows = [{"n": i, "text": "x" * 1_500_000} for i in range(3)]
    (tmp_path / "a.json").write_text("\n".join(json.dumps(row, indent=2) for row in rows))
    run("init")
    run("load", str(tmp_path / "a.json"), "s.t")
    assert run_json("query", "SELECT sum(n)::INT AS n, min(length(text)) AS m FROM s.t") == [{"n": 3, "m": 1_500_000}]


def test_a_column_that_comes_twice_is_refused(run: Run, orders: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,id\n1,2\n")
    assert "a.csv: column 'id' comes twice in the data" in run("append", orders, str(tmp_path / "a.csv"), code=1).stderr


def test_columns_of_a_file_without_rows_are_looked_at(run: Run, run_json: RunJson, orders: str, tmp_path: Path) -> None:
    """The wrong file would empty the table else."""
    (tmp_path / "wrong.csv").write_text("foo,bar\n")
    assert "no column 'foo'" in run("overwrite", orders, str(tmp_path / "wrong.csv"), "--yes", code=1).stderr
    assert len(run_json("show", orders)) == 3


def test_parquet_of_any_type_is_taken(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """Arrow makes no batch of no rows by itself where an extension type is nested."""
    file = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"u": pa.array([[UUID(int=1).bytes]], pa.list_(pa.binary(16))).cast(pa.list_(pa.uuid()))}), file
    )
    run("init")
    run("load", str(file), "s.t")
    pq.write_table(pq.read_table(file).slice(0, 0), tmp_path / "none.parquet")
    assert "nothing to append" in run("append", "s.t", str(tmp_path / "none.parquet")).stdout
    assert run_json("show", "s.t") == [{"u": [str(UUID(int=1))]}]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_bytes_come_back_as_they_were_printed(run: Run, run_json: RunJson, tmp_path: Path, form: str) -> None:
    """In hexadecimal, as single values have it in JSON (Appendix D); what is not that is refused."""
    rows = pa.table({"b": [b"hi", b"\x00\xff", b"", None], "f": pa.array([b"\x12\x34"] * 4, pa.binary(2))})
    pq.write_table(rows, tmp_path / "rows.parquet")
    run("init")
    run("load", str(tmp_path / "rows.parquet"), "s.t")
    said = run_json("query", "SELECT * FROM s.t")
    (tmp_path / f"rows.{form}").write_text(run("query", "SELECT * FROM s.t", "-o", form).stdout)
    run("overwrite", "s.t", str(tmp_path / f"rows.{form}"), "--yes")
    assert run_json("query", "SELECT * FROM s.t") == said
    (tmp_path / "wrong.csv").write_text("b,f\nhi,1234\n")
    assert "hexadecimal" in run("append", "s.t", str(tmp_path / "wrong.csv"), code=1).stderr
    (tmp_path / "wrong.csv").write_text("b,f\n00,123456\n")
    assert "column 'f'" in run("append", "s.t", str(tmp_path / "wrong.csv"), code=1).stderr


def test_bytes_within_a_column_are_taken_from_parquet_alone(run: Run, tmp_path: Path) -> None:
    run("init")
    run("create", "s.t", "--schema", "s struct<b binary>", "--create-namespace")
    (tmp_path / "a.json").write_text('{"s": {"b": "00"}}')
    assert "only Parquet" in run("append", "s.t", str(tmp_path / "a.json"), code=1).stderr


def test_a_full_disk_is_an_error_in_a_line(warehouse: Path, run: Run) -> None:
    run("init")
    script = "from icecore.engine.cli.main import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script, "-w", str(warehouse), "log", "--output", "json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "error: [Errno 28] No space left on device\n")


def test_what_the_output_has_no_letters_for_is_an_error_in_a_line(warehouse: Path, run: Run) -> None:
    """As the lines of a table in Latin-1; not a row is changed for it."""
    run("init")
    done = subprocess.run(
        [sys.executable, "-m", "icecore", "-w", str(warehouse), "log"],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = "error: '\\u2500' can't be written in latin-1; PYTHONIOENCODING=utf-8 has all written in UTF-8\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


@pytest.mark.parametrize("packed", [False, True])
def test_a_quote_that_is_never_closed_is_told_of(run: Run, tmp_path: Path, packed: bool) -> None:
    """All that follows would be one value; one within a value is as it stands there."""
    run("init")
    name, pack = ("a.csv.gz", gzip.compress) if packed else ("a.csv", bytes)
    path = tmp_path / name
    path.write_bytes(pack(b'id,s\n1,"a ""word"" and\nmore"\n2,"b\n3,c\n'))
    assert f"{name}: line 4 has a quote that is not closed" in run("load", str(path), "s.t", code=1).stderr
    # Also where it is longer than the values of Python's csv, or comes after a value that goes on behind its quote.
    path.write_bytes(pack(b'id,s\n1,"b\n' + b"3,c\n" * 50_000))
    assert f"{name}: line 2 has a quote" in run("load", str(path), "s.t", code=1).stderr
    path.write_bytes(pack(b'\xef\xbb\xbf"id",s\n1,"a"b\n2,"b\n3,c\n'))
    assert f"{name}: line 3 has a quote" in run("load", str(path), "s.t", code=1).stderr
    path.write_bytes(pack(b'id,s\n1,5" long\n2,"b"\n'))
    run("load", str(path), "s.t")
    assert '5" long' in run("show", "s.t").output


def test_errors_in_csv_name_the_column(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / "a.csv").write_text("id,km\n1,5\n")
    run("load", str(tmp_path / "a.csv"), "s.t")
    (tmp_path / "a.csv").write_text("id,km\n1,far\n")
    told = run("load", str(tmp_path / "a.csv"), "s.t", code=1).stderr
    assert "In column 'km': CSV conversion error to int64: invalid value 'far'" in " ".join(told.split())


COLUMNS = """id long, f double, g float, m map<string, long>, d map<date, double>, b map<boolean, list<float>>,
n map<int, string>, l list<double>, s struct<x: double, m: map<string, string>>,
o map<string, map<string, timestamp>>"""


@pytest.mark.parametrize("form", ["an array", "lines"])
def test_what_the_shell_prints_as_json_can_be_loaded(run: Run, run_json: RunJson, tmp_path: Path, form: str) -> None:
    """Maps too, which are objects in JSON, and numbers that it has none for."""
    run("init")
    run("create", "s.t", "--schema", COLUMNS.replace("\n", " "), "--create-namespace")
    rows: list[dict[str, Any]] = [
        {
            "id": 1,
            "f": "NaN",
            "g": "Infinity",
            "m": {"a": 9007199254740993, "NaN": 2},
            "d": {"2024-01-01": "NaN", "2024-01-02": 1.5},
            "b": {"true": [1.0, "-Infinity"], "false": []},
            "n": {"1": "NaN", "-2": "x"},
            "l": [1.0, "-Infinity", None],
            "s": {"x": "NaN", "m": {"k": "v"}},
            "o": {"a": {"b": "2024-01-01T10:00:00"}, "c": {}},
        },
        {"id": 2, "f": 1.5, "m": {}, "s": {"x": None, "m": None}, **dict.fromkeys(("g", "d", "b", "n", "l", "o"))},
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows) if form == "an array" else "\n".join(map(json.dumps, rows)))
    run("append", "s.t", str(tmp_path / "a.json"))
    printed = run("show", "s.t", "-o", "json").output
    assert sorted(json.loads(printed), key=lambda r: r["id"]) == rows
    (tmp_path / "b.json").write_text(printed)
    run("append", "s.t", str(tmp_path / "b.json"))
    assert sorted(run_json("show", "s.t"), key=lambda r: r["id"]) == [rows[0], rows[0], rows[1], rows[1]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"m": {"far": 1}}', "changed from number to string"),
        ('{"m": {"1": {}}}', "changed from number to object"),
        ('{"m": {"null": 1}}', "changed from number to string"),
        ('{"m": [1]}', "a map is an object in JSON, found an array"),
        ('[{"m": [{"value": 1}]}]', "a map is an object in JSON, found an array"),
        ('{"m": "NaN"}', "a map is an object in JSON, found a single value"),
        ('{"m": {"1, 2": 1}}', "changed from number to string"),
    ],
)
def test_a_map_in_json_of_another_kind_is_refused(run: Run, tmp_path: Path, text: str, told: str) -> None:
    run("init")
    run("create", "s.t", "--schema", "m map<int, long>", "--create-namespace")
    (tmp_path / "a.json").write_text(text)
    assert told in " ".join(run("append", "s.t", str(tmp_path / "a.json"), code=1).stderr.split())


@pytest.mark.parametrize(("kind", "value"), [("long", 7), ("date", "2024-01-01"), ("decimal(9, 2)", "1.50")])
def test_null_in_a_csv_file_of_one_column(
    run: Run, run_json: RunJson, tmp_path: Path, kind: str, value: object
) -> None:
    """It is printed as two quotes, and null when it is loaded again; a text of two quotes is empty."""
    run("init")
    run("create", "s.t", "--schema", f"a {kind}, b string", "--create-namespace")
    (tmp_path / "a.json").write_text(json.dumps([{"a": value}, {"a": None}]))
    run("append", "s.t", str(tmp_path / "a.json"))
    (tmp_path / "a.csv").write_text(run("show", "s.t", "--columns", "a", "-o", "csv").output)
    (tmp_path / "b.csv").write_text('b\n""\n')
    run("append", "s.t", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    rows = [(r["a"], r["b"]) for r in run_json("show", "s.t")]
    assert sorted(rows, key=str) == sorted([(value, None)] * 2 + [(None, None)] * 2 + [(None, "")], key=str)
