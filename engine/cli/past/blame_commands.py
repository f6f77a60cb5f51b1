"""The command that tells who brought rows, files, partitions, columns, properties and refs of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import names
from icecore.engine.cli.verbs import examples, where_option
from icecore.engine.common.text import counted
from icecore.engine.display.output import waiting
from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 20


@click.command(
    epilog=examples("icecore blame shop.orders --where \"city = 'Oslo'\"", "icecore blame shop.orders --column city")
)
@click.argument("table")
@where_option("Which rows, as in 'dep_delay = 9999'.", "SQL")
@click.option("--columns", metavar="A,B", callback=names, help="Which columns of them.")
@click.option("--limit", type=click.IntRange(min=1), help=f"How many rows (else {ROWS}) or commits (else all) at most.")
@click.option("--branch", metavar="NAME", help="Rows of this branch or tag.")
@click.option("--file", metavar="PATH", help="Who added and removed this file; the end of its path will do.")
@click.option("--partition", metavar="PATH", help="Who changed this partition, as in 'day=2024-01-01'.")
@click.option("--column", metavar="NAME", help="Who changed this column, under any name that it had.")
@click.option("--property", "key", metavar="KEY", help="Who set this property.")
@click.option("--ref", metavar="NAME", help="Who moved this branch or tag.")
@common_options
@pass_settings
def blame(
    settings: Settings,
    table: str,
    where: str | None,
    columns: tuple[str, ...] | None,
    limit: int | None,
    branch: str | None,
    file: str | None,
    partition: str | None,
    column: str | None,
    key: str | None,
    ref: str | None,
) -> None:
    """Print which commit brought each row, or changed a file, column and so on.

    A row's commit is the one that brought it as it is, through compactions and updates of other rows; where the commits
    before are expired, _is_exact is false. Of a file, column and so on all commits that changed it, latest first.
    """
    doing = f"looking through the commits of {table}"
    others = {"file": file, "partition": partition, "column": column, "property": key, "ref": ref}
    with settings.read() as catalog:
        if any(value is not None for value in others.values()):
            if where is not None or columns is not None or branch is not None:
                raise click.UsageError("--where, --columns and --branch are of rows.")
            with waiting(doing):
                found = catalog.blame(table, **others)
            if not found.num_rows:
                [(what, name)] = [(what, name) for what, name in others.items() if name is not None]
                raise ValidationError(f"no commit that can be read changed a {what} {name!r} of {table}")
            found = found.slice(0, limit)
        else:
            chosen = columns or ("*",)
            with waiting(doing):
                most = limit or ROWS + 1
                found = catalog.load_table(table).blame(where, selected_fields=chosen, ref=branch, limit=most)
            if limit is None and found.num_rows > ROWS:
                found = found.slice(0, ROWS)
                click.echo(f"note: there are more than these {ROWS} rows: --limit says how many to print", err=True)
            if settings.output == "table":
                found = _rows_first(found)
                if early := found["_is_exact"].to_pylist().count(False):
                    # The column that says it may not fit the terminal.
                    told = f"{counted(early, 'row')} came with the commit that is named or before"
                    click.echo(f"note: {told}: commits were expired since (_is_exact)", err=True)
    settings.print_arrow(found)


def _rows_first(found: pa.Table) -> pa.Table:
    """The columns in the order of which those that don't fit a terminal are missed least: who, the row, the rest."""
    from icecore.engine.scan.blame import COMMIT

    who = ["_position", "_actor"]
    rest = [name for name in COMMIT.names if name not in who]
    own = [name for name in found.column_names if name not in COMMIT.names]
    return found.select([*who, *own, *rest])
