"""Commands for branches, tags and the snapshot of main."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.changes.found_snapshot import find_snapshot
from icecore.engine.cli.completion import name_argument
from icecore.engine.cli.settings import Command, Settings, common_options, pass_settings
from icecore.engine.cli.texts import milliseconds
from icecore.engine.cli.verbs import agree, change_command, examples, risk_options
from icecore.engine.spec.snapshot import MAIN_BRANCH

if TYPE_CHECKING:
    from icecore.engine.evolution.manage_snapshots import ManageSnapshots
    from icecore.engine.table.table import Table

    _Build = Callable[[ManageSnapshots, Table], object]

_SNAPSHOT = click.option(
    "--snapshot", metavar="ID|NAME", default=MAIN_BRANCH, show_default=True, help="Its id, its first digits, or a ref."
)


@click.command(epilog=examples("icecore refs shop.orders"))
@name_argument("table")
@common_options
@pass_settings
def refs(settings: Settings, table: str) -> None:
    """List the branches and tags of a table."""
    with settings.read() as catalog:
        found = catalog.load_table(table).refs()
    columns = ("name", "type", "snapshot_id", "min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms")
    rows = [
        (name, r.type.value, r.snapshot_id, r.min_snapshots_to_keep, r.max_snapshot_age_ms, r.max_ref_age_ms)
        for name, r in sorted(found.items())
    ]
    settings.print_rows(columns, rows)


@click.group()
def branch() -> None:
    """Make, move, keep and remove branches."""


@click.group()
def tag() -> None:
    """Make, move and remove tags."""


def _retention(command: Command) -> Command:
    keep = click.option("--keep", type=click.IntRange(min=1), help="How many snapshots of it stay, however old.")
    age = click.option(
        "--max-snapshot-age", "age", type=click.IntRange(min=1), metavar="MS", help="How old those become."
    )
    return keep(age(_ref_age(command)))


def _ref_age(command: Command) -> Command:
    return click.option(
        "--max-age", "ref_age", type=click.IntRange(min=1), metavar="MS", help="How old it becomes itself."
    )(command)


@change_command(branch, "create", shown=("icecore branch create shop.orders try-out --keep 5",))
@name_argument("table")
@click.argument("name")
@_SNAPSHOT
@_retention
def create_branch(
    settings: Settings,
    table: str,
    name: str,
    snapshot: str,
    keep: int | None,
    age: int | None,
    ref_age: int | None,
    message: str | None,
    author: str | None,
) -> None:
    """Make a branch, of main where nothing else is said."""

    def build(update: ManageSnapshots, target: Table) -> object:
        return update.create_branch(find_snapshot(target.metadata, snapshot), name, ref_age, age, keep)

    _run(settings, table, f"made the branch {name}", build, message, author)


@change_command(branch, "drop", shown=("icecore branch drop shop.orders audited --yes",))
@name_argument("table")
@click.argument("name")
@risk_options
def drop_branch(
    settings: Settings, table: str, name: str, dry_run: bool, yes: bool, message: str | None, author: str | None
) -> None:
    """Remove a branch. Snapshots that only it held expire with the others."""
    _ask(settings, table, f"remove the branch {name} of {table}", lambda u, _: u.remove_branch(name), dry_run, yes)
    if not dry_run:
        _run(settings, table, f"removed the branch {name}", lambda u, _: u.remove_branch(name), message, author)


@change_command(branch, "rename", shown=("icecore branch rename shop.orders try-out audited",))
@name_argument("table")
@click.argument("name")
@click.argument("new")
def rename_branch(settings: Settings, table: str, name: str, new: str, message: str | None, author: str | None) -> None:
    """Rename a branch."""
    done = f"renamed the branch {name} to {new}"
    _run(settings, table, done, lambda u, _: u.rename_branch(name, new), message, author)


@change_command(
    branch,
    "replace",
    shown=(
        "icecore branch replace shop.orders audited --snapshot main --dry-run",
        "icecore branch replace shop.orders audited --snapshot main --yes",
    ),
)
@name_argument("table")
@click.argument("name")
@_SNAPSHOT
@risk_options
def replace_branch(
    settings: Settings,
    table: str,
    name: str,
    snapshot: str,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Point a branch at any snapshot."""

    def build(update: ManageSnapshots, target: Table) -> object:
        return update.replace_branch(name, find_snapshot(target.metadata, snapshot))

    _ask(settings, table, f"point the branch {name} of {table} elsewhere", build, dry_run, yes, of=name)
    if not dry_run:
        _run(settings, table, f"pointed the branch {name} at {snapshot}", build, message, author)


