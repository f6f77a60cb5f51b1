"""Projections of row predicates onto partition values.

Spec: Scan Planning (SP1, SP8), Partition Transforms (PT6). The inclusive projection is true of the partition of every
row that satisfies the filter; the strict one is true only of partitions all of whose rows do. The result's terms are
the spec's partition fields, with their ids and types, and its literals partition values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from icecore.engine.expression.comparison import negated
from icecore.engine.expression.nodes import BoundTerm, Expression, Or, Predicate, PredicateOperator
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.strings import like_prefix
from icecore.engine.expression.walk import rewrite
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import decimal_to_unscaled, unscaled_to_decimal
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)

_Op = PredicateOperator


def project_inclusive(bound: Expression, spec: PartitionSpec, schema: Schema) -> Expression:
    """The condition that every partition with a row of a bound expression meets."""
    return rewrite(bound, lambda p: and_(*_projections(p, spec, schema, _inclusive)))


def project_strict(bound: Expression, spec: PartitionSpec, schema: Schema) -> Expression:
    """A condition that is met only by partitions all of whose rows satisfy a bound expression."""
    return rewrite(bound, lambda p: or_(*_projections(p, spec, schema, _strict)))


_Projection = Callable[[Predicate, PartitionField, BoundTerm], Expression | None]


def _projections(p: Predicate, spec: PartitionSpec, schema: Schema, projection: _Projection) -> Iterable[Expression]:
    """The projections of a leaf through every partition field over its column, each true in its own right."""
    term = p.term
    if not isinstance(term, BoundTerm) or not term.field.field_type.is_primitive:
        return
    for f in spec.fields:
        if f.source_ids != (term.field.field_id,) or isinstance(f.transform, (VoidTransform, UnknownTransform)):
            continue
        part = BoundTerm(NestedField(f.field_id, f.name, f.result_type(schema)), f.name)
        # A predicate on the same transform holds of the partition value as it is, and so does any test for null.
        if term.transform == f.transform or p.op in (_Op.IS_NULL, _Op.NOT_NULL):
            yield Predicate(p.op, part, p.literals)
        elif isinstance(term.transform, IdentityTransform):
            projected = projection(p, f, part)
            if projected is not None and _fits(projected):
                yield projected


def _fits(projected: Expression) -> bool:
    """Whether the literals are in the range of the partition field's type; truncating the least values leaves it."""
    if not isinstance(projected, Predicate) or not isinstance(projected.term, BoundTerm):
        return True
    match projected.term.source_type:
        case IntegerType() | LongType() as t:
            return all(t.min <= v <= t.max for v in projected.literals)
        case DecimalType(precision=precision, scale=scale):
            return all(abs(decimal_to_unscaled(v, scale)) < 10**precision for v in projected.literals)
        case _:
            return True


def _inclusive(p: Predicate, f: PartitionField, part: BoundTerm) -> Expression | None:
    match f.transform:
        case BucketTransform() if p.op in (_Op.EQ, _Op.IN):
            return _among(part, _transformed(p, f))
        case TruncateTransform(width=width) if isinstance(_source(p), (StringType, BinaryType)):
            return _inclusive_prefix(p, f, part, width)
        case TruncateTransform(width=width):
            return _including_wrapped(_inclusive_order(p, f, part), _wrapped(_source(p), width))
        case YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            return _including_old_times(_inclusive_order(p, f, part), p)
        case _:
            return None


def _strict(p: Predicate, f: PartitionField, part: BoundTerm) -> Expression | None:
    """The negation of the inclusive projection of NOT `p`: partitions that meet it have no row that fails `p`."""
    projected = _inclusive(Predicate(negated(p.op), p.term, p.literals), f, part)
    return None if projected is None else _negation(projected)


def _negation(projected: Expression) -> Expression:
    if isinstance(projected, Or):
        return and_(*map(_negation, projected.children))
    assert isinstance(projected, Predicate)
    return Predicate(negated(projected.op), projected.term, projected.literals)


def _source(p: Predicate) -> PrimitiveType:
    assert isinstance(p.term, BoundTerm)
    return p.term.source_type


def _transformed(p: Predicate, f: PartitionField) -> list[Any]:
    return [f.transform.apply(_source(p), v) for v in p.literals]


def _among(part: BoundTerm, values: Iterable[Any]) -> Expression:
    unique = tuple(sorted(set(values)))
    return Predicate(_Op.EQ if len(unique) == 1 else _Op.IN, part, unique)


