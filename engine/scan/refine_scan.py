"""The same scan with other options: a narrower filter, fewer columns, another ref. The names are PyIceberg's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from icecore.engine.common.identifiers import checked_number
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import And, Expression
from icecore.engine.expression.sql.parse import FilterLike, parse_filter


class Refinable(Protocol):
    """A scan that can be made again."""

    _again: Callable[..., Any]
    selected_fields: tuple[str, ...]


Scan = TypeVar("Scan", bound=Refinable)


_MOST_ROWS = 2**63 - 1
"""A limit above it is none: no table has so many rows."""


def checked_limit(limit: object) -> int | None:
    """The most rows that a scan is to give, None for all. Raises ValidationError."""
    found = None if limit is None else checked_number(limit, "limit")
    if found is not None and found < 0:
        raise ValidationError(f"limit must not be negative, found {found}")
    return None if found is None or found > _MOST_ROWS else found


def remaking(make: Callable[..., Any], row_filter: Expression, **asked: Any) -> Callable[..., Any]:
    """A call that makes a scan again, with the options that it was made by unless others are given."""
    # No closure: a scan can be pickled with it.
    return partial(_again, make, row_filter, asked)


def _again(
    make: Callable[..., Any],
    row_filter: Expression,
    asked: Mapping[str, Any],
    narrower: Expression | None = None,
    **others: Any,
) -> Any:
    if unknown := sorted(others.keys() - asked.keys() - {"row_filter", "parameters"}):
        raise TypeError(f"update() got an unexpected keyword argument {unknown[0]!r}")
    condition = row_filter if narrower is None else And((row_filter, narrower))
    return make(**{"row_filter": condition, "parameters": None, **asked, **others})


def update(scan: Scan, **overrides: Any) -> Scan:
    """The scan with other options of `Table.scan`. Raises TypeError for unknown ones, and what `Table.scan` raises."""
    made: Scan = scan._again(**overrides)
    return made


def filter(scan: Scan, expr: FilterLike) -> Scan:
    """The scan of its rows that also match another condition. Raises ExpressionError."""
    made: Scan = scan._again(narrower=parse_filter(expr))
    return made


def select(scan: Scan, *field_names: str) -> Scan:
    """The scan of these columns, all of which it must have already. Raises ValidationError."""
    if "*" in field_names:
        return scan
    if "*" not in scan.selected_fields and (gone := sorted(set(field_names) - set(scan.selected_fields))):
        raise ValidationError(f"columns {gone} are not among those that the scan has: {list(scan.selected_fields)}")
    return update(scan, selected_fields=tuple(field_names))


def use_ref(scan: Scan, name: str) -> Scan:
    """The scan of a branch or tag. Raises ValidationError where it is of a snapshot or time, NoSuchSnapshotError."""
    return update(scan, ref=name)


def with_case_sensitive(scan: Scan, case_sensitive: bool = True) -> Scan:
    """The scan with its names, and those asked for later, found by their exact case or by any."""
    return update(scan, case_sensitive=case_sensitive)
