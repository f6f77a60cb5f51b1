"""Commands that look: log, show, sql."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import orjson
import pyarrow as pa

from icecore.engine.cli.changes.found_snapshot import find_snapshot
from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import TIMES, milliseconds, names
from icecore.engine.cli.verbs import examples, note_others, where_option
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.row_filter import keep_rows
from icecore.engine.display.output import pair_lines, print_json, print_text, row_lines, waiting, wrapped_rows
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.query.view_columns import nullable
from icecore.engine.scan.relation.scan_relation import column_names

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.view.view import View

SHORT_LOG = ("position", "recorded_at", "actor", "name", "message", "changes")
LOG_OF_PROGRAMS = (*SHORT_LOG, "snapshot_id")
"""A person reads the id among the changes."""


@click.command(
    epilog=examples("icecore log shop.orders", "icecore log --actor bob --since 2024-01-01 --until 2024-02-01")
)
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--actor", help="Only what this one did.")
@click.option(
    "--since",
    metavar="TIME",
    callback=milliseconds,
    help=f"Only from then on: {TIMES}; local time without a zone.",
)
@click.option("--until", metavar="TIME", callback=milliseconds, help="Only up to then.")
@click.option("--limit", "-n", type=click.IntRange(min=1), help="Only the newest so many.")
@click.option("--newest-first/--oldest-first", default=True, help="The order.", show_default=True)
@click.option("--follow", is_flag=True, help="Of all tables and views that ever had the NAME.")
@click.option("--graph", is_flag=True, help="The table's snapshots instead, as a graph of its branches, latest first.")
@click.option("--full", is_flag=True, help="Everything about each event, its payload and hash included.")
@common_options
@pass_settings
def log(
    settings: Settings,
    name: str | None,
    actor: str | None,
    since: int | None,
    until: int | None,
    limit: int | None,
    newest_first: bool,
    follow: bool,
    graph: bool,
    full: bool,
) -> None:
    """Print who did what, when and why, newest first.

    NAME is a table or a view; of one that was dropped or renamed, the name that it had last.
    """
    with settings.read() as catalog:
        if graph:
            from icecore.engine.cli.past.compare_commands import print_graph

            if name is None:
                raise click.UsageError("--graph is of a table.")
            others = {"actor": actor, "since": since, "until": until}
            others |= {"follow": follow or None, "full": full or None, "oldest-first": not newest_first or None}
            if given := [f"--{option}" for option, value in others.items() if value is not None]:
                raise click.UsageError(f"--graph takes no {', '.join(given)}.")
            print_graph(settings, catalog, name, limit)
            return
        with waiting("reading the log"):
            events = catalog.log(
                name, actor=actor, since=since, until=until, limit=limit, follow=follow, newest_first=newest_first
            )
        if name is not None and not follow:
            note_others(catalog, name, "--follow is of them too")
    if not full and settings.form.is_text:
        rows = [list(row.values()) for row in _rows(events.select(SHORT_LOG))]
        print_text("\n".join(row_lines(SHORT_LOG, rows, settings.form, below="changes")))
    elif not full:
        settings.print_arrow(events.select(LOG_OF_PROGRAMS), null="", as_data=False)
    elif settings.as_json:
        print_json(
            [{**row, "summary": dict(row["summary"]), "payload": _json(row["payload"])} for row in _rows(events)]
        )
    elif not settings.form.is_text or settings.expanded:
        settings.print_arrow(events, null="", as_data=False)
    else:
        print_text("\n\n".join("\n".join(_event_lines(row)) for row in _rows(events)))


@click.command(
    epilog=examples(
        "icecore show shop.orders --where \"city = 'Oslo'\" --columns id,amount",
        "icecore show shop.orders --as-of 2030-01-01 --output csv",
    )
)
@click.argument("name")
@where_option("A SQL predicate, as in \"dest = 'SFO'\".")
@click.option("--columns", metavar="A,B", callback=names, help="Only these.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True)
@click.option("--snapshot", metavar="ID", help="The snapshot of this id, or of these first digits of one.")
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
    snapshot: str | None,
    ref: str | None,
    as_of: int | None,
) -> None:
    """Print the first rows of a table or view."""
    with settings.read() as catalog, waiting(f"reading {name}"):
        if catalog.view_exists(name):
            rows = _view_rows(_view(catalog, name, snapshot, ref, as_of), where, columns, limit)
        else:
            table = catalog.load_table(name)
            scan = table.scan(
                where,
                selected_fields=columns or ("*",),
                snapshot_id=None if snapshot is None else find_snapshot(table.metadata, snapshot),
                ref=ref,
                as_of=as_of,
                limit=limit,
            )
            rows = scan.to_arrow()
    settings.print_arrow(rows)


@click.command(
    epilog=examples('icecore sql "SELECT actor, count(*) AS events FROM log GROUP BY ALL"', "icecore sql --tables")
)
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
        with waiting("running the query"):
            past = None if at is None and as_of is None else catalog.at(at, timestamp_ms=as_of)
            result = (past or catalog).sql(text, timeout=timeout, memory_limit=memory_limit)
    settings.print_arrow(result, as_data=False)


def _view(catalog: Catalog, name: str, snapshot: str | None, ref: str | None, as_of: int | None) -> View:
    if snapshot is not None or ref is not None:
        raise click.UsageError(f"{name} is a view: it has no snapshots, branches or tags; --as-of takes a time")
    return catalog.load_view(name) if as_of is None else catalog.at(timestamp_ms=as_of).load_view(name)


def _print_audit_tables(settings: Settings) -> None:
    from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS

    if settings.as_json:
        print_json({name: {f.name: str(f.type) for f in schema} for name, schema in AUDIT_SCHEMAS.items()})
    else:
        rows = [(name, ", ".join(s.names)) for name, s in AUDIT_SCHEMAS.items()]
        settings.print_rows(("table", "columns"), wrapped_rows(rows) if settings.form.fits else rows)


def _event_lines(event: dict[str, Any]) -> list[str]:
    summary = [f"{k} = {v}" for k, v in event["summary"]]
    return pair_lines({k: v for k, v in {**event, "summary": summary}.items() if v not in (None, [])})


def _rows(events: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = events.to_pylist()
    return rows


def _json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


def _view_rows(view: View, where: str | None, columns: tuple[str, ...] | None, limit: int) -> pa.Table:
    """The first rows of a view that a filter selects. Raises ExpressionError, ValidationError, NoSuchTableError."""
    schema = nullable(view.schema())
    selected = schema.select(columns or ("*",))
    if where is None:
        names = dict(zip((f.name for f in schema.fields), column_names(schema), strict=True))
        taken = ", ".join(quote(names[f.name]) for f in selected.fields)
        sql = query("query/views.sql", "first_rows", names=taken, view=quote(view.name()[-1]), most=str(limit))
        rows = view.query(sql).rename_columns([f.name for f in selected.fields])
    else:
        rows = keep_rows(view.to_arrow(), bind(parse_filter(where), schema), schema).slice(0, limit)
    wanted = schema_to_arrow(selected, with_ids=False)
    return pa.Table.from_batches([narrow(b, wanted) for b in rows.to_batches()], wanted)
