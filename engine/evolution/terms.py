"""Partition and sort terms as people write them: `month(ts)`, `bucket(8, id) AS shard`, `ts DESC NULLS LAST`.

Spec: Partition Transforms, Sorting (PT1, PT3, SO1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PARTITION_FIELD_ID_START, UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import INITIAL_SORT_ORDER_ID, UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from icecore.engine.spec.transform import (
    TIMES_BY_NAME,
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from icecore.engine.spec.types import NestedField

if TYPE_CHECKING:
    from icecore.engine.expression.sql.term_reader import ParsedTerm

TIME_TRANSFORMS = (YearTransform, MonthTransform, DayTransform, HourTransform)


@frozen
class Term:
    """A column with a transform; `name` is what stood after AS, or None."""

    source_id: int
    transform: Transform
    name: str | None = None


@frozen
class SortTerm:
    """A sort term in pieces: `term` is text, or a column's name alone where `transform` is given."""

    term: str
    direction: SortDirection = SortDirection.ASC
    null_order: NullOrder | None = None
    transform: Transform | None = None


def parse_term(text: str, schema: Schema, *, case_sensitive: bool = True) -> Term:
    """The term of a text such as `x`, `a.b`, `"my col"`, `day(ts)`, `truncate(4, name) AS prefix`.

    Function names are those of the transforms in any case, singular or plural; `date` and `date_hour` are Spark's names
    of day and hour. The number may stand before or after the column. A text that is a column's name as it stands is
    that column. Raises ValidationError naming the term, and the columns where there is no such column.
    """
    if schema.has_name(text, case_sensitive):
        return _term(text, schema.find_field(text, case_sensitive), IdentityTransform(), None, schema)
    from icecore.engine.expression.sql.term_reader import read_term

    return _to_term(text, read_term(text), schema, case_sensitive)


def parse_partition_term(text: str, schema: Schema) -> tuple[int, Transform, str]:
    """Source column id, transform and partition field name of a term; see `parse_term`."""
    term = parse_term(text, schema)
    name = term.name or default_partition_name(schema, term.source_id, term.transform)
    return term.source_id, term.transform, name


def parse_partition_terms(terms: Sequence[str] | PartitionSpec | None, schema: Schema) -> PartitionSpec:
    """The partition spec of some terms, with field ids from 1000 on; None is unpartitioned (PT1).

    A given spec is checked and returned. Raises ValidationError as `parse_term`, and where two fields have one name,
    a name is another column's, or a column has the same transform twice or two transforms of time.
    """
    if terms is None:
        return UNPARTITIONED
    if isinstance(terms, PartitionSpec):
        terms.check(schema)
        return terms
    fields: list[PartitionField] = []
    seen: dict[tuple[int, str], str] = {}
    for text in _sequence(terms):
        source_id, transform, name = parse_partition_term(text, schema)
        key = (source_id, "time" if isinstance(transform, TIME_TRANSFORMS) else str(transform))
        if key in seen:
            raise ValidationError(f"partition term {text!r} is redundant beside {seen[key]!r}")
        seen[key] = text
        check_partition_name(schema, name, source_id, transform)
        fields.append(PartitionField((source_id,), PARTITION_FIELD_ID_START + len(fields), transform, name))
    spec = PartitionSpec(tuple(fields))
    spec.check(schema)
    return spec


def parse_sort_terms(
    terms: Sequence[str | SortTerm] | SortOrder | None, schema: Schema, *, case_sensitive: bool = True
) -> SortOrder:
    """The sort order of some terms, with id 1; no terms are unsorted, id 0 (SO1).

    Unless the term says otherwise, nulls come first in ascending and last in descending order, as in Java and Spark. A
    given order is checked and returned. Raises ValidationError as `parse_term`.
    """
    if terms is None:
        return UNSORTED
    if isinstance(terms, SortOrder):
        terms.check(schema)
        return terms
    fields = tuple(_sort_field(t, schema, case_sensitive) for t in _sequence(terms))
    order = SortOrder(fields, INITIAL_SORT_ORDER_ID) if fields else UNSORTED
    order.check(schema)
    return order


def default_partition_name(schema: Schema, source_id: int, transform: Transform) -> str:
    """The name that Java's UpdatePartitionSpec gives a field: `x`, `x_bucket_8`, `x_trunc_4`, `x_day`, `x_null`."""
    source = schema.name_of(source_id)
    match transform:
        case IdentityTransform():
            return source
        case BucketTransform(num_buckets=n):
            return f"{source}_bucket_{n}"
        case TruncateTransform(width=width):
            return f"{source}_trunc_{width}"
        case VoidTransform():
            return f"{source}_null"
        case _:
            return f"{source}_{transform}"


