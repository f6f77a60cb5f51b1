"""A time by which a run of tests ends: `PYTHONPATH=tests pytest -p time_limit --until $(($(date +%s) + 60)) ...`.

Tests that did not begin by then are skipped, and a property test that runs then tries no more examples; only where one
failed before, it is still made small. The files come in an order by `--hypothesis-seed`, so that short runs begin all
of them in the end.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis.errors import Flaky, HypothesisException

REASON = "the time was over before it began"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of this plugin."""
    parser.addoption("--until", type=float, required=True, help="when to end, in seconds since 1970")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The files in an order of their own for each seed, and property tests with the limit in them."""
    places: dict[Path, float] = {}
    dice = random.Random(str(config.getoption("hypothesis_seed")))
    for item in sorted(items, key=lambda i: i.path):
        places.setdefault(item.path, dice.random())
        # As Hypothesis has it for plugins that run each example in their own way; its cases share one handle.
        handle = getattr(getattr(item, "obj", None), "hypothesis", None)
        if handle is not None and not hasattr(handle.inner_test, "until"):
            handle.inner_test = _until(config.getoption("until"), handle.inner_test)
    items.sort(key=lambda i: places[i.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test is skipped once the time is over."""
    if time.time() >= item.config.getoption("until"):
        pytest.skip(REASON)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A call that holds where the end came while a test ran: what draws no more looks to Hypothesis as if it varied."""
    try:
        return (yield)
    except Flaky:
        handle = getattr(pyfuncitem.obj, "hypothesis", None)
        if handle is None or not handle.inner_test.is_cut():
            raise
        return True


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many tests did not begin."""
    late = [r for r in terminalreporter.stats.get("skipped", ()) if REASON in str(r.longrepr)]
    if late:
        terminalreporter.write_line(f"{len(late)} tests did not begin in time; another seed begins with others")


def _until(end: float, example: Callable[..., None]) -> Callable[..., None]:
    """The example of a property test, which holds unlooked at after the end where none failed before."""
    failed = cut = False

    @wraps(example)
    def bounded(*args: Any, **kwargs: Any) -> None:
        nonlocal failed, cut
        if time.time() >= end and not failed:
            cut = True
            return
        try:
            example(*args, **kwargs)
        except HypothesisException:  # An example that the test can't use.
            raise
        except Exception:
            failed = True
            raise

    bounded.until = end  # type: ignore[attr-defined]
    bounded.is_cut = lambda: cut and not failed  # type: ignore[attr-defined]
    return bounded
