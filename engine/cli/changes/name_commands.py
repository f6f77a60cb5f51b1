"""Commands for names and what is said of them: rename, namespace, properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from icecore.engine.cli.completion import name_argument
from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import pairs
from icecore.engine.cli.verbs import (
    agree,
    change_command,
    dry_run_option,
    examples,
    key_option,
    made_before,
    risk_options,
)
from icecore.engine.errors import MissingNamespaceError, NoSuchTableError, ValidationError, name_text
from icecore.engine.events.event import is_view_stream
from icecore.engine.properties.table_properties import DELETE_MODE

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.table.table import Table
    from icecore.engine.view.view import View

_OF_NAMESPACE = click.option("--namespace", "of_namespace", is_flag=True, help="NAME is a namespace.")


@change_command(shown=("icecore rename shop.stock shop.goods --dry-run", "icecore rename shop.stock shop.goods"))
@click.argument("old")
@click.argument("new")
@key_option
@dry_run_option
def rename(
    settings: Settings, old: str, new: str, key: str | None, dry_run: bool, message: str | None, author: str | None
) -> None:
    """Rename a table or view."""
    with settings.write() as catalog:
        before = made_before(catalog, key)
        is_view = catalog.view_exists(old) if before is None else is_view_stream(before.stream)
        change = catalog.rename_view if is_view else catalog.rename_table
        dry_run = dry_run and before is None
        change(old, new, message=message, author=author, idempotency_key=key, dry_run=dry_run)
    done = "would rename" if dry_run else "renamed"
    record = {"name": new, "renamed_from": old, "kind": "view" if is_view else "table", "dry_run": dry_run}
    settings.print_record(record, f"{done} {old} to {new}")


@click.group()
def namespace() -> None:
    """Make, list and drop namespaces."""


@change_command(namespace, "create", shown=("icecore namespace create sales --property owner=ann",))
@click.argument("name")
@click.option("--property", "properties", metavar="KEY=VALUE", multiple=True, callback=pairs, help="May be repeated.")
@key_option
def create_namespace(
    settings: Settings, name: str, properties: dict[str, str], key: str | None, message: str | None, author: str | None
) -> None:
    """Make a namespace."""
    with settings.write() as catalog:
        catalog.create_namespace(name, properties, message=message, author=author, idempotency_key=key)
    settings.print_record({"namespace": name, "properties": properties}, f"made the namespace {name}")


@namespace.command("ls", epilog=examples("icecore namespace ls"))
@click.argument("name", required=False)
@common_options
@pass_settings
def list_namespaces(settings: Settings, name: str | None) -> None:
    """List all namespaces, or those inside of one."""
    with settings.read() as catalog:
        found = catalog.all_namespaces() if name is None else catalog.list_namespaces(name)
        tables = {n: len(catalog.list_tables(n)) for n in found}
        views = {n: len(catalog.list_views(n)) for n in found}
    settings.print_rows(("namespace", "tables", "views"), [(name_text(n), tables[n], views[n]) for n in sorted(found)])


@change_command(namespace, "drop", shown=("icecore namespace drop sales --yes",))
@click.argument("name")
@key_option
@risk_options
def drop_namespace(
    settings: Settings, name: str, key: str | None, dry_run: bool, yes: bool, message: str | None, author: str | None
) -> None:
    """Drop a namespace, which must be empty."""
    with settings.write() as catalog:
        is_new = made_before(catalog, key) is None
        if is_new:
            catalog.drop_namespace(name, dry_run=True)
            if not dry_run:
                agree([f"would drop the namespace {name}, which is empty"], yes=yes)
        if not (dry_run and is_new):
            catalog.drop_namespace(name, message=message, author=author, idempotency_key=key)
    done = "would drop" if dry_run and is_new else "dropped"
    settings.print_record({"namespace": name, "dry_run": dry_run and is_new}, f"{done} the namespace {name}")


@click.group()
def properties() -> None:
    """Read and change properties.

    Those of a table or view, or of a namespace.
    """


@properties.command(
    "get", epilog=examples("icecore properties get shop.orders", "icecore properties get shop --namespace")
)
@name_argument("name")
@click.argument("key", required=False)
@_OF_NAMESPACE
@common_options
@pass_settings
def get_properties(settings: Settings, name: str, key: str | None, of_namespace: bool) -> None:
    """Print the properties, or that of one KEY."""
    with settings.read() as catalog:
        if of_namespace:
            found = dict(catalog.load_namespace_properties(name))
        else:
            found = dict(_holder(catalog, name).properties)
    settings.print_rows(("property", "value"), _chosen(name, found, key))


@change_command(
    properties,
    "set",
    shown=(
        f"icecore properties set shop.orders {DELETE_MODE.name}=merge-on-read -m 'many small deletes'",
        "icecore properties set shop owner=bob --namespace",
    ),
)
@name_argument("name")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...", callback=pairs)
@_OF_NAMESPACE
def set_properties(
    settings: Settings, name: str, pairs: dict[str, str], of_namespace: bool, message: str | None, author: str | None
) -> None:
    """Set properties."""
    with settings.write() as catalog:
        if of_namespace:
            catalog.update_namespace_properties(name, updates=pairs, message=message, author=author)
        else:
            _holder(catalog, name).set_properties(pairs, message=message, author=author)
    settings.print_record({"name": name, "set": pairs}, *(f"{name}: {k} = {v}" for k, v in pairs.items()))


@change_command(
    properties, "remove", shown=(f"icecore properties remove shop.orders {DELETE_MODE.name} -m 'as it was'",)
)
@name_argument("name")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@_OF_NAMESPACE
def remove_properties(
    settings: Settings,
    name: str,
    keys: tuple[str, ...],
    of_namespace: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Remove properties. Those that there were are removed, the others named."""
    removed: tuple[str, ...]
    with settings.write() as catalog:
        if of_namespace:
            removed = tuple(catalog.update_namespace_properties(name, keys, message=message, author=author).removed)
        else:
            holder = _holder(catalog, name)
            removed = tuple(k for k in dict.fromkeys(keys) if k in holder.properties)
            if removed:
                holder.remove_properties(*removed, message=message, author=author)
    missing = [k for k in dict.fromkeys(keys) if k not in removed]
    told = f"; it has no property {', '.join(missing)}" if missing else ""
    settings.print_record(
        {"name": name, "removed": list(removed), "missing": missing},
        f"{name}: removed {', '.join(removed) or 'nothing'}{told}",
    )


def _holder(catalog: Catalog, name: str) -> Table | View:
    """The table or view that has the properties. Raises an error that tells of --namespace where it is one."""
    try:
        return catalog.load_view(name) if catalog.view_exists(name) else catalog.load_table(name)
    except (MissingNamespaceError, NoSuchTableError) as e:
        if catalog.namespace_exists(name):
            raise ValidationError(f"{name} is a namespace: say so with --namespace") from e
        raise


def _chosen(name: str, found: dict[str, str], key: str | None) -> list[tuple[str, str]]:
    if key is not None and key not in found:
        raise ValidationError(f"{name} has no property {key!r}")
    return [(k, v) for k, v in sorted(found.items()) if key in (None, k)]
