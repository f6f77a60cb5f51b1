"""The command that makes a table ready to be copied elsewhere."""

from __future__ import annotations

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.common.text import counted
from icecore.engine.display.output import waiting


@click.command(
    "rewrite-table-path",
    epilog=examples("icecore rewrite-table-path shop.keyed --from lake/shop/keyed --to s3://backup/keyed"),
)
@click.argument("table")
@click.option("--from", "source", metavar="PREFIX", required=True, help="Where all its files are.")
@click.option("--to", "target", metavar="PREFIX", required=True, help="Where they are to be.")
@click.option("--staging", metavar="FOLDER", help="Where to write; beside the table's metadata else.")
@common_options
@pass_settings
def rewrite_table_path(settings: Settings, table: str, source: str, target: str, staging: str | None) -> None:
    """Write the metadata of a table that is to be copied elsewhere.

    Nothing is copied or committed: the file list, a CSV file, has a source and a target for each file. Once they are
    copied, register takes the table there by its metadata file.
    """
    with settings.write() as catalog:
        upkeep = catalog.load_table(table).maintenance
        with waiting(f"writing the metadata of {table}"):
            made = upkeep.rewrite_table_path(source, target, staging)
    record = {
        "table": table,
        "latest_version": made.latest_version,
        "metadata_location": made.metadata_location,
        "staging_location": made.staging_location,
        "file_list_location": made.file_list_location,
        "files": len(made.files),
    }
    lines = [
        f"{counted(len(made.files), 'file')} of {table} to copy, as listed in {made.file_list_location}",
        f"its metadata will be {made.metadata_location}",
    ]
    settings.print_record(record, *lines)
