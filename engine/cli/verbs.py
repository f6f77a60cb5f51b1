"""The shared part of commands that change something: help with examples, options, the question before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.settings import Command, commit_options, common_options, pass_settings
from icecore.engine.common.text import counted, printable
from icecore.engine.errors import CommitConflictError

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.events.commit_watch import CommitWatch
    from icecore.engine.events.event import Event


class Refused(click.ClickException):
    """A change that nobody was there to agree to; the exit code is 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Prints what would have been done, and how to have it done."""
        click.echo(printable(self.message), file=file, err=file is None)


def examples(*lines: str) -> str:
    """The end of a command's help, which shows how it is called, for `click.command(epilog=...)`."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def change_command(
    group: click.Group | None = None, name: str | None = None, *, shown: Sequence[str]
) -> Callable[[Callable[..., Any]], click.Command]:
    """A decorator of a command that commits: with the settings, `--message` and `--author`, and examples."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        made = pass_settings(function)
        made = commit_options(common_options(made))
        wrap = click.command if group is None else group.command
        command: click.Command = wrap(name, epilog=examples(*shown))(made)
        return command

    return decorate


def key_option(command: Command) -> Command:
    """`--key` of a command that takes an idempotency key."""
    return click.option(
        "--key", metavar="TEXT", help="A commit that was made under this key already is not made again."
    )(command)


def where_option(told: str, metavar: str = "FILTER") -> Callable[[Command], Command]:
    """`--where` of a command, once: of two the last alone would choose the rows."""

    def one(context: click.Context, option: click.Parameter, found: tuple[str, ...]) -> str | None:
        if len(found) > 1:
            raise click.UsageError("--where is given more than once: join the conditions by AND or OR")
        return found[0] if found else None

    return click.option("--where", metavar=metavar, multiple=True, callback=one, help=told)


def made_before(catalog: Catalog, key: str | None) -> Event | None:
    """The event that an earlier call made under a key: who asks again is not asked."""
    return None if key is None else catalog._warehouse.store.event_by_idempotency_key(key)


def made_by(catalog: Catalog, watch: CommitWatch, key: str | None) -> Event:
    """The last event that a watched call made, or an earlier one under its key; of others there may be later ones."""
    event = watch.made[-1] if watch.made else made_before(catalog, key)
    assert event is not None, "what changes nothing raises"
    return event


def note_others(catalog: Catalog, name: str, lead: str) -> None:
    """Says on standard error how many other tables and views had a name before the one that a command tells of."""
    from icecore.engine.common.identifiers import identifier_tuple
    from icecore.engine.log.names_at import streams_of_name

    warehouse = catalog._warehouse
    if others := len(streams_of_name(warehouse.store, warehouse.models, identifier_tuple(name))) - 1:
        click.echo(f"note: {counted(others, 'other')} had the name {printable(name)} before: {lead}", err=True)


def risk_options(command: Command) -> Command:
    """`--dry-run` and `--yes` of a command that takes something away."""
    return dry_run_option(click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command))


def dry_run_option(command: Command) -> Command:
    """`--dry-run` of any command."""
    return click.option("--dry-run", is_flag=True, help="Only say what would be done.")(command)


def tried(outcome: Any) -> Any:
    """The outcome of a dry run over the catalog. Raises CommitConflictError for what would refuse it."""
    if outcome.conflicts:
        raise CommitConflictError("; ".join(outcome.conflicts))
    return outcome


def agree(would: Sequence[str], *, yes: bool) -> None:
    """Asks whether to do what `would` says. Raises Abort where the answer is no, Refused where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("\n".join([*would, "not done: nobody is there to ask; give --yes"]))
    click.echo(printable("\n".join(would)), err=True)
    click.confirm("go on?", abort=True, err=True)
