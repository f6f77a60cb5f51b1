"""Partitions of entries in words: as a path such as `day=2024-01-01/city=Oslo`, and their fields as text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from attrs import define, field, frozen

from icecore.engine.spec import single_value
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.transform import Transform, human_string, path_segment
from icecore.engine.spec.types import PrimitiveType

PartitionItems = Iterable[tuple[int, bytes | None]]
"""A partition as canonical entries have it: field ids and the bytes of their values."""


@define(eq=False)
class PartitionWords:
    """The partitions of one table's entries in words; what a spec says of its fields is looked up once."""

    _metadata: TableMetadata
    _specs: dict[int, tuple[_Field, ...]] = field(factory=dict)

    def path(self, spec_id: int, partition: PartitionItems | None) -> str:
        """The partition as a path; empty where unpartitioned."""
        values = dict(partition or ())
        return "/".join([f.segment(values.get(f.field_id)) for f in self._fields(spec_id)])

    def texts(self, spec_id: int, partition: PartitionItems | None) -> list[tuple[str, str | None]]:
        """The names of the fields with their values as text, null for null."""
        values = dict(partition or ())
        return [(f.name, f.text(values.get(f.field_id))) for f in self._fields(spec_id)]

    def _fields(self, spec_id: int) -> tuple[_Field, ...]:
        found = self._specs.get(spec_id)
        if found is None:
            schema, spec = self._metadata.all_fields, self._metadata.specs[spec_id]
            found = tuple(_Field(f.field_id, f.name, f.transform, f.result_type(schema)) for f in spec.fields)
            self._specs[spec_id] = found
        return found


@frozen(eq=False)
class _Field:
    """A partition field."""

    field_id: int
    name: str
    transform: Transform
    kind: PrimitiveType

    def segment(self, data: bytes | None) -> str:
        """`name=value` as in a path."""
        return _segment(self.name, self.transform, self.kind, data)

    def text(self, data: bytes | None) -> str | None:
        """The value as people write it."""
        return None if data is None else _in_words(self.transform, self.kind, data)


# Tables of a warehouse have the same days and places.
@lru_cache(maxsize=10_000)
def _segment(name: str, transform: Transform, kind: PrimitiveType, data: bytes | None) -> str:
    return path_segment(name, _in_words(transform, kind, data))


@lru_cache(maxsize=10_000)
def _in_words(transform: Transform, kind: PrimitiveType, data: bytes | None) -> str:
    return human_string(transform, kind, None if data is None else single_value.from_bytes(kind, data))
