from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from icecore.engine.cli.main import cli

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own settings stay out of the tests."""
    for name in ("ICECORE_WAREHOUSE", "ICECORE_OUTPUT", "ICECORE_ACTOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(warehouse: Path) -> Run:
    """Runs a command on the test's warehouse; fails the test where the exit code is not `code`."""

    def run_one(*arguments: str, code: int = 0, text: str | None = None) -> Result:
        result = CliRunner().invoke(cli, ["--warehouse", str(warehouse), *arguments], input=text)
        assert result.exit_code == code, f"{arguments}: {result.output}\n{result.exception!r}"
        assert "Traceback" not in result.output
        return result

    return run_one


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """As `run`, with the one JSON value that the command printed."""
    return lambda *arguments, **kw: orjson.loads(run(*arguments, "--output", "json", **kw).stdout)


@pytest.fixture
def orders(run: Run, tmp_path: Path) -> str:
    """A table of three orders in two months, and one without a time: three files."""
    csv = tmp_path / "orders.csv"
    csv.write_text("id,ts,note\n1,2013-01-01T10:00:00Z,first\n2,2013-02-01T10:00:00Z,\n3,,last\n")
    run("init")
    run(
        "create",
        "shop.orders",
        "--schema",
        "id long not null, ts timestamptz, note string",
        "--partition",
        "month(ts)",
        "--create-namespace",
        "--author",
        "ann",
    )
    run("append", "shop.orders", str(csv), "--author", "bob", "--message", "three orders")
    return "shop.orders"
