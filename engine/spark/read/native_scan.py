"""Parquet files read by Spark's own vectorised reader, without their deleted rows.

They are read through a relation of exactly the planned files where the session can have one. Elsewhere, as in Spark
Connect, public API alone is used, and a broadcast join gives the constants of files.
Spec: Column Projection (P1), Row Lineage (RL5), Row-level Deletes (D2 to D5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.data.arrow.arrow_values import to_array
from icecore.engine.data.file_columns import FileColumns
from icecore.engine.data.read.column_resolution import (
    DELETED_ID,
    FILE_ID,
    LAST_UPDATED_ID,
    POS_ID,
    ROW_ID_ID,
    SPEC_ID_ID,
)
from icecore.engine.errors import ValidationError
from icecore.engine.expression.nodes import BoundTerm
from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.delete_frames import (
    POSITION_BITS,
    EqualityDeletes,
    PositionDeletes,
    equality_rows,
    position_bits,
    position_keys,
)
from icecore.engine.spark.read.frame_columns import (
    ReadColumn,
    ddl,
    has_struct,
    has_struct_below,
    missing_stored_sql,
    path_sql,
    shown_primitive_sql,
    stored_sql,
)
from icecore.engine.spark.read.frame_names import UNSAFE_TO_PUSH, alias
from icecore.engine.spark.read.id_guard import IdGuard
from icecore.engine.spark.read.scan_context import Branch, ScanContext
from icecore.engine.spark.read.stored_arrow import stored_array
from icecore.engine.spark.relation.file_pruning import FilePruning
from icecore.engine.spark.spark_paths import shown_path
from icecore.engine.spark.spark_sql_text import quote, text_literal
from icecore.engine.spark.spark_types import stored_type
from icecore.engine.spark.task_frames import arrow_frame
from icecore.engine.spec.content_file import ContentFile, DataFileContent, without_metrics
from icecore.engine.spec.reserved import PARTITION_ID, partition_struct
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import NestedField, StructType, children

_PATH, _POS, _NUMBER, _SET = "__icecore_path", "__icecore_pos", "__icecore_number", "__icecore_set"
_LOCATION, _SPEC, _FIRST_ROW, _SEQUENCE = (
    "__icecore_location",
    "__icecore_spec",
    "__icecore_first_row",
    "__icecore_sequence",
)
_OPTIONS = {
    # Brackets and stars in paths are no patterns; folders called a=b are no partitions.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    # No file is skipped without a word for its name (a setting since Spark 4.3).
    "ignoredPathSegmentRegex": "",
    # A file that can't be read is an error, whatever the session says.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Dates before 1582 are as the spec has them.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
}


@frozen
class NativeGroup:
    """Whole files that one relation can read, with the same read columns, and their paths as Spark takes them.

    `lacking` are top-level columns that come from the partition where the file doesn't have them. `by_id` says
    whether columns are found by field id or by name.
    """

    files: FileColumns
    paths: pa.Array
    columns: tuple[ReadColumn, ...]
    lacking: frozenset[int]
    by_id: bool


def native_branch(context: ScanContext, group: NativeGroup, *, is_all: bool) -> Branch:
    """The rows of the group's files that are not deleted. `is_all` says whether there are no other files."""
    return _NativeRead(context, group, is_all).branch()


