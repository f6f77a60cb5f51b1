"""The settings that all commands share: the warehouse, the output, the author."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

import icecore
from icecore.engine.errors import (
    IcecoreError,
    MovedWarehouseWarning,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.display.output import Form

WAREHOUSE_VARIABLE = "ICECORE_WAREHOUSE"
OUTPUT_VARIABLE = "ICECORE_OUTPUT"
OUTPUTS = ("table", "json", "csv", "arrow")

Command = TypeVar("Command", bound=Callable[..., Any])


class Settings:
    """The settings of a command, as given to the program, or to the command, which wins; and what prints by them."""

    def __init__(self) -> None:
        self.warehouse: str | None = None
        self.warehouse_was_typed = False
        self.output = "table"
        self.expanded = False
        self.wide = False
        self._opened_at: int | None = None

    @property
    def as_json(self) -> bool:
        """Whether the output is JSON."""
        return self.output == "json"

    @property
    def form(self) -> Form:
        """The form of the output."""
        from icecore.engine.display.output import Form

        return Form(self.output, self.expanded, self.wide)

    def print_rows(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        before: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> None:
        """Prints rows that tell of a warehouse; as text between the lines `before` and `after`."""
        from icecore.engine.display.output import print_rows

        print_rows(columns, rows, self.form, before=before, after=after)

    def print_arrow(
        self, table: pa.Table, *, null: str = "null", as_data: bool = True, below: str | None = None
    ) -> None:
        """Prints a result; `as_data` are rows of a user's table, whose ids are not shortened.

        A column `below` gets a line of its own under each row where the terminal is too narrow.
        """
        from icecore.engine.display.output import print_arrow

        print_arrow(table, self.form, null=null, as_data=as_data, below=below)

    def print_record(self, record: Mapping[str, Any], *lines: str) -> None:
        """Prints what was found or done: the record for programs, the lines for people."""
        from icecore.engine.display.output import print_record

        print_record(record, self.form, lines)

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
            opened = icecore.open(self.path, create=False)
        self._opened_at = opened.position
        return opened

    def stored_since(self) -> range:
        """The positions of what was stored since `write`, by others too; empty where that can't be looked up."""
        if self._opened_at is None:
            return range(0)
        with contextlib.suppress(IcecoreError, OSError), self.read() as catalog:
            return range(self._opened_at + 1, catalog.position + 1)
        return range(0)


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def program_options(command: Command) -> Command:
    """`--warehouse`, `--output`, `-x` and `--wide` of the program itself; environment variables can stand for two."""
    return _options(command, WAREHOUSE_VARIABLE, OUTPUT_VARIABLE)


def common_options(command: Command) -> Command:
    """`--warehouse`, `--output`, `-x` and `--wide` of one command."""
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


@contextlib.contextmanager
def namespace_of(catalog: Catalog, identifier: str, create: bool, *, dry_run: bool = False) -> Iterator[None]:
    """A context in which the namespace of a name is there if it was asked for; a dry run makes none.

    Where it is not there, a NoSuchNamespaceError names the option, or says so.
    """
    from icecore.engine.common.identifiers import identifier_tuple

    if create and not dry_run:
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(identifier_tuple(identifier)[:-1])
    try:
        yield
    except NoSuchNamespaceError as e:
        told = "; a dry run does not make it" if create else "; --create-namespace makes it"
        raise NoSuchNamespaceError(f"{e}{told}") from e


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
        type=click.Choice(OUTPUTS),
        envvar=output_variable,
        show_envvar=True,
        expose_value=False,
        callback=_set,
        help="Text for people, or JSON, CSV, an Arrow stream.",
    )
    expanded = _flag("--expanded", "-x", help="One field a line.")
    wide = _flag("--wide", help="Leave out no column and cut no text.")
    return warehouse(output(expanded(wide(command))))


def _flag(*names: str, help: str) -> Callable[[Command], Command]:
    return click.option(*names, is_flag=True, default=None, expose_value=False, callback=_set, help=help)


def _set_warehouse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        settings = context.ensure_object(Settings)
        settings.warehouse = value
        typed = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        settings.warehouse_was_typed = typed


def _set(context: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
    """Keeps a value under its option's name."""
    if value is not None:
        setattr(context.ensure_object(Settings), str(parameter.name), value)
