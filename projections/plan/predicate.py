"""SQL predicates of a scan plan, from a bound filter.

Over the wide entries table one row is a file. For each leaf of the filter there are two conditions, never NULL: `might`
(some row of the file may satisfy it) and `all` (every row surely does), each by partition value and by column metrics.
A bound expression has no NOT, so AND and OR over `might` may be used to leave files out (SP1), and over `all` to drop
the filter for a file (SP8). What is unknown (no column, no value, another spec) counts as "might, not all".

Columns hold typed raw values: int and date INTEGER, long, time and timestamps BIGINT, float FLOAT, double DOUBLE,
decimal DECIMAL, string VARCHAR, boolean BOOLEAN, and BLOB for uuid, fixed and binary. They are called `spec_id`,
`record_count`, `part_<partition field id>`, and by field id `lower_<id>`, `upper_<id>`, `nulls_<id>`, `nans_<id>` and
`values_<id>`. A column whose type does not fit its field is taken as missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import assert_never

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
from icecore.engine.expression.sql.fragment import ALWAYS, NEVER, Fragment, conjunction, disjunction, sql
from icecore.engine.expression.walk import predicates
from icecore.engine.queries.named_queries import quote
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import FLOATING_TYPES, Type
from icecore.projections.plan.metrics_predicate import (
    Bounds,
    all_match,
    among,
    literal_of,
    might_match,
    stored_as,
)
from icecore.projections.plan.wide_filters import all_of, any_of

RECORD_COUNT = "record_count"


@frozen
class PlanPredicate:
    """Conditions over the wide entries table.

    `where` holds of every file that may have a row of the filter. Without a filter it holds of files without rows
    too, as in Java. `leaf_might` and `leaf_all` are conditions for the leaves in the order of `leaves`, which is the
    order of the bits that `residual` takes.
    """

    where: Fragment
    leaf_might: tuple[Fragment, ...]
    leaf_all: tuple[Fragment, ...]
    leaves: tuple[Predicate, ...]
    needed: frozenset[Predicate]
    """The leaves that each row of the filter satisfies."""

    @property
    def might_of_planned(self) -> tuple[Fragment, ...]:
        """`leaf_might` for files of which `where` holds: always true for the needed leaves."""
        pairs = zip(self.leaves, self.leaf_might, strict=True)
        return tuple(ALWAYS if leaf in self.needed else condition for leaf, condition in pairs)


def plan_predicate(
    bound: Expression,
    specs: Mapping[int, PartitionSpec],
    schema: Schema,
    columns: Mapping[str, str],
    spec_ids: Collection[int] | None = None,
) -> PlanPredicate:
    """The conditions of a bound filter for files of any of the specs.

    `columns` maps the columns that the table has to their DuckDB types. `spec_ids`, if given, are the specs of
    all files: conditions that all these share need no guard. A file without rows has no row of a filter; a record count
    of -1 is one that its writer didn't know.
    """
    leaves = predicates(bound)
    if spec_ids is not None:
        specs = {i: s for i, s in specs.items() if i in spec_ids}
    everywhere = None if spec_ids is None else frozenset(spec_ids)
    might = tuple(_leaf_might(p, specs, schema, columns, everywhere) for p in leaves)
    where = _tree(bound, dict(zip(leaves, might, strict=True)).__getitem__)
    if RECORD_COUNT in columns and not isinstance(bound, AlwaysTrue):
        where = conjunction(sql(f"{quote(RECORD_COUNT)} <> 0"), where)
    surely = tuple(_leaf_all(p, specs, schema, columns, everywhere) for p in leaves)
    return PlanPredicate(where, might, surely, leaves, _needed(bound))


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


def manifest_predicate(bound: Expression, spec: PartitionSpec, schema: Schema) -> Fragment:
    """A condition, never NULL, of manifests of one spec that may have a file of interest (SP1).

    For the partition field at position i of the spec the table has `pf<i>_contains_null` and `pf<i>_contains_nan`
    (BOOLEAN, NULL where unknown), `pf<i>_lower` and `pf<i>_upper` (raw values, NULL where missing or unreadable), and
    `pf<i>_no_bounds` (BOOLEAN, not NULL) where both are missing: then all values are null or NaN (L1).
    """
    positions = {f.field_id: i for i, f in enumerate(spec.fields)}

    def leaf(p: Predicate) -> Fragment:
        term = _bound_term(p)
        return might_match(p, _summary(positions[term.field.field_id], term))

    return _tree(project_inclusive(bound, spec, schema), leaf)


def _tree(e: Expression, leaf: Callable[[Predicate], Fragment]) -> Fragment:
    """The conditions of leaves, which are never NULL, combined as the leaves are by AND and OR."""
    match e:
        case AlwaysTrue():
            return ALWAYS
        case AlwaysFalse():
            return NEVER
        case And(children=children):
            return all_of([_tree(c, leaf) for c in children])
        case Or(children=children):
            return any_of([_tree(c, leaf) for c in children])
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
    everywhere: frozenset[int] | None,
) -> Fragment:
    term = _bound_term(p)
    by_metrics = might_match(p, _metrics(term, schema, columns)) if _has_metrics(term) else ALWAYS
    by_spec: dict[Fragment, list[int]] = {}
    for spec_id, spec in sorted(specs.items()):
        condition = _over_partition(project_inclusive(p, spec, schema), columns, ALWAYS)
        if condition != ALWAYS:
            by_spec.setdefault(condition, []).append(spec_id)
    guarded = (
        condition if everywhere == frozenset(ids) else disjunction(sql(f"spec_id {_is_not(ids)}"), condition)
        for condition, ids in by_spec.items()
    )
    return conjunction(*guarded, by_metrics)


def _leaf_all(
    p: Predicate,
    specs: Mapping[int, PartitionSpec],
    schema: Schema,
    columns: Mapping[str, str],
    everywhere: frozenset[int] | None,
) -> Fragment:
    term = _bound_term(p)
    # As Java does: counts of fields inside structs are not trusted to include the nulls of their parents.
    top = _has_metrics(term) and schema.parent_id(term.field.field_id) is None
    by_metrics = all_match(p, _metrics(term, schema, columns)) if top else NEVER
    by_spec: dict[Fragment, list[int]] = {}
    for spec_id, spec in sorted(specs.items()):
        condition = _over_partition(project_strict(p, spec, schema), columns, NEVER)
        if condition != NEVER:
            by_spec.setdefault(condition, []).append(spec_id)
    guarded = (
        condition if everywhere == frozenset(ids) else conjunction(sql(f"spec_id {_is(ids)}"), condition)
        for condition, ids in by_spec.items()
    )
    whole = disjunction(*guarded, by_metrics)
    return whole if whole in (ALWAYS, NEVER) else sql("coalesce(?, FALSE)", whole)


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
    is_nested = schema.parent_id(field_id) is not None
    required = term.field.required and not is_nested
    may_have_nulls = sql(f"({nulls} <> 0 OR {nulls} IS NULL)") if has_nulls else ALWAYS
    if is_nested and has_nulls:
        # Where a struct is null Java counts neither a null nor a value of its fields in ORC.
        is_counted = has_total and RECORD_COUNT in columns
        rows = sql(f"coalesce({total} <> {quote(RECORD_COUNT)}, TRUE)") if is_counted else ALWAYS
        may_have_nulls = disjunction(may_have_nulls, rows)
    return Bounds(
        field_type,
        quote(lower) if stored_as(columns, lower, field_type) else None,
        quote(upper) if stored_as(columns, upper, field_type) else None,
        may_have_nulls=may_have_nulls,
        may_have_values=_may_differ(nulls, total) if has_nulls and has_total else ALWAYS,
        may_have_nans=(sql(f"({nans} <> 0 OR {nans} IS NULL)") if has_nans else ALWAYS) if floating else NEVER,
        may_have_numbers=_may_differ(nans, total) if floating and has_nans and has_total else ALWAYS,
        no_nulls=ALWAYS if required else sql(f"{nulls} = 0") if has_nulls else NEVER,
        no_nans=(sql(f"{nans} = 0") if has_nans else NEVER) if floating else ALWAYS,
        only_nulls=sql(f"{nulls} = {total}") if has_nulls and has_total else NEVER,
        only_nans=sql(f"{nans} = {total}") if floating and has_nans and has_total else NEVER,
    )


def _may_differ(count: str, total: str) -> Fragment:
    return sql(f"({count} <> {total} OR {count} IS NULL OR {total} IS NULL)")


def _summary(position: int, term: BoundTerm) -> Bounds:
    """The summary of a partition field of a manifest. One without bounds that names no null and no NaN says nothing.

    There is some value, as a manifest without live entries is never looked at.
    """
    names = ("lower", "upper", "contains_null", "contains_nan", "no_bounds")
    lower, upper, null, nan, no_bounds = (quote(f"pf{position}_{n}") for n in names)
    says_nothing = f"{no_bounds} AND NOT coalesce({null} OR {nan}, FALSE)"
    may_have_nulls = sql(f"({null} OR {null} IS NULL OR ({says_nothing}))")
    if not isinstance(term.source_type, FLOATING_TYPES):
        values = sql(f"NOT coalesce({no_bounds} AND {null}, FALSE)")
        return Bounds(term.source_type, lower, upper, may_have_nulls, values, NEVER)
    return Bounds(
        term.source_type,
        lower,
        upper,
        may_have_nulls,
        may_have_values=sql(f"NOT coalesce({no_bounds} AND {null} AND NOT {nan}, FALSE)"),
        may_have_nans=sql(f"({nan} OR {nan} IS NULL OR ({says_nothing}))"),
        may_have_numbers=sql(f"NOT coalesce({no_bounds} AND ({null} OR {nan}), FALSE)"),
    )


def _over_partition(projected: Expression, columns: Mapping[str, str], unknown: Fragment) -> Fragment:
    """A projected leaf over partition values; `unknown` stands for a predicate on a missing column."""

    def leaf(p: Predicate) -> Fragment:
        term = _bound_term(p)
        name = f"part_{term.field.field_id}"
        return _partition_leaf(p, term, quote(name)) if stored_as(columns, name, term.source_type) else unknown

    return _tree(projected, leaf)


def _partition_leaf(p: Predicate, term: BoundTerm, column: str) -> Fragment:
    """A predicate over one known value; never NULL."""
    present = f"{column} IS NOT NULL"
    match p.op:
        case PredicateOperator.IS_NULL:
            return sql(f"{column} IS NULL")
        case PredicateOperator.NOT_NULL:
            return sql(present)
        case _:
            return sql(f"(? AND {present})", _test(p, term.source_type, column))


def _test(p: Predicate, iceberg_type: Type, column: str) -> Fragment:
    """A predicate over one value that is not null."""
    match p.op:
        case PredicateOperator.IS_NAN:
            return sql(f"isnan({column})")
        case PredicateOperator.NOT_NAN:
            return sql(f"NOT isnan({column})")
        case PredicateOperator.IN:
            return among(column, iceberg_type, p.literals)
        case PredicateOperator.NOT_IN:
            return sql("NOT (?)", among(column, iceberg_type, p.literals))
        case PredicateOperator.STARTS_WITH:
            return sql(f"starts_with({column}, ?)", *_literals(p, iceberg_type))
        case PredicateOperator.NOT_STARTS_WITH:
            return sql(f"NOT starts_with({column}, ?)", *_literals(p, iceberg_type))
        case PredicateOperator.LIKE | PredicateOperator.NOT_LIKE:
            word = "LIKE" if p.op is PredicateOperator.LIKE else "NOT LIKE"
            return sql(f"{column} {word} ?" + " ESCAPE ?" * (len(p.literals) - 1), *_literals(p, iceberg_type))
        case (
            PredicateOperator.LT
            | PredicateOperator.LT_EQ
            | PredicateOperator.GT
            | PredicateOperator.GT_EQ
            | PredicateOperator.EQ
            | PredicateOperator.NOT_EQ
        ):
            return sql(f"{column} {COMPARISONS[p.op]} ?", *_literals(p, iceberg_type))
        case PredicateOperator.IS_NULL | PredicateOperator.NOT_NULL:
            raise AssertionError(f"{p.op} is told before a value is tested")
        case _:
            assert_never(p.op)


def _literals(p: Predicate, iceberg_type: Type) -> list[Fragment]:
    return [literal_of(iceberg_type, v) for v in p.literals]
