"""The examples of property tests, which are the same each time in `make test`."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[int]:
    found: list[int] = []

    @settings(settings.get_profile("the same each time"), max_examples=300)
    @given(st.integers())
    def draw(number: int) -> None:
        found.append(number)

    draw()
    return found


def test_modules_that_are_loaded_change_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    path = tmp_path / "engine.py"
    path.write_text("".join(f"N{i} = {i}_{i}_987_123\n" for i in range(300, 400)))
    spec = spec_from_file_location("engine_of_one", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "engine_of_one", module)
    assert drawn() == before
