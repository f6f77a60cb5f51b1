"""Partition and sort terms as people write them: `month(ts)`, `bucket(8, id) AS shard`, `ts DESC NULLS LAST`.

Spec: Partition Transforms, Sorting (PT1, PT3, SO1). The text is parsed by sqlglot in a dialect that knows no function
by name and takes both double quotes and backticks around names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PARTITION_FIELD_ID_START, UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import INITIAL_SORT_ORDER_ID, UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from icecore.engine.spec.transform import (
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
    node = _parse(text, _EXPRESSION)
    name = None
    has_as = any(t.token_type == tokens.TokenType.ALIAS for t in _DIALECT.tokenize(text))
    if has_as != isinstance(node, exp.Alias):
        raise ValidationError(f"term {text!r}: a name needs the word AS before it, and AS a name after it")
    if has_as:
        name, node = node.alias, node.this
    return _to_term(text, node, name, schema, case_sensitive)


def parse_partition_term(text: str, schema: Schema, *, case_sensitive: bool = True) -> tuple[int, Transform, str]:
    """Source column id, transform and partition field name of a term; see `parse_term`."""
    term = parse_term(text, schema, case_sensitive=case_sensitive)
    name = term.name or default_partition_name(schema, term.source_id, term.transform)
    return term.source_id, term.transform, name


def parse_partition_terms(
    terms: Sequence[str] | PartitionSpec | None,
    schema: Schema,
    *,
    first_field_id: int = PARTITION_FIELD_ID_START,
    case_sensitive: bool = True,
) -> PartitionSpec:
    """The partition spec of some terms, field ids counted from `first_field_id`; none is unpartitioned (PT1).

    A spec that is given is checked and returned. Raises ValidationError as `parse_term`, and where two fields have
    one name, where a name is another column's, or where a column is split twice the same way or twice by time.
    """
    if terms is None:
        return UNPARTITIONED
    if isinstance(terms, PartitionSpec):
        terms.check(schema)
        return terms
    fields: list[PartitionField] = []
    seen: dict[tuple[int, str], str] = {}
    for text in _sequence(terms):
        source_id, transform, name = parse_partition_term(text, schema, case_sensitive=case_sensitive)
        key = (source_id, "time" if isinstance(transform, TIME_TRANSFORMS) else str(transform))
        if key in seen:
            raise ValidationError(f"partition term {text!r} is redundant beside {seen[key]!r}")
        seen[key] = text
        check_partition_name(schema, name, source_id, transform, case_sensitive=case_sensitive)
        fields.append(PartitionField((source_id,), first_field_id + len(fields), transform, name))
    spec = PartitionSpec(tuple(fields))
    spec.check(schema)
    return spec


def parse_sort_terms(
    terms: Sequence[str | SortTerm] | SortOrder | None, schema: Schema, *, case_sensitive: bool = True
) -> SortOrder:
    """The sort order of some terms, with id 1; no terms are unsorted, id 0 (SO1).

    Ascending puts nulls first and descending last unless the term says otherwise, as in Java and Spark. An order that
    is given is checked and returned. Raises ValidationError as `parse_term`.
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
    node = _parse(text, exp.Ordered)
    direction = SortDirection.DESC if node.args.get("desc") else SortDirection.ASC
    nulls = NullOrder.NULLS_FIRST if node.args.get("nulls_first") else NullOrder.NULLS_LAST
    return SortTerm(text, direction, nulls), _to_term(text, node.this, None, schema, case_sensitive)


class _TermDialect(Dialect):  # type: ignore[misc]  # sqlglot is untyped here
    """Columns and calls, nothing else: with no function known by name, every call comes out as it was written."""

    NULL_ORDERING = "nulls_are_small"

    class Tokenizer(tokens.Tokenizer):  # type: ignore[misc]  # as above
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012  # sqlglot's own form

    class Parser(parser.Parser):  # type: ignore[misc]  # as above
        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012  # sqlglot's own form
        FUNCTION_PARSERS: dict[str, Any] = {}  # noqa: RUF012  # sqlglot's own form
        NO_PAREN_FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012  # sqlglot's own form
        NO_PAREN_FUNCTION_PARSERS: dict[str, Any] = {}  # noqa: RUF012  # sqlglot's own form


_DIALECT = _TermDialect()
# The base of all nodes has had two names in sqlglot; it stands for "any expression, with or without a name".
_EXPRESSION: Any = getattr(exp, "Expr", exp.Expression)

_PLAIN: dict[str, Transform] = {
    "identity": IdentityTransform(),
    "year": YearTransform(),
    "years": YearTransform(),
    "month": MonthTransform(),
    "months": MonthTransform(),
    "day": DayTransform(),
    "days": DayTransform(),
    "date": DayTransform(),
    "hour": HourTransform(),
    "hours": HourTransform(),
    "date_hour": HourTransform(),
    "void": VoidTransform(),
}
_WITH_NUMBER: dict[str, type[BucketTransform] | type[TruncateTransform]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}


def _parse(text: str, into: Any) -> Any:
    try:
        found = _DIALECT.parse_into(into, text)
    except (SqlglotError, RecursionError) as e:
        raise ValidationError(f"term {text!r} can't be parsed; write it like 'x', 'day(ts)' or 'bucket(8, id)'") from e
    if len(found) != 1 or found[0] is None:
        raise ValidationError(f"a term must be one column or transform, found {text!r}")
    return found[0]


def _to_term(text: str, node: Any, name: str | None, schema: Schema, case_sensitive: bool) -> Term:
    transform: Transform = IdentityTransform()
    if isinstance(node, exp.Anonymous):
        transform, node = _call(text, node)
    column = _find(text, _column_name(text, node), schema, case_sensitive)
    return _term(text, column, transform, name, schema)


def _call(text: str, node: Any) -> tuple[Transform, Any]:
    """The transform of a call and the node of its column."""
    function = node.name.lower()
    arguments = node.expressions
    if function in _PLAIN and len(arguments) == 1:
        return _PLAIN[function], arguments[0]
    if function in _WITH_NUMBER and len(arguments) == 2:
        numbers = [a for a in arguments if isinstance(a, exp.Literal)]
        columns = [a for a in arguments if not isinstance(a, exp.Literal)]
        if len(numbers) == 1 and not numbers[0].is_string and numbers[0].name.isdecimal():
            try:
                return _WITH_NUMBER[function](int(numbers[0].name)), columns[0]
            except ValidationError as e:
                raise ValidationError(f"term {text!r}: {e}") from e
    transforms = ", ".join([*(f"{n}(x)" for n in _PLAIN), *(f"{n}(n, x)" for n in _WITH_NUMBER)])
    raise ValidationError(f"term {text!r}: expected one of {transforms}")


def _column_name(text: str, node: Any) -> str:
    parts = node.parts if isinstance(node, (exp.Column, exp.Dot)) else ()
    if not parts or not all(isinstance(p, exp.Identifier) for p in parts):
        raise ValidationError(
            f"term {text!r} must be a column or a transform of one; names that are words of SQL need quotes"
        )
    return ".".join(p.name for p in parts)


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
