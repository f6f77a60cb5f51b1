"""Commands that make a table or a view: create, create-view."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from icecore.engine.cli.settings import (
    Settings,
    commit_options,
    common_options,
    namespace_of,
    namespace_option,
    pass_settings,
)
from icecore.engine.cli.texts import pairs
from icecore.engine.cli.verbs import agree, dry_run_option, examples, key_option, made_before, tried
from icecore.engine.common.text import counted
from icecore.engine.display.table_text import TableText
from icecore.engine.display.view_text import ViewText
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.spec.view import DUCKDB

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.spec.schema import Schema


@click.command(
    epilog=examples(
        "icecore create shop.cities --schema 'city string not null, people long' --sort city",
        "icecore create shop.again --like orders.csv --null NA --partition 'month(day)'",
        "icecore create shop.again --replace --schema 'id long' --dry-run",
    )
)
@click.argument("table")
@click.option("--schema", metavar="COLUMNS", help="As in 'id long not null, ts timestamptz, tags list<string>'.")
@click.option("--like", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Columns as in this file.")
@click.option("--null", "nulls", metavar="TEXT", multiple=True, help="What means null in a CSV file of --like, as NA.")
@click.option("--replace", is_flag=True, help="Give a table that is there these columns, and no rows.")
@click.option("--yes", "-y", is_flag=True, help="With --replace, do not ask.")
@click.option("--partition", metavar="TERM", multiple=True, help="As in 'month(ts)'; may be repeated.")
@click.option("--sort", metavar="TERM", multiple=True, help="As in 'ts DESC NULLS LAST'; may be repeated.")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, callback=pairs, help="May be repeated.")
@click.option("--format-version", type=click.IntRange(1, 3), default=2, show_default=True)
@click.option("--location", metavar="URI", help="Where its files go; a folder of the warehouse else.")
@namespace_option
@key_option
@dry_run_option
@commit_options
@common_options
@pass_settings
def create(
    settings: Settings,
    table: str,
    schema: str | None,
    like: Path | None,
    nulls: tuple[str, ...],
    replace: bool,
    yes: bool,
    partition: tuple[str, ...],
    sort: tuple[str, ...],
    properties: dict[str, str],
    format_version: int,
    location: str | None,
    create_namespace: bool,
    key: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Make an empty table."""
    columns = _columns(schema, like, nulls)
    with settings.write() as catalog, namespace_of(catalog, table, create_namespace, dry_run=dry_run):
        make = partial(
            catalog.create_or_replace_table if replace else catalog.create_table,
            table,
            columns,
            partition_spec=partition or None,
            sort_order=sort or None,
            location=location,
            properties=properties,
            format_version=format_version,
            message=message,
            author=author,
        )
        is_there = catalog.table_exists(table)
        if made_before(catalog, key) is None and (dry_run or (replace and is_there)):
            tried(make(dry_run=True))
            would = f"would create {table}"
            if is_there:
                held = TableText(catalog.load_table(table)).total("records") or 0
                would = f"would replace {table} with its {counted(held, 'row')}; its snapshots stay"
            if dry_run:
                settings.print_record({"name": table, "dry_run": True, "replaces": is_there}, would)
                return
            agree([would], yes=yes)
        made = make(idempotency_key=key)
        text = TableText(made)
        columns_made = counted(len(made.schema().fields), "column")
        settings.print_record(text.as_dict(), f"created {text.name}: {columns_made}, partitioned by {text.partition()}")


@click.command(epilog=examples('icecore create-view shop.big --sql "SELECT * FROM orders WHERE amount > 10"'))
@click.argument("view")
@click.option("--sql", metavar="QUERY", required=True, help="What its rows are.")
@click.option("--dialect", default=DUCKDB, show_default=True, help="Whose SQL that is, as spark or trino.")
@click.option("--replace", is_flag=True, help="Give a view that is there this query, as a new version.")
@namespace_option
@key_option
@commit_options
@common_options
@pass_settings
def create_view(
    settings: Settings,
    view: str,
    sql: str,
    dialect: str,
    replace: bool,
    create_namespace: bool,
    key: str | None,
    message: str | None,
    author: str | None,
) -> None:
    """Make a view of a query.

    Names without a namespace in the query are those of the view's own.
    """
    with settings.write() as catalog, namespace_of(catalog, view, create_namespace):
        made = catalog.create_view(
            view, sql, dialect=dialect, replace=replace, message=message, author=author, idempotency_key=key
        )
        text = ViewText(made)
        columns = counted(len(made.schema().fields), "column")
        version = made.metadata.current_version_id
        settings.print_record(text.as_dict(), f"made {text.name}: a view of {columns}, version {version}")


def _columns(schema: str | None, like: Path | None, nulls: tuple[str, ...]) -> Schema | pa.Schema:
    from icecore.engine.cli.rows.inputs import file_schema

    if (schema is None) == (like is None):
        raise click.UsageError("give --schema COLUMNS or --like FILE")
    if schema is not None:
        return parse_schema(schema)
    assert like is not None, "one of both was given"
    return file_schema(like, nulls)
