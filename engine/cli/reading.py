"""Commands that look: log, show, plan, sql."""

from __future__ import annotations

import sys
from typing import Any

import click
import orjson
import pyarrow as pa

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import milliseconds, names
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.row_filter import keep_rows
from icecore.engine.display.output import counted, print_arrow, print_json, print_pairs, print_rows, print_text
from icecore.engine.display.plan_text import plan_dict, plan_files_rows, plan_steps, print_explanation
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.table.table import Table
from icecore.engine.view.view import View
from icecore.projections.audit.sql_prompt import AUDIT_SCHEMAS

SHORT_LOG = ("position", "recorded_at", "actor", "name", "message", "changes")


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--actor", help="Only what this one did.")
@click.option(
    "--since",
    metavar="TIME",
    callback=milliseconds,
    help="Only from then on: 2013-05-01T12:00:00Z, or local time.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the newest so many.")
@click.option("--full", is_flag=True, help="Everything about each event, its payload and hash included.")
@common_options
@pass_settings
def log(
    settings: Settings, name: str | None, actor: str | None, since: int | None, limit: int | None, full: bool
) -> None:
    """Print who did what, when and why, oldest first.

    NAME is a table or a view.
    """
    with settings.read() as catalog:
        events = catalog.log(name, actor=actor, since=since, limit=limit)
    if not full:
        print_arrow(events.select(SHORT_LOG), as_json=settings.as_json, null="")
    elif settings.as_json:
        print_json(
            [{**row, "summary": dict(row["summary"]), "payload": _json(row["payload"])} for row in _rows(events)]
        )
    else:
        for i, row in enumerate(_rows(events)):
            if i:
                print_text("")
            summary = [f"{k} = {v}" for k, v in row["summary"]]
            print_pairs({k: v for k, v in {**row, "summary": summary}.items() if v not in (None, [])})


