"""Commands that undo commits, each by a new one: undo, revert, restore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.settings import Settings, commit_options, common_options, pass_settings
from icecore.engine.cli.texts import TIMES, moment
from icecore.engine.cli.verbs import agree, examples, key_option, made_before, risk_options, tried
from icecore.engine.display.output import row_lines
from icecore.engine.errors import CommitConflictError, name_text
from icecore.engine.events.commit_watch import watching_commits

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.events.event import Event


@click.command(epilog=examples("icecore undo --actor bob --dry-run"))
@click.argument("name", required=False)
@click.option("--actor", metavar="NAME", help="Whose last commit; yours else.")
@key_option
@risk_options
@commit_options
@common_options
@pass_settings
def undo(
    settings: Settings,
    name: str | None,
    actor: str | None,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Undo the last commit of yours, to the table or view NAME or to anything.

    By a new commit. The next undo undoes the commit before; to have back what was undone, revert the undo's position.
    """
    _run(
        settings,
        key,
        dry_run,
        yes,
        lambda c, dry: c.undo(name, actor=actor, message=message, author=author, idempotency_key=key, dry_run=dry),
    )


@click.command(epilog=examples("icecore revert 4 --dry-run"))
@click.argument("position", type=click.IntRange(min=1))
@click.option("--through", metavar="POSITION", type=click.IntRange(min=1), help="Undo all commits up to this one too.")
@key_option
@risk_options
@commit_options
@common_options
@pass_settings
def revert(
    settings: Settings,
    position: int,
    through: int | None,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Undo the commit at POSITION, or a range of them.

    By a new commit; what came later stays. Later commits that stand in the way are named.
    """
    _run(
        settings,
        key,
        dry_run,
        yes,
        lambda c, dry: c.revert(
            position, through=through, message=message, author=author, idempotency_key=key, dry_run=dry
        ),
    )


@click.command(
    epilog=examples("icecore restore shop.orders --to 4 --dry-run", "icecore restore --to '2 hours ago' --dry-run")
)
@click.argument("name", required=False)
@click.option("--to", metavar="POSITION|TIME", required=True, help=f"A position of the log, or a time, as {TIMES}.")
@click.option("--namespace", metavar="NAME", help="Restore all in this namespace.")
@key_option
@risk_options
@commit_options
@common_options
@pass_settings
def restore(
    settings: Settings,
    name: str | None,
    to: str,
    namespace: str | None,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Make the table or view NAME, a namespace or everything again.

    What it was at a position or a time. By one new commit: later history stays, and can be restored too. Dropped tables
    come back, and those that there were not then are dropped.
    """
    then = moment(to)
    _run(
        settings,
        key,
        dry_run,
        yes,
        lambda c, dry: c.restore(
            then, table=name, namespace=namespace, message=message, author=author, idempotency_key=key, dry_run=dry
        ),
    )


def _run(settings: Settings, key: str | None, dry_run: bool, yes: bool, call: Callable[[Catalog, bool], Any]) -> None:
    """Makes the call, once it is agreed to, and prints the events that it made; of a dry run what they would be.

    What was made under the key before is told again, also for a dry run.
    Raises CommitConflictError, also where others committed while it was asked; Refused, Abort.
    """
    with settings.write() as catalog:
        done = made_before(catalog, key)
        if done is None and (dry_run or not yes):
            foretold = _foretold(call(catalog, True))
            if dry_run or not foretold:
                _tell(settings, {"dry_run": dry_run, "position": None, "events": foretold}, "would be:")
                return
            seen = catalog.position
            agree(["would be:", *_lines(settings, foretold)], yes=False)
            if catalog.position != seen:
                raise CommitConflictError(f"others committed since position {seen}; nothing was done: look again")
        with watching_commits() as watch:
            outcome = call(catalog, False)
        # Under the key another process may have made them since it was looked for.
        earlier = None if watch.made else made_before(catalog, key)
        transaction = catalog._warehouse.store.transaction_events
        made = _rows(catalog, watch.made if earlier is None else transaction(earlier.transaction_id))
    _tell(settings, {"dry_run": False, "position": outcome, "events": made}, f"done, at position {outcome}:")


def _tell(settings: Settings, record: dict[str, Any], told: str) -> None:
    lines = [told, *_lines(settings, record["events"])] if record["events"] else ["nothing to change: it is as it was"]
    settings.print_record(record, *lines)


def _lines(settings: Settings, events: list[dict[str, Any]]) -> list[str]:
    shown = ["name", "message", "changes"]
    return row_lines(shown, [tuple(e[c] for c in shown) for e in events], settings.form, below="changes")


def _foretold(outcome: Any) -> list[dict[str, Any]]:
    from icecore.projections.inspect.log_table import describe_changes

    return [
        {
            "name": name_text(p.identifier),
            "kind": p.kind,
            "changes": "; ".join(describe_changes(p.kind, p.payload)),
            "message": p.message,
        }
        for p in tried(outcome).parts
    ]


def _rows(catalog: Catalog, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The rows of the events of one transaction, which have their positions one after another."""
    if not events:
        return []
    rows = catalog.log(after=events[0].position - 1, up_to=events[-1].position)
    return list(rows.select(["position", "name", "kind", "changes", "message"]).to_pylist())
