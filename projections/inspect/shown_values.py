"""Binary single values as Arrow columns of the types that users see: dates, timestamps, UUIDs.

Spec: Appendix D, Binary single-value serialization (M9, T10).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_schema import type_to_arrow
from icecore.engine.formats.binary_columns import Places
from icecore.engine.formats.typed_values import typed_values
from icecore.engine.spec.types import FixedType, PrimitiveType, UnknownType, UUIDType
from icecore.projections.entries.keyed_values import KeyedValues


def shown_type(kind: PrimitiveType) -> pa.DataType:
    """The Arrow type that values of a type are shown as."""
    return type_to_arrow(kind, with_ids=False)


def shown_values(kind: PrimitiveType, values: KeyedValues, key: int, *, is_partition: bool = False) -> pa.Array:
    """The values of one key as a column of `shown_type`; null where there is none, or one that can't be read."""
    places = values.by_key.get(key)
    if places is None:
        return values.nulls(shown_type(kind))
    return shown_at(kind, values.items, places, is_partition=is_partition)


def shown_at(kind: PrimitiveType, values: pa.Array, places: Places, *, is_partition: bool = False) -> pa.Array:
    """The values at some places as a column of `shown_type`; null for one that can't be read."""
    wanted = shown_type(kind)
    if isinstance(kind, UnknownType):
        return pa.nulls(places.count, wanted)
    typed = typed_values(kind, values, places, is_partition=is_partition)
    match kind:
        case UUIDType():
            return pa.ExtensionArray.from_storage(wanted, typed.cast(pa.binary(16)))
        case FixedType(length=length):
            fits = pc.equal(pc.binary_length(typed), length)
            return pc.if_else(fits, typed, pa.scalar(None, typed.type)).cast(wanted)
        case _:
            return typed if typed.type.equals(wanted) else typed.view(wanted)
