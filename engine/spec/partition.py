"""Partition specs and their JSON.

Spec: Partitioning (PT1 to PT7). A partition tuple is a tuple of internal values in the order of the spec's fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from icecore.engine.common.json_reader import get, get_list, unknown
from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import (
    Transform,
    UnknownTransform,
    VoidTransform,
    human_string,
    parse_transform,
    path_segment,
)
from icecore.engine.spec.types import BinaryType, NestedField, PrimitiveType, StructType

PARTITION_FIELD_ID_START = 1000
INITIAL_SPEC_ID = 0


@frozen
class PartitionField:
    """One field of a spec. `source_ids` has one id, or more for multi-argument transforms (PT6)."""

    source_ids: tuple[int, ...]
    field_id: int
    transform: Transform
    name: str
    extra: Mapping[str, Any] = field(factory=dict, hash=False)

    @property
    def source_id(self) -> int:
        """The id of the source column, the first for a transform of many."""
        return self.source_ids[0]

    def same_as(self, other: PartitionField) -> bool:
        """Whether two fields have the same source, transform and name; ids are not compared (PT2)."""
        return (self.source_ids, self.transform, self.name) == (other.source_ids, other.transform, other.name)

    def result_type(self, schema: Schema) -> PrimitiveType:
        """The type of the partition values under a schema that has the source column.

        If the type can't be known it is binary, as which every value can be read: for an unknown transform, and for a
        type-keeping one of a column that the schema lacks. `TableMetadata.all_fields` has every column.
        """
        source = schema.get_field(self.source_id)
        if isinstance(self.transform, UnknownTransform) or (source is not None and not source.field_type.is_primitive):
            return BinaryType()
        if source is None:
            return self.transform.result_type(BinaryType())
        return self.transform.result_type(source.primitive_type)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if len(self.source_ids) == 1:
            out["source-id"] = self.source_id
        else:
            out["source-ids"] = list(self.source_ids)
        return {**out, "field-id": self.field_id, "name": self.name, "transform": str(self.transform), **self.extra}


@define(frozen=True, slots=False)
class PartitionSpec:
    """A partition spec; without fields it is unpartitioned."""

    fields: tuple[PartitionField, ...] = ()
    spec_id: int = INITIAL_SPEC_ID
    extra: Mapping[str, Any] = field(factory=dict, hash=False)

    def __attrs_post_init__(self) -> None:
        names: set[str] = set()
        for f in self.fields:
            if f.name in names:
                raise ValidationError(f"partition field name {f.name!r} is used twice in spec {self.spec_id}")
            names.add(f.name)

    @property
    def is_unpartitioned(self) -> bool:
        """Whether no field has values: there is none, or all are void."""
        return all(isinstance(f.transform, VoidTransform) for f in self.fields)

    @property
    def has_unknown_transform(self) -> bool:
        """Whether a field has a transform that this release doesn't know (PT6)."""
        return any(isinstance(f.transform, UnknownTransform) for f in self.fields)

    @property
    def has_unknown_values(self) -> bool:
        """Whether the values of a field can't be computed: its transform is unknown, or has several sources (PT6).

        The known transforms have one source column; it is not known what one of the same name makes of several.
        """
        return any(is_unknown(f.transform, f.source_ids) for f in self.fields)

    def check_known(self) -> None:
        """Raises ValidationError where the values of a field can't be computed (PT6)."""
        if self.has_unknown_values:
            raise ValidationError(
                f"partition spec {self.spec_id} has an unknown transform, so nothing can be written: {self}"
            )

    @property
    def last_assigned_field_id(self) -> int:
        """The highest field id; 999 for a spec without fields (PT1)."""
        return max((f.field_id for f in self.fields), default=PARTITION_FIELD_ID_START - 1)

    def same_as(self, other: PartitionSpec) -> bool:
        """Whether two specs are equivalent (PT2): the same fields in order, ids aside."""
        return len(self.fields) == len(other.fields) and all(
            a.same_as(b) for a, b in zip(self.fields, other.fields, strict=True)
        )

    def partition_type(self, schema: Schema) -> StructType:
        """The struct type of the partition tuple under a schema."""
        return StructType(
            tuple(NestedField(f.field_id, f.name, f.result_type(schema), required=False) for f in self.fields)
        )

    def partition_to_path(self, partition: Sequence[Any], schema: Schema) -> str:
        """The folder of a partition, `a=1/b=x`; empty where unpartitioned."""
        return "/".join(
            path_segment(f.name, human_string(f.transform, f.result_type(schema), value))
            for f, value in zip(self.fields, partition, strict=True)
        )

    def key(self, partition: Sequence[Any], schema: Schema) -> tuple[bytes | None, ...]:
        """A key that is equal for equal partitions only (SP5).

        It is made of bytes, because to Python NaN is unequal to itself and 0.0 equal to -0.0. All NaNs are one value.
        """
        one = (math.nan if value != value else value for value in partition)
        return tuple(
            None if value is None else single_value.partition_to_bytes(f.result_type(schema), value)
            for f, value in zip(self.fields, one, strict=True)
        )

    def fields_to_list(self) -> list[dict[str, Any]]:
        """The fields alone, as in a manifest's header (PT7) and in v1 metadata."""
        return [f.to_dict() for f in self.fields]

    def to_dict(self) -> dict[str, Any]:
        return {"spec-id": self.spec_id, "fields": self.fields_to_list(), **self.extra}

    @classmethod
    def from_dict(cls, obj: Any) -> PartitionSpec:
        """The spec of a JSON object. Raises ValidationError where it is none."""
        fields = get_list(obj, "fields", "partition spec")
        spec_id = get(obj, "spec-id", int, "partition spec")
        return cls(fields_from_list(fields), spec_id, unknown(obj, frozenset({"spec-id", "fields"})))

    @classmethod
    def from_fields(cls, fields: Iterable[Any], spec_id: int = INITIAL_SPEC_ID) -> PartitionSpec:
        """A spec from the fields array alone."""
        return cls(fields_from_list(fields), spec_id)

    def misnamed(self, schema: Schema) -> tuple[PartitionField, ...]:
        """The fields for which Java's clients can't read the table: without a name, or with that of another column.

        One whose source is no column any more may have any.
        """
        return tuple(
            f
            for f in self.fields
            if not f.name
            or (
                schema.has_name(f.name)
                and schema.get_field(f.source_id) is not None
                and schema.find_field(f.name).field_id != f.source_id
            )
        )

    def check_names(self, schema: Schema, known: Sequence[PartitionField] = ()) -> None:
        """Raises ValidationError for a misnamed field that is not a known one."""
        for f in self.misnamed(schema):
            if f not in known:
                raise ValidationError(
                    f"partition field {f.name!r} of spec {self.spec_id} must have a name, and not that of a column "
                    f"other than its source, found {self}"
                )

    def check(self, schema: Schema) -> None:
        """Raises ValidationError where a source is missing, in a list or map, or of the wrong type (PT1, PT3)."""
        for f in self.fields:
            for source_id in f.source_ids:
                source = schema.get_field(source_id)
                if source is None:
                    if isinstance(f.transform, VoidTransform):
                        continue
                    raise ValidationError(f"partition field {f.name!r}: no column with id {source_id}")
                if isinstance(f.transform, VoidTransform):
                    continue
                if not source.field_type.is_primitive or schema.is_in_list_or_map(source_id):
                    raise ValidationError(
                        f"partition field {f.name!r}: the source {schema.name_of(source_id)!r} must be primitive and "
                        f"not inside a list or map, found {source.field_type}"
                    )
                if not f.transform.can_transform(source.field_type):
                    raise ValidationError(
                        f"partition field {f.name!r}: {f.transform} can't be applied to {source.field_type}"
                    )

    def __str__(self) -> str:
        terms = (f"{f.name}: {f.transform}({', '.join(map(str, f.source_ids))})" for f in self.fields)
        return f"[{', '.join(terms)}]"


