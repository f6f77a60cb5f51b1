"""The settings that all commands share: the warehouse, the output, the author."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

import icecore
from icecore.engine.errors import MovedWarehouseWarning, NamespaceAlreadyExistsError

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog

WAREHOUSE_VARIABLE = "ICECORE_WAREHOUSE"
OUTPUT_VARIABLE = "ICECORE_OUTPUT"

Command = TypeVar("Command", bound=Callable[..., Any])


class Settings:
    """The settings of a command: `warehouse` and `output` as given to the program, or to the command, which wins."""

    def __init__(self) -> None:
        self.warehouse: str | None = None
        self.warehouse_was_typed = False
        self.output = "table"

    @property
    def as_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output == "json"

    @property
    def path(self) -> str:
        """The warehouse folder. Raises UsageError where none was named."""
        if not self.warehouse:
            raise click.UsageError(f"which warehouse? Give --warehouse PATH or set {WAREHOUSE_VARIABLE}.")
        return self.warehouse

    def read(self) -> Catalog:
        """The warehouse, which must exist, for commands that change nothing."""
        return icecore.open(self.path, create=False, read_only=True)

    def write(self) -> Catalog:
        """The warehouse, which must exist, for commands that commit."""
        with warnings.catch_warnings():
            # The commit is refused in the same words.
            warnings.simplefilter("ignore", MovedWarehouseWarning)
            return icecore.open(self.path, create=False)


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def program_options(command: Command) -> Command:
    """`--warehouse` and `--output` of the program itself, which environment variables can stand for."""
    return _options(command, WAREHOUSE_VARIABLE, OUTPUT_VARIABLE)


def common_options(command: Command) -> Command:
    """`--warehouse` and `--output` of one command."""
    return _options(command, None, None)


def commit_options(command: Command) -> Command:
    """`--message` and `--author` of a command that commits."""
    command = click.option("--author", "-a", metavar="NAME", help="Who commits; ICECORE_ACTOR or the user else.")(
        command
    )
    return click.option("--message", "-m", metavar="TEXT", help="Why: what the log will say.")(command)


def namespace_option(command: Command) -> Command:
    """`--create-namespace` of a command that makes something with a name."""
    return click.option("--create-namespace", is_flag=True, help="Make the namespace too where it is missing.")(command)


def make_namespace(catalog: Catalog, identifier: str) -> None:
    """Creates the namespace of a name, if there is none."""
    from icecore.engine.common.identifiers import identifier_tuple

    with contextlib.suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(identifier_tuple(identifier)[:-1])


def _options(command: Command, warehouse_variable: str | None, output_variable: str | None) -> Command:
    warehouse = click.option(
        "--warehouse",
        "-w",
        metavar="PATH",
        envvar=warehouse_variable,
        show_envvar=True,
        expose_value=False,
        callback=_set_warehouse,
        help="The warehouse folder.",
    )
    output = click.option(
        "--output",
        "-o",
        type=click.Choice(["table", "json"]),
        envvar=output_variable,
        show_envvar=True,
        expose_value=False,
        callback=_set_output,
        help="Text for people, or one JSON value.",
    )
    return warehouse(output(command))


def _set_warehouse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        settings = context.ensure_object(Settings)
        settings.warehouse = value
        typed = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        settings.warehouse_was_typed = typed


def _set_output(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Settings).output = value
