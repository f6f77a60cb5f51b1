"""The command that tells whether a value is anywhere in the warehouse."""

from __future__ import annotations

from pathlib import Path

import click
from attrs import asdict

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.verbs import examples, note_others
from icecore.engine.common.text import counted
from icecore.engine.display.output import row_lines, waiting
from icecore.engine.storage.atomic_write import put_text


@click.command("where-is", epilog=examples("icecore where-is zoe@example.org"))
@click.argument("value")
@click.option("--table", metavar="NAME", help="Only what is of this table, a dropped one too.")
@click.option("--column", metavar="NAME", help="Only this column of the table.")
@click.option("--exact", is_flag=True, help="Of text in rows only the whole, not a part.")
@click.option("--evidence", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Keep the answer.")
@common_options
@pass_settings
@click.pass_context
def where_is(
    context: click.Context,
    settings: Settings,
    value: str,
    table: str | None,
    column: str | None,
    exact: bool,
    evidence: Path | None,
) -> None:
    """Say whether VALUE is anywhere.

    In files of all snapshots and of none, of dropped tables too, and in the log with its archives. The exit code is 1
    where it is found, or where a file can't be searched. Capital and small letters are told apart, and so are the two
    spellings that Unicode has of a letter like é. The evidence is JSON, and has the value's hash only.
    """
    if evidence is not None and not evidence.absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder {evidence.parent} for the evidence")
    with settings.read() as catalog, waiting("reading everything"):
        found = catalog.find_value(value, table=table, column=column, exact=exact)
        if table is not None:
            note_others(catalog, table, "without --table all are searched")
    if evidence is not None:
        put_text(evidence, f"{found.to_json()}\n")
    counts = {**found.searched, "tables": found.searched["tables"] + found.searched["dropped_tables"]}
    searched = ", ".join(counted(counts[f"{n}s"], n) for n in ("event", "table", "snapshot", "file"))
    places = [
        (p.kind, p.where, ", ".join(p.what), p.count, p.table, len(p.snapshots), ", ".join(p.refs))
        for p in found.places
    ]
    lines = [f"{'nowhere' if found.is_nowhere else counted(len(places), 'place')}: searched {searched}"]
    columns = ("kind", "where", "what", "count", "table", "snapshots", "refs")
    lines += row_lines(columns, places, settings.form, below="where") if places else []
    lines += [f"not searched: {location}: {why}" for location, why in found.unread.items()]
    settings.print_record({**asdict(found), "is_nowhere": found.is_nowhere}, *lines)
    if not found.is_nowhere:
        context.exit(1)