def _step(source: PrimitiveType, value: Any, by: int) -> Any:
    """The value of a discrete type that lies `by` after another."""
    if isinstance(source, DecimalType):
        return unscaled_to_decimal(decimal_to_unscaled(value, source.scale) + by, source.scale)
    return value + by


def _inclusive_order(p: Predicate, f: PartitionField, part: BoundTerm) -> Expression | None:
    """The inclusive projection through a transform that preserves the order of numbers, dates or timestamps."""
    source = _source(p)

    def at(by: int) -> tuple[Any]:
        return (f.transform.apply(source, _step(source, p.literals[0], by)),)

    match p.op:
        case _Op.LT:
            return Predicate(_Op.LT_EQ, part, at(-1))
        case _Op.LT_EQ:
            return Predicate(_Op.LT_EQ, part, at(0))
        case _Op.GT:
            return Predicate(_Op.GT_EQ, part, at(1))
        case _Op.GT_EQ:
            return Predicate(_Op.GT_EQ, part, at(0))
        case _Op.EQ | _Op.IN:
            return _among(part, _transformed(p, f))
        case _:
            return None


def _inclusive_prefix(p: Predicate, f: PartitionField, part: BoundTerm, width: int) -> Expression | None:
    value = p.literals[0] if p.literals else ""
    match p.op:
        case _Op.LT | _Op.LT_EQ:
            return Predicate(_Op.LT_EQ, part, (value[:width],))
        case _Op.GT | _Op.GT_EQ:
            return Predicate(_Op.GT_EQ, part, (value[:width],))
        case _Op.EQ | _Op.IN:
            return _among(part, _transformed(p, f))
        case _Op.LIKE:
            return _starting(part, like_prefix(*p.literals), width)
        case _Op.STARTS_WITH:
            return _starting(part, value, width)
        case _Op.NOT_STARTS_WITH if len(value) < width:
            return Predicate(p.op, part, (value,))
        case _Op.NOT_STARTS_WITH if len(value) == width:
            return Predicate(_Op.NOT_EQ, part, (value,))
        case _:
            return None


def _starting(part: BoundTerm, prefix: str, width: int) -> Expression | None:
    if len(prefix) >= width:
        return Predicate(_Op.EQ, part, (prefix[:width],))
    return Predicate(_Op.STARTS_WITH, part, (prefix,)) if prefix else None


def _wrapped(source: PrimitiveType, width: int) -> dict[int, int]:
    """Java's truncations of the least int and long, by the true truncations, which are below the type's range.

    Java's wrap around: with a width of 10, -2147483648 truncates to -2147483650, and its partition in Java is
    2147483646. A long may have been an int when a file was written (T7).
    """
    if not isinstance(source, (IntegerType, LongType)):
        return {}
    truncated = {least // width * width: least for least in (source.min, IntegerType.min)}
    return {below: below - 2 * least for below, least in truncated.items() if below != least}


def _including_wrapped(projected: Expression | None, wrapped: Mapping[int, int]) -> Expression | None:
    """The projection extended to the high partitions in which Java's files have the least values."""
    if not isinstance(projected, Predicate) or not isinstance(projected.term, BoundTerm) or not _fits(projected):
        return projected
    match projected.op:
        case _Op.LT_EQ if wrapped:
            return or_(projected, _among(projected.term, wrapped.values()))
        case _Op.EQ | _Op.IN:
            others = (wrapped[v] for v in projected.literals if v in wrapped)
            return _among(projected.term, (*projected.literals, *others))
        case _:
            return projected


def _including_old_times(projected: Expression | None, p: Predicate) -> Expression | None:
    """The projection extended to partition values that are one too high.

    Java's Iceberg up to 0.10 rounded times before 1970 up: files with such values exist, and both readings must match.
    Days of date columns were never rounded up.
    """
    if not isinstance(projected, Predicate) or not isinstance(projected.term, BoundTerm):
        return projected
    if isinstance(_source(p), DateType) and isinstance(projected.term.source_type, DateType):
        return projected
    values = projected.literals
    match projected.op:
        case _Op.LT_EQ if values[0] < 0:
            return Predicate(_Op.LT_EQ, projected.term, (values[0] + 1,))
        case _Op.EQ | _Op.IN if values[0] < 0:
            return _among(projected.term, (*values, *(v + 1 for v in values if v < 0)))
        case _:
            return projected
