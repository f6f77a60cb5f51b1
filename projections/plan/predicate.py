"""SQL predicates of a scan plan, from a bound filter.

Over the wide entries table one row is a file. For each leaf of the filter there are two conditions, never NULL: `might`
(some row of the file may satisfy it) and `all` (every row surely does), each by partition value and by column metrics.
A bound expression has no NOT, so AND and OR over `might` may be used to leave files out (SP1), and over `all` to drop
the filter for a file (SP8). What is unknown (no column, no value, another spec) counts as "might, not all".

Columns hold typed raw values: int and date INTEGER, long, time and timestamps BIGINT, float FLOAT, double DOUBLE,
decimal DECIMAL, string VARCHAR, boolean BOOLEAN, and BLOB for uuid, fixed and binary. They are called `spec_id`,
`record_count`, `part_<partition field id>`, and by field id `lower_<id>`, `upper_<id>`, `nulls_<id>`, `nans_<id>` and
`values_<id>`. One of a type that does not fit its field is taken as not there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, assert_never

from attrs import frozen

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.nodes import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Not,
    Or,
    Predicate,
    PredicateOperator,
)
from icecore.engine.expression.project import project_inclusive, project_strict
from icecore.engine.expression.sql.duckdb_sql import COMPARISONS
from icecore.engine.expression.walk import predicates
from icecore.engine.queries.named_queries import quote
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import FLOATING_TYPES
from icecore.projections.plan.metrics_predicate import (
    Bounds,
    Values,
    all_match,
    conjunction,
    disjunction,
    might_match,
    stored_as,
)
from icecore.projections.plan.residuals import residual as residual
from icecore.projections.plan.wide_filters import all_of, any_of

RECORD_COUNT = "record_count"
_PARAMETER = re.compile(r"\$(\w+)")


@frozen
class PlanPredicate:
    """Conditions over the wide entries table.

    `where_sql` holds of every file that may have a row of the filter. Without a filter a file without rows is one, as
    in Java. `leaf_might` and `leaf_all` are conditions for
    the leaves in the order of `leaves`, which is the order of the bits that `residual` takes. `parameters` are those of
    all the conditions together.
    """

    where_sql: str
    parameters: dict[str, Any]
    leaf_might: tuple[str, ...]
    leaf_all: tuple[str, ...]
    leaves: tuple[Predicate, ...]
    needed: frozenset[Predicate]
    """The leaves that each row of the filter satisfies."""

    @property
    def might_of_planned(self) -> tuple[str, ...]:
        """`leaf_might` where `where_sql` holds: of what is needed nothing is left to ask."""
        pairs = zip(self.leaves, self.leaf_might, strict=True)
        return tuple("TRUE" if leaf in self.needed else sql for leaf, sql in pairs)

    def parameters_of(self, *conditions: str) -> dict[str, Any]:
        """The parameters of some of the conditions alone: DuckDB refuses a statement more than it has."""
        return _used(self.parameters, conditions)


def plan_predicate(
    bound: Expression,
    specs: Mapping[int, PartitionSpec],
    schema: Schema,
    columns: Mapping[str, str],
    spec_ids: Collection[int] | None = None,
) -> PlanPredicate:
    """The conditions of a bound filter for files of any of the specs.

    `columns` maps the columns that the table has to their DuckDB types. Parameters are named `p0`, `p1` and so on.
    Where there are files of no other specs than `spec_ids`, conditions that all these share need no guard. A file that
    has no row has none of a filter's; -1 is a count that its writer didn't know.
    """
    values = Values()
    leaves = predicates(bound)
    if spec_ids is not None:
        specs = {i: s for i, s in specs.items() if i in spec_ids}
    everywhere = None if spec_ids is None else frozenset(spec_ids)
    might = tuple(_leaf_might(p, specs, schema, columns, values, everywhere) for p in leaves)
    by_leaf = dict(zip(leaves, might, strict=True))
    where = _tree(bound, by_leaf.__getitem__, values)
    if RECORD_COUNT in columns and not isinstance(bound, AlwaysTrue):
        where = conjunction(f"{quote(RECORD_COUNT)} <> 0", where)
    surely = tuple(_leaf_all(p, specs, schema, columns, values, everywhere) for p in leaves)
    parameters = _used(values.parameters, (where, *might, *surely))
    return PlanPredicate(where, parameters, might, surely, leaves, _needed(bound))


def _needed(bound: Expression) -> frozenset[Predicate]:
    out, waiting = set[Predicate](), [bound]
    while waiting:
        match waiting.pop():
            case Predicate() as leaf:
                out.add(leaf)
            case And(children=children):
                waiting.extend(children)
            case _:
                pass
    return frozenset(out)


def manifest_predicate(bound: Expression, spec: PartitionSpec, schema: Schema) -> tuple[str, dict[str, Any]]:
    """A condition, never NULL, of manifests of one spec that may have a file of interest, and its parameters (SP1).

    For the partition field at position i of the spec the table has `pf<i>_contains_null` and `pf<i>_contains_nan`
    (BOOLEAN, NULL where unknown), `pf<i>_lower` and `pf<i>_upper` (raw values, NULL where missing or unreadable), and
    `pf<i>_no_bounds` (BOOLEAN, not NULL) where both are missing: then all values are null or NaN (L1).
    """
    values = Values()
    positions = {f.field_id: i for i, f in enumerate(spec.fields)}

    def leaf(p: Predicate) -> str:
        term = _bound_term(p)
        return might_match(p, _summary(positions[term.field.field_id], term), values)

    sql = _tree(project_inclusive(bound, spec, schema), leaf, values)
    return sql, _used(values.parameters, (sql,))


def _used(parameters: Mapping[str, Any], conditions: Iterable[str]) -> dict[str, Any]:
    """The parameters that conditions name; folding constants may have dropped some."""
    names = {name for sql in conditions for name in _PARAMETER.findall(sql)}
    return {name: value for name, value in parameters.items() if name in names}


def _tree(e: Expression, leaf: Callable[[Predicate], str], values: Values) -> str:
    """The conditions of leaves, which are never NULL, put together as the leaves are."""
    match e:
        case AlwaysTrue():
            return "TRUE"
        case AlwaysFalse():
            return "FALSE"
        case And(children=children):
            return all_of([_tree(c, leaf, values) for c in children], values.parameters)
        case Or(children=children):
            return any_of([_tree(c, leaf, values) for c in children], values.parameters)
        case Predicate():
            return leaf(e)
        case Not():
            raise ExpressionError("a bound expression has no NOT")
        case _:
            assert_never(e)


def _bound_term(p: Predicate) -> BoundTerm:
    if not isinstance(p.term, BoundTerm):
        raise ExpressionError(f"the predicate on {p.term.name!r} is not bound")
    return p.term


def _leaf_might(
    p: Predicate,
    specs: Mapping[int, PartitionSpec],
    schema: Schema,
    columns: Mapping[str, str],
    values: Values,
    everywhere: frozenset[int] | None,
) -> str:
    term = _bound_term(p)
    by_metrics = might_match(p, _metrics(term, schema, columns), values) if _has_metrics(term) else "TRUE"
    by_spec: dict[str, list[int]] = {}
    for spec_id, spec in sorted(specs.items()):
        sql = _over_partition(project_inclusive(p, spec, schema), columns, values, "TRUE")
        if sql != "TRUE":
            by_spec.setdefault(sql, []).append(spec_id)
    guarded = (
        sql if everywhere == frozenset(ids) else disjunction(f"spec_id {_is_not(ids)}", sql)
        for sql, ids in by_spec.items()
    )
    return conjunction(*guarded, by_metrics)


def _leaf_all(
    p: Predicate,
    specs: Mapping[int, PartitionSpec],
    schema: Schema,
    columns: Mapping[str, str],
    values: Values,
    everywhere: frozenset[int] | None,
) -> str:
    term = _bound_term(p)
    # As Java does: counts of fields inside structs are not trusted to include the nulls of their parents.
    top = _has_metrics(term) and schema.parent_id(term.field.field_id) is None
    by_metrics = all_match(p, _metrics(term, schema, columns), values) if top else "FALSE"
    by_spec: dict[str, list[int]] = {}
    for spec_id, spec in sorted(specs.items()):
        sql = _over_partition(project_strict(p, spec, schema), columns, values, "FALSE")
        if sql != "FALSE":
            by_spec.setdefault(sql, []).append(spec_id)
    guarded = (
        sql if everywhere == frozenset(ids) else conjunction(f"spec_id {_is(ids)}", sql) for sql, ids in by_spec.items()
    )
    whole = disjunction(*guarded, by_metrics)
    return whole if whole in ("TRUE", "FALSE") else f"coalesce({whole}, FALSE)"


def _is(spec_ids: Iterable[int]) -> str:
    ids = list(spec_ids)
    return f"= {ids[0]}" if len(ids) == 1 else f"IN ({', '.join(map(str, ids))})"


def _is_not(spec_ids: Iterable[int]) -> str:
    ids = list(spec_ids)
    return f"<> {ids[0]}" if len(ids) == 1 else f"NOT IN ({', '.join(map(str, ids))})"


def _has_metrics(term: BoundTerm) -> bool:
    return isinstance(term.transform, IdentityTransform) and term.field.field_type.is_primitive


def _metrics(term: BoundTerm, schema: Schema, columns: Mapping[str, str]) -> Bounds:
    """The metrics of a column of a file, as far as the table has them."""
    field_id, field_type = term.field.field_id, term.field.field_type
    lower, upper = f"lower_{field_id}", f"upper_{field_id}"
    nulls, nans, total = (quote(f"{n}_{field_id}") for n in ("nulls", "nans", "values"))
    has_nulls, has_nans, has_total = (f"{n}_{field_id}" in columns for n in ("nulls", "nans", "values"))
    floating = isinstance(field_type, FLOATING_TYPES)
    required = term.field.required and schema.parent_id(field_id) is None
    return Bounds(
        field_type,
        quote(lower) if stored_as(columns, lower, field_type) else None,
        quote(upper) if stored_as(columns, upper, field_type) else None,
        may_have_nulls=f"({nulls} <> 0 OR {nulls} IS NULL)" if has_nulls else "TRUE",
        may_have_values=_may_differ(nulls, total) if has_nulls and has_total else "TRUE",
        may_have_nans=(f"({nans} <> 0 OR {nans} IS NULL)" if has_nans else "TRUE") if floating else "FALSE",
        may_have_numbers=_may_differ(nans, total) if floating and has_nans and has_total else "TRUE",
        no_nulls="TRUE" if required else f"{nulls} = 0" if has_nulls else "FALSE",
        no_nans=(f"{nans} = 0" if has_nans else "FALSE") if floating else "TRUE",
        only_nulls=f"{nulls} = {total}" if has_nulls and has_total else "FALSE",
        only_nans=f"{nans} = {total}" if floating and has_nans and has_total else "FALSE",
    )


def _may_differ(count: str, total: str) -> str:
    return f"({count} <> {total} OR {count} IS NULL OR {total} IS NULL)"


def _summary(position: int, term: BoundTerm) -> Bounds:
    """The summary of a partition field of a manifest. One without bounds that names no null and no NaN says nothing."""
    names = ("lower", "upper", "contains_null", "contains_nan", "no_bounds")
    lower, upper, null, nan, no_bounds = (quote(f"pf{position}_{n}") for n in names)
    if not isinstance(term.source_type, FLOATING_TYPES):
        values = f"NOT coalesce({no_bounds} AND {null}, FALSE)"
        return Bounds(term.source_type, lower, upper, f"({null} OR {null} IS NULL)", values, "FALSE")
    return Bounds(
        term.source_type,
        lower,
        upper,
        may_have_nulls=f"({null} OR {null} IS NULL)",
        may_have_values=f"NOT coalesce({no_bounds} AND {null} AND NOT {nan}, FALSE)",
        may_have_nans=f"({nan} OR {nan} IS NULL)",
        may_have_numbers=f"NOT coalesce({no_bounds} AND ({null} OR {nan}), FALSE)",
    )


def _over_partition(projected: Expression, columns: Mapping[str, str], values: Values, unknown: str) -> str:
    """A projected leaf over partition values; `unknown` stands for what involves a column that is not there."""

    def leaf(p: Predicate) -> str:
        term = _bound_term(p)
        name = f"part_{term.field.field_id}"
        return _partition_leaf(p, term, quote(name), values) if stored_as(columns, name, term.source_type) else unknown

    return _tree(projected, leaf, values)


def _partition_leaf(p: Predicate, term: BoundTerm, column: str, values: Values) -> str:
    """A predicate over one known value; never NULL."""
    if p.op is PredicateOperator.IS_NULL:
        return f"{column} IS NULL"
    present = f"{column} IS NOT NULL"
    literals = [values.one(term.source_type, v) for v in p.literals] if len(p.literals) == 1 else []
    match p.op:
        case PredicateOperator.NOT_NULL:
            return present
        case PredicateOperator.IS_NAN:
            test = f"isnan({column})"
        case PredicateOperator.NOT_NAN:
            test = f"NOT isnan({column})"
        case PredicateOperator.IN:
            test = values.among(column, term.source_type, p.literals)
        case PredicateOperator.NOT_IN:
            test = f"NOT ({values.among(column, term.source_type, p.literals)})"
        case PredicateOperator.STARTS_WITH:
            test = f"starts_with({column}, {literals[0]})"
        case PredicateOperator.NOT_STARTS_WITH:
            test = f"NOT starts_with({column}, {literals[0]})"
        case PredicateOperator.LIKE | PredicateOperator.NOT_LIKE:
            pattern, *escape = (values.one(term.source_type, v) for v in p.literals)
            word = "LIKE" if p.op is PredicateOperator.LIKE else "NOT LIKE"
            test = f"{column} {word} {pattern}" + (f" ESCAPE {escape[0]}" if escape else "")
        case _:
            test = f"{column} {COMPARISONS[p.op]} {literals[0]}"
    return f"({test} AND {present})"
