"""The page of blame: the commits that changed one thing of a table."""

from __future__ import annotations

from icecore.engine.common.text import counted
from icecore.engine.display.cells import cell
from icecore.engine.errors import IcecoreError, ValidationError, name_text
from icecore.engine.server.page.page_frame import alert, framed, grid, table_path
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.table.table import Table
from icecore.projections.report.html_elements import Markup, element

MOST_COMMITS = 1_000
_KINDS = ("column", "property", "file", "partition", "ref")
_TOLD = {"recorded_at": "time (UTC)"}


def blame_page(call: Call) -> Answer:
    """The commits that changed a column, a property, a file, a partition or a ref, latest first.

    Raises ValidationError.
    """
    name = call.table
    table = call.catalog.load_table(name)
    of, value = call.query.get("of", _KINDS[0]), call.query.get("value", "")
    shown: list[Markup] = []
    if of not in _KINDS:
        raise ValidationError(f"blame is of a {', '.join(_KINDS)}, found {of[:60]!r}")
    if value:
        try:
            found = call.catalog.blame(name, **{of: value})
            rows = [tuple(map(cell, r.values())) for r in found.slice(0, MOST_COMMITS).to_pylist()]
            columns = [_TOLD.get(c, c.replace("_", " ")) for c in found.column_names]
            count = f"{counted(found.num_rows, 'change')} of {of} {value}, the latest first"
            shown = [element("p", count, role="status"), grid("Changes", columns, rows, class_="stacks")]
        except IcecoreError as e:
            shown = [alert(str(e))]
    form = _form(table_path(name, "/blame"), table, of, value)
    facts = "who changed one thing of the table, when, in which commit and why"
    return framed(call, f"Blame: {name_text(name)}", table_path(name, "/blame"), form, *shown, facts=facts, table=name)


def _form(path: str, table: Table, of: str, value: str) -> Markup:
    """The question; names that are in force now are offered, earlier ones can be typed."""
    schema = table.schema()
    known = [*map(schema.name_of, sorted(schema.field_ids)), *sorted(table.properties), *sorted(table.refs())]
    kinds = [element("option", k, value=k, selected="selected" if k == of else None) for k in _KINDS]
    return element(
        "form",
        element("label", "What", for_="of"),
        element("select", *kinds, id="of", name="of"),
        element("label", "Its name, path or value", for_="value"),
        element("input", id="value", name="value", value=value, list="known", required="required", autocomplete="off"),
        element("datalist", *(element("option", value=k) for k in dict.fromkeys(known)), id="known"),
        element("button", "Blame"),
        action=path,
        method="get",
        class_="asks",
    )
