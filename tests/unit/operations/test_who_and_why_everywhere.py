"""Every public call that changes something takes `message` and `author`, and the log says both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
import pytest
from core_tables import store_of
from public_calls import CASES, READS, Call, calls, kept, lake, takes_dry_run

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.cli.main import cli
from icecore.engine.maintenance.maintenance import ExpireSnapshots, Maintenance
from icecore.engine.table.table import Table
from icecore.engine.view.view import View

__all__ = ["kept", "lake"]

WHO_AND_WHY = {"message", "author"}
# What appends no event of its own, with the reason.
SILENT: Mapping[tuple[type, str], str] = {
    (Catalog, "rebuild"): "makes again what follows from the log",
    (Catalog, "checkpoint"): "notes what follows from the log",
    (Catalog, "archive"): "moves events to another file",
    (ExpireSnapshots, "commit"): "was told by `expire_snapshots`",
    (ExpireSnapshots, "dry_run"): "stores nothing",
    (Catalog, "create_or_replace_table"): "hands its options on to the call that it makes",
}
# Commands that make no commit, with the reason.
SILENT_COMMANDS: Mapping[str, str] = {
    "init": "makes a log without an event",
    "token create": "makes no event",
    "token ls": "reads",
    "token revoke": "makes no event",
    "rewrite-table-path": "commits nothing",
    "serve": "commits for its clients, who say why",
    "properties get": "reads",
    "namespace ls": "reads",
    **dict.fromkeys(("refs", "blame", "diff", "show-commit", "where-is", "query", "report"), "reads"),
    "what-if": "throws away what it makes",
    "checkpoint": "notes what follows from the log",
    "ls": "reads",
    "audit": "reads",
    "describe": "reads",
    "log": "reads",
    "show": "reads",
    "plan": "reads",
    "plans": "reads",
    "sql": "reads",
    "verify": "reads",
    "export": "reads",
    "rebuild": "makes again what follows from the log",
    "archive": "moves events to another file",
    "import": "brings events that say themselves who made them",
    "demo": "says who itself",
}
# Calls that give something whose own calls commit.
GIVES = (Table, View, Maintenance)


def parameters(call: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(call).parameters


@pytest.mark.parametrize("cls", READS)
def test_every_call_that_changes_something_takes_message_and_author(cls: type) -> None:
    """By keyword only; a call that does not is one of those said here to append no event, or to commit nothing."""
    silent = {n for c, n in SILENT if c is cls}
    commits = calls(cls).keys() - READS[cls] - silent
    assert takes_dry_run(cls) - silent <= commits
    for name in commits:
        found = parameters(calls(cls)[name])
        assert found.keys() >= WHO_AND_WHY, f"{cls.__name__}.{name}"
        assert all(found[p].kind is inspect.Parameter.KEYWORD_ONLY for p in WHO_AND_WHY), f"{cls.__name__}.{name}"


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, click.Command]]:
    """All commands with their whole names, those of groups too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        else:
            yield " ".join((*above, name)), command


def test_every_command_that_changes_something_takes_message_and_author() -> None:
    assert isinstance(cli, click.Group)
    for name, command in commands(cli):
        options = {o for p in command.params for o in p.opts}
        assert (options >= {"--message", "--author"}) == (name not in SILENT_COMMANDS), name


class Saying:
    """Stands for a catalog, a table, a view or its maintenance, and tells each of its calls who and why."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if isinstance(found, GIVES):
            return Saying(found)
        if name.startswith("_") or not inspect.ismethod(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            takes = parameters(found).keys() >= WHO_AND_WHY or name == "create_or_replace_table"
            result = found(*args, **kwargs, **({"message": "because", "author": "eve"} if takes else {}))
            return Saying(result) if isinstance(result, GIVES) else result

        return call


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=f"{k[0].__name__}.{k[1]}-{i}") for k, cs in CASES.items() for i, c in enumerate(cs)]
)
def test_the_log_says_who_and_why(lake: Catalog, case: Call) -> None:
    """Of every event that a call appends."""
    position = lake.position
    case(Saying(lake), False)
    assert {(e.provenance.actor, e.provenance.message) for e in store_of(lake).events(position)} <= {("eve", "because")}


def test_materializing_says_who_and_why(lake: Catalog) -> None:
    table = lake.load_table("ns.t")
    table.set_properties({"icecore.materialize": "manual"})
    table.append([{"id": 10, "name": "n10"}])
    lake.materialize("ns.t", message="for Spark", author="eve")
    last = store_of(lake).event_at(lake.position)
    assert (last.kind, last.provenance.actor, last.provenance.message) == ("table.materialized", "eve", "for Spark")
