"""Commands about the log as such: export, archive, forget, import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import asdict

import icecore
from icecore.engine.archive.log_formats import FORMATS, JSONL, PARQUET
from icecore.engine.catalog.catalog import DEFAULT_CATALOG_NAME
from icecore.engine.cli.settings import Settings, commit_options, common_options, pass_settings
from icecore.engine.cli.texts import pairs
from icecore.engine.cli.verbs import agree, examples, risk_options
from icecore.engine.common.text import counted
from icecore.engine.display.output import waiting

if TYPE_CHECKING:
    from icecore.engine.forget.forget import Forgotten

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(epilog=examples("icecore export log.jsonl", "icecore export log.parquet"))
@click.argument("file", type=_FILE)
@click.option(
    "--format", "-f", "form", type=click.Choice(FORMATS), help="By FILE's ending else: .parquet or JSON lines."
)
@common_options
@pass_settings
def export(settings: Settings, file: Path, form: str | None) -> None:
    """Write the whole log to FILE.

    JSON lines hold CloudEvents, one a line; either format brings the log back with `icecore import`.
    """
    chosen = form or (PARQUET if file.suffix == ".parquet" else JSONL)
    with settings.read() as catalog, waiting("writing the log"):
        events = catalog.export_log(file, chosen)
    settings.print_record(
        {"file": str(file), "format": chosen, "events": events},
        f"wrote {counted(events, 'event')} to {file} as {chosen}",
    )


@click.command(epilog=examples("icecore archive --before 3"))
@click.option("--before", metavar="POSITION", type=click.IntRange(min=1), required=True, help="The first that stays.")
@click.option("--file", type=_FILE, help="Where the archive goes; beside the log else.")
@common_options
@pass_settings
def archive(settings: Settings, before: int, file: Path | None) -> None:
    """Move the oldest events into an archive file.

    The log reads them from there, so keep the file. Without it all works but the history before POSITION.
    """
    with settings.write() as catalog, waiting("writing the archive"):
        archived = catalog.archive(before, path=file)
    if archived is None:
        settings.print_record({"events": 0, "file": None}, "nothing to archive")
    else:
        done = {"events": archived.events, "file": str(archived.path)}
        settings.print_record(done, f"moved {counted(archived.events, 'event')} to {archived.path}")


@click.command(
    epilog=examples(
        "icecore forget shop.orders --column city --dry-run", "icecore forget --text Oslo --yes -m 'asked to'"
    )
)
@click.argument("table", required=False)
@click.option("--column", "columns", metavar="NAME", multiple=True, help="All columns else; may be repeated.")
@click.option("--file", "files", metavar="PATH", multiple=True, help="All files that are gone else; may be repeated.")
@click.option("--text", help="Forget this text in messages, authors and values instead, in all of the log.")
@risk_options
@commit_options
@common_options
@pass_settings
def forget(
    settings: Settings,
    table: str | None,
    columns: tuple[str, ...],
    files: tuple[str, ...],
    text: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Take values that are no longer in force out of the log, for good.

    Of a TABLE, a dropped one too, they are bounds of columns, of content files that no snapshot holds any more. The log
    still verifies, and an event of it says what was forgotten.
    """
    if (table is None) == (text is None):
        raise click.UsageError("Give a TABLE or --text.")

    with settings.write() as catalog:

        def run(dry: bool) -> Forgotten:
            if table is None:
                return catalog.forget_text(str(text), message=message, author=author, dry_run=dry)
            chosen, gone = columns or None, files or None
            return catalog.forget(table, columns=chosen, files=gone, message=message, author=author, dry_run=dry)

        forgotten = run(True)
        if forgotten.events and not dry_run:
            agree([f"would forget {_what(forgotten, table)}, for good"], yes=yes)
            forgotten = run(False)
    lines = [f"{'would forget' if forgotten.position is None else 'forgot'} {_what(forgotten, table)}"]
    lines += [
        f"snapshot {snapshot_id} holds {counted(count, 'deleted file')}: rewrite its manifests and expire it"
        for snapshot_id, count in forgotten.held.items()
    ]
    lines += [f"still there: {location}" for location in forgotten.left_files]
    settings.print_record({**asdict(forgotten), "held": {str(i): n for i, n in forgotten.held.items()}}, *lines)


def _what(found: Forgotten, table: str | None) -> str:
    events = counted(len(found.events), "event")
    return (
        f"the text in {events}" if table is None else f"bounds of {counted(found.files, 'file')} in {events} of {table}"
    )


@click.command("import", epilog=examples("icecore import log.jsonl --warehouse copy-of-log"))
@click.argument("file", type=_FILE)
@click.option("--name", help="What PyIceberg's sql catalog is opened under; 'icecore' else.")
@click.option("--no-files", is_flag=True, help="Write no metadata files: those that the log names are there already.")
@click.option(
    "--map",
    "mapping",
    metavar="OLD=NEW",
    multiple=True,
    callback=pairs,
    help="Where files under the location OLD of the log lie now; may be repeated.",
)
@common_options
@pass_settings
def import_(settings: Settings, file: Path, name: str | None, no_files: bool, mapping: dict[str, str]) -> None:
    """Make a warehouse of an exported log.

    Its log has the same positions, ids and hashes, which are checked. The warehouse must be new or empty. In the folder
    that the log was exported from it goes on; in another one it is a copy, which is only read until it is moved or
    cloned.
    """
    with waiting("reading the log"):
        imported = icecore.import_log(
            file,
            settings.path,
            name=name or DEFAULT_CATALOG_NAME,
            materialize=not no_files,
            location_mapping=mapping or None,
        )
    told = {"events": imported.events, "head": imported.head, "belongs_to": imported.origin.root}
    settings.print_record(
        {"warehouse": settings.path, **told},
        f"imported {counted(imported.events, 'event')} into {settings.path}, head {imported.head[:12]}",
    )
