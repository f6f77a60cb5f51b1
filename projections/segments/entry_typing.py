"""The types of a table's entries, and whether entries that were typed earlier still fit."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from icecore.engine.queries.named_queries import query, quote
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.promotion import can_promote
from icecore.engine.spec.reserved import DELETE_PATH_ID, DELETE_POS_ID
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import US_PER_DAY
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.types import (
    DateType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    UnknownType,
    parse_primitive,
)
from icecore.projections.segments.duckdb_types import raw_type

METRIC_PREFIXES = ("lower", "upper", "nulls", "nans", "values")
"""The prefixes of the columns of metrics; there is a column only where some entry has the metric."""
POSITION_DELETE_FIELDS = (
    NestedField(DELETE_PATH_ID, "delete_file_path", StringType(), required=True),
    NestedField(DELETE_POS_ID, "delete_pos", LongType(), required=True),
)
_LATEST_FORMAT = 3


@frozen
class EntryTyping:
    """The types of bounds and partition values: of all fields and specs that a table has, or had.

    `ambiguous` are partition columns that specs give different types, as v1 tables may (PT1): nobody may use them.
    `partitions` has the types of the others.
    """

    schema: Schema
    specs: Mapping[int, PartitionSpec]
    partitions: Mapping[str, str]
    ambiguous: frozenset[str]

    @classmethod
    def of(cls, metadata: TableMetadata, latest: TableMetadata) -> EntryTyping:
        """The types of a table. `metadata` may be of an earlier time: typing by the latest serves both."""
        schema, specs = planning_schema(metadata, latest), {**metadata.specs, **latest.specs}
        found: dict[str, set[str]] = {}
        for spec in specs.values():
            for f in spec.fields:
                if not isinstance(f.transform, VoidTransform):
                    found.setdefault(f"part_{f.field_id}", set()).add(str(f.result_type(schema)))
        ambiguous = frozenset(name for name, types in found.items() if len(types) > 1)
        return cls(schema, specs, {n: next(iter(t)) for n, t in found.items() if n not in ambiguous}, ambiguous)

    def type_of(self, column: str) -> str | None:
        """The Iceberg type of a bound or a partition column; None for one without a type here."""
        prefix, _, number = column.partition("_")
        if prefix == "part":
            return self.partitions.get(column)
        found = self.schema.get_field(int(number))
        return str(found.field_type) if found is not None and found.field_type.is_primitive else None

    def fields_of(self, spec_id: int) -> str | None:
        """The fields and transforms of a spec, as text to compare; None where there is no such spec."""
        spec = self.specs.get(spec_id)
        return None if spec is None else ", ".join(f"{f.field_id}: {f.transform}" for f in spec.fields)

    def partition_columns(self, spec_id: int) -> frozenset[str]:
        """The columns that entries of a spec have values in."""
        fields = self.specs[spec_id].fields
        named = {f"part_{f.field_id}" for f in fields if not isinstance(f.transform, VoidTransform)}
        return frozenset(named - self.ambiguous)


def planning_schema(metadata: TableMetadata, latest: TableMetadata) -> Schema:
    """All primitive fields that have metrics: the table's, past and present, and those of position delete files."""
    fields = {f.field_id: f for m in (metadata, latest) for f in m.all_fields.fields}
    return Schema((*fields.values(), *POSITION_DELETE_FIELDS))


@frozen
class StoredTypes:
    """The types of stored entries. `specs` has the texts of `EntryTyping.fields_of`; see `WideEntries` for the rest."""

    types: Mapping[str, str]
    unreadable: frozenset[str]
    unknown: frozenset[int]
    specs: Mapping[int, str]

    def conversions(self, typing: EntryTyping) -> dict[str, str] | None:
        """SQL for the columns whose types have been promoted since; None where the entries have to be made again.

        They have to be where a field was not known then and is now, and where a type changed in a way that is no
        promotion, or a value could not be read as the former type. A column that was added since is just missing.
        """
        for field_id in self.unknown:
            found = typing.schema.get_field(field_id)
            if found is not None and found.field_type.is_primitive:
                return None
        for spec_id, fields in self.specs.items():
            if spec_id in typing.specs and (
                typing.fields_of(spec_id) != fields or not typing.partition_columns(spec_id) <= self.types.keys()
            ):
                return None
        out = {}
        for column, had in self.types.items():
            wanted = typing.type_of(column)
            if wanted is None or wanted == had:
                continue
            sql = None if column in self.unreadable else conversion(column, had, wanted)
            if sql is None:
                return None
            out[column] = sql
        return out


def duckdb_type(iceberg_type: str) -> str:
    """The DuckDB type of a typed column."""
    return raw_type(parse_primitive(iceberg_type)) or "BLOB"


def conversion(column: str, had: str, wanted: str) -> str | None:
    """A typed column as one of a promoted type (T7), a value outside of its range null; None where there is no way.

    A partition value must not become null, so dates in partitions stay dates.
    """
    source, target = parse_primitive(had), parse_primitive(wanted)
    if not can_promote(source, target, _LATEST_FORMAT):
        return None
    return _converted(quote(column), source, target, column.startswith("part_"))


def _converted(column: str, source: PrimitiveType, target: PrimitiveType, is_partition: bool) -> str | None:
    kind = raw_type(target) or "BLOB"
    match source:
        case UnknownType():
            return f"CAST(NULL AS {kind})"
        case DateType():
            factor = US_PER_DAY * (1000 if isinstance(target, TimestampNanoType) else 1)
            limit = (2**63 - 1) // factor
            parts = {"column": column, "limit": str(limit), "factor": str(factor)}
            return None if is_partition else query("plan/segments.sql", "date_as_number", **parts)
        case _:
            return f"CAST({column} AS {kind})"
