"""Commands that take in what lies there or another engine made, or settle it: register, migrate, resolve."""

from __future__ import annotations

import click

from icecore.engine.catalog.recovery.resolve_conflict import KEEPS, LOG
from icecore.engine.cli.settings import Settings, namespace_of, namespace_option
from icecore.engine.cli.texts import pairs
from icecore.engine.cli.verbs import agree, change_command, dry_run_option, key_option, made_before, risk_options, tried
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.common.text import counted
from icecore.engine.display.table_text import TableText
from icecore.engine.display.view_text import ViewText
from icecore.projections.inspect.log_table import describe_changes


@change_command(
    shown=(
        "icecore register shop.taken other/shop/orders",
        "icecore register shop.taken_too other/shop/orders --map s3://bucket/orders=other/shop/orders",
        "icecore register shop.taken other/shop/orders --overwrite --dry-run",
        "icecore register shop.taken other/shop/orders --overwrite --yes",
    )
)
@click.argument("name")
@click.argument("location")
@click.option("--view", is_flag=True, help="LOCATION is the metadata file of a view.")
@click.option(
    "--map",
    "mapping",
    metavar="OLD=NEW",
    multiple=True,
    callback=pairs,
    help="Where files under the location OLD of its metadata lie now; may be repeated.",
)
@click.option("--overwrite", is_flag=True, help="Drop a table that has the name, in the same commit.")
@risk_options
@namespace_option
@key_option
def register(
    settings: Settings,
    name: str,
    location: str,
    view: bool,
    mapping: dict[str, str],
    overwrite: bool,
    dry_run: bool,
    yes: bool,
    create_namespace: bool,
    key: str | None,
    message: str | None,
    author: str | None,
) -> None:
    """Adopt a table of another engine.

    LOCATION is its folder, or one of its metadata files; of a folder the file that version-hint.text names, with the
    versions that follow it, else the newest. Nothing of it is copied or changed. Where its files were moved with the
    folder, they are found there.
    """
    if view and (mapping or overwrite):
        raise click.UsageError("--map and --overwrite are for tables")
    with settings.write() as catalog, namespace_of(catalog, name, create_namespace, dry_run=dry_run):
        made = made_before(catalog, key)
        is_there = overwrite and made is None and catalog.table_exists(name)
        if made is None and (dry_run or is_there):
            if view:
                tried(catalog.register_view(name, location, message=message, author=author, dry_run=True))
            else:
                tried(
                    catalog.register_table(
                        name,
                        location,
                        overwrite=overwrite,
                        location_mapping=mapping or None,
                        message=message,
                        author=author,
                        dry_run=True,
                    )
                )
            given_back = f"would drop {name}, which has the name now; `icecore undrop` gives it back under another"
            if dry_run:
                lines = [given_back] if is_there else []
                record = {"name": name, "dry_run": True, "drops": is_there}
                settings.print_record(record, *lines, f"would register {name}")
                return
            agree([given_back], yes=yes)
        if view:
            seen = ViewText(catalog.register_view(name, location, message=message, author=author, idempotency_key=key))
            settings.print_record(seen.as_dict(), f"registered the view {seen.name}")
            return
        registered = catalog.register_table(
            name,
            location,
            overwrite=overwrite,
            location_mapping=mapping or None,
            message=message,
            author=author,
            idempotency_key=key,
        )
        text = TableText(registered)
        files = counted(text.total("data-files") or 0, "data file")
        snapshots = counted(len(registered.snapshots()), "snapshot")
        lines = [f"registered {text.name}: {snapshots}, {files}"]
        lines += [
            f"files under {old} are read from {new}" for old, new in registered.state.location_mapping.to_dict().items()
        ]
        settings.print_record(text.as_dict(), *lines)


