"""Commands that bring data in: load, append, add-files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from icecore.engine.cli.rows.asked_change import AskedChange, MadeCommits
from icecore.engine.cli.rows.row_commands import BRANCH, FILES, NULLS
from icecore.engine.cli.texts import pairs
from icecore.engine.cli.verbs import change_command, dry_run_option, key_option
from icecore.engine.common.identifiers import identifier_tuple
from icecore.engine.common.text import abbreviated, counted
from icecore.engine.display.commit_text import TOTAL_RECORDS, rows_in_all
from icecore.engine.display.output import waiting
from icecore.engine.errors import NamespaceAlreadyExistsError, TableAlreadyExistsError, ValidationError
from icecore.engine.events.commit_watch import CommitWatch, watching_commits
from icecore.engine.events.event import TABLE_CREATED

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.cli.settings import Settings
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.table.table import Table


@change_command(
    shown=(
        "icecore append shop.orders orders.csv -m 'orders of January'",
        "icecore append shop.orders orders.csv --null NA --branch audit --key january",
    )
)
@click.argument("table")
@FILES
@BRANCH
@NULLS
@key_option
def append(
    settings: Settings,
    table: str,
    files: tuple[Path, ...],
    branch: str,
    nulls: tuple[str, ...],
    key: str | None,
    message: str | None,
    author: str | None,
) -> None:
    """Append the rows of FILES, as one commit.

    They may be Parquet, CSV or JSON. Columns are matched by name.
    """
    from icecore.engine.cli.rows.inputs import read_files

    with settings.write() as catalog:
        target = catalog.load_table(table)
        with waiting(f"appending to {table}"), watching_commits() as watch:
            rows = read_files(files, target.schema(), nulls)
            target.append(rows, message=message, author=author, branch=branch, idempotency_key=key)
        _tell(settings, table, branch, MadeCommits.of(watch, target))


@change_command(
    shown=(
        "icecore load flights.csv shop.flights --null NA --partition 'month(day)' -m 'flights of 2024'",
        "icecore load flights.csv shop.flights --null NA",
    )
)
@FILES
@click.argument("table")
@NULLS
@click.option("--partition", metavar="TERM", multiple=True, help="Of a new table, as in 'month(ts)'; may be repeated.")
@click.option("--sort", metavar="TERM", multiple=True, help="Of a new table, as in 'ts DESC'; may be repeated.")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, callback=pairs, help="Of a new table.")
@click.option("--format-version", type=click.IntRange(1, 3), default=2, show_default=True, help="Of a new table.")
@key_option
def load(
    settings: Settings,
    files: tuple[Path, ...],
    table: str,
    nulls: tuple[str, ...],
    partition: tuple[str, ...],
    sort: tuple[str, ...],
    properties: dict[str, str],
    format_version: int,
    key: str | None,
    message: str | None,
    author: str | None,
) -> None:
    """Load FILES into a table, which is made where it is missing.

    A new table has the columns of the first file, and its namespace is made too; table and rows are one commit. To a
    table that is there the rows are appended.
    """
    from icecore.engine.cli.rows.inputs import file_schema, read_files

    def loaded(catalog: Catalog) -> CommitWatch:
        is_new = not catalog.table_exists(table)
        if not is_new and (partition or sort or properties):
            raise click.UsageError(f"{table} is there already: --partition, --sort and --property are for a new table")
        namespace = identifier_tuple(table)[:-1]
        with (
            watching_commits() as watch,
            catalog.transaction(message=message, author=author, idempotency_key=key) as both,
        ):
            if is_new and namespace not in catalog.all_namespaces():
                both.create_namespace(namespace)
            if is_new:
                made = both.create_table(
                    table,
                    file_schema(files[0], nulls),
                    partition_spec=partition or None,
                    sort_order=sort or None,
                    properties=properties,
                    format_version=format_version,
                )
            else:
                made = both.table(table)
            made.append(read_files(files, made.metadata.schema(), nulls))
        return watch

    with settings.write() as catalog:
        with waiting(f"loading {table}"):
            watch = _unless_made_meanwhile(lambda: loaded(catalog))
        _tell_loaded(settings, catalog, table, watch)


def _unless_made_meanwhile(load: Callable[[], CommitWatch]) -> CommitWatch:
    """The commits of a load, to a table or namespace that another process made in between as well."""
    for _ in range(2):
        with contextlib.suppress(TableAlreadyExistsError, NamespaceAlreadyExistsError):
            return load()
    return load()


@change_command(
    shown=(
        "icecore add-files shop.parcels delivered --dry-run",
        "icecore add-files shop.parcels delivered/city=Oslo",
    )
)
@click.argument("table")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--allow-duplicates", is_flag=True, help="Do not look whether a file is in the table already.")
@BRANCH
@key_option
@dry_run_option
def add_files(
    settings: Settings,
    table: str,
    paths: tuple[str, ...],
    allow_duplicates: bool,
    branch: str,
    key: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Add Parquet files to a table, as they are.

    Of a folder all .parquet files in it and below, but those whose names start with _ or a dot. Values of partitions
    that only the path has, as in day=2024-01-05/a.parquet, are taken from there.
    """
    found = [file for path in paths for file in _parquet_files(path)]

    def change(target: Table, dry: bool) -> DryRun | None:
        return target.add_files(
            found,
            check_duplicate_files=not allow_duplicates,
            branch=branch,
            message=message,
            author=author,
            idempotency_key=key,
            dry_run=dry,
        )

    with settings.write() as catalog:
        AskedChange("add files to", "added files to", change).run(settings, catalog, table, dry_run=dry_run)


