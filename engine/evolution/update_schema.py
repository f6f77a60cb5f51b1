"""The schema change that people build: `with table.update_schema() as update: update.add_column("x", "int")`."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.data.given_schema import SchemaLike, given_schema
from icecore.engine.data.pyiceberg_values import PyIcebergValue, is_pyiceberg_value, type_of_pyiceberg
from icecore.engine.data.spark_schema import is_spark_type, spark_to_type
from icecore.engine.errors import ValidationError
from icecore.engine.evolution.recorded_update import RecordedUpdate
from icecore.engine.evolution.schema_ops import (
    AddColumn,
    DeleteColumn,
    MoveColumn,
    MovePosition,
    RenameColumn,
    SchemaOp,
    SetIdentifierFields,
    UnionByName,
    UpdateColumn,
)
from icecore.engine.spec.types import Type, parse_primitive

TypeLike: TypeAlias = Type | pa.DataType | str | PyIcebergValue

# Arrow types are read with every type that Iceberg has; evolve_schema refuses those that the table's version lacks.
_NEWEST_FORMAT_VERSION = 3


class UpdateSchema(RecordedUpdate[SchemaOp]):
    """The update of the schema that people build, under PyIceberg's names; the commit checks and applies it.

    A path is a dotted name or a tuple of names. Every method returns the update itself.
    """

    def add_column(
        self,
        path: str | tuple[str, ...],
        field_type: TypeLike,
        doc: str | None = None,
        required: bool = False,
        default_value: Any = None,
    ) -> UpdateSchema:
        """Adds a column at the end of its struct. A nested column, or a name with a dot, needs a tuple as the path.

        Raises ValidationError for a text with a dot, and for a type that Iceberg doesn't have.
        """
        if isinstance(path, str):
            if "." in path:
                raise ValidationError(f"it is unclear where column {path!r} is to go; give the path as a tuple")
            path = (path,)
        if not path:
            raise ValidationError("a column needs a name")
        return self._record(AddColumn(path[:-1], path[-1], _type(field_type), required, doc, default_value))

    def delete_column(self, path: str | tuple[str, ...]) -> UpdateSchema:
        """Deletes a column with all below it."""
        return self._record(DeleteColumn(_dotted(path)))

    def rename_column(self, path_from: str | tuple[str, ...], new_name: str) -> UpdateSchema:
        """Gives the column a new name in its struct; data files are read by id, so nothing is rewritten."""
        return self._record(RenameColumn(_dotted(path_from), new_name))

    def update_column(
        self,
        path: str | tuple[str, ...],
        field_type: TypeLike | None = None,
        required: bool | None = None,
        doc: str | None = None,
    ) -> UpdateSchema:
        """Changes type, nullability or doc; None leaves it as it is."""
        if field_type is None and required is None and doc is None:
            self._check_open()
            return self
        new_type = None if field_type is None else _type(field_type)
        return self._record(UpdateColumn(_dotted(path), new_type, required, doc))

    def make_column_optional(self, path: str | tuple[str, ...]) -> UpdateSchema:
        """Lets a required column hold nulls."""
        return self._record(UpdateColumn(_dotted(path), required=False))

    def set_default_value(self, path: str | tuple[str, ...], default_value: Any) -> UpdateSchema:
        """Sets the value that rows written from now on get where none is given; None clears it (T9)."""
        return self._record(UpdateColumn(_dotted(path), write_default=default_value))

    def set_identifier_fields(self, *fields: str) -> UpdateSchema:
        """Replaces the identifier fields by those of these names, as they are after the change (T5)."""
        return self._record(SetIdentifierFields(fields))

    def move_first(self, path: str | tuple[str, ...]) -> UpdateSchema:
        """Moves a column to the start of its struct."""
        return self._record(MoveColumn(_dotted(path), MovePosition.FIRST))

    def move_before(self, path: str | tuple[str, ...], before_path: str | tuple[str, ...]) -> UpdateSchema:
        """Moves a column before another of its struct."""
        return self._record(MoveColumn(_dotted(path), MovePosition.BEFORE, _dotted(before_path)))

    def move_after(self, path: str | tuple[str, ...], after_name: str | tuple[str, ...]) -> UpdateSchema:
        """Moves a column after another of its struct."""
        return self._record(MoveColumn(_dotted(path), MovePosition.AFTER, _dotted(after_name)))

    def union_by_name(self, new_schema: SchemaLike) -> UpdateSchema:
        """Makes the schema hold data of `new_schema` too; see `UnionByName`. Raises ValidationError as add_column."""
        return self._record(UnionByName(given_schema(new_schema, format_version=_NEWEST_FORMAT_VERSION)))


def _dotted(path: str | tuple[str, ...]) -> str:
    return path if isinstance(path, str) else ".".join(path)


def _type(given: TypeLike) -> Type:
    if isinstance(given, str):
        return parse_primitive(given)
    if isinstance(given, pa.DataType):
        arrow = pa.schema([pa.field("column", given)])
        return arrow_to_schema(arrow, format_version=_NEWEST_FORMAT_VERSION).fields[0].field_type
    if is_pyiceberg_value(given):
        return type_of_pyiceberg(given)
    if is_spark_type(given):
        return spark_to_type(given)
    if not isinstance(given, Type):
        raise ValidationError(
            f"a column's type must be an Iceberg, Arrow, Spark or PyIceberg type, or a text, found {given!r}"
        )
    return given
