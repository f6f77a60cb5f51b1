"""The context that the branches of one read share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from attrs import define

from icecore.engine.data.read.column_resolution import FIRST_RESERVED_ID
from icecore.engine.data.read.table_columns import ColumnReader, Identification, column_reader
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.walk import references
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.spark.name_rule import is_plain, says_true
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.read.frame_columns import ReadColumn, aliased_columns, columns_by_id
from icecore.engine.spark.read.frame_names import ReadNames, WrittenSchemas, schema_with
from icecore.engine.spark.relation.file_pruning import Replanned
from icecore.engine.spark.relation.planned_frame import PlannedFrames
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import NestedField, walk
from icecore.engine.storage.file_io import Storage

QUOTED_REGEX = "spark.sql.parser.quotedRegexColumnNames"


@define(frozen=True, slots=False)
class ScanContext:
    """The table, the columns and rows wanted of it, and the columns that must be read for them."""

    session: SparkSession
    metadata: TableMetadata
    storage: Storage
    projection: Schema
    filter: Expression
    replanned: Replanned | None = None

    @cached_property
    def schema(self) -> Schema:
        """The table's schema that the projection is cut from."""
        wanted = self.projection.schema_id
        return next((s for s in self.metadata.schemas if s.schema_id == wanted), self.metadata.schema())

    @cached_property
    def written(self) -> WrittenSchemas:
        """The schemas that the table's files were written with."""
        return WrittenSchemas(self.metadata)

    @cached_property
    def planned_frames(self) -> PlannedFrames | None:
        """The maker of relations of exactly the planned files; None where public API has to do."""
        return PlannedFrames.of(self.session)

    @cached_property
    def identification(self) -> Identification:
        """The rules by which columns of files without ids get them."""
        return Identification(self.schema, NAME_MAPPING.find(self.metadata.properties), self.metadata.schemas)

    @cached_property
    def reserved(self) -> tuple[NestedField, ...]:
        """The metadata columns that are asked for."""
        return tuple(f for f in self.projection.fields if f.field_id >= FIRST_RESERVED_ID)

    def read_fields(self, key_ids: frozenset[int]) -> tuple[NestedField, ...]:
        """The top-level columns to read: those asked for, and whole ones for the filter and for equality deletes."""
        chosen = {f.field_id: f for f in self.projection.fields if f.field_id < FIRST_RESERVED_ID}
        for field_id in sorted(references(self.filter) | key_ids):
            if field_id < FIRST_RESERVED_ID:
                root = self.id_path(field_id)[0]
                schema = schema_with(self.metadata, self.schema, root)
                chosen[root] = (schema or self.schema).find_field(root)
        return tuple(chosen.values())

    def read_columns(self, fields: tuple[NestedField, ...], written: Iterable[Schema] = ()) -> tuple[ReadColumn, ...]:
        """The columns to read by field id from files of these schemas, under names by ids if none are known."""
        if not all(is_plain(f.name) for f in walk(fields)) and self.takes_names_for_patterns:
            return aliased_columns(fields)
        return columns_by_id(self.schema, fields, ReadNames(written), hides_whole=self.planned_frames is None)

    @cached_property
    def takes_names_for_patterns(self) -> bool:
        """Whether the session takes names in backticks, except those of letters and digits, for regular expressions."""
        return says_true(self.session.conf.get(QUOTED_REGEX, None))

    def id_path(self, field_id: int) -> tuple[int, ...]:
        """The ids from the top-level column down to a field. Raises ValidationError where no schema has it."""
        schema = schema_with(self.metadata, self.schema, field_id)
        if schema is None:
            raise ValidationError(f"no schema of the table has a column with id {field_id}")
        return schema.id_path(field_id)

    def key_reader(self, field_id: int) -> ColumnReader | None:
        """The reader of a key column of equality deletes, dropped ones too (D4); None where no schema has it."""
        schema = schema_with(self.metadata, self.schema, field_id)
        return None if schema is None else column_reader(schema, field_id)

    def identity_values(self, file: ContentFile) -> dict[int, Any]:
        """The values of identity partition fields by source id. Raises ValidationError where the spec doesn't fit."""
        spec = self.metadata.specs.get(file.spec_id)
        if spec is None or len(spec.fields) != len(file.partition):
            raise ValidationError(
                f"{file.file_path}: the partition {file.partition!r} does not fit partition spec {file.spec_id}"
            )
        return {source_id: file.partition[i] for i, source_id in self.identity_fields[file.spec_id]}

    @cached_property
    def identity_fields(self) -> Mapping[int, list[tuple[int, int]]]:
        """The places of identity fields in partitions, and their source ids, by spec id."""
        return {
            spec_id: [(i, f.source_id) for i, f in enumerate(spec.fields) if isinstance(f.transform, IdentityTransform)]
            for spec_id, spec in self.metadata.specs.items()
        }


@define(frozen=True)
class Branch:
    """A DataFrame of read columns.

    `columns` are the read top-level columns by field id, `sql` has the expression of each, of metadata columns too, in
    its stored form.
    """

    frame: DataFrame
    columns: Mapping[int, ReadColumn]
    sql: Mapping[int, str]
