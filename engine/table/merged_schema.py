"""Schemas that grow by what is written: `append(data, merge_schema=True)` and others. Spec: Schema Evolution (T7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen

from icecore.engine.data.arrow.to_arrow import to_arrow
from icecore.engine.data.given_schema import given_schema
from icecore.engine.data.spark_schema import is_spark
from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_ops import UnionByName
from icecore.engine.spark.name_rule import KnownNames, is_case_sensitive
from icecore.engine.spec.promotion import can_promote
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, MapType, NestedField, StructType, Type, UnknownType
from icecore.engine.table.transaction import Transaction

# Data is read with every type that Iceberg has; the schema's change refuses those that the table's version lacks.
_NEWEST_FORMAT_VERSION = 3


def taken_in(transaction: Transaction, data: Any) -> Any:
    """The data, once the transaction's schema has a column for each of its columns.

    New columns are added as optional ones, inside of structs, lists and maps too, and types are promoted where the spec
    has it. Nothing else changes: no column becomes optional, and what fits by a cast keeps its type. Names of a Spark
    DataFrame may differ in case as its session has it. Raises ValidationError where the table can't have a column.
    """
    if is_spark(data):
        take_in(transaction, data.schema, case_sensitive=is_case_sensitive(data.sparkSession))
    else:
        data = to_arrow(data, transaction.metadata.schema())
        take_in(transaction, data.schema, case_sensitive=True)
    return data


def take_in(transaction: Transaction, columns: Any, *, case_sensitive: bool) -> None:
    """Gives the transaction's schema a column for each of `columns`, as `taken_in` does. Raises ValidationError."""
    known = transaction.metadata
    new = given_schema(columns, format_version=_NEWEST_FORMAT_VERSION)
    united = _Union(known.format_version, case_sensitive).struct(new.as_struct(), known.schema().as_struct())
    transaction.change_schema([UnionByName(Schema(united.fields))])


@frozen
class _Union:
    """The schema of data to unite with the table's by name: known columns get the table's names, and are required."""

    format_version: int
    case_sensitive: bool

    def struct(self, new: StructType, old: StructType) -> StructType:
        return StructType(tuple(self._fields(new, old)))

    def _fields(self, new: StructType, old: StructType) -> Iterator[NestedField]:
        """The fields of `new` that are to be added or promoted; what does not fit is left for the write to refuse."""
        known = KnownNames((f.name for f in old.fields), case_sensitive=self.case_sensitive)
        added, seen = KnownNames((), case_sensitive=self.case_sensitive), set[int]()
        for f in new.fields:
            place = known.place(f.name)
            if place is None and not known.takes(f.name):
                if added.takes(f.name):
                    raise ValidationError(f"two new columns are called {f.name!r}, or so in another case")
                added = KnownNames((*added.names, f.name), case_sensitive=self.case_sensitive)
                yield f
            elif place is not None and place not in seen:
                seen.add(place)
                t = self._type(f.field_type, old.fields[place].field_type)
                if t is not None:
                    # Required, since uniting with an optional column would make the table's optional.
                    yield NestedField(f.field_id, old.fields[place].name, t, not isinstance(t, UnknownType))

    def _type(self, new: Type, old: Type) -> Type | None:
        match new, old:
            case StructType(), StructType():
                return self.struct(new, old)
            case ListType(), ListType():
                element = self._type(new.element, old.element)
                return None if element is None else evolve(new, element=element, element_required=True)
            case MapType(), MapType():
                key, value = self._type(new.key, old.key), self._type(new.value, old.value)
                return None if key is None or value is None else evolve(new, key=key, value=value, value_required=True)
            case _ if old.is_primitive:
                return new if can_promote(old, new, self.format_version) else old
            case _:
                return None
