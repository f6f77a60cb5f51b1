"""Matches of a value in the column bounds and partition values that entries hold, by what their columns are or were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from icecore.engine.data.arrow.arrow_schema import type_to_arrow
from icecore.engine.errors import ValidationError
from icecore.engine.forget.value_matches import Wanted
from icecore.engine.metadata.past_schemas import PastSchemas
from icecore.engine.spec.partition import PartitionField
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import to_bytes
from icecore.engine.spec.transform import DayTransform, IdentityTransform, TruncateTransform, VoidTransform
from icecore.engine.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    Type,
    UUIDType,
)

CUT = 8
"""The bytes of the text's beginning that a bound must end with at least; the last of them may differ."""
Forms = frozenset[bytes]
TEXT: Forms | None = None
"""The mark of a column of text in place of forms: there a bound may contain the text, or be a part of it."""


@define
class WantedBounds:
    """The forms that a value has as a bound of each column of a table, and as a partition value of each field.

    `column_ids` limits the search to one column and those nested in it; `is_number` says that this has numbers or days,
    of which digits elsewhere say nothing. Fields that no schema or spec tells of may have any type.
    """

    wanted: Wanted
    column_ids: frozenset[int] | None = None
    is_number: bool = False
    columns: dict[int, set[Forms | None]] = field(factory=dict)
    partitions: dict[int, set[Forms | None]] = field(factory=dict)

    @classmethod
    def of(cls, wanted: Wanted, past: PastSchemas, column: str | None = None) -> WantedBounds:
        """The forms in a table's columns, or in those alone that ever had the full name `column`.

        Raises ValidationError where none had it.
        """
        if column is None:
            return cls.by_schemas(wanted, past.schemas, past.fields)
        made = cls(wanted, past.column_ids(column))
        made._take(past.schemas, past.fields)
        sought = (s.find_field(i) for s in past.schemas for i in s.field_ids if s.name_of(i) == column)
        made.is_number = all(isinstance(f.field_type, _NUMBERS) for f in sought)
        return made

    @classmethod
    def by_schemas(cls, wanted: Wanted, schemas: Iterable[Schema], fields: Iterable[PartitionField]) -> WantedBounds:
        """The forms in all columns of some schemas, and as values of some partition fields."""
        made = cls(wanted)
        made._take(schemas, fields)
        return made

    def _take(self, schemas: Iterable[Schema], fields: Iterable[PartitionField]) -> None:
        for schema in schemas:
            for field_id in schema.field_ids:
                kind = schema.find_field(field_id).field_type
                if isinstance(kind, PrimitiveType):
                    self.columns.setdefault(field_id, set()).add(forms_of(kind, self.wanted))
        for f in fields:
            forms = self.partitions.setdefault(f.field_id, set())
            if self.column_ids is None or self.column_ids.intersection(f.source_ids):
                forms.update(self._of_partition(f))

    def is_default(self, schemas: Iterable[Schema]) -> bool:
        """Whether the value is a default of a column in one of some schemas, and so in rows though in no file."""
        fields = (s.find_field(i) for s in schemas for i in s.field_ids if i in (self.column_ids or s.field_ids))
        return any(
            isinstance(f.field_type, PrimitiveType) and self._is_value(f.field_type, default)
            for f in fields
            for default in (f.initial_default, f.write_default)
            if default is not None
        )

    def _is_value(self, kind: PrimitiveType, value: Any) -> bool:
        forms, data = forms_of(kind, self.wanted), to_bytes(kind, value)
        return self.wanted.encoded in data if forms is TEXT else data in (forms or ())

    def count(self, entries: pa.Table) -> int:
        """The number of bounds, partition values and paths in entries that hold the value."""
        paths = entries["file_path"].to_pylist() if self.column_ids is None else []
        found = sum(map(self.wanted.in_path, paths))
        for name in ("lower_bounds", "upper_bounds"):
            found += self._count(entries[name], self.columns, self._of_any_type(), self.column_ids)
        return found + self._count(entries["partition"], self.partitions, self._untold())

    def _untold(self) -> set[Forms | None]:
        """The forms of a partition field that no spec tells of, which may be of any column that is sought."""
        if self.column_ids is None:
            return self._of_any_type()
        return set().union(*(self.columns.get(i, ()) for i in self.column_ids), {forms_of(DateType(), self.wanted)})

    def _of_any_type(self) -> set[Forms | None]:
        return {TEXT, *(forms_of(kind, self.wanted) for kind in _WITHOUT_PARAMETERS)}

    def _of_partition(self, f: PartitionField) -> set[Forms | None]:
        of_source = self.columns.get(f.source_ids[0], {TEXT})
        match f.transform:
            case IdentityTransform() | VoidTransform():
                return of_source
            case TruncateTransform():
                return of_source & {TEXT}
            case DayTransform():
                return {forms_of(DateType(), self.wanted)}
            case _:
                return {frozenset()}

    def _count(
        self,
        column: pa.ChunkedArray,
        kinds: Mapping[int, set[Forms | None]],
        otherwise: set[Forms | None],
        only: frozenset[int] | None = None,
    ) -> int:
        maps = column.combine_chunks()
        found, by_forms = 0, dict[Forms | None, list[int]]()
        for field_id in pc.unique(maps.keys).to_pylist():
            if only is None or field_id in only:
                for forms in kinds.get(field_id, otherwise):
                    by_forms.setdefault(forms, []).append(field_id)
        for forms, ids in by_forms.items():
            values = maps.items.filter(pc.is_in(maps.keys, pa.array(ids, pa.int32())))
            if forms is TEXT:
                found += sum(self._is_part(v) for v in values.to_pylist() if v is not None)
            elif forms:
                found += int(pc.sum(pc.is_in(values, pa.array(sorted(forms), values.type))).as_py() or 0)
        return found

    def _is_part(self, bound: bytes) -> bool:
        """Whether a bound holds the text, or ends as the text begins: bounds are truncated, upper ones then raised."""
        text = self.wanted.encoded
        if text in bound:
            return True
        last = len(bound.decode(errors="replace")[-1:].encode())
        return any(
            text.startswith(left[at:])
            for left in (bound, bound[:-1], bound[: len(bound) - last])
            for at in range(max(0, len(bound) - len(text) - 1), len(left) - CUT + 2)
        )


