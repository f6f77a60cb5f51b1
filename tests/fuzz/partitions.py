"""Random partition fields."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from attrs import frozen

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
        case "float" | "double":
            return None
        case _:
            kinds = ["bucket[3]", "truncate[10]", "identity"]
    return PartitionTerm(column, dice.choice(kinds))