@change_command(branch, "fast-forward", shown=("icecore branch fast-forward shop.orders main audited",))
@name_argument("table")
@click.argument("name")
@click.argument("to")
def fast_forward(settings: Settings, table: str, name: str, to: str, message: str | None, author: str | None) -> None:
    """Point a branch at the head of another one, which must have come from it."""
    done = f"brought the branch {name} to {to}"
    _run(settings, table, done, lambda u, _: u.fast_forward(name, to), message, author)


@change_command(branch, "keep", shown=("icecore branch keep shop.orders audited --keep 3",))
@name_argument("table")
@click.argument("name")
@_retention
def keep_branch(
    settings: Settings,
    table: str,
    name: str,
    keep: int | None,
    age: int | None,
    ref_age: int | None,
    message: str | None,
    author: str | None,
) -> None:
    """Say how long a branch, and what is in it, is kept. Of a tag --max-age."""
    if keep is None and age is None and ref_age is None:
        raise click.UsageError("give --keep, --max-snapshot-age or --max-age")

    def build(update: ManageSnapshots, _: Table) -> None:
        if keep is not None:
            update.set_min_snapshots_to_keep(name, keep)
        if age is not None:
            update.set_max_snapshot_age_ms(name, age)
        if ref_age is not None:
            update.set_max_ref_age_ms(name, ref_age)

    _run(settings, table, f"{name} is kept as said", build, message, author)


@change_command(tag, "create", shown=("icecore tag create shop.orders closing-2024 -m 'closing of accounts'",))
@name_argument("table")
@click.argument("name")
@_SNAPSHOT
@_ref_age
def create_tag(
    settings: Settings,
    table: str,
    name: str,
    snapshot: str,
    ref_age: int | None,
    message: str | None,
    author: str | None,
) -> None:
    """Make a tag, of main where nothing else is said."""

    def build(update: ManageSnapshots, target: Table) -> object:
        return update.create_tag(find_snapshot(target.metadata, snapshot), name, ref_age)

    _run(settings, table, f"made the tag {name}", build, message, author)


