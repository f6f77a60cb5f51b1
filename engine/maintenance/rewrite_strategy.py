"""The strategies of `rewrite_data_files`, with Java's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    from icecore.engine.data.arrow.sorting import RowOrder
    from icecore.engine.data.arrow.z_order import ZOrder
    from icecore.engine.evolution.terms import SortTerm
    from icecore.engine.spec.metadata import TableMetadata
    from icecore.engine.spec.sort import SortOrder

SortTerms: TypeAlias = "Sequence[str | SortTerm] | SortOrder"
BINPACK = "binpack"
SORT = "sort"
ZORDER = "zorder"


def order_for(strategy: str, terms: SortTerms | None, metadata: TableMetadata) -> RowOrder | None:
    """The order to sort by, None for `binpack`.

    Raises ValidationError for another strategy, a sort without an order, and a z-order of anything but ordered columns.
    """
    match strategy:
        case "binpack":
            if terms is not None:
                raise ValidationError(f"a sort order is for the strategies {SORT} and {ZORDER}")
            return None
        case "sort":
            return _sort_order(terms, metadata)
        case "zorder":
            return _z_order(terms, metadata)
    raise ValidationError(f"the strategy must be {BINPACK}, {SORT} or {ZORDER}, found {strategy!r}")


def _sort_order(terms: SortTerms | None, metadata: TableMetadata) -> SortOrder:
    from icecore.engine.evolution.update_sort_order import evolve_sort_order

    order = (
        metadata.sort_order() if terms is None else evolve_sort_order(metadata.sort_orders, terms, metadata.schema())
    )
    if order.is_unsorted:
        raise ValidationError(f"the strategy {SORT} needs a sort order: the table has none")
    return order


def _z_order(terms: SortTerms | None, metadata: TableMetadata) -> ZOrder:
    from icecore.engine.data.arrow.z_order import ZOrder

    names = (
        [t for t in terms if isinstance(t, str)] if isinstance(terms, Sequence) and not isinstance(terms, str) else []
    )
    if not isinstance(terms, Sequence) or not names or len(names) < len(terms):
        raise ValidationError(f"the strategy {ZORDER} needs names of columns as its sort order, found {terms!r:.100}")
    return ZOrder.of(names, metadata.schema())
