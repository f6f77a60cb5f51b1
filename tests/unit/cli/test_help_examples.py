"""Every command's help has examples, and they do what the command is for."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import icecore
from icecore.engine.cli.main import COMMANDS, cli
from icecore.engine.evolution.schema_text import parse_schema

NOT_RUN = {
    "demo": "needs Spark and a minute",
    "serve": "goes on until it is told to end; tests/unit/server has what it answers",
    "resolve": "needs another engine's commit in conflict",
}
FIRST = ("undo", "revert", "restore")
"""Those whose examples are of what the warehouse begins with."""
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("city", pa.string()), ("amount", pa.float64())])
ROWS = "id,day,city,amount\n1,2024-01-05,Oslo,12.5\n2,2024-02-09,Rome,7.0\n3,2024-02-10,NA,99.0\n"


def commands() -> Iterator[tuple[str, click.Command]]:
    """The commands by their names, those of groups as `namespace create`."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            parts = sorted(command.commands.items(), key=lambda p: p[0] == "drop")
            yield from ((f"{name} {part}", inner) for part, inner in parts)
        else:
            yield name, command


def shown(command: click.Command) -> list[str]:
    _, _, lines = (command.epilog or "").partition("Examples:\n")
    return [line.strip() for line in lines.splitlines()]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder as the examples have it: the warehouse `lake`, files to load, and a table of another engine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICECORE_WAREHOUSE", "lake")
    for name in ("orders.csv", "flights.csv"):
        Path(name).write_text(ROWS)
    folder = Path("delivered/city=Oslo")
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    Path("parquet/city=Rome").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), "parquet/city=Rome/a.parquet")
    rows = [{"id": n, "day": dt.date(2024, n, 5), "city": c, "amount": 9.5 * n} for n, c in ((1, "Oslo"), (2, "Rome"))]
    with icecore.open("lake", actor="ann") as catalog:
        catalog.create_namespace("shop")
        orders = catalog.create_table("shop.orders", SCHEMA, partition_spec=["month(day)"])
        orders.append(rows, author="bob", message="first orders")
        orders.append([{**r, "id": r["id"] + 2} for r in rows], author="bob", message="more orders")  # type: ignore[operator]
        for name in ("returns", "forgotten"):
            catalog.create_table(f"shop.{name}", SCHEMA).append(rows)
        catalog.create_table(
            "shop.parcels", pa.schema([("id", pa.int64()), ("city", pa.string())]), partition_spec=["city"]
        )
        catalog.drop_table("shop.forgotten")
        catalog.create_table("shop.stock", SCHEMA)
        catalog.create_table("shop.keyed", parse_schema("id long not null, city string"))
        staged = catalog.create_table("shop.staged", SCHEMA, properties={"write.wap.enabled": "true"})
        staged.append(rows, snapshot_properties={"wap.id": "load-7"})
        orders.update_schema().add_column("extra", "int").commit()
    with icecore.open("other") as other:
        other.create_namespace("shop")
        other.create_table("shop.orders", SCHEMA).append(rows)


@pytest.mark.usefixtures("shop")
@pytest.mark.filterwarnings("ignore::icecore.engine.errors.MovedWarehouseWarning")
def test_every_help_has_examples_that_run() -> None:
    """In the order of the commands, which is that of a warehouse's life, in one warehouse."""
    for name, command in sorted(commands(), key=lambda c: c[0] not in FIRST):
        lines = shown(command)
        assert lines, f"the help of {name} has no example: epilog=examples(...), or change_command(shown=...)"
        for line in lines:
            words = shlex.split(line)
            assert " ".join(words[1:]).startswith(name.split()[0]), f"an example of {name}: {line}"
            if name in NOT_RUN:
                continue
            result = CliRunner().invoke(cli, words[1:])
            assert result.exit_code == 0, f"{line}: {result.output} {result.exception!r}"
    assert NOT_RUN.keys() <= {name for name, _ in commands()}
