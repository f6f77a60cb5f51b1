"""Scans as a prompt and a notebook show them."""

from __future__ import annotations

from icecore.engine.common.text import rows_html, short_repr
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.sql_text import expression_text
from icecore.engine.spec.snapshot import Snapshot


class ScanDisplay:
    """The looks of a scan, which is not planned for them."""

    snapshot: Snapshot | None
    row_filter: Expression
    selected_fields: tuple[str, ...]
    limit: int | None

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        """The scan in a notebook."""
        said = {"filter": expression_text(self.row_filter), "columns": ", ".join(self.selected_fields)}
        said |= {"snapshot": str(self.snapshot and self.snapshot.snapshot_id), "limit": str(self.limit)}
        return rows_html(("scan", ""), said.items())
