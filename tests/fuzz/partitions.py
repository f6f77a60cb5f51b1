"""Random partition fields, and which partition a row is in."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from icecore.engine.spec.metadata import TableMetadata

from .filters import Row
from .model import Column


@frozen
class PartitionTerm:
    """A column and what splits by it, as `bucket[4]`."""

    column: Column
    transform: str

    def java(self) -> dict[str, Any]:
        """As the JVM takes it."""
        kind, _, width = self.transform.rstrip("]").partition("[")
        return {"column": self.column.name, "transform": kind, **({"width": int(width)} if width else {})}


def random_term(dice: random.Random, columns: Sequence[Column]) -> PartitionTerm | None:
    """One that the type of its column has; None where no column of these can be split by."""
    column = dice.choice(columns)
    match column.type:
        case "int" | "long":
            kinds = ["bucket[3]", "truncate[10]", "identity"]
        case "string":
            kinds = ["bucket[3]", "truncate[2]", "identity"]
        case "date":
            kinds = ["month", "year", "day", "identity", "bucket[3]"]
        case "timestamp":
            kinds = ["month", "year", "day", "bucket[3]"]
        case "boolean":
            kinds = ["identity"]
        case "float" | "double" | "struct":
            return None
        case _:
            kinds = ["bucket[3]", "truncate[10]", "identity"]
    return PartitionTerm(column, dice.choice(kinds))


def partitioner(columns: Sequence[Column], metadata: TableMetadata) -> Callable[[Row], tuple[Any, ...]] | None:
    """The partition of a row; None for a table that had other specs, none, or one that is not simple."""
    fields = metadata.spec().fields
    if len(metadata.specs) > 1 or not fields:
        return None
    parts = []
    for field in fields:
        name = metadata.schema().name_of(field.source_id)
        column = next(c for c in columns if c.name == name)
        part = _part(column, str(field.transform))
        if part is None:
            return None
        parts.append(part)
    return lambda row: tuple(part(row) for part in parts)


def _part(column: Column, transform: str) -> Callable[[Row], Any] | None:
    lengths = {"year": 4, "month": 7, "day": 10}
    if transform == "identity":
        return column.of
    if transform in lengths:
        return lambda row: None if column.of(row) is None else column.of(row)[: lengths[transform]]
    if transform.startswith("truncate") and column.type in ("int", "long", "string"):
        width = int(transform[9:-1])
        if column.type == "string":
            return lambda row: None if column.of(row) is None else column.of(row)[:width]
        return lambda row: None if column.of(row) is None else column.of(row) // width
    return None