def _parquet_files(path: str) -> Iterator[str]:
    """The files of a path. Raises ValidationError for a folder without any, or with a symbolic link."""
    from icecore.engine.foreign.parquet_folder import check_links, is_hidden

    folder = Path(path)
    if not folder.is_dir():
        yield str(folder.absolute()) if folder.exists() else path
        return
    check_links(path)
    inside = (f for f in sorted(folder.rglob("*")) if f.is_file() and f.suffix in (".parquet", ".parq", ".pq"))
    visible = [f for f in inside if not any(map(is_hidden, f.relative_to(folder).parts))]
    if not visible:
        others = sorted({f.suffix for f in folder.rglob("*") if f.is_file()})
        raise ValidationError(f"no .parquet file is in {path} or below; the endings there: {abbreviated(others, 5)}")
    yield from (str(f.absolute()) for f in visible)


def _tell_loaded(settings: Settings, catalog: Catalog, name: str, watch: CommitWatch) -> None:
    table = catalog.load_table(name)
    made = MadeCommits.of(watch, table)
    is_new = any(e.kind == TABLE_CREATED for e in watch.made)
    rows = made.sums.get("added-records", 0)
    head = table.current_snapshot()
    totals = (head.summary or {}) if head else {}
    after = f", which has {rows_in_all(totals)} now" if head else ""
    told = f", made with {counted(len(table.schema().fields), 'column')}" if is_new else after
    record = {"table": name, "created": is_new, **made.record, "rows": rows, "total": int(totals.get(TOTAL_RECORDS, 0))}
    settings.print_record(record, made.before or f"loaded {counted(rows, 'row')} into {name}{told}")


def _tell(settings: Settings, name: str, branch: str, made: MadeCommits) -> None:
    rows, written = (made.sums.get(f"added-{what}", 0) for what in ("records", "data-files"))
    done = f"appended {counted(rows, 'row')} in {counted(written, 'file')} to {name}"
    settings.print_record(
        {"table": name, "branch": branch, **made.record, "rows": rows, "files": written},
        # Files without rows make no commit.
        made.before or (f"{done}, snapshot {made.ids[-1]}" if made.ids else f"nothing to append to {name}"),
    )
