"""Metrics modes, by which table properties choose the metrics of each column, and truncated bounds.

Java's rules: `write.metadata.metrics.default`, `write.metadata.metrics.column.<name>`, sorted columns keep bounds, and
only the first columns of a wide schema have metrics unless a default is set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen

from icecore.engine.errors import ValidationError
from icecore.engine.expression.strings import bytes_successor, string_successor
from icecore.engine.properties.table_properties import METRICS_DEFAULT, METRICS_MAX_INFERRED, METRICS_OF_COLUMN
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.spec.types import NestedField, StructType, children, walk


@frozen
class NoMetrics:
    """No metrics but the column's size."""


@frozen
class Counts:
    """Counts of values, nulls and NaN."""


@frozen
class Truncate:
    """Counts, and bounds of at most `length` characters or bytes."""

    length: int


@frozen
class Full:
    """Counts and whole bounds."""


MetricsMode: TypeAlias = NoMetrics | Counts | Truncate | Full
DEFAULT_MODE = Truncate(16)
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


def parse_mode(text: str, where: str) -> MetricsMode:
    """The mode that a property value names. Raises ValidationError naming the property."""
    name = text.strip().lower()
    if name in _NAMED:
        return _NAMED[name]
    if (m := _TRUNCATE.fullmatch(name)) and int(m[1]) > 0:
        return Truncate(int(m[1]))
    raise ValidationError(f"property {where}: expected none, counts, truncate(<length>) or full, found {text!r}")


_NAMED: dict[str, MetricsMode] = {"none": NoMetrics(), "counts": Counts(), "full": Full()}


def metrics_modes(
    schema: Schema, properties: Mapping[str, str], sort_order: SortOrder | None = None
) -> dict[int, MetricsMode]:
    """The mode of every primitive column of the schema, by field id.

    Properties of columns that the schema doesn't have are ignored. Raises ValidationError for a value that is no mode.
    """
    leaves = [f for f in walk(schema.fields) if f.field_type.is_primitive]
    configured = METRICS_DEFAULT.find(properties)
    limit = METRICS_MAX_INFERRED.of(properties)
    default: MetricsMode = DEFAULT_MODE if configured is None else parse_mode(configured, METRICS_DEFAULT.name)
    modes = dict.fromkeys((f.field_id for f in leaves), default)
    structs = sum(isinstance(f.field_type, StructType) for f in walk(schema.fields))
    if configured is None and len(leaves) + structs > limit:
        default = NoMetrics()
        first = frozenset(_breadth_first(schema.fields)[:limit])
        modes = {i: DEFAULT_MODE if i in first else default for i in modes}
    for f in sort_order.fields if sort_order is not None else ():
        if f.transform.preserves_order and f.source_id in modes:
            modes[f.source_id] = default if isinstance(default, (Truncate, Full)) else DEFAULT_MODE
    for leaf in leaves:
        key = METRICS_OF_COLUMN.name + schema.name_of(leaf.field_id)
        if key in properties:
            modes[leaf.field_id] = parse_mode(properties[key], key)
    return modes


def _breadth_first(fields: tuple[NestedField, ...]) -> list[int]:
    """The ids of primitive fields, those of a struct before those inside its fields."""
    here = [f.field_id for f in fields if f.field_type.is_primitive]
    return here + [i for f in fields for i in _breadth_first(children(f.field_type))]


def truncated_lower(value: Any, mode: MetricsMode) -> Any:
    """A value not above `value`: its first code points or bytes; other types stay as they are."""
    return value[: mode.length] if isinstance(mode, Truncate) and isinstance(value, (str, bytes)) else value


def truncated_upper(value: Any, mode: MetricsMode) -> Any:
    """A value not below `value` of at most the mode's length, or None where there is no such value."""
    if not isinstance(mode, Truncate) or not isinstance(value, (str, bytes)) or len(value) <= mode.length:
        return value
    head = value[: mode.length]
    return string_successor(head) if isinstance(head, str) else bytes_successor(head)
