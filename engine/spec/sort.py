"""Sort orders and their JSON. Spec: Sorting (SO1, SO2)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from icecore.engine.common.json_reader import get, get_list, unknown
from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import is_unknown, source_ids
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import Transform, parse_transform

UNSORTED_ORDER_ID = 0
INITIAL_SORT_ORDER_ID = 1


class SortDirection(enum.StrEnum):
    """The `direction` of a sort field."""

    ASC = "asc"
    DESC = "desc"


class NullOrder(enum.StrEnum):
    """The `null-order` of a sort field."""

    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


_FIELD_KEYS = frozenset({"source-id", "source-ids", "transform", "direction", "null-order"})


@frozen
class SortField:
    """One field of a sort order. `source_ids` has one id, or more for multi-argument transforms."""

    source_ids: tuple[int, ...]
    transform: Transform
    direction: SortDirection = SortDirection.ASC
    null_order: NullOrder = NullOrder.NULLS_FIRST
    extra: Mapping[str, Any] = field(factory=dict, hash=False)

    @property
    def source_id(self) -> int:
        """The id of the source column, the first for a transform of many."""
        return self.source_ids[0]

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"transform": str(self.transform)}
        if len(self.source_ids) == 1:
            out["source-id"] = self.source_id
        else:
            out["source-ids"] = list(self.source_ids)
        return {**out, "direction": str(self.direction), "null-order": str(self.null_order), **self.extra}

    @classmethod
    def from_dict(cls, obj: Any) -> SortField:
        """The sort field of a JSON object. Raises ValidationError where it is none."""
        where = "sort field"
        direction, nulls = get(obj, "direction", str, where), get(obj, "null-order", str, where)
        try:
            return cls(
                source_ids(obj, where),
                parse_transform(get(obj, "transform", str, where)),
                SortDirection(direction.lower()),
                NullOrder(nulls.lower()),
                unknown(obj, _FIELD_KEYS),
            )
        except ValueError as e:
            raise ValidationError(f"{where}: {e}") from e


@frozen
class SortOrder:
    """A sort order; id 0 is reserved for unsorted (SO1)."""

    fields: tuple[SortField, ...] = ()
    order_id: int = UNSORTED_ORDER_ID
    extra: Mapping[str, Any] = field(factory=dict, hash=False)

    def __attrs_post_init__(self) -> None:
        if self.order_id == UNSORTED_ORDER_ID and self.fields:
            raise ValidationError("sort order 0 is unsorted and can't have fields")

    @property
    def is_unsorted(self) -> bool:
        """Whether the order has no fields."""
        return not self.fields

    def check_known(self) -> None:
        """Raises ValidationError where rows can't be sorted by a field, as `PartitionSpec.check_known` does (PT6)."""
        if any(is_unknown(f.transform, f.source_ids) for f in self.fields):
            raise ValidationError(
                f"sort order {self.order_id} has an unknown transform, so nothing can be written: {self}"
            )

    def check(self, schema: Schema) -> None:
        """Raises ValidationError where a source is missing or of the wrong type."""
        for f in self.fields:
            for source_id in f.source_ids:
                source = schema.get_field(source_id)
                if source is None:
                    raise ValidationError(f"sort order {self.order_id}: no column with id {source_id}")
                if not source.field_type.is_primitive or not f.transform.can_transform(source.field_type):
                    raise ValidationError(
                        f"sort order {self.order_id}: {f.transform} can't be applied to "
                        f"{schema.name_of(source_id)!r} of type {source.field_type}"
                    )

    def to_dict(self) -> dict[str, Any]:
        return {"order-id": self.order_id, "fields": [f.to_dict() for f in self.fields], **self.extra}

    @classmethod
    def from_dict(cls, obj: Any) -> SortOrder:
        """The sort order of a JSON object. Raises ValidationError where it is none."""
        fields = get_list(obj, "fields", "sort order")
        order_id = get(obj, "order-id", int, "sort order")
        known = frozenset({"order-id", "fields"})
        return cls(tuple(SortField.from_dict(f) for f in fields), order_id, unknown(obj, known))

    def __str__(self) -> str:
        terms = (
            f"{f.transform}({', '.join(map(str, f.source_ids))}) {f.direction} {f.null_order}" for f in self.fields
        )
        return f"[{', '.join(terms)}]"


UNSORTED = SortOrder()
