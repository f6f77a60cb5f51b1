"""The command alter: columns, partitions, order and format of a table, the version of a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from icecore.engine.cli.changes.given_default import given_default
from icecore.engine.cli.completion import name_argument
from icecore.engine.cli.verbs import agree, change_command, dry_run_option, risk_options
from icecore.engine.display.table_text import TableText
from icecore.engine.evolution.schema_text import parse_schema

if TYPE_CHECKING:
    from icecore.engine.cli.settings import Settings
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.evolution.update_schema import UpdateSchema
    from icecore.engine.evolution.update_spec import UpdateSpec
    from icecore.engine.spec.types import Type
    from icecore.engine.table.table import Table


@click.group()
@name_argument("table")
def alter(table: str) -> None:
    """Change the columns, partitions, order or format of a table.

    TABLE comes first, then the change: `icecore alter shop.orders add-column note string`.
    """


@change_command(
    alter,
    "add-column",
    shown=("icecore alter shop.orders add-column note string --doc 'what they said' -m 'asked for'",),
)
@click.argument("column")
@click.argument("column_type", metavar="TYPE")
@click.option("--doc", metavar="TEXT", help="What the column holds.")
@click.option("--required", is_flag=True, help="No row may lack it; needs --default where there are rows.")
@click.option("--default", metavar="VALUE", help="What it is in rows that are there (v3).")
@dry_run_option
def add_column(
    settings: Settings,
    column: str,
    column_type: str,
    doc: str | None,
    required: bool,
    default: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Add a column. One inside of a struct is named by its path, as address.street."""

    def change(update: UpdateSchema) -> object:
        kind = _type(column_type)
        return update.add_column(tuple(column.split(".")), kind, doc, required, given_default(default, kind))

    _schema(settings, f"add the column {column} {column_type}", change, message, author, dry_run)


@change_command(alter, "drop-column", shown=("icecore alter shop.orders drop-column extra --dry-run",))
@click.argument("column")
@risk_options
def drop_column(
    settings: Settings, column: str, dry_run: bool, yes: bool, message: str | None, author: str | None
) -> None:
    """Drop a column. Its values stay in the files of snapshots that have it."""
    if not dry_run:
        with settings.write() as catalog:
            catalog.load_table(_table_name()).update_schema(dry_run=True).delete_column(column).commit()
        agree([f"would drop the column {column} of {_table_name()}"], yes=yes)
    _schema(settings, f"drop the column {column}", lambda u: u.delete_column(column), message, author, dry_run)


@change_command(alter, "rename-column", shown=("icecore alter shop.orders rename-column extra more --dry-run",))
@click.argument("column")
@click.argument("new")
@dry_run_option
def rename_column(
    settings: Settings, column: str, new: str, dry_run: bool, message: str | None, author: str | None
) -> None:
    """Rename a column. No file is written again.

    Of a field of a struct NEW is its name alone: `rename-column who.name full_name`.
    """
    what = f"rename the column {column} to {new}"
    _schema(settings, what, lambda u: u.rename_column(column, new), message, author, dry_run)


