"""Commands for a whole warehouse: init, verify, rebuild, demo."""

from __future__ import annotations

from pathlib import Path

import attrs
import click
from rich.status import Status
from rich.text import Text

import icecore
from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples
from icecore.engine.common.text import counted, printable
from icecore.engine.display.output import waiting
from icecore.engine.errors import ValidationError

DEMO_FOLDER = "demo-warehouse"


@click.command(epilog=examples("icecore init", "icecore init --warehouse lake"))
@click.option("--name", help="What PyIceberg's sql catalog is opened under; 'icecore' else.")
@common_options
@pass_settings
def init(settings: Settings, name: str | None) -> None:
    """Make a warehouse folder, or say that it is one."""
    from icecore.engine.catalog.catalog import DEFAULT_CATALOG_NAME
    from icecore.engine.catalog.warehouse import LOG_FILE

    with icecore.open(settings.path, name=DEFAULT_CATALOG_NAME if name is None else name) as catalog:
        is_new = catalog._warehouse.store.is_new
        if name is not None and catalog.name != name:
            raise ValidationError(f"{catalog.path} is a warehouse already, and its catalog is called {catalog.name!r}")
        log = catalog.path / LOG_FILE
        settings.print_record(
            {"warehouse": str(catalog.path), "name": catalog.name, "log": str(log), "new": is_new},
            f"{'made' if is_new else 'there already:'} {catalog.path}, catalog {catalog.name!r}",
        )


@click.command(epilog=examples("icecore verify", "icecore verify shop.orders --deep", "icecore verify --rows"))
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--deep", is_flag=True, help="Open the files too: footers, row counts, manifests, deletion vectors.")
@click.option("--rows", is_flag=True, help="Read the data files too: are counts, bounds and partitions theirs?")
@common_options
@pass_settings
@click.pass_context
def verify(context: click.Context, settings: Settings, tables: tuple[str, ...], deep: bool, rows: bool) -> None:
    """Check the log and every file that a table needs.

    Of all tables and views, or of those named. The exit code is 1 where something is wrong.
    """
    with settings.read() as catalog, waiting("reading the log") as status:

        def tell(table: str, done: int, files: int) -> None:
            if isinstance(status, Status):
                status.update(Text(f"{printable(table)}: {done:,} of {files:,} files"))

        result = catalog.verify(*tables, deep=deep, rows=rows, progress=tell)
    counts = {name: getattr(result, name) for name in ("events", "tables", "views", "files", "head")}
    parts = {name: [attrs.asdict(f) for f in getattr(result, name)] for name in ("findings", "notes")}
    settings.print_record({"ok": result.ok, **counts, "problems": result.problems, **parts}, *str(result).splitlines())
    context.exit(0 if result.ok else 1)


@click.command(epilog=examples("icecore rebuild", "icecore rebuild shop.orders"))
@click.argument("table", required=False)
@common_options
@pass_settings
def rebuild(settings: Settings, table: str | None) -> None:
    """Make metadata again from the log.

    The read models and all metadata files, which get the same bytes as before; the files of one TABLE or view only
    where it is named.
    """
    with settings.write() as catalog:
        with waiting("writing metadata files again"):
            catalog.rebuild(table)
        if table is not None:
            settings.print_record({"warehouse": str(catalog.path), "table": table}, f"rebuilt {table}")
            return
        tables, views = (sum(1 for _ in all_of()) for all_of in (catalog.tables, catalog.views))
        what = counted(tables, "table") + (f" and {counted(views, 'view')}" if views else "")
        settings.print_record(
            {"warehouse": str(catalog.path), "position": catalog.position, "tables": tables, "views": views},
            f"rebuilt {what} from {counted(catalog.position, 'event')}",
        )


@click.command(epilog=examples("icecore demo", "icecore demo --warehouse flights"))
@common_options
@pass_settings
def demo(settings: Settings) -> None:
    """Load a year of flights and show it all.

    The folder must be new or empty; it is ./demo-warehouse unless --warehouse names another.
    """
    from icecore.engine.demo.story import tell

    # The demo deletes and rebuilds metadata, so it never goes by an environment variable into a real warehouse.
    tell(Path(settings.path if settings.warehouse_was_typed else DEMO_FOLDER))
