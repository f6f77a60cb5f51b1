"""The strategies of `rewrite_data_files`, with Java's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    from icecore.engine.evolution.terms import SortTerm
    from icecore.engine.spec.metadata import TableMetadata
    from icecore.engine.spec.sort import SortOrder

SortTerms: TypeAlias = "Sequence[str | SortTerm] | SortOrder"
BINPACK = "binpack"
SORT = "sort"


def order_for(strategy: str, terms: SortTerms | None, metadata: TableMetadata) -> SortOrder | None:
    """The order to sort by, None for `binpack`. Raises ValidationError for another strategy, or without any order."""
    if strategy not in (BINPACK, SORT):
        raise ValidationError(f"the strategy must be {BINPACK} or {SORT}, found {strategy!r}")
    if strategy == BINPACK:
        if terms is not None:
            raise ValidationError(f"a sort order is for the strategy {SORT}")
        return None
    from icecore.engine.evolution.update_sort_order import evolve_sort_order

    order = (
        metadata.sort_order() if terms is None else evolve_sort_order(metadata.sort_orders, terms, metadata.schema())
    )
    if order.is_unsorted:
        raise ValidationError(f"the strategy {SORT} needs a sort order: the table has none")
    return order
