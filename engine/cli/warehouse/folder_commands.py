"""Commands for a warehouse's folder: move, clone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from attrs import asdict
from rich.console import Console
from rich.progress import Progress, TaskID

import icecore
from icecore.engine.cli.settings import Settings, commit_options, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.common.location import local_path
from icecore.engine.common.text import counted
from icecore.engine.log.warehouse_folder import local_folder

if TYPE_CHECKING:
    from icecore.engine.relocate.relocate_warehouse import Progress as Told
    from icecore.engine.relocate.relocate_warehouse import RelocatedWarehouse

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")


@click.command(epilog=examples("icecore move elsewhere --dry-run"))
@click.argument("to", required=False, metavar="[FOLDER]")
@_DRY_RUN
@commit_options
@common_options
@pass_settings
def move(settings: Settings, to: str | None, dry_run: bool, message: str | None, author: str | None) -> None:
    """Give a moved warehouse the paths of its folder.

    All engines read and write it there again. With FOLDER the warehouse is moved there first. The history stays whole;
    a call that was interrupted goes on when it is made again.
    """
    with _progress() as progress:
        found = icecore.move_warehouse(
            settings.path, to, message=message, author=author, dry_run=dry_run, progress=progress
        )
    _print(settings, "moved", found, dry_run)


@click.command(epilog=examples("icecore clone copy-of-lake --metadata-only"))
@click.argument("to", required=False, metavar="[FOLDER]")
@click.option(
    "--metadata-only",
    is_flag=True,
    help="Share the data files: the clone deletes none, and loses those that its original expires, purges or moves.",
)
@_DRY_RUN
@commit_options
@common_options
@pass_settings
def clone(
    settings: Settings,
    to: str | None,
    metadata_only: bool,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Make a copy that is a warehouse of its own.

    The warehouse is copied to FOLDER, which must be new. Without FOLDER the warehouse that is named is a copy already,
    made by other means, and gets an identity and paths of its own. A call that was interrupted goes on when it is made
    again.
    """
    with _progress() as progress:
        cloned = icecore.clone_warehouse(
            settings.path,
            to,
            metadata_only=metadata_only,
            message=message,
            author=author,
            dry_run=dry_run,
            progress=progress,
        )
    # Its own log may name another folder, as that of a copy does.
    _print(settings, "cloned", cloned, dry_run, None if to is None else str(local_folder(settings.path).resolve()))


@contextlib.contextmanager
def _progress() -> Iterator[Told]:
    """A bar on standard error, if a person is there to see it."""
    from icecore.engine.relocate.relocate_warehouse import no_progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield no_progress
        return
    with Progress(console=console, transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what)
            shown.update(tasks[what], completed=done + 1, total=total)

        yield tell


def _print(settings: Settings, done: str, found: RelocatedWarehouse, dry_run: bool, source: str | None = None) -> None:
    tables = counted(found.tables, "table") + (f" and {counted(found.views, 'view')}" if found.views else "")
    would = "would have been " if dry_run else ""
    lines = [f"{tables} {would}{done} from {source or local_path(found.source)} to {local_path(found.target)}"]
    if found.copied_files:
        lines.append(f"{counted(found.copied_files, 'file')} with {found.copied_bytes:,} bytes copied")
    lines += [f"not all of its files are written: {problem}" for problem in found.problems]
    settings.print_record({**asdict(found), "dry_run": dry_run}, *lines)
