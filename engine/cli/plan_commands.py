"""Commands that plan: plan, plans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.changes.found_snapshot import find_snapshot
from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import milliseconds
from icecore.engine.cli.verbs import examples, where_option
from icecore.engine.common.text import counted
from icecore.engine.display.output import print_json, waiting
from icecore.engine.display.plan_text import (
    EXPLAINED_COLUMNS,
    FILE_COLUMNS,
    explained_rows,
    explanation_dict,
    explanation_lines,
    plan_dict,
    plan_files_rows,
    plan_lines,
)
from icecore.engine.errors import name_text

if TYPE_CHECKING:
    from icecore.engine.table.table import Table
    from icecore.projections.explain.explain import Explanation
    from icecore.projections.plan.scan_plan import ScanPlan

SHOWN = 20


@click.command(
    epilog=examples(
        "icecore plan shop.orders --where \"city = 'Oslo'\"", "icecore plan shop.orders --where 'amount > 10' --explain"
    )
)
@click.argument("table")
@where_option("A SQL predicate, as in \"dest = 'SFO'\".")
@click.option("--snapshot", metavar="ID", help="The snapshot of this id, or of these first digits of one.")
@click.option("--ref", help="The branch or tag of this name.")
@click.option("--as-of", metavar="TIME", callback=milliseconds, help="The table as it was then (see log).")
@click.option("--explain", "explained", is_flag=True, help="Say of each file why.")
@click.option("--sql", "with_sql", is_flag=True, help="With --explain, print the SQL that ran too.")
@click.option("--limit", type=click.IntRange(min=0), help=f"Only so many files; {SHOWN} in a table else.")
@click.option("--name", help="Keep the plan under this name; without --where and --ref, the plan that is kept.")
@click.option("--export", "folder", metavar="DIR", help="Write the plan to a folder, for Spark (see the docs).")
@common_options
@pass_settings
def plan(
    settings: Settings,
    table: str,
    where: str | None,
    snapshot: str | None,
    ref: str | None,
    as_of: int | None,
    explained: bool,
    with_sql: bool,
    limit: int | None,
    name: str | None,
    folder: str | None,
) -> None:
    """Print which files a scan would read.

    And how many were left out by what. With a name the plan is kept, and asking again looks only into what was
    committed since.
    """
    if name is not None and (explained or snapshot is not None or as_of is not None):
        raise click.UsageError("--name goes with --where and --ref alone")
    with settings.read() as catalog:
        loaded = catalog.load_table(table)
        if name is not None:
            _print_named(settings, loaded, name, where, ref, folder, limit)
            return
        at = None if snapshot is None else find_snapshot(loaded.metadata, snapshot)
        scan = loaded.scan(where, snapshot_id=at, ref=ref, as_of=as_of)
        with waiting(f"planning {table}"):
            if folder is not None:
                scan.export(folder)
            if explained:
                show = partial(_print_explanation, settings, scan.explain(), loaded.location(), limit, with_sql)
            else:
                show = partial(_print_plan, settings, scan.plan(), loaded.location(), limit)
        show()


def _print_plan(settings: Settings, plan: ScanPlan, location: str, limit: int | None) -> None:
    if settings.as_json:
        found = plan_dict(plan)
        print_json({**found, "files": found["files"][:limit]})
        return
    rows = plan_files_rows(plan, location if settings.form.is_text else "")
    _print_files(settings, FILE_COLUMNS, rows, limit, plan_lines(plan.counts))


def _print_explanation(
    settings: Settings, explanation: Explanation, location: str, limit: int | None, with_sql: bool
) -> None:
    if settings.as_json:
        found = explanation_dict(explanation)
        print_json({**found, "files": found["files"][:limit]})
        return
    before = explanation_lines(explanation, with_sql=with_sql)
    rows = explained_rows(explanation, location if settings.form.is_text else "")
    _print_files(settings, EXPLAINED_COLUMNS, rows, limit, before)


def _print_named(
    settings: Settings,
    table: Table,
    name: str,
    where: str | None,
    ref: str | None,
    folder: str | None,
    limit: int | None,
) -> None:
    is_kept = where is None and ref is None
    with waiting(f"planning {name_text(table.name())}"):
        plan = table.named_plan(name) if is_kept else table.prefetch(where, name=name, ref=ref)
        if folder is not None:
            plan.export(folder)
    if settings.as_json:
        counts = {"manifests_evaluated": plan.manifests_evaluated, "manifests_reused": plan.manifests_reused}
        files = plan_dict(plan.plan())["files"][:limit]
        print_json({"name": name, "snapshot_id": plan.snapshot_id, **counts, "files": files})
        return
    rows = plan_files_rows(plan.plan(), table.location() if settings.form.is_text else "")
    evaluated = counted(plan.manifests_evaluated, "manifest")
    before = [f"{name}: looked into {evaluated}, kept {plan.manifests_reused}", ""]
    _print_files(settings, FILE_COLUMNS, rows, limit, before)


def _print_files(
    settings: Settings,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    limit: int | None,
    before: Sequence[str],
) -> None:
    """The sums, then the first files, and how many more there are."""
    most = SHOWN if limit is None and settings.form.is_text else limit
    shown = rows if most is None else rows[:most]
    left = len(rows) - len(shown)
    settings.print_rows(
        columns, shown, before=before, after=[f"… {counted(left, 'more file')}, --limit"] if left else []
    )


@click.command(epilog=examples("icecore plans shop.orders"))
@click.argument("table")
@click.option("--drop", "dropped", metavar="NAME", help="Forget this one.")
@common_options
@pass_settings
def plans(settings: Settings, table: str, dropped: str | None) -> None:
    """Print the names of the plans that are kept of a table."""
    with settings.read() as catalog:
        loaded = catalog.load_table(table)
        if dropped is not None:
            loaded.drop_named_plan(dropped)
        names = loaded.named_plans()
        if settings.as_json:
            print_json(names)
        else:
            settings.print_rows(("plan",), [(n,) for n in names])
