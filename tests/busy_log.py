"""A log with a history of tables and views, to be archived."""

from __future__ import annotations

from core_tables import make_table, rows

import icecore


def busy(catalog: icecore.Catalog) -> int:
    """Tables and views with a history; returns a position in its middle."""
    table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2, 3), idempotency_key="once")
    idle = make_table(catalog, "idle")
    idle.append(rows(7))
    make_table(catalog, "gone").append(rows(8))
    catalog.drop_table("ns.gone")
    view = catalog.create_view("ns.v", "SELECT id FROM t")
    catalog.create_view("ns.still", "SELECT name FROM t")
    table.delete("id = 2")
    table.overwrite(rows(3, 4), "id = 3")
    view.set_properties({"k": "1"})
    cut = catalog.position + 1
    table.append(rows(5))
    view.set_properties({"k": "2"})
    catalog.create_namespace("late")
    table.append(rows(6))
    return cut