@change_command(
    tag,
    "replace",
    shown=(
        "icecore tag replace shop.orders closing-2024 --snapshot main --dry-run",
        "icecore tag replace shop.orders closing-2024 --snapshot main --yes",
    ),
)
@name_argument("table")
@click.argument("name")
@_SNAPSHOT
@risk_options
def replace_tag(
    settings: Settings,
    table: str,
    name: str,
    snapshot: str,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Point a tag at another snapshot."""

    def build(update: ManageSnapshots, target: Table) -> object:
        return update.replace_tag(name, find_snapshot(target.metadata, snapshot))

    _ask(settings, table, f"point the tag {name} of {table} elsewhere", build, dry_run, yes, of=name)
    if not dry_run:
        _run(settings, table, f"pointed the tag {name} at {snapshot}", build, message, author)


@change_command(tag, "drop", shown=("icecore tag drop shop.orders closing-2024 --yes",))
@name_argument("table")
@click.argument("name")
@risk_options
def drop_tag(
    settings: Settings, table: str, name: str, dry_run: bool, yes: bool, message: str | None, author: str | None
) -> None:
    """Remove a tag. Snapshots that only it held expire with the others."""
    _ask(settings, table, f"remove the tag {name} of {table}", lambda u, _: u.remove_tag(name), dry_run, yes)
    if not dry_run:
        _run(settings, table, f"removed the tag {name}", lambda u, _: u.remove_tag(name), message, author)


@change_command(
    shown=(
        "icecore rollback shop.orders --to-time 2100-01-01 --dry-run",
        "icecore rollback shop.orders --to main --yes",
    )
)
@name_argument("table")
@click.option("--to", metavar="ID|NAME", help="An ancestor of main: its id, its first digits, or a branch or tag.")
@click.option("--to-time", metavar="TIME", callback=milliseconds, help="The newest ancestor before that time.")
@risk_options
def rollback(
    settings: Settings,
    table: str,
    to: str | None,
    to_time: int | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Point main at one of its ancestors. The snapshots after it stay until they expire."""
    if (to is None) == (to_time is None):
        raise click.UsageError("give --to or --to-time")

    def build(update: ManageSnapshots, target: Table) -> object:
        if to is None:
            return update.rollback_to_timestamp(to_time or 0)
        return update.rollback_to_snapshot(find_snapshot(target.metadata, to))

    _move_main(settings, table, build, dry_run, yes, message, author)


@change_command(shown=("icecore set-snapshot shop.orders audit --dry-run",))
@name_argument("table")
@click.argument("snapshot", metavar="ID|NAME")
@risk_options
def set_snapshot(
    settings: Settings, table: str, snapshot: str, dry_run: bool, yes: bool, message: str | None, author: str | None
) -> None:
    """Point main at any snapshot, an ancestor or not."""

    def build(update: ManageSnapshots, target: Table) -> object:
        return update.set_current_snapshot(find_snapshot(target.metadata, snapshot))

    _move_main(settings, table, build, dry_run, yes, message, author)


@change_command(shown=("icecore cherry-pick shop.orders audit -m 'audited'",))
@name_argument("table")
@click.argument("snapshot", metavar="ID|NAME")
def cherry_pick(settings: Settings, table: str, snapshot: str, message: str | None, author: str | None) -> None:
    """Apply the changes of a snapshot to main."""

    def build(update: ManageSnapshots, target: Table) -> object:
        return update.cherry_pick(find_snapshot(target.metadata, snapshot))

    _run(settings, table, f"applied {snapshot} to main", build, message, author)


@change_command(shown=("icecore publish shop.staged load-7",))
@name_argument("table")
@click.argument("wap_id")
def publish(settings: Settings, table: str, wap_id: str, message: str | None, author: str | None) -> None:
    """Apply to main what was staged under a wap.id, once."""
    _run(settings, table, f"published {wap_id}", lambda u, _: u.publish(wap_id), message, author)


def _move_main(
    settings: Settings, name: str, build: _Build, dry_run: bool, yes: bool, message: str | None, author: str | None
) -> None:
    """Points main elsewhere, once it is agreed to; the question has the rows before and after."""
    _ask(settings, name, f"point main of {name} elsewhere", build, dry_run, yes)
    if not dry_run:
        _run(settings, name, f"{name} is at another snapshot", build, message, author)


def _ask(
    settings: Settings, name: str, what: str, build: _Build, dry_run: bool, yes: bool, *, of: str = MAIN_BRANCH
) -> None:
    """Says what a change would be, with the rows of the ref it is `of`, and asks.

    Raises as the change does, Refused, Abort.
    """
    with settings.write() as catalog:
        table = catalog.load_table(name)
        update = table.manage_snapshots(dry_run=True)
        build(update, table)
        outcome = update.commit()
    assert outcome is not None, "it is a dry run"
    before, after = (m.snapshot_by_ref(of) for m in (table.metadata, outcome.metadata))
    head = None if after is None else after.snapshot_id
    lines = [f"would {what}", f"{of}: {_rows(before)} now, {_rows(after)} then, at snapshot {head}"]
    lines += [f"in its way: {text}" for text in outcome.conflicts]
    if dry_run:
        settings.print_record({"table": name, "dry_run": True, "snapshot_id": head}, *lines)
    else:
        agree(lines, yes=yes)


def _run(settings: Settings, name: str, done: str, build: _Build, message: str | None, author: str | None) -> None:
    with settings.write() as catalog:
        table = catalog.load_table(name)
        update = table.manage_snapshots(message=message, author=author)
        build(update, table)
        update.commit()
        found = {ref: r.snapshot_id for ref, r in sorted(table.refs().items())}
        head = table.metadata.current_snapshot_id
    settings.print_record({"table": name, "snapshot_id": head, "refs": found}, f"{done}; main is at snapshot {head}")


def _rows(snapshot: Any) -> str:
    rows = None if snapshot is None else (snapshot.summary or {}).get("total-records")
    return "no rows" if snapshot is None else "rows of an unknown number" if rows is None else f"{int(rows):,} rows"
