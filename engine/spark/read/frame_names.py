"""The names under which Spark may read columns by field id without losing rows.

Spark resolves columns by field id, but the Parquet filters it pushes down look their columns up by *name* in each file,
and compare as Parquet's statistics do. Under a name that no file has, no filter is pushed. The names in a file are
known where the engine wrote it, by a mark in its own name; the table's schemas don't tell those of others' files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from icecore.engine.data.file.schema_mark import mark_of, schema_mark
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import LINEAGE
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FLOATING_TYPES, DecimalType, DoubleType, FloatType, NestedField, StructType, Type

Path = tuple[str, ...]

_OWN = "__icecore_"

# NaN is missing in Parquet's statistics, -0.0 and 0.0 differ in its dictionaries; and Spark cuts a decimal literal down
# to the 32 bits of a file from before the column was promoted.
UNSAFE_TO_PUSH = (FloatType, DoubleType, DecimalType)


class ReadNames:
    """The names that columns are read under from some files: their own, or ones that no file has.

    A column keeps its name if its id had only this name and type in all schemas that the files were written with, and
    no other id had the name, ignoring case. Otherwise a filter may be tested against another column, or against values
    of a narrower type. Floating-point columns never keep theirs: Parquet's statistics leave NaN out, which Spark takes
    for greater than all numbers. Without schemas nothing is known, so no column keeps its name.
    """

    def __init__(self, written: Iterable[Schema]) -> None:
        self._paths: dict[int, set[Path]] = {}
        self._types: dict[int, set[Type]] = {}
        self._owners: dict[Path, set[int]] = {}
        for schema in written:
            for f, path in _struct_fields((*schema.fields, *LINEAGE), ()):
                self._paths.setdefault(f.field_id, set()).add(path)
                if f.field_type.is_primitive:
                    self._types.setdefault(f.field_id, set()).add(f.field_type)
                self._owners.setdefault(_lower(path), set()).add(f.field_id)

    def name(self, field: NestedField, path: Path) -> str:
        """The name to read a column under, by the path of names to it, which goes through no list or map."""
        return field.name if self._is_safe(field, path) else alias(field.field_id)

    def _is_safe(self, field: NestedField, path: Path) -> bool:
        return (
            bool(self._owners)
            and not isinstance(field.field_type, FLOATING_TYPES)
            and not (len(path) == 1 and is_taken(path[0]))
            and self._paths.get(field.field_id, {path}) == {path}
            and self._types.get(field.field_id, {field.field_type}) == {field.field_type}
            and self._owners.get(_lower(path), {field.field_id}) == {field.field_id}
        )


class WrittenSchemas:
    """The schemas that files of a table were written with, by the marks in their names."""

    def __init__(self, metadata: TableMetadata) -> None:
        newest_first = sorted(metadata.schemas, key=lambda s: -s.schema_id)
        self._left = iter((metadata.schema(), *newest_first))
        self._found: dict[str, Schema] = {}

    def of(self, location: str) -> Schema | None:
        """The schema of a file, as far as names and types go; None where the file or the table doesn't tell."""
        return self.of_mark(mark_of(location))

    def of_mark(self, mark: str | None) -> Schema | None:
        """The schema of files with a mark; None without a mark, or for one of another table."""
        if mark is None:
            return None
        while mark not in self._found and (schema := next(self._left, None)) is not None:
            self._found.setdefault(schema_mark(schema), schema)
        return self._found.get(mark)


def is_taken(name: str) -> bool:
    """Whether a top-level column can't be read by a name, since Spark or a scan has such columns of its own."""
    return name.lower() == "_metadata" or name.lower().startswith(_OWN)


def alias(field_id: int) -> str:
    """A name that no column of a file has."""
    return f"{_OWN}f{field_id}"


def _struct_fields(fields: Iterable[NestedField], prefix: Path) -> Iterator[tuple[NestedField, Path]]:
    for f in fields:
        path = (*prefix, f.name)
        yield f, path
        if isinstance(f.field_type, StructType):
            yield from _struct_fields(f.field_type.fields, path)


def _lower(path: Path) -> Path:
    return tuple(name.lower() for name in path)


def schema_with(metadata: TableMetadata, preferred: Schema, field_id: int) -> Schema | None:
    """The schema that knows a field: the preferred one, else the newest; None where none does."""
    newest_first = sorted(metadata.schemas, key=lambda s: -s.schema_id)
    return next((s for s in (preferred, metadata.schema(), *newest_first) if s.get_field(field_id) is not None), None)
