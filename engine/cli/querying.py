"""The command that asks for rows in SQL."""

from __future__ import annotations

import sys

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import milliseconds
from icecore.engine.cli.verbs import examples
from icecore.engine.display.output import waiting


@click.command(epilog=examples("icecore query 'SELECT city, sum(amount) FROM shop.orders GROUP BY city'"))
@click.argument("query")
@click.option("--namespace", "-n", metavar="NAME", help="Where a table that is named alone is looked for.")
@click.option("--at", type=int, metavar="POSITION", help="Ask what was so at a position of the log.")
@click.option("--as-of", metavar="TIME", callback=milliseconds, help="Ask what was so at a time.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Stop a query that takes longer.")
@click.option("--memory-limit", metavar="SIZE", help="Stop a query that needs more, as 512MB.")
@common_options
@pass_settings
def query(
    settings: Settings,
    query: str,
    namespace: str | None,
    at: int | None,
    as_of: int | None,
    timeout: float | None,
    memory_limit: str | None,
) -> None:
    """Run SQL over the rows of tables and views.

    QUERY is one SELECT of DuckDB's SQL, as in "SELECT count(*) FROM demo.flights"; - reads it from standard input. Only
    files that can have rows that matter are read.
    """
    if at is not None and as_of is not None:
        raise click.UsageError("give --at or --as-of")
    with settings.read() as catalog:
        text = sys.stdin.read() if query == "-" else query
        with waiting("running the query"):
            past = None if at is None and as_of is None else catalog.at(at, timestamp_ms=as_of)
            asked = past or catalog
            rows = asked.query(text, namespace=namespace, timeout=timeout, memory_limit=memory_limit).to_arrow()
    settings.print_arrow(rows)
