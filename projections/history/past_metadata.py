"""A table's metadata as entries in the log need it: with the schemas and partition specs that were removed since."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from attrs import define, evolve, field

from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import schemas_and_specs
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema

_Specs: TypeAlias = dict[int, PartitionSpec]


@define(eq=False)
class PastMetadata:
    """The schemas and specs that the events of a table brought, taken one after another.

    The id of a spec that was removed may be given to another one. Each such event begins an era, in which every id
    means one spec; `era` is the number of the current one.
    """

    _schemas: list[Schema] = field(factory=list)
    _eras: list[_Specs] = field(factory=lambda: [{}])

    @property
    def era(self) -> int:
        """The number of the era, from 0 on."""
        return len(self._eras) - 1

    def take(self, event: Event) -> None:
        """Takes the next event. Raises ValidationError, CorruptLogError."""
        schemas, specs = schemas_and_specs(event)
        self._schemas += schemas
        for spec in specs:
            known = self._eras[-1].get(spec.spec_id)
            if known is not None and not known.same_as(spec):
                self._eras.append(dict(self._eras[-1]))
            self._eras[-1][spec.spec_id] = spec

    def of_eras(self, metadata: TableMetadata) -> Iterator[TableMetadata]:
        """The latest metadata for each era, with the schemas of all times and the specs of the era."""
        removed = [s for s in self._schemas if not any(s.same_fields(known) for known in metadata.schemas)]
        # An id may have been given to another schema since, and fields go by their own.
        schemas = (*(evolve(s, schema_id=-number) for number, s in enumerate(removed, 1)), *metadata.schemas)
        for specs in self._eras:
            of_era = metadata.specs | specs
            if removed or of_era != metadata.specs:
                yield evolve(metadata, schemas=schemas, partition_specs=tuple(of_era.values()))
            else:
                yield metadata