@change_command(alter, "change-column", shown=("icecore alter shop.orders change-column extra --type long",))
@click.argument("column")
@click.option("--type", "column_type", metavar="TYPE", help="A wider one, as long for int.")
@click.option("--optional", is_flag=True, help="Let it be null.")
@click.option("--doc", metavar="TEXT", help="What the column holds.")
@click.option("--default", metavar="VALUE", help="What new rows get that lack it (v3).")
@click.option("--first", is_flag=True, help="Move it to the start.")
@click.option("--before", metavar="COLUMN", help="Move it there.")
@click.option("--after", metavar="COLUMN", help="Move it there.")
@dry_run_option
def change_column(
    settings: Settings,
    column: str,
    column_type: str | None,
    optional: bool,
    doc: str | None,
    default: str | None,
    first: bool,
    before: str | None,
    after: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Widen a column's type, let it be null, document or move it."""
    if sum((first, before is not None, after is not None)) > 1:
        raise click.UsageError("give one of --first, --before and --after")

    def change(update: UpdateSchema) -> None:
        kind = None if column_type is None else _type(column_type)
        update.update_column(column, kind, False if optional else None, doc)
        if default is not None:
            update.set_default_value(column, given_default(default, kind or _table_schema_type(column)))
        if first:
            update.move_first(column)
        if before is not None:
            update.move_before(column, before)
        if after is not None:
            update.move_after(column, after)

    def _table_schema_type(name: str) -> Type:
        with settings.read() as catalog:
            return catalog.load_table(_table_name()).schema().find_field(name).field_type

    _schema(settings, f"change the column {column}", change, message, author, dry_run)


@change_command(alter, "identifier", shown=("icecore alter shop.keyed identifier id",))
@click.argument("columns", nargs=-1, metavar="[COLUMN]...")
@dry_run_option
def identifier(
    settings: Settings, columns: tuple[str, ...], dry_run: bool, message: str | None, author: str | None
) -> None:
    """Make columns the identifier fields, which upserts go by; none without a COLUMN."""
    what = f"make the identifier {', '.join(columns) or 'nothing'}"
    _schema(settings, what, lambda u: u.set_identifier_fields(*columns), message, author, dry_run)


@change_command(alter, "add-partition", shown=("icecore alter shop.orders add-partition 'bucket(4, id)'",))
@click.argument("term")
@click.option("--name", metavar="TEXT", help="Of the partition field.")
@dry_run_option
def add_partition(
    settings: Settings, term: str, name: str | None, dry_run: bool, message: str | None, author: str | None
) -> None:
    """Partition by a term more. Only what is written from now on."""
    what = f"partition by {term}"
    _spec(settings, what, lambda u: u.add_field(term, partition_field_name=name), message, author, dry_run)


@change_command(alter, "drop-partition", shown=("icecore alter shop.orders drop-partition 'bucket(4, id)'",))
@click.argument("term", metavar="NAME_OR_TERM")
@dry_run_option
def drop_partition(settings: Settings, term: str, dry_run: bool, message: str | None, author: str | None) -> None:
    """Partition by a term less. Only what is written from now on."""
    what = f"no longer partition by {term}"
    _spec(settings, what, lambda u: u.remove_field(term), message, author, dry_run)


@change_command(alter, "rename-partition", shown=("icecore alter shop.orders rename-partition day_month month",))
@click.argument("name")
@click.argument("new")
@dry_run_option
def rename_partition(
    settings: Settings, name: str, new: str, dry_run: bool, message: str | None, author: str | None
) -> None:
    """Rename a partition field."""
    what = f"rename the partition field {name} to {new}"
    _spec(settings, what, lambda u: u.rename_field(name, new), message, author, dry_run)


@change_command(alter, "sort", shown=("icecore alter shop.orders sort city 'day DESC NULLS LAST'",))
@click.argument("terms", nargs=-1, metavar="[TERM]...")
@dry_run_option
def sort(settings: Settings, terms: tuple[str, ...], dry_run: bool, message: str | None, author: str | None) -> None:
    """Sort what is written from now on by TERMs, or by nothing."""

    def commit(table: Table) -> DryRun | None:
        update = table.update_sort_order(message=message, author=author, dry_run=dry_run)
        return (update.set(*terms) if terms else update.unsorted()).commit()

    _run(settings, f"sort by {', '.join(terms) or 'nothing'}", commit, dry_run)


@change_command(alter, "upgrade", shown=("icecore alter shop.orders upgrade 3 --dry-run",))
@click.argument("format_version", type=click.IntRange(1, 3))
@dry_run_option
def upgrade(settings: Settings, format_version: int, dry_run: bool, message: str | None, author: str | None) -> None:
    """Give a table a newer format version. There is no way back."""

    def commit(table: Table) -> DryRun | None:
        return table.upgrade(format_version, message=message, author=author, dry_run=dry_run)

    _run(settings, f"upgrade to format version {format_version}", commit, dry_run)


def _schema(
    settings: Settings,
    what: str,
    change: Callable[[UpdateSchema], object],
    message: str | None,
    author: str | None,
    dry_run: bool,
) -> None:
    def commit(table: Table) -> DryRun | None:
        update = table.update_schema(message=message, author=author, dry_run=dry_run)
        change(update)
        return update.commit()

    _run(settings, what, commit, dry_run)


def _spec(
    settings: Settings,
    what: str,
    change: Callable[[UpdateSpec], object],
    message: str | None,
    author: str | None,
    dry_run: bool,
) -> None:
    def commit(table: Table) -> DryRun | None:
        update = table.update_spec(message=message, author=author, dry_run=dry_run)
        change(update)
        return update.commit()

    _run(settings, what, commit, dry_run)


def _run(settings: Settings, what: str, commit: Callable[[Table], DryRun | None], dry_run: bool) -> None:
    """Makes a change and prints what the table is then, or that it would be made."""
    with settings.write() as catalog:
        table = catalog.load_table(_table_name())
        outcome = commit(table)
        name = _table_name()
        record = {**TableText(table).as_dict(), "dry_run": dry_run}
    conflicts = () if outcome is None else outcome.conflicts
    line = f"{name}: would {what}" if dry_run else f"{name}: done: {what}"
    settings.print_record(record, line, *(f"in its way: {text}" for text in conflicts))


def _table_name() -> str:
    """The TABLE before the name of the change."""
    parent = click.get_current_context().parent
    assert parent is not None, "these commands are those of a group"
    return str(parent.params["table"])


def _type(text: str) -> Type:
    """The type that a text writes, as in `create --schema`. Raises ValidationError."""
    return parse_schema(f"it {text}").fields[0].field_type
