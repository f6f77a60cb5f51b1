"""Commands that bring data in, or settle what another engine brought in: append, register, resolve."""

from __future__ import annotations

from pathlib import Path

import click

from icecore.engine.catalog.resolve_conflict import KEEPS, LOG
from icecore.engine.cli.rows.inputs import read_files
from icecore.engine.cli.settings import (
    Settings,
    commit_options,
    common_options,
    make_namespace,
    namespace_option,
    pass_settings,
)
from icecore.engine.cli.texts import pairs
from icecore.engine.display.output import counted, waiting
from icecore.engine.display.table_text import TableText
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot
from icecore.engine.table.table import Table


@click.command()
@click.argument("table")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--branch", default=MAIN_BRANCH, show_default=True)
@click.option("--null", "nulls", metavar="TEXT", multiple=True, help="What means null in CSV besides nothing, as NA.")
@commit_options
@common_options
@pass_settings
def append(
    settings: Settings,
    table: str,
    files: tuple[Path, ...],
    branch: str,
    nulls: tuple[str, ...],
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
            target.append(read_files(files, target.schema(), nulls), message=message, author=author, branch=branch)
        snapshot = _head(target, branch)
        # Files without rows make no commit.
        new = None if snapshot is None or snapshot == before else snapshot
        summary = (new.summary or {}) if new else {}
        rows, written = (int(summary.get(f"added-{what}", "0")) for what in ("records", "data-files"))
        snapshot_id = new.snapshot_id if new else None
        done = f"appended {counted(rows, 'row')} in {counted(written, 'file')} to {table}, snapshot {snapshot_id}"
        settings.print_record(
            {"table": table, "branch": branch, "snapshot_id": snapshot_id, "rows": rows, "files": written},
            done if new else f"nothing to append to {table}",
        )


@click.command()
@click.argument("table")
@click.argument("metadata_location")
@click.option(
    "--map",
    "mapping",
    metavar="OLD=NEW",
    multiple=True,
    callback=pairs,
    help="Where files under the location OLD of its metadata lie now; may be repeated.",
)
@namespace_option
@commit_options
@common_options
@pass_settings
def register(
    settings: Settings,
    table: str,
    metadata_location: str,
    mapping: dict[str, str],
    create_namespace: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Adopt a table of another engine.

    METADATA_LOCATION is its metadata file. Nothing of it is copied or changed.
    """
    with settings.write() as catalog:
        if create_namespace:
            make_namespace(catalog, table)
        registered = catalog.register_table(
            table, metadata_location, location_mapping=mapping or None, message=message, author=author
        )
        text = TableText(registered)
        files = counted(text.total("data-files") or 0, "data file")
        snapshots = counted(len(registered.snapshots()), "snapshot")
        settings.print_record(text.as_dict(), f"registered {text.name}: {snapshots}, {files}")


@click.command()
@click.argument("table")
@click.option(
    "--keep", type=click.Choice(KEEPS), required=True, help="Whose state goes on: the log's, or the other engine's."
)
@commit_options
@common_options
@pass_settings
def resolve(settings: Settings, table: str, keep: str, message: str | None, author: str | None) -> None:
    """End a conflict with another engine's commit.

    It is for commits that do not follow the log, as where the log holds some that were never published. The other side
    stays in the log.
    """
    with settings.write() as catalog:
        text = TableText(catalog.resolve(table, keep, message=message, author=author))
        side = "the log" if keep == LOG else "the other engine"
        settings.print_record(text.as_dict(), f"resolved {text.name}: it goes on from {side}")


def _head(table: Table, branch: str) -> Snapshot | None:
    """The branch's head; of one that is to be made by the commit, that of main, from which it starts."""
    metadata = table.metadata
    return metadata.snapshot_by_ref(branch if branch in metadata.refs else MAIN_BRANCH)
