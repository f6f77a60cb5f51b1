"""Commands that tell what there is: ls, describe."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.common.identifiers import namespace_tuple
from icecore.engine.display.output import pair_lines
from icecore.engine.display.table_text import TableText
from icecore.engine.display.view_text import ViewText

if TYPE_CHECKING:
    from icecore.engine.table.table import Table
    from icecore.engine.view.view import View

# Name, kind, format version, files, rows, time of the last change.
_Row = tuple[str, str, int | str, int | None, int | None, dt.datetime]


@click.command(epilog=examples("icecore ls", "icecore ls shop --output json"))
@click.argument("namespace", required=False)
@common_options
@pass_settings
def ls(settings: Settings, namespace: str | None) -> None:
    """List the tables and views of a namespace, or of all.

    The number of rows is left out where delete files are in the way.
    """
    with settings.read() as catalog:
        if namespace is not None:
            catalog.load_namespace_properties(namespace)
        levels = () if namespace is None else namespace_tuple(namespace)
        tables = (t for t in catalog.tables() if t.name()[: len(levels)] == levels)
        views = (v for v in catalog.views() if v.name()[: len(levels)] == levels)
        rows = sorted([*map(_table_row, tables), *map(_view_row, views)])
    columns = ("name", "kind", "format", "files", "rows", "updated")
    if settings.form.is_text:
        rows = [(*row[:2], f"v{row[2]}", *row[3:]) for row in rows]
    settings.print_rows(columns, rows)


@click.command(epilog=examples("icecore describe shop.orders"))
@click.argument("name")
@common_options
@pass_settings
def describe(settings: Settings, name: str) -> None:
    """Print what a table or view is.

    Of a table its columns, partitions, order, properties, snapshot, branches and tags; of a view its columns, its SQL
    and what it was before.
    """
    with settings.read() as catalog:
        text = ViewText(catalog.load_view(name)) if catalog.view_exists(name) else TableText(catalog.load_table(name))
        settings.print_record(text.as_dict(), *pair_lines(text.as_pairs()))


def _table_row(table: Table) -> _Row:
    text = TableText(table)
    return text.name, "table", table.format_version, text.total("data-files"), text.rows(), text.updated_at()


def _view_row(view: View) -> _Row:
    text = ViewText(view)
    return text.name, "view", view.metadata.format_version, None, None, text.updated_at()
