"""Partition fields whose values another engine may have lost.

Once a partition's source column is dropped, Java and PyIceberg read the partition's values as nulls, and manifests that
they write again have nulls there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import VoidTransform

Losable = Mapping[int, tuple[bool, ...]]
"""Which fields of a spec may have lost values; specs of which none may have are left out."""


def losable_fields(metadata: TableMetadata) -> Losable:
    """The fields of each spec that may have lost values, by the spec's id."""
    found = {s.spec_id: tuple(_is_losable(f, metadata) for f in s.fields) for s in metadata.partition_specs}
    return {spec_id: fields for spec_id, fields in found.items() if any(fields)}


def _is_losable(field: PartitionField, metadata: TableMetadata) -> bool:
    """Whether a source column is gone, or was for a time after it had been there."""
    return not isinstance(field.transform, VoidTransform) and any(_was_dropped(i, metadata) for i in field.source_ids)


def _was_dropped(field_id: int, metadata: TableMetadata) -> bool:
    if metadata.schema().get_field(field_id) is None:
        return True
    has = {s.schema_id: s.get_field(field_id) is not None for s in metadata.schemas}
    first = min(schema_id for schema_id, it_has in has.items() if it_has)
    return any(schema_id > first and not it_has for schema_id, it_has in has.items())


def telling_specs(metadata: TableMetadata) -> dict[int, PartitionSpec]:
    """The specs as far as partition values tell what rows files have: fields that may have lost values are void.

    That matters for a column that was dropped and came back.
    """
    losable = losable_fields(metadata)
    if not losable:
        return metadata.specs
    return {i: _without(s, losable[i]) if i in losable else s for i, s in metadata.specs.items()}


def _without(spec: PartitionSpec, losable: Sequence[bool]) -> PartitionSpec:
    fields = zip(spec.fields, losable, strict=True)
    return evolve(spec, fields=tuple(evolve(f, transform=VoidTransform()) if gone else f for f, gone in fields))


def may_be_same(one: Sequence[object], other: Sequence[object], losable: Sequence[bool]) -> bool:
    """Whether two tuples of a spec may be of one partition."""
    values = zip(one, other, losable, strict=True)
    return all(a == b or (may_lack and (a is None or b is None)) for a, b, may_lack in values)
