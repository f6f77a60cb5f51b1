"""The command `icecore`: a thin face of the library."""

from __future__ import annotations

import warnings
from typing import Any

import click

from icecore.engine.cli import (
    changing,
    dropping,
    folder_commands,
    log_commands,
    reading,
    table_commands,
    warehouse_commands,
)
from icecore.engine.cli.output import printable
from icecore.engine.cli.settings import program_options
from icecore.engine.errors import IcecoreError
from icecore.engine.version import engine_version


class Failure(click.ClickException):
    """An IcecoreError as one line on standard error; the exit code is 1."""

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {printable(self.message)}", file=file, err=file is None)


class Program(click.Group):
    """Runs a command and turns what icecore raises into a line of text."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except IcecoreError as e:
            raise Failure(" ".join(str(e).split())) from e

    def list_commands(self, _: click.Context) -> list[str]:
        """In the order of a warehouse's life, not of the alphabet."""
        return list(self.commands)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(engine_version().removeprefix("icecore "), prog_name="icecore")
@program_options
def cli() -> None:
    """Iceberg tables in a folder: an event log on SQLite, plans and audits in DuckDB SQL.

    A TABLE or VIEW is named by its namespace and name, as in demo.flights.
    """


for _command in (
    warehouse_commands.init,
    table_commands.create,
    table_commands.create_view,
    table_commands.ls,
    table_commands.describe,
    changing.append,
    changing.register,
    changing.resolve,
    dropping.drop,
    dropping.undrop,
    dropping.purge,
    reading.log,
    reading.show,
    reading.plan,
    reading.plans,
    reading.sql,
    warehouse_commands.verify,
    warehouse_commands.rebuild,
    log_commands.export,
    log_commands.archive,
    log_commands.forget,
    log_commands.import_,
    folder_commands.move,
    folder_commands.clone,
    warehouse_commands.demo,
):
    cli.add_command(_command)


def main() -> None:
    """The entry point of the command `icecore`. Where a pipe is closed early it ends without a word."""
    warnings.showwarning = _show_warning
    cli(prog_name="icecore")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """What the library warns of, as one line on standard error."""
    click.echo(f"warning: {printable(' '.join(str(message).split()))}", err=True)
