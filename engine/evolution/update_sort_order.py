"""Changes of the sort order, and the update that people build: `table.update_sort_order().desc("ts").commit()`.

Spec: Sorting (SO1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.recorded_update import RecordedUpdate
from icecore.engine.evolution.terms import SortTerm, parse_sort_terms
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import INITIAL_SORT_ORDER_ID, UNSORTED, NullOrder, SortDirection, SortOrder
from icecore.engine.spec.transform import Transform, UnknownTransform, parse_transform


def evolve_sort_order(
    orders: Iterable[SortOrder],
    terms: Sequence[str | SortTerm] | SortOrder | None,
    schema: Schema,
    *,
    case_sensitive: bool = True,
) -> SortOrder:
    """The sort order of `terms`: an equal one of `orders`, else a new one with the next id; no terms are unsorted.

    Raises ValidationError as `parse_sort_terms`.
    """
    order = parse_sort_terms(terms, schema, case_sensitive=case_sensitive)
    if order.is_unsorted:
        return UNSORTED
    existing = tuple(orders)
    equal = next((o for o in existing if o.fields == order.fields), None)
    next_id = max((o.order_id + 1 for o in existing), default=INITIAL_SORT_ORDER_ID)
    return equal or evolve(order, order_id=max(next_id, INITIAL_SORT_ORDER_ID))


class UpdateSortOrder(RecordedUpdate[SortTerm | str]):
    """The update of the sort order that people build; its terms replace the table's order."""

    def asc(
        self,
        source_column_name: str,
        transform: Transform | str | None = None,
        null_order: NullOrder | str | None = None,
    ) -> UpdateSortOrder:
        """Sorts by a term, or by a column and a transform, smallest first; nulls first unless said otherwise.

        Raises ValidationError where transform or null order are not known.
        """
        return self._record(
            SortTerm(source_column_name, SortDirection.ASC, _null_order(null_order), _transform(transform))
        )

    def desc(
        self,
        source_column_name: str,
        transform: Transform | str | None = None,
        null_order: NullOrder | str | None = None,
    ) -> UpdateSortOrder:
        """As `asc`, largest first; nulls last unless said otherwise."""
        return self._record(
            SortTerm(source_column_name, SortDirection.DESC, _null_order(null_order), _transform(transform))
        )

    def set(self, *terms: str) -> UpdateSortOrder:
        """Replaces the terms recorded so far by terms such as `ts DESC NULLS LAST`."""
        self._touch()
        self._ops[:] = terms
        return self

    def unsorted(self) -> UpdateSortOrder:
        """Drops the terms recorded so far; the table will have no sort order."""
        return self.set()


def _transform(given: Transform | str | None) -> Transform | None:
    if given is None:
        return None
    transform = parse_transform(str(given))
    if isinstance(transform, UnknownTransform):
        raise ValidationError(f"unknown transform {transform.text!r}; write it like 'day' or 'bucket[8]'")
    return transform


def _null_order(given: NullOrder | str | None) -> NullOrder | None:
    if given is None:
        return None
    text = str(given).lower().replace("_", "-").replace(" ", "-")
    try:
        return NullOrder(text)
    except ValueError as e:
        raise ValidationError(f"the null order must be nulls-first or nulls-last, found {given!r}") from e
