"""Which commands ask before they take something away, and which commit: each command is one or the other, and said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from click.testing import Result

from icecore.engine.cli.main import COMMANDS, cli

Run = Callable[..., Result]
RunJson = Callable[..., Any]

ASKS = {
    "delete": ["shop.orders", "--where", "id = 1"],
    "overwrite": ["shop.orders", "rows.csv"],
    "upsert": ["shop.orders", "rows.csv", "--on", "id"],
    "create": ["shop.orders", "--schema", "i int", "--replace"],
    "register": ["shop.orders", "METADATA", "--overwrite"],
    "unregister": ["shop.orders"],
    "drop": ["shop.orders"],
    "purge": ["shop.gone"],
    "namespace drop": ["more"],
    "alter drop-column": ["note"],
    "branch drop": ["shop.orders", "b"],
    "branch replace": ["shop.orders", "b", "--snapshot", "main"],
    "tag drop": ["shop.orders", "t"],
    "tag replace": ["shop.orders", "t", "--snapshot", "main"],
    "rollback": ["shop.orders", "--to", "t"],
    "set-snapshot": ["shop.orders", "t"],
    "expire": ["shop.orders", "--older-than", "now"],
    "orphans": ["shop.orders"],
    "maintain": ["shop.orders"],
    "undo": ["--actor", "eve"],
    "revert": ["LAST"],
    "restore": ["--to", "2"],
    "forget": ["shop.orders"],
}
"""What takes rows, files, snapshots or names away, or puts others in their place; with arguments that do."""
CONFLICT = "resolve"
"""It asks too, but for a conflict with another engine."""
COMMITS = {
    "add rows": ("load", "append", "add-files", "cherry-pick", "publish"),
    "add names": ("register-folder", "migrate", "namespace create", "undrop", "branch create", "tag create"),
    "give what has a name another": ("rename", "branch rename", "alter rename-column", "alter rename-partition"),
    "change a table, with all rows and names": (
        "alter add-column", "alter change-column", "alter identifier", "alter add-partition", "alter drop-partition",
        "alter sort", "alter upgrade", "properties set", "properties remove", "branch keep",
    ),
    "move a branch to what came of it": ("branch fast-forward",),
    "keep the older versions": ("create-view",),
    "write the same rows again": ("compact", "rewrite-deletes", "rewrite-manifests"),
    "write other files": ("compute-statistics", "materialize", "move", "clone"),
}  # fmt: skip
"""What commits and takes nothing away, by the reason."""


def leaves() -> Iterator[tuple[str, set[str]]]:
    """The commands by their names, as `namespace drop`, with their options."""
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        parts = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for part, inner in parts:
            assert inner is not None
            yield f"{name} {part}".strip(), {o for p in inner.params for o in p.opts}


def test_every_command_that_commits_asks_or_takes_nothing_away() -> None:
    """A new one is one or the other; those that ask have `--dry-run`, and nothing else has `--yes`."""
    options = dict(leaves())
    asks = ASKS.keys() | {CONFLICT}
    others = {name for names in COMMITS.values() for name in names}
    assert {n for n, given in options.items() if "--message" in given} == asks | others and not asks & others
    assert {n for n, given in options.items() if "--yes" in given} == asks
    for name in asks:
        assert {"--yes", "--dry-run", "--message", "--author"} <= options[name], name
    for name, given in options.items():
        assert ("--message" in given) == ("--author" in given), name


def test_what_asks_does_nothing_else(run: Run, run_json: RunJson, orders: str, tmp_path: Path) -> None:
    """Where nobody is there, and of a dry run; neither commits, and what would be done is said before.

    A commit must say why here, as it does: what is tried has the reason too.
    """
    rows = tmp_path / "rows.csv"
    rows.write_text("id,ts,note\n1,2013-01-01T10:00:00Z,changed\n")
    run("tag", "create", orders, "t")
    run("branch", "create", orders, "b")
    run("properties", "set", "shop", "icecore.require-message=true", "--namespace")
    why = "-m", "why"
    more = tmp_path / "more.csv"
    more.write_text("id\n9\n")
    run("append", orders, str(more), "--author", "eve", *why)
    for name in ("gone", "old"):
        run("create", f"shop.{name}", "--schema", "i int", *why)
    run("drop", "shop.gone", "--yes", *why)
    run("namespace", "create", "more")
    metadata = run_json("describe", orders)["metadata_location"]
    log = run_json("log")
    given = {"rows.csv": str(rows), "METADATA": metadata, "LAST": str(log[0]["position"])}
    for name, arguments in ASKS.items():
        words = [*name.split(), *(given.get(a, a) for a in arguments), *why]
        if words[0] == "alter":
            words.insert(1, orders)
        told = run(*words, "--dry-run").stdout
        if name != "forget":
            refused = run(*words, code=2).stderr
            assert told and refused.endswith("not done: nobody is there to ask; give --yes\n"), name
        assert run_json("log") == log, name


def test_what_only_rearranges_the_log_commits_nothing(run: Run, run_json: RunJson, orders: str) -> None:
    """So it has no author and no reason."""
    run("plan", orders, "--where", "id = 1", "--name", "one")
    log = run_json("log")
    for command in (["checkpoint"], ["rebuild"], ["rebuild", orders], ["plans", orders, "--drop", "one"]):
        run(*command)
    run("archive", "--before", "3")
    assert run_json("log") == log
