"""The request of a client to plan a scan. Spec: the REST document's PlanTableScanRequest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from icecore.engine.common.json_reader import get, get_strs
from icecore.engine.errors import ValidationError
from icecore.engine.spec.reserved import METADATA_COLUMNS, PARTITION
from icecore.engine.spec.schema import Schema

WHERE = "the scan"
NUMBERS = ("snapshot_id", "start_snapshot_id", "end_snapshot_id", "min_rows_requested")
FLAGS = {"case_sensitive": True, "use_snapshot_schema": False}
NAMES = ("select", "stats_fields")


@frozen
class ScanRequest:
    """A scan of one snapshot, by default the table's current one, or of the files that appends added between two.

    `start_snapshot_id` is exclusive. `filter` is the JSON of an expression, None where there is none.
    """

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    min_rows_requested: int | None = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    select: tuple[str, ...] = ()
    stats_fields: tuple[str, ...] = ()
    filter: Any = field(default=None, eq=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ScanRequest:
        """The request in a body, whose unknown fields are passed over. Raises ValidationError."""
        found: dict[str, Any] = {name: get(body, _key(name), int, WHERE, None) for name in NUMBERS}
        found |= {name: get(body, _key(name), bool, WHERE, default) for name, default in FLAGS.items()}
        found |= {name: get_strs(body, _key(name), WHERE, []) for name in NAMES}
        if "filter" in body and body["filter"] is None:
            raise ValidationError(f"{WHERE}: the filter is null; a scan of all rows has none")
        request = cls(filter=body.get("filter"), **found)
        if (request.start_snapshot_id is None) is not (request.end_snapshot_id is None):
            raise ValidationError(f"{WHERE}: start-snapshot-id and end-snapshot-id go together")
        if request.snapshot_id is not None and request.start_snapshot_id is not None:
            raise ValidationError(f"{WHERE} is either of snapshot-id, or of what was added after start-snapshot-id")
        if (request.min_rows_requested or 0) < 0:
            raise ValidationError(f"{WHERE}: min-rows-requested must be 0 or more, found {request.min_rows_requested}")
        return request

    def to_dict(self) -> dict[str, Any]:
        """The request as `of` reads it."""
        found = {_key(name): getattr(self, name) for name in (*NUMBERS, *FLAGS)}
        found |= {_key(name): list(getattr(self, name)) for name in NAMES}
        return {key: value for key, value in (found | {"filter": self.filter}).items() if value is not None}

    def check_names(self, schema: Schema, known: Iterable[Schema]) -> None:
        """Refuses names of columns that the table never had. Raises ValidationError."""
        for name in (*self.select, *self.stats_fields):
            if not _is_known(name, schema, known, self.case_sensitive):
                raise ValidationError(f"{WHERE}: there is no column {name[:200]!r}")

    def stats_ids(self, schema: Schema) -> list[int]:
        """The ids of the columns whose metrics are asked for, as far as the schema has them."""
        names = [n for n in self.stats_fields if schema.has_name(n, self.case_sensitive)]
        return list(dict.fromkeys(schema.find_field(n, self.case_sensitive).field_id for n in names))


def _is_known(name: str, schema: Schema, known: Iterable[Schema], case_sensitive: bool) -> bool:
    first = name.split(".")[0]
    if name == "*" or first in METADATA_COLUMNS or first == PARTITION:
        return True
    return any(s.has_name(name, case_sensitive) for s in (schema, *known))


def _key(name: str) -> str:
    return name.replace("_", "-")
