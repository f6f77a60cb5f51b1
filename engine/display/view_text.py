"""A view in words and as JSON, and the rows of it that were asked for."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from attrs import frozen

from icecore.engine.display.cells import cell
from icecore.engine.display.table_text import column_lines
from icecore.engine.errors import name_text

if TYPE_CHECKING:
    from icecore.engine.spec.view import ViewVersion
    from icecore.engine.view.view import View


@frozen
class ViewText:
    """The text of a loaded view."""

    view: View

    @property
    def name(self) -> str:
        """The name as text."""
        return name_text(self.view.name())

    def updated_at(self) -> dt.datetime:
        """The time at which the current version became current."""
        history = self.view.history()
        return _time(history[-1].timestamp_ms if history else self.view.current_version().timestamp_ms)

    def sql(self) -> dict[str, str]:
        """The stored queries of the current version by dialect."""
        return {r.dialect: r.sql for r in self.view.current_version().representations if r.dialect and r.sql}

    def as_pairs(self) -> dict[str, Any]:
        """The description, name by name, in words."""
        view = self.view
        version = view.current_version()
        catalog = {} if version.default_catalog is None else {"default catalog": version.default_catalog}
        return {
            "view": self.name,
            "format": f"version {view.metadata.format_version}",
            "uuid": view.metadata.view_uuid,
            "location": view.location(),
            "metadata": view.metadata_location,
            "columns": column_lines(view.schema()),
            **catalog,
            "default namespace": name_text(version.namespace) or "none",
            "properties": [f"{k} = {v}" for k, v in sorted(view.properties.items())] or "none",
            "versions": [self._version_line(v) for v in view.versions()],
            **{f"SQL for {dialect}": sql.splitlines() for dialect, sql in self.sql().items()},
        }

    def as_dict(self) -> dict[str, Any]:
        """The description for programs; schema, versions and history as in Iceberg's metadata files."""
        view = self.view
        version = view.current_version()
        return {
            "name": self.name,
            "kind": "view",
            "format_version": view.metadata.format_version,
            "uuid": view.metadata.view_uuid,
            "location": view.location(),
            "metadata_location": view.metadata_location,
            "updated_at": self.updated_at(),
            "schema": view.schema().to_dict(),
            "default_catalog": version.default_catalog,
            "default_namespace": list(version.namespace),
            "properties": dict(view.properties),
            "sql": self.sql(),
            "current_version_id": version.version_id,
            "versions": [v.to_dict() for v in view.versions()],
            "history": [h.to_dict() for h in view.history()],
        }

    def _version_line(self, version: ViewVersion) -> str:
        current = "  (current)" if version.version_id == self.view.current_version().version_id else ""
        dialects = ", ".join(sorted(version.dialects)) or "no SQL"
        return f"{version.version_id:>3}  {cell(_time(version.timestamp_ms))}  {dialects}{current}"


def _time(timestamp_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC)
