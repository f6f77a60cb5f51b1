"""The pages of one table: its report, with links to the blame of its parts, and its findings."""

from __future__ import annotations

from collections.abc import Sequence

from icecore.engine.catalog.audits.audit_tools import audit, audit_rules, reported_tables
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import counted
from icecore.engine.errors import name_text
from icecore.engine.server.page.kept_findings import kept_findings
from icecore.engine.server.page.page_frame import framed, grid, link, table_path
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.table.table import Table
from icecore.projections.audit.rules.rule import Scope
from icecore.projections.report.html_elements import Markup, element
from icecore.projections.report.report_page import report_parts


def table_page(call: Call) -> Answer:
    """The report of a table: commits, growth, files, partitions, delete debt, snapshots; and its parts."""
    name = call.table
    table = call.catalog.load_table(name)
    parts = report_parts(reported_tables(call.catalog, name), None)
    path = table_path(name)
    more = (_columns(name, table), _refs(name, table), _properties(name, table))
    return framed(call, name_text(name), path, *parts, *more, table=name)


def table_findings_page(call: Call) -> Answer:
    """The findings of the rules for one table, the gravest first; these read all its history and list its files."""
    name = call.table
    columns = ("severity", "rule", "finding", "what mends it")
    count, told = kept_findings(call, name, columns, lambda: _findings(call, name))
    here, facts = table_path(name, "/findings"), counted(count, "finding")
    return framed(call, f"Findings of {name_text(name)}", here, told, facts=facts, table=name)


def _findings(call: Call, name: Identifier) -> list[tuple[str | Markup, ...]]:
    own = [r.id for r in audit_rules(call.catalog) if r.scope is Scope.TABLE]
    found = audit(call.catalog, tables=[name], rules=own).findings
    return [(element("b", str(f.severity), class_=str(f.severity)), f.rule, f.message, f.mend) for f in found]


def _columns(name: Identifier, table: Table) -> Markup:
    """The columns of the current schema, nested ones too."""
    schema = table.schema()
    rows = []
    for field_id in sorted(schema.field_ids):
        field, column = schema.find_field(field_id), schema.name_of(field_id)
        is_required = "required" if field.required else "optional"
        rows.append(
            (str(field_id), _blamed(name, "column", column), str(field.field_type), is_required, field.doc or "")
        )
    return _part("Columns", ("id", "name", "type", "", "doc"), rows)


def _refs(name: Identifier, table: Table) -> Markup:
    rows = []
    for ref, at in sorted(table.refs().items()):
        plan = link("plan", table_path(name, "/plan", {"ref": ref}))
        rows.append((_blamed(name, "ref", ref), str(at.type), str(at.snapshot_id), plan))
    return _part("Branches and tags", ("name", "type", "snapshot", ""), rows)


def _properties(name: Identifier, table: Table) -> Markup:
    rows = [(_blamed(name, "property", key), value) for key, value in sorted(table.properties.items())]
    return _part("Properties", ("key", "value"), rows)


def _blamed(name: Identifier, of: str, value: str) -> Markup:
    return link(value, table_path(name, "/blame", {"of": of, "value": value}))


def _part(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str | Markup, ...]]) -> Markup:
    """A section about a part of the table, with links to the commits that changed each thing; empty without rows."""
    if not rows:
        return Markup("")
    return element("section", element("h2", title), grid(title, columns, rows, class_="stacks"))
