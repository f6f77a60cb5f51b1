"""The command that runs others in a copy of the warehouse."""

from __future__ import annotations

import shlex

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples


@click.command(
    "what-if", epilog=examples('icecore what-if "delete shop.orders --where \'id = 1\' --yes" "show shop.orders"')
)
@click.argument("commands", metavar="COMMAND...", nargs=-1, required=True)
@common_options
@pass_settings
@click.pass_context
def what_if(context: click.Context, settings: Settings, commands: tuple[str, ...]) -> None:
    """Run commands in a copy that is thrown away.

    Each COMMAND is one argument, as in: icecore what-if 'append t new.csv' 'show t' verify. The copy shares the data
    files, and deletes none of them.
    """
    import icecore

    program = context.find_root().command
    several = [_words(command) for command in commands]
    with icecore.what_if(settings.path) as copy:
        for words in several:
            with program.make_context("icecore", words) as called:
                copied = called.ensure_object(Settings)
                copied.warehouse, copied.output = str(copy.path), settings.output
                copied.expanded, copied.wide = settings.expanded, settings.wide
                program.invoke(called)


def _words(command: str) -> list[str]:
    """The words of a command. Raises BadParameter where they are none, as a quote is not closed."""
    try:
        return shlex.split(command)
    except ValueError as e:
        raise click.BadParameter(f"{command!r} is no command: {e}", param_hint="COMMAND") from e
