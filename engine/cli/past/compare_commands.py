"""Commands that compare two moments of the catalog or of a table, show one commit whole, and draw snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import TIMES, time_of
from icecore.engine.cli.verbs import examples
from icecore.engine.common.identifiers import identifier_tuple
from icecore.engine.common.text import counted, number_in
from icecore.engine.display.output import pair_lines, print_text, row_lines, waiting
from icecore.engine.events.event import TABLE_REGISTERED
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.spec.snapshot import MAIN_BRANCH

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.catalog.past.comparing import ShownCommit
    from icecore.engine.scan.snapshot_diff import SnapshotDiff
    from icecore.projections.audit.diff import CatalogDiff

SHOWN = 20
_PATH = "file_path"
_FILES = click.option("--files", is_flag=True, help="Each file.")
_ROWS = click.option("--rows", is_flag=True, help="Each row.")


@click.command(epilog=examples("icecore diff 3 5", "icecore diff 3 5 --table shop.orders --files"))
@click.argument("start", metavar="FROM")
@click.argument("end", metavar="[TO]", required=False)
@click.option("--table", metavar="NAME", help="Of this table only; FROM and TO can be its refs and snapshots too.")
@click.option("--branch", metavar="NAME", default=MAIN_BRANCH, help="Of positions and times: whose files and rows.")
@_FILES
@_ROWS
@common_options
@pass_settings
def diff(
    settings: Settings, start: str, end: str | None, table: str | None, branch: str, files: bool, rows: bool
) -> None:
    """Print what differs between two positions or times.

    TO is now where it is not said. With --table, FROM and TO can be refs and snapshots, by their first digits too.
    --files and --rows print those of only one of both.
    """
    with settings.read() as catalog:
        moments = [
            None if text is None else _moment(catalog, text, of_table=table is not None) for text in (start, end)
        ]
        of_refs = any(kind == "ref" for kind, _ in filter(None, moments))
        if table is None and of_refs:
            [text, *_] = [value for kind, value in filter(None, moments) if kind == "ref"]
            raise click.UsageError(
                f"{text!r} is neither a position nor a time; write {TIMES}. Refs and snapshots are of a --table."
            )
        if table is None and (files or rows):
            raise click.UsageError("--files and --rows are of a --table.")
        _one_of(files, rows)
        if branch != MAIN_BRANCH and (of_refs or not (files or rows)):
            raise click.UsageError("--branch says whose --files or --rows are compared between positions or times.")
        with waiting("comparing"):
            if table is not None and (files or rows or of_refs):
                of_table = _of_table(catalog, table, moments, branch)
                found = of_table.rows() if rows else of_table.files() if files else of_table.metadata()
            else:
                difference = catalog.diff(*(value for _, value in filter(None, moments)))
                found = (difference if table is None else _of_name(catalog, table, difference)).to_arrow()
    if rows:
        settings.print_arrow(found)
    elif files:
        settings.print_arrow(found, as_data=False, below=_PATH)
    else:
        facts = found.drop_columns(["stream"])
        settings.print_arrow(_told(facts) if settings.form.is_text else facts, null="", as_data=False)


def _one_of(files: bool, rows: bool) -> None:
    """Raises UsageError for both."""
    if files and rows:
        raise click.UsageError("give --files or --rows")


def _of_name(catalog: Catalog, table: str, difference: CatalogDiff) -> CatalogDiff:
    """The differences of what has a name at one of the positions, else of what had it at any other.

    Raises NoSuchTableError where nothing ever had it.
    """
    from attrs import evolve

    name = identifier_tuple(table)
    found = tuple(o for o in difference.objects if name in (o.before, o.after))
    if not found:
        streams = set(catalog.log(name)["stream"].to_pylist())
        found = tuple(o for o in difference.objects if o.stream in streams)
    return evolve(difference, objects=found)


def _told(difference: pa.Table) -> pa.Table:
    """The differences as people read them: the files and rows that went stand before, those that came after."""
    import pyarrow as pa

    def counts(row: dict[str, Any], kind: str, sign: str) -> str | None:
        if not row[f"{kind}_files"]:
            return None
        return f"{sign} {counted(row[f'{kind}_files'], 'file')}, {counted(row[f'{kind}_rows'], 'row')}"

    rows = [
        {**r, "before": r["before"] or counts(r, "removed", "-"), "after": r["after"] or counts(r, "added", "+")}
        for r in difference.to_pylist()
    ]
    names = [n for n in difference.column_names if not n.endswith(("_files", "_rows"))]
    return pa.Table.from_pylist(rows, schema=difference.select(names).schema)


def _moment(catalog: Catalog, text: str, *, of_table: bool) -> tuple[str, Any]:
    """A position, a time, or else a ref or snapshot of a table."""
    from icecore.engine.errors import ValidationError
    from icecore.engine.expression.timestamps import to_epoch_ms

    if (number := number_in(text)) is not None:
        return ("ref" if of_table and number > catalog.position else "position"), number
    time = time_of(text)
    try:
        to_epoch_ms(time, "time")
    except ValidationError:
        return "ref", text
    return "time", time


def _of_table(catalog: Catalog, table: str, moments: list[tuple[str, Any] | None], branch: str) -> SnapshotDiff:
    given = [m for m in moments if m is not None]
    kinds = {kind == "ref" for kind, _ in given}
    if len(kinds) > 1:
        raise click.UsageError("Both moments must be positions or times, or both refs or snapshot ids.")
    values = [value for _, value in given]
    if kinds == {True}:
        from icecore.engine.cli.changes.found_snapshot import find_snapshot

        loaded = catalog.load_table(table)
        return loaded.diff(*(find_snapshot(loaded.metadata, str(value)) for value in values))
    return catalog.diff_table(table, *values, branch=branch)


@click.command("show-commit", epilog=examples("icecore show-commit 4 --files"))
@click.argument("position", type=click.IntRange(min=1))
@_FILES
@_ROWS
@common_options
@pass_settings
def show_commit(settings: Settings, position: int, files: bool, rows: bool) -> None:
    """Print all that one commit was.

    Who, when, why, what it changed. With --rows instead the rows that it deleted and inserted, with --files the files
    that it added and removed.
    """
    import pyarrow as pa

    from icecore.engine.catalog.past.comparing import change_lines

    _one_of(files, rows)
    with settings.read() as catalog, waiting(f"reading commit {position}"):
        commit = catalog.show_commit(position)
        changed = commit.rows() if rows else None
    if rows:
        if changed is None:
            click.echo(f"commit {position} {_why_no_rows(commit)}", err=True)
            changed = pa.table({"_change_type": pa.array([], pa.string())})
        settings.print_arrow(changed)
        return
    if files:
        settings.print_arrow(commit.files, as_data=False, below=_PATH)
        return
    event = commit.event
    who = {n: event[n] for n in ("position", "recorded_at", "actor", "engine", "message", "kind", "name", "changes")}
    others = [p for p in commit.together if p != position]
    told = who | ({"together with": ", ".join(map(str, others))} if others else {}) | {"hash": event["hash"]}
    facts = list(change_lines(commit.difference))
    columns = ("name", "what", "key", "before", "after")
    record = who | {
        "together": list(commit.together),
        "hash": event["hash"],
        "difference": [dict(zip(columns, row, strict=True)) for row in facts],
        "files": commit.files.to_pylist(),
    }
    lines = pair_lines(told)
    if facts:
        lines += ["", *row_lines(columns, facts, settings.form)]
    if commit.files.num_rows:
        shown = [n for n in ("change", "content", "partition", "record_count", _PATH) if n in commit.files.column_names]
        some = commit.files.select(shown).slice(0, SHOWN).to_pylist()
        rows_of_files = [list(r.values()) for r in some]
        lines += ["", counted(commit.files.num_rows, "file")]
        lines += row_lines(shown, rows_of_files, settings.form, below=_PATH)
        if left := commit.files.num_rows - len(some):
            lines.append(f"… {counted(left, 'more file')}, --files")
    settings.print_record(record, *lines)


def _why_no_rows(commit: ShownCommit) -> str:
    """The answer to why a commit has no rows: what it did instead of changing any."""
    if commit.event["kind"] == TABLE_REGISTERED:
        moments = f"{commit.position - 1} {commit.position}"
        told_by = f"`icecore diff {moments} --table {commit.event['name']} --rows`"
        return f"registered a table with the rows that it had; {told_by} tells them"
    made = "only wrote files again" if commit.event["operation"] == "replace" else "made no snapshot"
    return f"{made}, so it changed no rows"


def print_graph(settings: Settings, catalog: Catalog, table: str, limit: int | None) -> None:
    """Prints the snapshots of a table as a graph, the latest first: their refs, positions, authors and reasons."""
    from icecore.engine.display.ref_graph import graph_lines

    with waiting("reading the log"):
        loaded = catalog.load_table(table)
        rows = {row["position"]: row for row in catalog.log(table).to_pylist()}
        own = catalog._warehouse.store.stream_events(loaded.state.stream)
        # What was registered was committed elsewhere.
        made = {s.snapshot_id: e.position for e in own if e.kind != TABLE_REGISTERED for s in snapshots_of(e)[0]}
    ordered = sorted(loaded.snapshots(), key=lambda s: (s.sequence_number, s.timestamp_ms), reverse=True)[:limit]
    shown = {s.snapshot_id for s in ordered}
    refs: dict[int, list[str]] = {}
    for name, ref in loaded.refs().items():
        refs.setdefault(ref.snapshot_id, []).append(name if ref.type == "branch" else f"tag: {name}")
    nodes, records = [], []
    for s in ordered:
        event = rows.get(made.get(s.snapshot_id), {})
        named = sorted(refs.get(s.snapshot_id, []))
        told = (f"({', '.join(named)})" if named else None, event.get("position"), event.get("actor"), s.operation)
        text = " ".join(str(t) for t in (s.snapshot_id, *told, event.get("message")) if t is not None)
        nodes.append((s.snapshot_id, s.parent_snapshot_id if s.parent_snapshot_id in shown else None, text))
        who = {n: event.get(n) for n in ("position", "recorded_at", "actor", "message")}
        ids = {"snapshot_id": s.snapshot_id, "parent_id": s.parent_snapshot_id, "refs": named, "operation": s.operation}
        records.append(ids | who)
    if settings.form.is_text:
        print_text("\n".join(graph_lines(nodes)))
    else:
        settings.print_rows(list(records[0]) if records else [], [list(r.values()) for r in records])
