"""Commands about tables as such: create, ls, describe."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click
import pyarrow as pa

from icecore.engine.catalog import Catalog
from icecore.engine.cli.inputs import file_schema
from icecore.engine.cli.output import print_json, print_pairs, print_rows, print_text
from icecore.engine.cli.settings import Settings, commit_options, common_options, pass_settings
from icecore.engine.cli.table_text import TableText
from icecore.engine.cli.texts import pairs
from icecore.engine.errors import NamespaceAlreadyExistsError
from icecore.engine.identifiers import identifier_tuple
from icecore.engine.schema_text import parse_schema
from icecore.engine.spec.schema import Schema


@click.command()
@click.argument("table")
@click.option("--schema", metavar="COLUMNS", help="As in 'id long not null, ts timestamptz, tags list<string>'.")
@click.option("--like", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Columns as in this file.")
@click.option("--partition", metavar="TERM", multiple=True, help="As in 'month(ts)'; may be repeated.")
@click.option("--sort", metavar="TERM", multiple=True, help="As in 'ts DESC NULLS LAST'; may be repeated.")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, callback=pairs, help="May be repeated.")
@click.option("--format-version", type=click.IntRange(1, 3), default=2, show_default=True)
@click.option("--location", metavar="URI", help="Where its files go; a folder of the warehouse else.")
@click.option("--create-namespace", is_flag=True, help="Make the namespace too where it is missing.")
@commit_options
@common_options
@pass_settings
def create(
    settings: Settings,
    table: str,
    schema: str | None,
    like: Path | None,
    partition: tuple[str, ...],
    sort: tuple[str, ...],
    properties: dict[str, str],
    format_version: int,
    location: str | None,
    create_namespace: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Make an empty table."""
    columns = _columns(schema, like)
    with settings.write() as catalog:
        if create_namespace:
            _make_namespace(catalog, identifier_tuple(table)[:-1])
        made = catalog.create_table(
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
        text = TableText(made)
        if settings.as_json:
            print_json(text.as_dict())
        else:
            print_text(f"created {text.name}: {len(made.schema().fields)} columns, partitioned by {text.partition()}")


@click.command()
@click.argument("namespace", required=False)
@common_options
@pass_settings
def ls(settings: Settings, namespace: str | None) -> None:
    """List the tables of a namespace, or of all."""
    with settings.read() as catalog:
        if namespace is not None:
            catalog.load_namespace_properties(namespace)
        inside = None if namespace is None else f"{namespace}."
        texts = [t for t in map(TableText, catalog.tables()) if inside is None or t.name.startswith(inside)]
        rows = [
            (t.name, f"v{t.table.format_version}", t.total("data-files"), t.total("records"), t.updated_at())
            for t in texts
        ]
    columns = ("table", "format", "files", "rows", "updated")
    if settings.as_json:
        print_json([{**dict(zip(columns, row, strict=True)), "format": int(row[1][1:])} for row in rows])
    else:
        print_rows(columns, rows)


@click.command()
@click.argument("table")
@common_options
@pass_settings
def describe(settings: Settings, table: str) -> None:
    """Print what a table is.

    Its columns, partitions, order, properties, snapshot, branches and tags.
    """
    with settings.read() as catalog:
        text = TableText(catalog.load_table(table))
        if settings.as_json:
            print_json(text.as_dict())
        else:
            print_pairs(text.as_pairs())


def _columns(schema: str | None, like: Path | None) -> Schema | pa.Schema:
    if (schema is None) == (like is None):
        raise click.UsageError("give --schema COLUMNS or --like FILE")
    if schema is not None:
        return parse_schema(schema)
    assert like is not None, "one of both was given"
    return file_schema(like)


def _make_namespace(catalog: Catalog, levels: tuple[str, ...]) -> None:
    with contextlib.suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(levels)