def check_partition_name(
    schema: Schema, name: str, source_id: int, transform: Transform, *, case_sensitive: bool = True
) -> None:
    """Raises ValidationError for an empty name, and for a column's name unless the field is that column's identity.

    A void field, which stands for a dropped identity, may keep the name too.
    """
    if not name:
        raise ValidationError(f"a partition field over {schema.name_of(source_id)!r} needs a name")
    if not schema.has_name(name, case_sensitive):
        return
    column = schema.find_field(name, case_sensitive)
    if column.field_id == source_id and isinstance(transform, (IdentityTransform, VoidTransform)):
        return
    raise ValidationError(
        f"partition field {name!r} ({transform} of {schema.name_of(source_id)!r}) has the name of a column; "
        "only the identity of that column may have it, so give another name"
    )


def _sequence(terms: Sequence[Any]) -> Sequence[Any]:
    if isinstance(terms, str):
        raise ValidationError(f"terms must be a list, found the text {terms!r}")
    return terms


def _sort_field(term: str | SortTerm, schema: Schema, case_sensitive: bool) -> SortField:
    if isinstance(term, str):
        term, parsed = _parse_sort(term, schema, case_sensitive)
    elif term.transform is not None:
        column = _find(term.term, term.term, schema, case_sensitive)
        parsed = _term(term.term, column, term.transform, None, schema)
    else:
        parsed = parse_term(term.term, schema, case_sensitive=case_sensitive)
        if parsed.name is not None:
            raise ValidationError(f"sort term {term.term!r} can't have a name")
    descending = term.direction is SortDirection.DESC
    null_order = term.null_order or (NullOrder.NULLS_LAST if descending else NullOrder.NULLS_FIRST)
    return SortField((parsed.source_id,), parsed.transform, term.direction, null_order)


def _parse_sort(text: str, schema: Schema, case_sensitive: bool) -> tuple[SortTerm, Term]:
    if schema.has_name(text, case_sensitive):
        return SortTerm(text), parse_term(text, schema, case_sensitive=case_sensitive)
    from icecore.engine.expression.sql.term_reader import read_sort_term

    parsed = read_sort_term(text)
    direction = SortDirection.DESC if parsed.descending else SortDirection.ASC
    nulls = NullOrder.NULLS_FIRST if parsed.nulls_first else NullOrder.NULLS_LAST
    return SortTerm(text, direction, nulls), _to_term(text, parsed, schema, case_sensitive)


_PLAIN: dict[str, Transform] = {
    "identity": IdentityTransform(),
    **TIMES_BY_NAME,
    "date_hour": HourTransform(),
    "void": VoidTransform(),
}
_WITH_NUMBER: dict[str, type[BucketTransform] | type[TruncateTransform]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}


def _to_term(text: str, parsed: ParsedTerm, schema: Schema, case_sensitive: bool) -> Term:
    transform = IdentityTransform() if parsed.function is None else _transform(text, parsed)
    name = next((a for a in parsed.arguments if not isinstance(a, int)), None)
    if name is None:
        raise ValidationError(
            f"term {text!r} must be a column or a transform of one; names that are words of SQL need quotes"
        )
    return _term(text, _find(text, name, schema, case_sensitive), transform, parsed.name, schema)


def _transform(text: str, parsed: ParsedTerm) -> Transform:
    function, count = parsed.function, len(parsed.arguments)
    if function in _PLAIN and count == 1:
        return _PLAIN[function]
    numbers = [a for a in parsed.arguments if isinstance(a, int)]
    if function in _WITH_NUMBER and count == 2 and len(numbers) == 1:
        try:
            return _WITH_NUMBER[function](numbers[0])
        except ValidationError as e:
            raise ValidationError(f"term {text!r}: {e}") from e
    transforms = ", ".join([*(f"{n}(x)" for n in _PLAIN), *(f"{n}(n, x)" for n in _WITH_NUMBER)])
    raise ValidationError(f"term {text!r}: expected one of {transforms}")


def _find(text: str, name: str, schema: Schema, case_sensitive: bool) -> NestedField:
    try:
        return schema.find_field(name, case_sensitive)
    except ValidationError as e:
        raise ValidationError(f"term {text!r}: {e}") from e


def _term(text: str, column: NestedField, transform: Transform, name: str | None, schema: Schema) -> Term:
    where = schema.name_of(column.field_id)
    if not column.field_type.is_primitive or schema.is_in_list_or_map(column.field_id):
        raise ValidationError(
            f"term {text!r}: column {where!r} must be primitive and not inside a list or map, found {column.field_type}"
        )
    if not transform.can_transform(column.field_type):
        raise ValidationError(f"term {text!r}: {transform} can't be applied to {where!r} of type {column.field_type}")
    return Term(column.field_id, transform, name)
