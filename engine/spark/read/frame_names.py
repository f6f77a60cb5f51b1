"""The names under which Spark may read columns by field id without losing rows.

Spark resolves columns by field id, but the Parquet filters it pushes down look their columns up by *name* in each file,
and compare as Parquet's statistics do. Under a name that no file has, no filter is pushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from icecore.engine.formats.avro_schema import sanitize
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FLOATING_TYPES, DecimalType, DoubleType, FloatType, NestedField, StructType, Type

Path = tuple[str, ...]

_OWN = "__icecore_"

# NaN is missing in Parquet's statistics, -0.0 and 0.0 differ in its dictionaries; and Spark cuts a decimal literal down
# to the 32 bits of a file from before the column was promoted.
UNSAFE_TO_PUSH = (FloatType, DoubleType, DecimalType)


class ReadNames:
    """The names that columns of a table are read under: their own, or ones that no file has.

    A column keeps its name if in all schemas of the table its id had only this name and type, and no other id had the
    name, upper and lower case taken as one. Otherwise a filter may be tested against another column, or against
    values of a narrower type. Floating-point columns never do: Parquet's statistics leave NaN out, which Spark takes
    for greater than all numbers. Where old schemas were removed nothing is known, so no column keeps its name.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        ids = {s.schema_id for s in metadata.schemas}
        self._complete = ids == set(range(len(ids)))
        self._paths: dict[int, set[Path]] = {}
        self._types: dict[int, set[Type]] = {}
        self._owners: dict[Path, set[int]] = {}
        for schema in metadata.schemas:
            for f, path in _struct_fields(schema.fields, ()):
                self._paths.setdefault(f.field_id, set()).add(path)
                if f.field_type.is_primitive:
                    self._types.setdefault(f.field_id, set()).add(f.field_type)
                for variant in (path, tuple(sanitize(name) for name in path)):
                    self._owners.setdefault(_lower(variant), set()).add(f.field_id)

    def name(self, field: NestedField, path: Path) -> str:
        """The name to read a column under, which lies at the path of names and is in no list or map."""
        return field.name if self._is_safe(field, path) else alias(field.field_id)

    def _is_safe(self, field: NestedField, path: Path) -> bool:
        return (
            self._complete
            and not isinstance(field.field_type, FLOATING_TYPES)
            and not (len(path) == 1 and is_taken(path[0]))
            and self._paths.get(field.field_id) == {path}
            and len(self._types.get(field.field_id, ())) <= 1
            and self._owners.get(_lower(path)) == {field.field_id}
        )


def is_taken(name: str) -> bool:
    """Whether a top-level column can't be read by that name: Spark or a scan has a column of its own so called."""
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
