"""The command audit."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from icecore.engine.cli.settings import Settings, pass_settings
from icecore.engine.cli.texts import pairs
from icecore.engine.cli.verbs import examples
from icecore.engine.display.output import waiting
from icecore.engine.errors import IcecoreError
from icecore.engine.storage.atomic_write import put_text

if TYPE_CHECKING:
    from icecore.projections.audit.rules.audit_findings import Audit
    from icecore.projections.audit.rules.rule import Rule

_COLUMNS = ("severity", "rule", "table", "table_uuid", "subject", "message", "mend")
NEVER = "never"


class AuditFailure(click.ClickException):
    """An audit that could not be made: exit code 2, as 1 says that there are findings."""

    exit_code = 2


@click.command(epilog=examples("icecore audit", "icecore audit shop.orders --output sarif"))
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--rule", "rules", metavar="ID", multiple=True, help="Only this rule; may be given several times.")
@click.option("--rules", "folder", metavar="DIR", help="A folder of rules of your own, which join.")
@click.option("--option", "options", metavar="NAME=VALUE", multiple=True, callback=pairs, help="A limit of rules.")
@click.option("--baseline", metavar="FILE", help="Findings that are accepted.")
@click.option("--write-baseline", "written", metavar="FILE", help="Accept all that is found, in a file.")
@click.option("--fail-on", type=click.Choice(["error", "warning", "note", NEVER]), default="error", show_default=True)
@click.option("--list", "listed", is_flag=True, help="List the rules.")
@click.option("--output", "-o", "form", type=click.Choice(["text", "json", "sarif", "csv"]), help="Text else.")
@click.option("--warehouse", "-w", metavar="PATH", help="The warehouse folder.")
@pass_settings
@click.pass_context
def audit(
    context: click.Context,
    settings: Settings,
    tables: tuple[str, ...],
    rules: tuple[str, ...],
    folder: str | None,
    options: Mapping[str, str],
    baseline: str | None,
    written: str | None,
    fail_on: str,
    listed: bool,
    form: str | None,
    warehouse: str | None,
) -> None:
    """Check the tables and the log by rules.

    Of all tables, or of those named. The exit code is 1 where there are findings of the severity --fail-on or worse, 2
    where the audit could not be made.
    """
    settings.warehouse = warehouse or settings.warehouse
    form = form or ("text" if settings.output == "table" else settings.output)
    if form == ("sarif" if listed else "arrow"):
        raise click.UsageError("findings are no Arrow stream, the list of rules no SARIF: choose another --output")
    try:
        with settings.read() as catalog:
            if listed:
                settings.output = "table" if form == "text" else form
                _print_rules(settings, catalog.audit_rules(folder))
                return
            with waiting("checking the tables"):
                found = catalog.audit(
                    rules=rules or None,
                    tables=tables or None,
                    baseline=baseline,
                    folder=folder,
                    options=_values(options),
                )
            if written is not None:
                _write(Path(written), found)
                return
    except (IcecoreError, OSError) as e:
        raise AuditFailure(" ".join(str(e).split())) from e
    click.echo(_FORMS[form](found))
    context.exit(0 if fail_on == NEVER or not found.at_least(fail_on) else 1)


def _values(options: Mapping[str, str]) -> dict[str, Any]:
    from icecore.projections.audit.rules.rule import parse_option

    return {name: parse_option(text) for name, text in options.items()}


def _write(path: Path, found: Audit) -> None:
    from icecore.projections.audit.rules.audit_findings import baseline_text

    put_text(path, baseline_text(found))
    click.echo(f"{path}: {len(found.findings) + len(found.accepted):,} findings accepted")


def _print_rules(settings: Settings, rules: tuple[Rule, ...]) -> None:
    from icecore.engine.display.output import print_json

    rows = [{"rule": r.id, "severity": str(r.severity), "finds": r.finds, "mend": r.mend, **_told(r)} for r in rules]
    if settings.as_json:
        print_json(rows)
    else:
        settings.print_rows(("rule", "severity", "finds"), [(r["rule"], r["severity"], r["finds"]) for r in rows])


def _told(rule: Rule) -> dict[str, Any]:
    return {"scope": str(rule.scope), "options": dict(rule.options)}


def _json(found: Audit) -> str:
    import orjson

    from icecore.engine.display.cells import plain

    value = {
        "rules": [r.id for r in found.rules],
        "findings": [{**{n: getattr(f, n) for n in _COLUMNS}, "row": dict(f.row)} for f in found.findings],
        "accepted": [{**f.key, "reason": a.reason} for f, a in found.accepted],
        "stale": [
            {n: getattr(a, n) for n in ("rule", "table", "table_uuid", "subject", "reason")} for a in found.stale
        ],
    }
    return orjson.dumps(plain(value), option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z).decode()


def _sarif(found: Audit) -> str:
    import orjson

    from icecore.projections.audit.rules.sarif import sarif

    return orjson.dumps(sarif(found), option=orjson.OPT_INDENT_2).decode()


def _csv(found: Audit) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([[_no_formula(getattr(f, n)) for n in _COLUMNS] for f in found.findings])
    return text.getvalue().rstrip("\n")


def _no_formula(value: Any) -> Any:
    """A cell that a spreadsheet takes for no formula, whatever a table, a column or a property is called."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


_FORMS: Mapping[str, Callable[[Audit], str]] = {"text": str, "json": _json, "sarif": _sarif, "csv": _csv}