@click.command()
@click.argument("name")
@click.option("--where", metavar="FILTER", help="A SQL predicate, as in \"dest = 'SFO'\".")
@click.option("--columns", metavar="A,B", callback=names, help="Only these.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True)
@click.option("--snapshot", "snapshot_id", type=int, help="The snapshot of this id.")
@click.option("--ref", help="The branch or tag of this name.")
@click.option("--as-of", metavar="TIME", callback=milliseconds, help="The table or view as it was then (see log).")
@common_options
@pass_settings
def show(
    settings: Settings,
    name: str,
    where: str | None,
    columns: tuple[str, ...] | None,
    limit: int,
    snapshot_id: int | None,
    ref: str | None,
    as_of: int | None,
) -> None:
    """Print the first rows of a table or view."""
    with settings.read() as catalog:
        if catalog.view_exists(name):
            rows = _view_rows(_view(catalog, name, snapshot_id, ref, as_of), where, columns, limit)
        else:
            scan = catalog.load_table(name).scan(
                where,
                selected_fields=columns or ("*",),
                snapshot_id=snapshot_id,
                ref=ref,
                as_of=as_of,
                limit=limit,
            )
            rows = scan.to_arrow()
    print_arrow(rows, as_json=settings.as_json)


@click.command()
@click.argument("table")
@click.option("--where", metavar="FILTER", help="A SQL predicate, as in \"dest = 'SFO'\".")
@click.option("--snapshot", "snapshot_id", type=int, help="The snapshot of this id.")
@click.option("--ref", help="The branch or tag of this name.")
@click.option("--as-of", metavar="TIME", callback=milliseconds, help="The table as it was then (see log).")
@click.option("--explain", "explained", is_flag=True, help="Say of each file why, and print the SQL that ran.")
@click.option("--name", help="Keep the plan under this name; without --where and --ref, the plan that is kept.")
@click.option("--export", "folder", metavar="DIR", help="Write the plan to a folder, for Spark (see the docs).")
@common_options
@pass_settings
def plan(
    settings: Settings,
    table: str,
    where: str | None,
    snapshot_id: int | None,
    ref: str | None,
    as_of: int | None,
    explained: bool,
    name: str | None,
    folder: str | None,
) -> None:
    """Print which files a scan would read.

    And how many were left out by what. With a name the plan is kept, and asking again looks only into what was
    committed since.
    """
    if name is not None and (explained or snapshot_id is not None or as_of is not None):
        raise click.UsageError("--name goes with --where and --ref alone")
    with settings.read() as catalog:
        loaded = catalog.load_table(table)
        if name is not None:
            _print_named(settings, loaded, name, where, ref, folder)
            return
        scan = loaded.scan(where, snapshot_id=snapshot_id, ref=ref, as_of=as_of)
        if folder is not None:
            scan.export(folder)
        if explained:
            print_explanation(scan.explain(), loaded.location(), as_json=settings.as_json)
            return
        planned = scan.plan()
        if settings.as_json:
            print_json(plan_dict(planned))
        else:
            print_rows(("", "files"), plan_steps(planned.counts))
            print_text(f"\nplanned in {planned.counts.seconds * 1000:.1f} ms\n")
            print_rows(("rows", "bytes", "deletes", "file"), plan_files_rows(planned, loaded.location()))


def _print_named(
    settings: Settings, table: Table, name: str, where: str | None, ref: str | None, folder: str | None
) -> None:
    is_kept = where is None and ref is None
    plan = table.named_plan(name) if is_kept else table.prefetch(where, name=name, ref=ref)
    if folder is not None:
        plan.export(folder)
    if settings.as_json:
        counts = {"manifests_evaluated": plan.manifests_evaluated, "manifests_reused": plan.manifests_reused}
        print_json({"name": name, "snapshot_id": plan.snapshot_id, **counts, "files": plan_dict(plan.plan())["files"]})
        return
    evaluated, reused = counted(plan.manifests_evaluated, "manifest"), plan.manifests_reused
    print_text(f"{name}: looked into {evaluated}, kept {reused}\n")
    print_rows(("rows", "bytes", "deletes", "file"), plan_files_rows(plan.plan(), table.location()))


@click.command()
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
            print_rows(("plan",), [(n,) for n in names])


@click.command()
@click.argument("query", required=False)
@click.option("--tables", is_flag=True, help="List the tables that a query can name, with their columns.")
@click.option("--at", type=int, metavar="POSITION", help="Ask what was so at a position of the log.")
@click.option("--as-of", metavar="TIME", callback=milliseconds, help="Ask what was so at a time.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop a query that takes longer.")
@click.option("--memory-limit", metavar="SIZE", help="Stop a query that needs more, as 512MB.")
@common_options
@pass_settings
def sql(
    settings: Settings,
    query: str | None,
    tables: bool,
    at: int | None,
    as_of: int | None,
    timeout: float | None,
    memory_limit: str | None,
) -> None:
    """Run SQL over the log and all metadata.

    The SQL is DuckDB's. As QUERY, - reads it from standard input. Tables that can't be read are left out, with a
    warning: problems, one of the tables that can be asked, says why.
    """
    if tables == (query is not None):
        raise click.UsageError("give a QUERY, or --tables")
    if at is not None and as_of is not None:
        raise click.UsageError("give --at or --as-of")
    if query is None:
        _print_audit_tables(settings)
        return
    with settings.read() as catalog:
        text = sys.stdin.read() if query == "-" else query
        past = None if at is None and as_of is None else catalog.at(at, timestamp_ms=as_of)
        result = (past or catalog).sql(text, timeout=timeout, memory_limit=memory_limit)
    print_arrow(result, as_json=settings.as_json)


def _view(catalog: Catalog, name: str, snapshot_id: int | None, ref: str | None, as_of: int | None) -> View:
    if snapshot_id is not None or ref is not None:
        raise click.UsageError(f"{name} is a view: it has no snapshots, branches or tags; --as-of takes a time")
    return catalog.load_view(name) if as_of is None else catalog.at(timestamp_ms=as_of).load_view(name)


def _print_audit_tables(settings: Settings) -> None:
    if settings.as_json:
        print_json({name: {f.name: str(f.type) for f in schema} for name, schema in AUDIT_SCHEMAS.items()})
    else:
        print_rows(("table", "columns"), [(name, ", ".join(schema.names)) for name, schema in AUDIT_SCHEMAS.items()])


def _rows(events: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = events.to_pylist()
    return rows


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def _view_rows(view: View, where: str | None, columns: tuple[str, ...] | None, limit: int) -> pa.Table:
    """The first rows of a view that a filter selects. Raises ExpressionError, ValidationError, NoSuchTableError."""
    schema = view.schema()
    selected = schema.select(columns or ("*",))
    bound = bind(parse_filter(where), schema)
    rows = keep_rows(view.to_arrow(), bound, schema).slice(0, limit)
    wanted = schema_to_arrow(selected, with_ids=False)
    return pa.Table.from_batches([narrow(b, wanted) for b in rows.to_batches()], wanted)
