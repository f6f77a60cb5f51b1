"""Commands that bring data in: load, append, add-files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.cli.rows.asked_change import RowChange
from icecore.engine.cli.rows.inputs import file_schema, read_files
from icecore.engine.cli.rows.row_commands import BRANCH, FILES, NULLS
from icecore.engine.cli.settings import Settings
from icecore.engine.cli.texts import pairs
from icecore.engine.cli.verbs import change_command, dry_run_option, key_option
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.common.identifiers import identifier_tuple
from icecore.engine.common.text import abbreviated
from icecore.engine.display.output import counted, waiting
from icecore.engine.errors import ValidationError
from icecore.engine.foreign.parquet_folder import check_links, is_hidden
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot
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
    with settings.write() as catalog:
        target = catalog.load_table(table)
        before = _head(target, branch)
        with waiting(f"appending to {table}"):
            rows = read_files(files, target.schema(), nulls)
            target.append(rows, message=message, author=author, branch=branch, idempotency_key=key)
        _tell(settings, target, table, branch, before)


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
    with settings.write() as catalog:
        is_new = not catalog.table_exists(table)
        if not is_new and (partition or sort or properties):
            raise click.UsageError(f"{table} is there already: --partition, --sort and --property are for a new table")
        namespace = identifier_tuple(table)[:-1]
        with (
            waiting(f"loading {table}"),
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
            before = made.metadata.current_snapshot_id
            made.append(read_files(files, made.metadata.schema(), nulls))
        _tell_loaded(settings, catalog, table, is_new, before)


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
        RowChange("add files to", "added files to", change).run(settings, catalog, table, dry_run=dry_run)


def _parquet_files(path: str) -> Iterator[str]:
    """The files of a path. Raises ValidationError for a folder without any, or with a symbolic link."""
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


def _tell_loaded(settings: Settings, catalog: Catalog, name: str, is_new: bool, before: int | None) -> None:
    table = catalog.load_table(name)
    head = table.current_snapshot()
    rows = int((head.summary or {}).get("added-records", "0")) if head and head.snapshot_id != before else 0
    total = int((head.summary or {}).get("total-records", "0")) if head else 0
    made = f", made with {counted(len(table.schema().fields), 'column')}" if is_new else f", which has {total:,} now"
    record = {"table": name, "created": is_new, "snapshot_id": head and head.snapshot_id, "rows": rows, "total": total}
    settings.print_record(record, f"loaded {counted(rows, 'row')} into {name}{made}")


def _tell(settings: Settings, table: Table, name: str, branch: str, before: Snapshot | None) -> None:
    snapshot = _head(table, branch)
    # Files without rows make no commit.
    new = None if snapshot is None or snapshot == before else snapshot
    summary = (new.summary or {}) if new else {}
    rows, written = (int(summary.get(f"added-{what}", "0")) for what in ("records", "data-files"))
    snapshot_id = new.snapshot_id if new else None
    done = f"appended {counted(rows, 'row')} in {counted(written, 'file')} to {name}, snapshot {snapshot_id}"
    settings.print_record(
        {"table": name, "branch": branch, "snapshot_id": snapshot_id, "rows": rows, "files": written},
        done if new else f"nothing to append to {name}",
    )


def _head(table: Table, branch: str) -> Snapshot | None:
    """The branch's head; of one that is to be made by the commit, that of main, from which it starts."""
    metadata = table.metadata
    return metadata.snapshot_by_ref(branch if branch in metadata.refs else MAIN_BRANCH)
