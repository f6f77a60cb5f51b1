"""Commands that take rows away or put others in their place: delete, overwrite, upsert."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from icecore.engine.cli.rows.asked_change import AskedChange
from icecore.engine.cli.texts import names
from icecore.engine.cli.verbs import change_command, key_option, risk_options, where_option
from icecore.engine.spec.snapshot import MAIN_BRANCH

if TYPE_CHECKING:
    from icecore.engine.cli.settings import Settings
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.spec.schema import Schema
    from icecore.engine.table.table import Table


def _each_once(_: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files. Raises BadParameter where one is there twice, as patterns that overlap name it."""
    found = set[Path]()
    for path in paths:
        if path.resolve() in found:
            raise click.BadParameter(f"{str(path)!r} is there twice, and so would be its rows", param=parameter)
        found.add(path.resolve())
    return paths


FILES = click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    callback=_each_once,
)
NULLS = click.option(
    "--null", "nulls", metavar="TEXT", multiple=True, help="What means null in CSV besides nothing, as NA."
)
BRANCH = click.option("--branch", default=MAIN_BRANCH, show_default=True)


@change_command(
    shown=(
        "icecore delete shop.orders --where \"city = 'Rome'\" --dry-run",
        "icecore delete shop.orders --where 'amount < 10' --yes -m 'too small to bill'",
    )
)
@click.argument("table")
@where_option("A SQL predicate: rows for which it is true are deleted.")
@click.option(
    "--keys", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Rows that equal one of this file."
)
@click.option("--on", "columns", metavar="A,B", callback=names, help="The key columns; the identifier fields else.")
@BRANCH
@key_option
@risk_options
def delete(
    settings: Settings,
    table: str,
    where: str | None,
    keys: Path | None,
    columns: tuple[str, ...] | None,
    branch: str,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Delete rows of a table.

    Those that a filter selects, or those whose keys stand in a file, which writes equality deletes and reads nothing.
    """
    from icecore.engine.cli.rows.inputs import read_files

    if (where is None) == (keys is None):
        raise click.UsageError("give --where FILTER or --keys FILE")

    def change(target: Table, dry: bool) -> DryRun | None:
        if keys is None:
            return target.delete(
                str(where), branch=branch, message=message, author=author, idempotency_key=key, dry_run=dry
            )
        schema = target.schema()
        on = _key_columns(schema, columns)
        return target.delete_keys(
            read_files([keys], schema.select(on)).read_all(),
            on,
            branch=branch,
            message=message,
            author=author,
            idempotency_key=key,
            dry_run=dry,
        )

    with settings.write() as catalog:
        AskedChange("delete from", "deleted from", change, branch).run(
            settings, catalog, table, dry_run=dry_run, yes=yes
        )


@change_command(
    shown=(
        "icecore overwrite shop.orders orders.csv --where \"city = 'Oslo'\" --dry-run",
        "icecore overwrite shop.orders orders.csv --yes -m 'delivered again'",
    )
)
@click.argument("table")
@FILES
@where_option("Only rows for which this SQL predicate is true are replaced.")
@click.option("--partitions", is_flag=True, help="Only the partitions that FILES have rows of are replaced.")
@NULLS
@BRANCH
@key_option
@risk_options
def overwrite(
    settings: Settings,
    table: str,
    files: tuple[Path, ...],
    where: str | None,
    partitions: bool,
    nulls: tuple[str, ...],
    branch: str,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Replace rows by those of FILES, in one commit.

    All rows, those that a filter selects, or whole partitions. Columns are matched by name.
    """
    from icecore.engine.cli.rows.inputs import read_files

    if where is not None and partitions:
        raise click.UsageError("give --where or --partitions")

    def change(target: Table, dry: bool) -> DryRun | None:
        rows = read_files(files, target.schema(), nulls)
        if partitions:
            return target.dynamic_partition_overwrite(
                rows, branch=branch, message=message, author=author, idempotency_key=key, dry_run=dry
            )
        return target.overwrite(
            rows, where, branch=branch, message=message, author=author, idempotency_key=key, dry_run=dry
        )

    with settings.write() as catalog:
        AskedChange("overwrite", "overwrote", change, branch).run(settings, catalog, table, dry_run=dry_run, yes=yes)


@change_command(
    shown=(
        "icecore upsert shop.returns orders.csv --on id --dry-run",
        "icecore upsert shop.returns orders.csv --on id --yes -m 'late corrections'",
    )
)
@click.argument("table")
@FILES
@click.option("--on", "columns", metavar="A,B", callback=names, help="The key columns; the identifier fields else.")
@click.option("--update-only", is_flag=True, help="Insert no row.")
@click.option("--insert-only", is_flag=True, help="Update no row.")
@NULLS
@BRANCH
@key_option
@risk_options
def upsert(
    settings: Settings,
    table: str,
    files: tuple[Path, ...],
    columns: tuple[str, ...] | None,
    update_only: bool,
    insert_only: bool,
    nulls: tuple[str, ...],
    branch: str,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Update the rows whose keys FILES have, and insert the others, in one commit.

    With --insert-only it takes nothing away, and does not ask.
    """
    from icecore.engine.cli.rows.inputs import read_files

    def change(target: Table, dry: bool) -> DryRun | None:
        return target.upsert(
            read_files(files, target.schema(), nulls),
            _key_columns(target.schema(), columns),
            when_matched_update_all=not insert_only,
            when_not_matched_insert_all=not update_only,
            branch=branch,
            message=message,
            author=author,
            idempotency_key=key,
            dry_run=dry,
        ).outcome

    with settings.write() as catalog:
        AskedChange("upsert into", "upserted into", change).run(
            settings, catalog, table, dry_run=dry_run, yes=yes or insert_only
        )


def _key_columns(schema: Schema, named: tuple[str, ...] | None) -> tuple[str, ...]:
    """The columns that --on names, else the identifier fields. Raises UsageError where there are none."""
    found = named or schema.identifier_field_names()
    if not found:
        raise click.UsageError("name the key columns by --on A,B: the table has no identifier fields")
    return found
