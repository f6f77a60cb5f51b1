"""Commands that undo commits, each by a new one: undo, revert, restore."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.settings import Settings, commit_options, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.display.output import row_lines
from icecore.engine.errors import CommitConflictError

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what it would be, and leave it.")


@click.command(epilog=examples("icecore undo --actor bob --dry-run"))
@click.argument("name", required=False)
@click.option("--actor", metavar="NAME", help="Whose last commit; yours else.")
@_DRY_RUN
@commit_options
@common_options
@pass_settings
def undo(
    settings: Settings, name: str | None, actor: str | None, dry_run: bool, message: str | None, author: str | None
) -> None:
    """Undo the last commit of yours, to the table or view NAME or to anything.

    By a new commit. The next undo undoes the commit before; to have back what was undone, revert the undo's position.
    """
    _run(settings, dry_run, lambda c, dry: c.undo(name, actor=actor, message=message, author=author, dry_run=dry))


@click.command(epilog=examples("icecore revert 4 --dry-run"))
@click.argument("position", type=click.IntRange(min=1))
@click.option("--through", metavar="POSITION", type=click.IntRange(min=1), help="Undo all commits up to this one too.")
@_DRY_RUN
@commit_options
@common_options
@pass_settings
def revert(
    settings: Settings, position: int, through: int | None, dry_run: bool, message: str | None, author: str | None
) -> None:
    """Undo the commit at POSITION, or a range of them.

    By a new commit; what came later stays. Later commits that stand in the way are named.
    """
    _run(
        settings,
        dry_run,
        lambda c, dry: c.revert(position, through=through, message=message, author=author, dry_run=dry),
    )


@click.command(epilog=examples("icecore restore shop.orders --to 4 --dry-run"))
@click.argument("name", required=False)
@click.option("--to", metavar="POSITION|TIME", required=True, help="A position of the log, or a time as ISO 8601 text.")
@click.option("--namespace", metavar="NAME", help="Restore all in this namespace.")
@_DRY_RUN
@commit_options
@common_options
@pass_settings
def restore(
    settings: Settings,
    name: str | None,
    to: str,
    namespace: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Make the table or view NAME, a namespace or everything again.

    What it was at a position or a time. By one new commit: later history stays, and can be restored too. Dropped tables
    come back, and those that there were not then are dropped.
    """
    moment = int(to) if to.isdecimal() else to
    _run(
        settings,
        dry_run,
        lambda c, dry: c.restore(moment, table=name, namespace=namespace, message=message, author=author, dry_run=dry),
    )


def _run(settings: Settings, dry_run: bool, call: Callable[[Catalog, bool], Any]) -> None:
    """Makes the call, and prints the events that it made, or would make. Raises CommitConflictError."""
    with settings.write() as catalog:
        end = catalog.position
        outcome = call(catalog, dry_run)
        events = _foretold(outcome) if dry_run else _made(catalog, end)
    record = {"dry_run": dry_run, "position": None if dry_run else outcome, "events": events}
    told = "would be:" if dry_run else f"done, at position {outcome}:"
    rows = row_lines(["name", "changes"], [(e["name"], e["changes"]) for e in events], settings.form)
    settings.print_record(record, *([told, *rows] if events else ["nothing to change: it is as it was"]))


def _foretold(outcome: Any) -> list[dict[str, Any]]:
    from icecore.projections.inspect.log_table import describe_changes

    if outcome.conflicts:
        raise CommitConflictError("; ".join(outcome.conflicts))
    return [
        {"name": ".".join(p.identifier), "kind": p.kind, "changes": "; ".join(describe_changes(p.kind, p.payload))}
        for p in outcome.parts
    ]


def _made(catalog: Catalog, end: int) -> list[dict[str, Any]]:
    rows = catalog.log(after=end).select(["position", "name", "kind", "changes"]).to_pylist()
    return list(rows)
