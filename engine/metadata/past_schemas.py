"""The schemas and partition specs that a table ever had, by its log: its metadata may lose those of old snapshots."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import schemas_and_specs
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.partition import PartitionField
from icecore.engine.spec.schema import Schema


@frozen
class PastSchemas:
    """All schemas of a table, and all fields of its partition specs, those in its metadata first."""

    identifier: Identifier
    schemas: tuple[Schema, ...]
    fields: tuple[PartitionField, ...]

    @classmethod
    def of(cls, state: TableState, events: Iterable[Event]) -> PastSchemas:
        """The schemas of a table in its latest state, and those that its events brought.

        Raises ValidationError, CorruptLogError.
        """
        schemas, specs = list(state.metadata.schemas), list(state.metadata.partition_specs)
        for event in events:
            of_event = schemas_and_specs(event)
            schemas += of_event[0]
            specs += of_event[1]
        return cls(state.identifier, tuple(schemas), tuple(f for spec in specs for f in spec.fields))

    def column_ids(self, column: str) -> frozenset[int]:
        """The ids of the columns that ever had a full name, and of all that is or was nested in them.

        Raises ValidationError where there is none.
        """
        tops = {i for schema in self.schemas for i in schema.field_ids if schema.name_of(i) == column}
        if not tops:
            raise ValidationError(f"{name_text(self.identifier)} never had a column {column!r}")
        return frozenset(i for known in self.schemas for i in known.field_ids if tops.intersection(known.id_path(i)))
