"""Conditions by bounds under which a delete file may matter to a data file (Spec: Scan Planning, SP3, SP4, SP6).

A position delete file names its data files by path, so bounds on the path leave most out; an equality delete file may
be left out where the bounds of one of its columns exclude the data file's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from icecore.engine.queries.named_queries import query, quote
from icecore.engine.spec.reserved import DELETE_PATH_ID
from icecore.projections.plan.deletes.delete_kinds import DELETES
from icecore.projections.segments.entry_typing import METRIC_PREFIXES

PATH_BOUNDS = ((f"lower_{DELETE_PATH_ID}", "above_path_bound"), (f"upper_{DELETE_PATH_ID}", "below_path_bound"))


def plain_bounds(columns: Mapping[str, str]) -> str:
    """Columns to select too: the bounds on paths of `d`, split into scheme with authority, and plain path.

    `are_alike` says whether all paths between them are spelled as they are.
    """
    found = {c: f"d.{quote(c)}" for c, _ in PATH_BOUNDS if c in columns}
    plain = "".join(query(DELETES, "plain_bound", column=c, bound=d, plain=_plain(d)) for c, d in found.items())
    if len(found) < len(PATH_BOUNDS):
        return plain and f"{plain}, FALSE AS are_alike"
    (at_lower, lower), (at_upper, upper) = found.items()
    return plain + query(DELETES, "alike_bounds", lower=lower, upper=upper, at_lower=at_lower, at_upper=at_upper)


def _plain(path: str) -> str:
    return query(DELETES, "plain_path", path=path)


def path_bounds(columns: Mapping[str, str]) -> str:
    """A condition that the path of `data` may lie in the bounds of the position delete file `d`, with `plain_bounds`.

    Writers don't always agree on scheme and authority of one path, so it may lie there with or without them, or
    anywhere if the bounds differ in these. Where all agree, both ways to compare say the same, and the slow one is left
    out.
    """
    conditions = [
        query(DELETES, name, column=c, bound=f"d.{quote(c)}", plain=_plain("data.file_path"))
        for c, name in PATH_BOUNDS
        if c in columns
    ]
    return " AND ".join(conditions) or "TRUE"


def equality_bounds(columns: Mapping[str, str], ids: Iterable[int]) -> str:
    """A condition that the equality delete file `d` may delete a row of `data`, by nulls and bounds of its columns."""
    conditions = [
        f"(NOT list_contains(d.equality_ids, {i}) OR {_may_overlap(columns, i)})"
        for i in ids
        if any(f"{prefix}_{i}" in columns for prefix in METRIC_PREFIXES)
    ]
    return " AND ".join(conditions) or "TRUE"


def _may_overlap(columns: Mapping[str, str], field_id: int) -> str:
    """The condition for one column: a null in both may match; otherwise both need values, and ranges that touch.

    An unknown value may match, so every test is for a known reason against a match. Where a struct is null Java counts
    neither a null nor a value of its fields in ORC, so values that are fewer than the rows leave room for nulls.
    """

    def column(side: str, prefix: str) -> str:
        name = f"{prefix}_{field_id}"
        return f"{side}.{quote(name)}" if name in columns else "NULL"

    def no_nulls(side: str) -> str:
        every_row = f"coalesce({column(side, 'values')} = {side}.record_count, TRUE)"
        return f"coalesce({column(side, 'nulls')} = 0 AND {every_row}, FALSE)"

    def only_nulls(side: str) -> str:
        return f"{column(side, 'nulls')} = {column(side, 'values')}"

    apart = " OR ".join(
        (
            f"({only_nulls('data')} AND {no_nulls('d')})",
            f"({only_nulls('d')} AND {no_nulls('data')})",
            f"({_no_nans(columns, field_id)} AND {_ranges_apart(columns, field_id)})",
        )
    )
    return f"(NOT ({no_nulls('d')} OR {no_nulls('data')}) OR NOT coalesce({apart}, FALSE))"


def _ranges_apart(columns: Mapping[str, str], field_id: int) -> str:
    """A condition that the bounds leave no common value.

    Bytes may be UUIDs, which Java orders as two signed longs and the spec as unsigned bytes: see
    `metrics_predicate`. Both agree on the first eight bytes of bounds that are not the wrong way round.
    """
    if not columns.keys() >= {f"lower_{field_id}", f"upper_{field_id}"}:
        return "FALSE"
    lower, upper = quote(f"lower_{field_id}"), quote(f"upper_{field_id}")
    if columns.get(f"lower_{field_id}") != "BLOB":
        return f"(d.{lower} > data.{upper} OR d.{upper} < data.{lower})"

    def first(bound: str) -> str:
        return f"{bound}[1:8]"

    in_order = f"d.{lower} <= d.{upper} AND data.{lower} <= data.{upper}"
    above = f"{first(f'd.{lower}')} > {first(f'data.{upper}')}"
    below = f"{first(f'd.{upper}')} < {first(f'data.{lower}')}"
    return f"({in_order} AND ({above} OR {below}))"


def _no_nans(columns: Mapping[str, str], field_id: int) -> str:
    """A condition that one side has no NaN: NaN lies in no bounds, and a NaN deletes a NaN."""
    name = f"nans_{field_id}"
    kind = columns.get(f"lower_{field_id}", "")
    if kind not in ("FLOAT", "DOUBLE"):
        return "TRUE"
    return f"(d.{quote(name)} = 0 OR data.{quote(name)} = 0)" if name in columns else "FALSE"
