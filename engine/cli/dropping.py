"""Commands that take names away and give them back, and that delete the files of what was dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.verbs import (
    agree,
    change_command,
    dry_run_option,
    key_option,
    made_before,
    made_by,
    risk_options,
    tried,
)
from icecore.engine.common.text import counted
from icecore.engine.display.output import waiting
from icecore.engine.display.table_text import TableText
from icecore.engine.errors import NoSuchTableError, NoSuchViewError
from icecore.engine.events.commit_watch import watching_commits
from icecore.engine.events.event import is_view_stream

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.cli.settings import Settings
    from icecore.engine.deletion.purge_table import Purged

_POSITION = click.option(
    "--position", type=click.IntRange(min=1), help="That of the drop; the latest one of the name else."
)
SHOWN = 5


@change_command(shown=("icecore drop shop.returns --dry-run", "icecore drop shop.returns --yes -m 'was a test'"))
@click.argument("name")
@key_option
@risk_options
def drop(
    settings: Settings, name: str, key: str | None, dry_run: bool, yes: bool, message: str | None, author: str | None
) -> None:
    """Drop a table or view.

    The log keeps it, and its files stay: `icecore undrop` gives it back, `icecore purge` deletes a table's files.
    """
    with settings.write() as catalog:
        done = made_before(catalog, key)
        is_view = catalog.view_exists(name) if done is None else is_view_stream(done.stream)
        drop_it = catalog.drop_view if is_view else catalog.drop_table
        kind = "view" if is_view else "table"
        if done is None:
            tried(drop_it(name, message=message, author=author, dry_run=True))
            would = f"would drop the view {name}" if is_view else f"would drop {name}: {_held(catalog, name)}"
            if dry_run:
                settings.print_record({"name": name, "kind": kind, "position": None}, would)
                return
            agree([f"{would}; `icecore undrop {name}` gives it back"], yes=yes)
        with watching_commits() as watch:
            drop_it(name, message=message, author=author, idempotency_key=key)
        position = made_by(catalog, watch, key).position
    settings.print_record(
        {"name": name, "kind": kind, "position": position},
        f"dropped {'the view ' if is_view else ''}{name} at position {position}",
    )


@change_command(
    shown=("icecore unregister shop.taken_too --dry-run", "icecore unregister shop.taken_too -y -m 'to the lake'")
)
@click.argument("table")
@key_option
@risk_options
def unregister(
    settings: Settings,
    table: str,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Drop a table for another catalog to register.

    Prints its metadata file, by which the other one registers it. No file of it is deleted, and none can be purged;
    `icecore undrop` takes it back.
    """
    with settings.write() as catalog:
        done = made_before(catalog, key)
        if done is None:
            tried(catalog.unregister_table(table, message=message, author=author, dry_run=True))
            would = f"would unregister {table}: {_held(catalog, table)}"
            if dry_run:
                location = catalog.load_table(table).metadata_location
                settings.print_record({"name": table, "position": None, "metadata_location": location}, would)
                return
            agree([would], yes=yes)
        with watching_commits() as watch:
            told = catalog.unregister_table(table, message=message, author=author, idempotency_key=key)
        location, position = told.metadata_location, made_by(catalog, watch, key).position
    settings.print_record(
        {"name": table, "position": position, "metadata_location": location}, f"unregistered {table}: {location}"
    )


@change_command(shown=("icecore undrop shop.returns --dry-run", "icecore undrop shop.returns -m 'it was none'"))
@click.argument("name")
@click.option("--view", is_flag=True, help="It was a view; without it a dropped table of the name comes first.")
@_POSITION
@key_option
@dry_run_option
def undrop(
    settings: Settings,
    name: str,
    view: bool,
    position: int | None,
    key: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Give a dropped table or view its name back.

    With all that it held.
    """
    with settings.write() as catalog:
        done = made_before(catalog, key)
        dry_run = dry_run and done is None
        view = view or (done is not None and is_view_stream(done.stream))

        def give_back(undrop: Callable[..., Any]) -> None:
            undrop(name, position=position, message=message, author=author, idempotency_key=key, dry_run=dry_run)

        with watching_commits() as watch:
            try:
                give_back(catalog.undrop_view if view else catalog.undrop_table)
            except NoSuchTableError as of_table:
                try:
                    give_back(catalog.undrop_view)
                except NoSuchViewError:
                    raise of_table from None
                view = True
        at = None if dry_run else made_by(catalog, watch, key).position
    told = "would be" if dry_run else "is"
    settings.print_record(
        {"name": name, "kind": "view" if view else "table", "position": at, "dry_run": dry_run},
        f"{'the view ' if view else ''}{name} {told} back, as it was when it was dropped",
    )


@change_command(shown=("icecore purge shop.forgotten --dry-run", "icecore purge shop.forgotten --yes -m 'asked to'"))
@click.argument("table")
@_POSITION
@key_option
@risk_options
def purge(
    settings: Settings,
    table: str,
    position: int | None,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Delete the files of a dropped table, for good.

    What something else in the warehouse needs stays. The table can't be undropped any more.
    """
    with settings.write() as catalog:
        if not dry_run and not yes:
            purged = catalog.purge_table(table, position=position, dry_run=True)
            agree([*_lines(table, purged, True), "for good"], yes=False)
        with waiting(f"purging {table}"):
            purged = catalog.purge_table(
                table, position=position, message=message, author=author, idempotency_key=key, dry_run=dry_run
            )
    found = {
        "table": table,
        "position": purged.position,
        "files": purged.files,
        "deleted": len(purged.deleted_files),
        "bytes": purged.total_bytes,
        "kept": purged.kept_files,
        "left": purged.left_files,
    }
    settings.print_record(found, *_lines(table, purged, dry_run))


def _held(catalog: Catalog, name: str) -> str:
    text = TableText(catalog.load_table(name))
    files, rows = text.total("data-files"), text.total("records")
    return f"{counted(files or 0, 'data file')} with {counted(rows or 0, 'row')}, which stay in the log"


def _lines(table: str, found: Purged, dry_run: bool) -> list[str]:
    count = counted(len(found.files if dry_run else found.deleted_files), "file")
    done = "would delete" if dry_run else "deleted"
    lines = [f"{done} {count} of {table}, {found.total_bytes:,} bytes"]
    for what, files in (("kept for what else needs", found.kept_files), ("left where", found.left_files)):
        if files:
            lines.append(f"{what} {'them' if what.startswith('kept') else 'they lie'}: {counted(len(files), 'file')}")
            lines += [f"  {f}" for f in files[:SHOWN]]
            lines += [f"  and {len(files) - SHOWN} more"] if len(files) > SHOWN else []
    return lines