@change_command(
    shown=(
        "icecore register-folder lake --dry-run",
        "icecore register-folder lake -m 'icecore.db was lost'",
        "icecore register-folder other --namespace other",
    )
)
@click.argument("folder")
@click.option("--namespace", metavar="NAME", help="The namespace that the names below FOLDER are in.")
@dry_run_option
def register_folder(
    settings: Settings, folder: str, namespace: str | None, dry_run: bool, message: str | None, author: str | None
) -> None:
    """Register all tables and views below FOLDER, in one commit.

    Each is taken in as its newest metadata file has it, under its path below FOLDER: shop/orders and shop.db/orders are
    shop.orders. What the log knows already, dropped or not, and what can't be read is left, with the reason: so it can
    be run again. Dropped tables of a log that was lost come back too, as their files lie there.
    """
    with settings.write() as catalog:
        done = catalog.register_folder(folder, namespace, message=message, author=author, dry_run=dry_run)
        tables = sum(found.kind == "table" for found in done.registered)
        counts = f"{counted(tables, 'table')} and {counted(len(done.registered) - tables, 'view')}"
        verb = "would register" if dry_run else "registered"
        settings.print_rows(
            ("name", "kind", "location", "reason"),
            [
                *((found.name, found.kind, found.metadata_location, None) for found in done.registered),
                *((None, None, found.folder, found.reason) for found in done.left),
            ],
            before=[f"{verb} {counts}, left {counted(len(done.left), 'folder')}"],
        )


@change_command(
    shown=(
        "icecore migrate parquet shop.migrated --beside --dry-run",
        "icecore migrate parquet shop.migrated -m 'from Hive'",
    )
)
@click.argument("folder")
@click.argument("table")
@click.option("--beside", is_flag=True, help="Leave the folder as it is: new files go elsewhere, and none is deleted.")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, callback=pairs, help="May be repeated.")
@namespace_option
@key_option
@dry_run_option
def migrate(
    settings: Settings,
    folder: str,
    table: str,
    beside: bool,
    properties: dict[str, str],
    create_namespace: bool,
    key: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Make a table of a folder of Parquet files.

    No file is written again. The partitions are those of Hive's paths, as day=2024-01-05/a.parquet.
    """
    with settings.write() as catalog, namespace_of(catalog, table, create_namespace, dry_run=dry_run):
        make = catalog.snapshot_table if beside else catalog.migrate_table
        made = make(
            folder,
            table,
            properties=properties,
            message=message,
            author=author,
            idempotency_key=key,
            dry_run=dry_run and made_before(catalog, key) is None,
        )
        if isinstance(made, CatalogDryRun):
            files = sum(len(p.added_files) for p in made.parts)
            settings.print_record(
                {"table": table, "dry_run": True, "files": files}, f"would make {table} of {counted(files, 'file')}"
            )
            return
        text = TableText(made)
        held = f"{counted(text.total('data-files') or 0, 'file')} with {counted(text.total('records') or 0, 'row')}"
        settings.print_record(text.as_dict(), f"made {text.name} of {held}, partitioned by {text.partition()}")


@change_command(
    shown=(
        "icecore resolve shop.orders --keep log --dry-run",
        "icecore resolve shop.orders --keep log --yes -m 'theirs was a test'",
    )
)
@click.argument("table")
@click.option(
    "--keep", type=click.Choice(KEEPS), required=True, help="Whose state goes on: the log's, or the other engine's."
)
@key_option
@risk_options
def resolve(
    settings: Settings,
    table: str,
    keep: str,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """End a conflict with another engine's commit.

    It is for commits that do not follow the log, as where the log holds some that were never published. The other side
    stays in the log.
    """
    side = "the log" if keep == LOG else "the other engine"
    with settings.write() as catalog:
        # What goes on from the other engine is that engine's event, which has no key.
        is_done = key is not None and catalog._warehouse.store.request_keys.has(key)
        if not is_done and (dry_run or not yes):
            found = tried(catalog.resolve(table, keep, dry_run=True))
            changes = [text for p in found.parts for text in describe_changes(p.kind, p.payload)]
            lines = [f"would resolve {table}: it goes on from {side}", *(f"  {text}" for text in changes)]
            if dry_run:
                settings.print_record({"table": table, "dry_run": True, "changes": changes}, *lines)
                return
            agree(lines, yes=False)
        text = TableText(catalog.resolve(table, keep, message=message, author=author, idempotency_key=key))
        settings.print_record(text.as_dict(), f"resolved {text.name}: it goes on from {side}")
