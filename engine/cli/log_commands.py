"""Commands that carry a log away and bring it in: export, archive, import."""

from __future__ import annotations

from pathlib import Path

import click

import icecore
from icecore.engine.catalog import DEFAULT_CATALOG_NAME
from icecore.engine.cli.output import counted, print_json, print_text, waiting
from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import pairs
from icecore.engine.log.transfer import FORMATS, JSONL, PARQUET

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
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
    if settings.as_json:
        print_json({"file": str(file), "format": chosen, "events": events})
    else:
        print_text(f"wrote {counted(events, 'event')} to {file} as {chosen}")


@click.command()
@click.option("--before", metavar="POSITION", type=click.IntRange(min=1), required=True, help="The first that stays.")
@click.option("--file", type=_FILE, help="Where the archive goes; beside the log else.")
@common_options
@pass_settings
def archive(settings: Settings, before: int, file: Path | None) -> None:
    """Move the oldest events into an archive file.

    The log reads them from there, so keep the file. Without it all works but the history before POSITION.
    """
    with settings.write() as catalog, waiting("writing the archive"):
        found = catalog.archive(before, path=file)
    if settings.as_json:
        done = {"events": found.events, "file": str(found.path)} if found else {"events": 0, "file": None}
        print_json(done)
    elif found is None:
        print_text("nothing to archive")
    else:
        print_text(f"moved {counted(found.events, 'event')} to {found.path}")


@click.command("import")
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
    """Make a new warehouse of an exported log.

    Its log has the same positions, ids and hashes, which are checked. The warehouse must be new or empty.
    """
    with waiting("reading the log"):
        found = icecore.import_log(
            file,
            settings.path,
            name=name or DEFAULT_CATALOG_NAME,
            materialize=not no_files,
            location_mapping=mapping or None,
        )
    if settings.as_json:
        print_json({"warehouse": settings.path, "events": found.events, "head": found.head})
    else:
        print_text(f"imported {counted(found.events, 'event')} into {settings.path}, head {found.head[:12]}")
