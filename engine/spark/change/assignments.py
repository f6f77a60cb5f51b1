"""The values that a change gives to columns: SQL text, Columns or constants, for whole columns or fields of structs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from icecore.engine.errors import ValidationError
from icecore.engine.spark.name_rule import KnownNames
from icecore.engine.spark.pyspark_api import Column
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_types import shown_type
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    walk,
)

Value: TypeAlias = str | Column | Any
"""SQL text, a Column, or a constant that is no text."""

Values: TypeAlias = Mapping[str, Value] | Mapping[tuple[str, ...], Value]
"""Values by names of columns, dotted for fields inside of structs, or by tuples of the names on the way to them."""


def as_column(value: Value) -> Column:
    """The Column of a value."""
    if isinstance(value, Column):
        return value
    return F.expr(value) if isinstance(value, str) else F.lit(value)


@frozen
class Assignments:
    """New values by top-level column: of the column itself, or of fields inside of it by their paths."""

    by_column: Mapping[str, tuple[tuple[tuple[str, ...], Column], ...]]

    @classmethod
    def of(cls, values: Values, schema: Schema, *, case_sensitive: bool) -> Assignments:
        """The assignments of values to a table's columns.

        Raises ValidationError for an unknown name, or one whose column gets a value twice.
        """
        if not isinstance(values, Mapping) or not values:
            raise ValidationError("values are given by the names of columns, found none")
        found: dict[str, list[tuple[tuple[str, ...], Column]]] = {}
        for name, value in values.items():
            found_path = _path((name,) if isinstance(name, str) else name, schema.fields, case_sensitive)
            if found_path is None:
                raise ValidationError(f"no column {name!r} in the table")
            root, *inner = found_path
            others = found.setdefault(root, [])
            if any(path[: len(inner)] == tuple(inner)[: len(path)] for path, _ in others):
                raise ValidationError(f"column {name!r} gets a value twice")
            others.append((tuple(inner), as_column(value)))
        return cls({root: tuple(parts) for root, parts in found.items()})

    def column(self, field: NestedField, before: Column) -> Column:
        """The new value of a top-level column."""
        return _assigned(field, before, self.by_column.get(field.name, ()))

    def check_kept(self, schema: Schema) -> None:
        """Raises ValidationError where a row's other columns would lose nanoseconds, which Spark does not have."""
        for f in schema.fields:
            parts = self.by_column.get(f.name, ())
            if any(not path for path, _ in parts):
                continue
            if any(isinstance(inner.field_type, (TimestampNanoType, TimestamptzNanoType)) for inner in walk((f,))):
                raise ValidationError(
                    f"column {f.name!r} has nanoseconds, of which Spark has none: a change by Spark has to set it, or "
                    "be made without Spark"
                )


def _assigned(field: NestedField, before: Column, parts: Iterable[tuple[tuple[str, ...], Column]]) -> Column:
    """A value with parts of it replaced. A struct is made anew: of a null one all other fields are null."""
    inside: dict[str, list[tuple[tuple[str, ...], Column]]] = {}
    for path, value in parts:
        if not path:
            return value
        inside.setdefault(path[0], []).append((path[1:], value))
    if not inside:
        return before
    assert isinstance(field.field_type, StructType), "paths lead through structs"
    out = []
    for f, value in zip(field.field_type.fields, _fields(field.field_type, before), strict=True):
        out += [F.lit(f.name), _assigned(f, value, inside.get(f.name, ()))]
    return F.named_struct(*out)


def _fields(struct: StructType, value: Column) -> list[Column]:
    """The values of a struct's fields; where names differ in case alone, Spark is given others to tell them by."""
    names = [f.name for f in struct.fields]
    if len({name.lower() for name in names}) < len(names):
        names = [f"f{i}" for i, _ in enumerate(names)]
        shown = (shown_type(f.field_type) for f in struct.fields)
        value = value.cast(T.StructType([T.StructField(name, t) for name, t in zip(names, shown, strict=True)]))
    return [value.getField(name) for name in names]


def _path(names: Sequence[str], fields: Sequence[NestedField], case_sensitive: bool) -> list[str] | None:
    """The names on the way to a column, as the schema writes them; None where there is none.

    A last name with dots is taken for a field's own name first, then for the way to a field.
    """
    known = KnownNames((f.name for f in fields), case_sensitive=case_sensitive)
    first, *others = names
    if not others and (found := known.find(first)) is not None:
        return [found]
    ways = [(first, others)] if others else [(first[:i], [first[i + 1 :]]) for i, c in enumerate(first) if c == "."]
    for head, rest in ways:
        place = known.place(head)
        if place is not None and isinstance(struct := fields[place].field_type, StructType):
            inner = _path(rest, struct.fields, case_sensitive)
            if inner is not None:
                return [fields[place].name, *inner]
    return None
