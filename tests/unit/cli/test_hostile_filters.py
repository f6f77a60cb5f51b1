"""Filters typed to do harm: refused in one line, and never run as SQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Run = Callable[..., Result]

REFUSED = [
    "note = 'x",
    'note = "x',
    "note = $$x",
    "id = 1 /* open",
    "id = 1; DROP TABLE orders",
    "; id = 1",
    "id = 1) OR (1=1",
    "1=1) --",
    "id = 1 UNION SELECT 2",
    "id = 1 LIMIT 1",
    "id IN (SELECT 1)",
    "id IN (FROM read_csv('{secret}'))",
    "id = (SELECT count(*) FROM read_csv('{secret}'))",
    "EXISTS (SELECT 1 FROM read_csv('{secret}'))",
    "id = read_csv('{secret}')",
    "note = read_text('{secret}')",
    "note LIKE (SELECT content FROM read_text('{secret}'))",
    "note = getenv('HOME')",
    "note = current_setting('home_directory')",
    "id = random()",
    "COPY (SELECT 1) TO '{victim}'",
    "id = 1; COPY (SELECT 1) TO '{victim}'",
    "ATTACH '{victim}'",
    "INSTALL httpfs",
    "PRAGMA database_list",
    "id = 1\x00",
    "\x00",
    "id\x00 = 1",
    "id = 1\nDROP TABLE orders",
    "note = 'a\nb",
    "nope\x1b[31m = 1",
    '"id""; DROP TABLE orders" = 1',
    "note = '\udcff'",
    "\udcff = 1",
    "",
    "   ",
    "--",
    "/**/",
    "NULL",
    "'x'",
    "lambda x: x",
    "CASE WHEN id = 1 THEN TRUE END",
    "id = $1",
    "id = ?",
    "id = :x",
    "NOT",
    "id BETWEEN 1",
    "x" * 100_000,
    "note = '" + "a" * 100_000,
    "id = 1 OR " * 8_000,
    "(" * 100_000,
    "NOT " * 20_000 + "id = 1",
    "id = " + "9" * 5_000,
    "id = " + "-" * 10_000 + "1",
    "note = '" + "'" * 100_000,
]


@pytest.mark.parametrize(("command", "refused"), [("show", REFUSED), ("plan", REFUSED[::5])], ids=["show", "plan"])
def test_hostile_filters_are_one_line(run: Run, orders: str, tmp_path: Path, command: str, refused: list[str]) -> None:
    """Exit code 1, a short line that shows no control characters and nothing of any file, and nothing written."""
    secret, victim = tmp_path / "secret", tmp_path / "victim"
    secret.write_text("hunter2\n")
    before = files_of(tmp_path)
    for text in refused:
        where = text.replace("{secret}", str(secret)).replace("{victim}", str(victim))
        result = run(command, orders, "--where", where, code=1)
        assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, where[:80]
        assert len(result.stderr) < 600 and result.stderr[:-1].isprintable(), where[:80]
        assert result.stdout == "" and "hunter2" not in result.stderr
    assert not victim.exists()
    assert files_of(tmp_path) == before


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id = 1 -- OR TRUE", [1]),
        ("id = 1 /* OR TRUE */", [1]),
        ("id = 1;", [1]),
        ("note = 'a\x00b'", []),
        ("note = '''; DROP TABLE orders; --'", []),
        ("note = $$first$$", [1]),
        ("note LIKE '%'';%'", []),
        ("id = 1e999999", []),
        ("note <> '" + "a" * 100_000 + "'", [1, 3]),
        ("note = '\x1b[31mred' OR id = 3", [3]),
    ],
    ids=lambda v: v[:20] if isinstance(v, str) else None,
)
def test_odd_filters_mean_what_they_say(
    run: Run, run_json: Callable[..., Any], orders: str, where: str, ids: list[int]
) -> None:
    """Comments are no part of a condition, and text in quotes is text."""
    assert [r["id"] for r in run_json("show", orders, "--where", where)] == ids
    assert run("plan", orders, "--where", where).exit_code == 0


def files_of(folder: Path) -> set[Path]:
    """All files but what SQLite and plans keep beside the log while they read."""
    return {p for p in folder.rglob("*") if ".icecore" not in p.parts and not p.name.endswith(("-wal", "-shm"))}