@define
class _NativeRead:
    context: ScanContext
    group: NativeGroup
    is_all: bool
    constants: dict[str, tuple[T.DataType, pa.Array]] = field(factory=dict)
    needs_position: bool = False

    def branch(self) -> Branch:
        context, group = self.context, self.group
        columns = {c.field.field_id: c for c in group.columns}
        sql = {i: self.column_sql(c) for i, c in columns.items()}
        sql.update({f.field_id: self.reserved_sql(f) for f in context.reserved})
        positions = self.position_deletes()
        equality = self.equality_deletes()
        frame = self.placed(numbered=bool(positions))
        if positions:
            frame = self.without_positions(frame, positions)
        for deletes in equality:
            frame = self.without_equal_rows(frame, deletes, columns, sql)
        return Branch(frame, columns, sql)

    def read_fields(self) -> T.StructType:
        """The columns of the files, and stored row identities where these are needed."""
        group = self.group
        fields = [c.spark_field(with_ids=group.by_id, default=self.has_default(c)) for c in group.columns if c.is_read]
        if group.by_id:
            # Lineage columns are stored where a rewrite moved rows.
            fields += [c.spark_field(with_ids=True) for c in self.stored_lineage()]
        return T.StructType(fields)

    def stored_lineage(self) -> list[ReadColumn]:
        """The lineage columns that are read."""
        stored = [f for f in self.context.reserved if f.field_id in (ROW_ID_ID, LAST_UPDATED_ID)]
        return [ReadColumn(f, alias(f.field_id)) for f in stored]

    def has_default(self, column: ReadColumn) -> bool:
        """Whether files without the column have its initial default, not the partition's value."""
        return self.group.by_id and column.field.field_id not in self.group.lacking

    def column_sql(self, column: ReadColumn) -> str:
        field_id = column.field.field_id
        if not column.is_read:
            value = self.constant_of_partition(column.field) if field_id in self.group.lacking else None
            return value or missing_stored_sql(column.field)
        value = stored_sql(column, quote(column.name or ""), default=self.has_default(column))
        if self.group.by_id and _may_lose_ids(column):
            # Spark drops the field ids of a column of which it reads parts, and then looks parts up by name.
            value = f"element_at(array({value}), 1)"
        if not self.group.by_id and isinstance(column.field.field_type, UNSAFE_TO_PUSH):
            # The same value, in a form that Spark pushes no filter through (see `UNSAFE_TO_PUSH`).
            value = f"greatest({value}, {value})"
        if field_id not in self.group.lacking:
            return value
        return f"coalesce({value}, {self.constant_of_partition(column.field)})"

    def constant_of_partition(self, f: NestedField) -> str:
        places = self.context.identity_fields
        place = {
            spec_id: next((i for i, source in found if source == f.field_id), None) for spec_id, found in places.items()
        }
        identity = [
            None if (i := place[spec_id]) is None else p[i] for spec_id, p in self.group.files.with_partitions()
        ]
        array = stored_array(to_array(f.field_type, identity, with_ids=False), f.field_type)
        return self.constant(f"__icecore_p{f.field_id}", stored_type(f.field_type), array)

    def constant(self, name: str, spark_type: T.DataType, values: pa.Array) -> str:
        """A value for each file, in the order of the tasks."""
        self.constants[name] = (spark_type, values)
        return quote(name)

    def reserved_sql(self, f: NestedField) -> str:
        files = self.group.files
        match f.field_id:
            case i if i == FILE_ID:
                return self.constant(_LOCATION, T.StringType(), files.locations)
            case i if i == POS_ID:
                return self.position()
            case i if i == DELETED_ID:
                return "FALSE"
            case i if i == SPEC_ID_ID:
                return self.constant(_SPEC, T.IntegerType(), files.spec_ids)
            case i if i == PARTITION_ID:
                return self.partition_sql(f)
            case i if i == ROW_ID_ID:
                return self.lineage(f, f"({self.first_row()} + {self.position()})")
            case i if i == LAST_UPDATED_ID:
                return self.lineage(f, self.constant(_SEQUENCE, T.LongType(), files.sequence_numbers))
            case _:
                raise ValidationError(f"metadata column {f.name!r} (id {f.field_id}) can't be read")

    def partition_sql(self, f: NestedField) -> str:
        specs = self.context.metadata.specs
        values = [partition_struct(specs[spec_id], found) for spec_id, found in self.group.files.with_partitions()]
        parts = []
        for part in children(f.field_type):
            t = part.field_type
            array = stored_array(to_array(t, [v.get(part.field_id) for v in values], with_ids=False), t)
            constant = self.constant(f"__icecore_part{part.field_id}", stored_type(t), array)
            parts.append(f"{text_literal(part.name)}, {shown_primitive_sql(t, constant)}")
        return f"named_struct({', '.join(parts)})"

    def first_row(self) -> str:
        return self.constant(_FIRST_ROW, T.LongType(), self.group.files.first_row_ids)

    def position(self) -> str:
        self.needs_position = True
        return quote(_POS)

    def lineage(self, f: NestedField, inherited: str) -> str:
        """The stored value where not null, else the inherited one; null where the file has no first row id (RL5)."""
        value = f"coalesce({quote(alias(f.field_id))}, {inherited})" if self.group.by_id else inherited
        return f"IF({self.first_row()} IS NULL, NULL, {value})"

    def position_deletes(self) -> list[PositionDeletes]:
        files, found = self.group.files, []
        for number, of_file in enumerate(files.delete_files):
            deletes = tuple(without_metrics(d) for d in of_file if d.content is DataFileContent.POSITION_DELETES)
            if deletes:
                found.append(PositionDeletes(number, files.locations[number].as_py(), deletes))
        self.needs_position = self.needs_position or bool(found)
        return found

    def without_positions(self, frame: DataFrame, positions: list[PositionDeletes]) -> DataFrame:
        """The rows that are not deleted: by few bits that the session can test, else by an anti join."""
        session, storage, planned = self.context.session, self.context.storage, self.context.planned_frames
        bits = None if planned is None else position_bits(positions, len(self.group.files), storage)
        if planned is not None and bits is not None:
            return planned.without_deleted(frame, _NUMBER, _POS, bits)
        keys = position_keys(session, positions, storage)
        key = (F.col(_NUMBER).cast("bigint") * (1 << POSITION_BITS)) + F.col(_POS)
        return frame.join(keys, key == keys["key"], "left_anti")

    def equality_deletes(self) -> list[EqualityDeletes]:
        """The equality delete files by key columns; where files have different sets, each has its set's number."""
        sets: dict[frozenset[str], int] = {}
        numbers, files = [], {}
        for of_file in self.group.files.delete_files:
            equality = [d for d in of_file if d.content is DataFileContent.EQUALITY_DELETES]
            files.update({d.file_path: d for d in equality})
            numbers.append(sets.setdefault(frozenset(d.file_path for d in equality), len(sets)))
        if not files:
            return []
        if len(sets) > 1:
            self.constant(_SET, T.IntegerType(), pa.array(numbers, pa.int32()))
        by_keys: dict[tuple[int, ...], list[tuple[ContentFile, tuple[int, ...]]]] = {}
        for path, d in files.items():
            inside = tuple(n for members, n in sets.items() if path in members)
            by_keys.setdefault(tuple(sorted(d.equality_ids or ())), []).append((without_metrics(d), inside))
        return [EqualityDeletes(self.readers(ids), tuple(ds)) for ids, ds in by_keys.items()]

    def readers(self, ids: tuple[int, ...]) -> tuple[Any, ...]:
        found = tuple(self.context.key_reader(i) for i in ids)
        if not found or None in found:
            raise ValidationError(f"no schema of the table has the key columns {list(ids)} of an equality delete file")
        return found

    def without_equal_rows(
        self, frame: DataFrame, deletes: EqualityDeletes, columns: Mapping[int, ReadColumn], sql: Mapping[int, str]
    ) -> DataFrame:
        rows = equality_rows(self.context.session, deletes, self.context.identification, self.context.storage)
        condition = F.lit(True)
        for i, r in enumerate(deletes.readers):
            value = path_sql(columns, sql, self.context.id_path(r.leaf.field_id))
            condition = condition & F.expr(value).eqNullSafe(rows[f"k{i}"])
        if _SET in self.constants:
            condition = condition & F.array_contains(rows["sets"], F.col(_SET))
        return frame.join(rows, condition, "left_anti")

    def placed(self, *, numbered: bool) -> DataFrame:
        """The files with the position of each row and the constants of its file."""
        if numbered:
            self.constant(_NUMBER, T.IntegerType(), pa.array(range(len(self.group.files)), pa.int32()))
        planned = self.context.planned_frames
        if planned is None:
            return self.joined()
        fields = self.read_fields()
        position = planned.position_column if self.needs_position else None
        if position is not None:
            fields = T.StructType([*fields, T.StructField(position, T.LongType())])
        group = self.group
        frame = planned.frame(group.paths, group.files.sizes, fields, self.constants, _OPTIONS, self.pruning())
        if position is None:
            return frame
        # Without its position it could not be told whether a row is deleted.
        found = f"coalesce({quote(position)}, CAST(raise_error('a row came without its position') AS BIGINT))"
        return frame.select("*", F.expr(found).alias(_POS))

    def pruning(self) -> FilePruning | None:
        """The pruning of files by filters on the columns that are read without values from the partition."""
        if self.context.replanned is None:
            return None
        read = [c for c in self.group.columns if c.is_read and c.field.field_id not in self.group.lacking]
        terms = dict(_terms(self.context.schema, read, ()))
        return FilePruning(terms, self.group.files.locations, self.context.replanned, self.is_all)

    def joined(self) -> DataFrame:
        """The files as in `placed`, by public API alone."""
        columns = [*self.group.columns, *self.stored_lineage()]
        guard = IdGuard.of(self.context, columns, by_id=self.group.by_id)
        fields = self.read_fields()
        reader = self.context.session.read.schema(T.StructType([*fields, *guard.fields])).options(**_OPTIONS)
        frame = reader.parquet(*self.group.paths.to_pylist())
        extra = {}
        if self.needs_position:
            extra[_POS] = "_metadata.row_index"
        if self.constants:
            extra[_PATH] = "_metadata.file_path"
        if extra:
            frame = frame.select("*", *(F.col(source).alias(name) for name, source in extra.items()))
        frame = guard.guarded(frame, [*(f.name for f in fields), *extra])
        return self.with_constants(frame) if self.constants else frame

    def with_constants(self, frame: DataFrame) -> DataFrame:
        names = list(self.constants)
        path, found = f"{_PATH}_of_file", "__icecore_found"
        arrays = [pa.array([shown_path(p) for p in self.group.paths.to_pylist()], pa.string())]
        arrays += [pa.array([True] * len(arrays[0])), *(array for _, array in self.constants.values())]
        struct = T.StructType(
            [
                T.StructField(path, T.StringType()),
                T.StructField(found, T.BooleanType()),
                *(T.StructField(name, t) for name, (t, _) in self.constants.items()),
            ]
        )
        files = arrow_frame(self.context.session, pa.table(arrays, names=struct.names), struct)
        out = frame.join(F.broadcast(files), frame[_PATH] == files[path], "left")
        # A path that Spark shows in another way than expected must never cost deletes or constants.
        message = f"concat({text_literal('Spark read a file that was not planned: ')}, {quote(_PATH)})"
        guarded = [
            F.expr(f"IF({found} IS NULL, CAST(raise_error({message}) AS {ddl(t)}), {quote(name)})").alias(name)
            for name, (t, _) in self.constants.items()
        ]
        kept = [F.col(quote(c)) for c in out.columns if c not in (path, found, *names)]
        return out.select(*kept, *guarded)


def _may_lose_ids(column: ReadColumn) -> bool:
    """Whether values are found only by ids that Spark may drop: those in a struct under an alias, or below lists."""
    t = column.field.field_type
    return has_struct_below(t) or (column.name == alias(column.field.field_id) and has_struct(t))


def _terms(
    schema: Schema, columns: Iterable[ReadColumn], outer: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], BoundTerm]]:
    """The columns that a schema knows, structs and what is in them, by the names on the way to them."""
    for c in columns:
        f = schema.get_field(c.field.field_id)
        if c.is_read and c.name is not None and f is not None:
            yield (*outer, c.name), BoundTerm(f, schema.name_of(f.field_id))
            if isinstance(c.field.field_type, StructType):
                yield from _terms(schema, c.parts, (*outer, c.name))
