"""A bounded run of the model test: `make fuzz` takes walks as long as it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from fuzz.jvm import JavaUnavailable, Jvm, running_jvm
from fuzz.walk import steps_of, walk

SEEDS = ("1/0", "1/2", "1/3", "1/4")


@pytest.fixture(scope="module")
def jvm() -> Iterator[Jvm]:
    """One JVM for all walks; skips where there is no Java, no Maven, or nowhere to fetch the jars from."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(running_jvm())
        except JavaUnavailable as e:
            pytest.skip(str(e))
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_all_engines_see_what_the_model_says(jvm: Jvm, seed: str) -> None:
    """Java, PyIceberg and we commit in turns: after each step all have the rows, columns and references expected."""
    out = walk(jvm, seed, steps_of(seed, 25))
    assert out.finding is None, "\n".join([*out.said, out.finding])
    assert out.done > 12
