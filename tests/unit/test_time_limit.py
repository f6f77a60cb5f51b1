"""Runs of tests that end by a time, as `make fuzz` makes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

# The time is how often somebody looked at it.
CLOCK = """
import itertools
from types import SimpleNamespace
import time_limit
time_limit.time = SimpleNamespace(time=itertools.count().__next__)
"""
PROPERTY = """
from hypothesis import given, settings, strategies as st
tried = []

@settings(max_examples=10_000, deadline=None, database=None)
@given(st.integers())
def test_numbers(number):
    tried.append(number)
    assert {}
"""
DRAWN = """
from hypothesis import given, settings, strategies as st
tried = []

@settings(max_examples=10_000, deadline=None, database=None)
@given(st.data())
def test_drawn_numbers(data):
    tried.append(data.draw(st.{}))
    {}
"""


def run(folder: Path, until: int, seed: int = 1) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CLOCK)
    options = [
        "-v",
        "-p",
        "no:cacheprovider",
        "-p",
        "time_limit",
        "--until",
        str(until),
        "--hypothesis-seed",
        str(seed),
    ]
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), *options, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_test_that_runs_ends_and_the_others_do_not_begin(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(PROPERTY.format("len(tried) < 100"))
    done = run(tmp_path, 100)
    assert done.returncode == 0 and "1 passed, 2 skipped" in done.stdout, done.stdout
    assert "2 tests did not begin in time" in done.stdout


def test_a_test_that_draws_while_it_runs_ends_too(tmp_path: Path) -> None:
    """One that fails, or varies while there is time, is told all the same."""
    (tmp_path / "test_drawn.py").write_text(DRAWN.format("integers()", "assert len(tried) < 100"))
    done = run(tmp_path, 100)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
    # Whatever Hypothesis draws, it draws either boolean again after it saw one more value follow it.
    for first, body in (
        ("just(1000)", "assert tried[-1] < 1000"),
        ("booleans()", "len(tried) > 50 or data.draw(st.integers())"),
    ):
        (tmp_path / "test_drawn.py").write_text(DRAWN.format(first, body))
        assert run(tmp_path, 100).returncode == 1, body


def test_what_failed_in_time_is_made_small_after_it(tmp_path: Path) -> None:
    (tmp_path / "test_fails.py").write_text(PROPERTY.format("number < 1000"))
    done = run(tmp_path, 100)
    assert done.returncode == 1 and "number=1000," in done.stdout and "Flaky" not in done.stdout, done.stdout


def test_another_seed_begins_with_another_file(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text("def test_it():\n    pass\n\n\ndef test_this():\n    pass\n")
    one, other, again = (re.findall(r"test_(\w)\.py::(\w+)", run(tmp_path, 100, seed).stdout) for seed in (1, 2, 1))
    assert one == again != other and sorted(one) == sorted(other)
    assert [f for f, _ in one[::2]] == [f for f, _ in one[1::2]], "the tests of a file stay together"