_FIELD_KEYS = frozenset({"source-id", "source-ids", "field-id", "name", "transform"})


def fields_from_list(items: Iterable[Any]) -> tuple[PartitionField, ...]:
    """Partition fields of a JSON array; v1 files may lack field ids, which then count from 1000 (PT1)."""
    out = []
    for i, item in enumerate(items):
        name = get(item, "name", str, "partition field")
        where = f"partition field {name!r}"
        out.append(
            PartitionField(
                source_ids(item, where),
                get(item, "field-id", int, where, PARTITION_FIELD_ID_START + i),
                parse_transform(get(item, "transform", str, where)),
                name,
                unknown(item, _FIELD_KEYS),
            )
        )
    return tuple(out)


def is_unknown(transform: Transform, source_ids: tuple[int, ...]) -> bool:
    """Whether the transform of these source columns can't be computed; void can, of any number of them."""
    return isinstance(transform, UnknownTransform) or (len(source_ids) > 1 and not isinstance(transform, VoidTransform))


def source_ids(item: Any, where: str) -> tuple[int, ...]:
    """The ids in `source-ids`, else the one in `source-id` (PT6). Raises ValidationError for anything else."""
    many = get_list(item, "source-ids", where, default=[])
    if many:
        if not all(isinstance(i, int) for i in many):
            raise ValidationError(f"{where}: source-ids must be integers")
        return tuple(many)
    return (get(item, "source-id", int, where),)


UNPARTITIONED = PartitionSpec()
