"""Partition values in the path of a file, as Hive and Spark lay files out: `.../city=Oslo/day=2024-01-02/a.parquet`.

Such files lack the columns that are in the path. Readers take these from the identity partition values of the file, as
for any column that a file lacks (Spec: Column Projection, P1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import unquote

from attrs import field, frozen

from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import from_json
from icecore.engine.spec.transform import IdentityTransform, VoidTransform
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    Type,
)

NULL = "__HIVE_DEFAULT_PARTITION__"


@frozen
class HivePath:
    """The values that the folders of a path give to a table's columns.

    `texts` has the text for every column that a folder names, by field id, None for null. `values` has those of
    identity partition columns only, as values of the column's type.
    """

    path: str
    schema: Schema
    spec: PartitionSpec
    texts: Mapping[int, str | None] = field(factory=dict)
    values: Mapping[int, Any] = field(factory=dict)

    @classmethod
    def of(cls, path: str, schema: Schema, spec: PartitionSpec) -> HivePath:
        """The values in a path. Raises ValidationError where a column has two values, or one not of its type."""
        identity = {f.source_id: f for f in spec.fields if isinstance(f.transform, IdentityTransform)}
        texts: dict[int, str | None] = {}
        for folder in path.split("/")[:-1]:
            key, equals, text = folder.partition("=")
            column = _column(unquote(key), schema, identity) if equals else None
            if column is not None:
                value = None if text == NULL else unquote(text)
                if texts.setdefault(column.field_id, value) != value:
                    raise ValidationError(f"{path}: it says two values of {column.name!r}")
        values = {i: _value(path, schema, i, text) for i, text in texts.items() if i in identity}
        return cls(path, schema, spec, texts, values)

    def check_absent(self, present: Collection[int]) -> None:
        """Raises ValidationError where a value of the path would be lost, or a partition value can't be computed.

        It would be lost if the file lacks the column and no identity partition keeps it. `present` are the ids of the
        file's own columns.
        """
        for i in self.texts.keys() - self.values.keys() - set(present):
            raise ValidationError(
                f"{self.path}: it says a value of {self._name(i)!r}, which the file has no column of; the table would "
                f"have to be partitioned by it as it is, by {self.spec} its rows would have none"
            )
        for f in self.spec.fields:
            for i in () if isinstance(f.transform, VoidTransform) else f.source_ids:
                source = self.schema.get_field(i)
                is_known = i in present or i in self.values or source is None or source.initial_default is not None
                if not is_known:
                    raise ValidationError(
                        f"{self.path}: the table is partitioned by {f.transform} of {self._name(i)!r}, which is "
                        f"neither a column of the file nor, as in '{self._name(i)}=value', a folder of its path"
                    )

    def given(self, present: Collection[int]) -> tuple[PartitionSpec, tuple[Any, ...]]:
        """A spec of the identity partition columns that only the path has, and their values."""
        fields = tuple(f for f in self.spec.fields if self._is_given(f) and f.source_id not in present)
        return PartitionSpec(fields, self.spec.spec_id), tuple(self.values[f.source_id] for f in fields)

    def check_partition(self, partition: tuple[Any, ...]) -> None:
        """Raises ValidationError where the rows of the file are of another partition than its path says."""
        for f, found in zip(self.spec.fields, partition, strict=True):
            if self._is_given(f) and not _is_same(self.values[f.source_id], found):
                said = self.texts[f.source_id]
                raise ValidationError(
                    f"{self.path}: it says that {self._name(f.source_id)!r} is {NULL if said is None else said!r}, the "
                    f"file says {found!r}"
                )

    def _is_given(self, f: PartitionField) -> bool:
        return isinstance(f.transform, IdentityTransform) and f.source_id in self.values

    def _name(self, field_id: int) -> str:
        return ".".join(self.schema.path(field_id))


def _column(key: str, schema: Schema, identity: Mapping[int, PartitionField]) -> NestedField | None:
    """The column that a folder names: by name, else in any case as Hive writes lower case, else by partition field."""
    for case_sensitive in (True, False):
        if schema.has_name(key, case_sensitive):
            return schema.find_field(key, case_sensitive)
    return next((schema.get_field(i) for i, f in identity.items() if f.name == key), None)


def _is_same(said: Any, found: Any) -> bool:
    """Whether both are the same value; null is the same as an empty text, since Hive has one folder for both."""
    both_nan = said != said and found != found
    return bool(said == found or both_nan or (said is None and found == ""))


def _value(path: str, schema: Schema, field_id: int, text: str | None) -> Any:
    column = schema.find_field(field_id)
    try:
        if text is None and column.required:
            raise ValidationError("the column is required")
        return None if text is None else _parsed(column.field_type, text)
    except ValueError as e:
        raise ValidationError(f"{path}: {text or NULL!r} is no {column.field_type} for {column.name!r}: {e}") from e


def _digits(text: str) -> str:
    """The text of a number. Raises ValueError for forms that only Python accepts, such as `1_0`."""
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError("it is not written as a number")
    return text


def _parsed(kind: Type, text: str) -> Any:
    """The value of a text. Raises ValueError; a ValidationError is one."""
    match kind:
        case IntegerType() | LongType():
            return from_json(kind, int(_digits(text)))
        case FloatType() | DoubleType():
            return from_json(kind, float(_digits(text)))
        case DecimalType():
            return from_json(kind, _digits(text))
        case BooleanType():
            return from_json(kind, {"true": True, "false": False}.get(text.lower(), text))
        case FixedType() | BinaryType():
            raise ValidationError("bytes are in no path")
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            return from_json(kind, text.replace(" ", "T", 1))
        case _:
            return from_json(kind, text)
