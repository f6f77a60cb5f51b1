"""The command report."""

from __future__ import annotations

from pathlib import Path

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.display.output import waiting

REPORT = "report.html"


@click.command(epilog=examples("icecore report", "icecore report shop.orders"))
@click.argument("table", required=False)
@click.option("--to", "path", metavar="FILE", default=REPORT, show_default=True, help="The file to write.")
@click.option("--baseline", metavar="FILE", help="Findings that are accepted (see audit).")
@click.option("--rules", "folder", metavar="DIR", help="A folder of rules of your own, which join.")
@common_options
@pass_settings
def report(settings: Settings, table: str | None, path: str, baseline: str | None, folder: str | None) -> None:
    """Write a report of all tables, or of one, as an HTML file.

    Commits, growth, file sizes, partitions, snapshots, delete debt and the findings of audit. The file needs nothing
    else: no server, no network, no scripts.
    """
    with settings.read() as catalog, waiting("reading the tables"):
        written = catalog.report(path, table, baseline=baseline, folder=folder)
    size = Path(written).stat().st_size
    settings.print_record({"report": str(written), "bytes": size}, f"{written}: {size:,} bytes")