_NUMBERS = (IntegerType, LongType, FloatType, DoubleType, DecimalType, DateType)
_WITHOUT_PARAMETERS: tuple[PrimitiveType, ...] = (
    *(BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DateType(), TimeType(), UUIDType()),
    *(TimestampType(), TimestamptzType(), TimestampNanoType(), TimestamptzNanoType()),
)


def forms_of(kind: Type, wanted: Wanted) -> Forms | None:
    """A value as bounds of a column, also from before a promotion; TEXT of types whose bounds are searched as text."""
    match kind:
        case UUIDType():
            return frozenset(data for data in wanted.fixed(16) if data != wanted.encoded)
        case LongType():
            return _form(kind, wanted) | _form(IntegerType(), wanted)
        case DoubleType():
            return _form(kind, wanted) | _form(FloatType(), wanted)
        case TimestampType() | TimestampNanoType():
            return _form(kind, wanted) | _form(DateType(), wanted)
        case IntegerType() | FloatType() | BooleanType() | DateType() | TimeType() | DecimalType():
            return _form(kind, wanted)
        case TimestamptzType() | TimestamptzNanoType():
            return _form(kind, wanted)
        case _:
            return TEXT


def _form(kind: PrimitiveType, wanted: Wanted) -> Forms:
    found = wanted.typed(type_to_arrow(kind, with_ids=False))
    if found is None:
        return frozenset()
    value: Any = found.value if hasattr(found, "value") else found.as_py()
    zeros = (0.0, -0.0) if isinstance(value, float) and value == 0 else (value,)
    try:
        return frozenset(to_bytes(kind, v) for v in zeros)
    except ValidationError:
        return frozenset()
