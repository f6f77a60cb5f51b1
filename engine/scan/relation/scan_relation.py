"""The rows of a scan as a relation of DuckDB: files that it may read itself, and streams of what this engine reads.

Spec: Column Projection (P1), Row-level Deletes (D2 to D5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, assert_never

import numpy as np
import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.common.text import ascii_lower
from icecore.engine.data.arrow.arrow_schema import field_to_arrow, schema_to_arrow
from icecore.engine.data.arrow.arrow_values import constant_array, to_array
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import identity_values
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import TRUE
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.scan.relation.file_footers import SQL, FileFooters
from icecore.engine.scan.relation.native_columns import (
    FileColumns,
    Given,
    NativeColumn,
    OfFile,
    Read,
    RowPosition,
    duckdb_type,
    native_column,
)
from icecore.engine.scan.relation.row_stream import RowStream
from icecore.engine.spec.content_file import DataFileContent, FileFormat
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import (
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    LINEAGE,
    PARTITION_ID,
    ROW_ID,
    SPEC_ID,
    partition_struct,
)
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import NestedField

MOST_GROUPS = 64
"""The most groups of like files that DuckDB reads; this engine reads the files of further groups."""

_BYTES_OF_TASK = 2048
_GLOB = frozenset("*?[")
# Virtual columns, which a column of a file hides.
_PLACES = {"file_index", "file_row_number"}


class Scanned(Protocol):
    """A scan as its relation sees it."""

    schema: Schema
    limit: int | None

    @property
    def projection(self) -> Schema: ...

    @property
    def metadata(self) -> TableMetadata: ...

    @property
    def storage(self) -> Any: ...

    def plan_files(self) -> list[FileScanTask]: ...

    def read_tasks(self, tasks: Sequence[FileScanTask], projection: Schema) -> Iterator[pa.RecordBatch]: ...


@frozen
class ScanRelation:
    """A query over `relations`, which have to be registered by these names, and over local `files` that DuckDB reads.

    `held_bytes` is about the memory that it takes to keep the relation.
    """

    sql: str
    relations: Mapping[str, Any]
    files: tuple[str, ...]
    held_bytes: int


@define
class _Group:
    """Files of the same columns, whose rows DuckDB reads in one go."""

    columns: tuple[NativeColumn, ...]
    files: list[tuple[FileScanTask, str]] = field(factory=list)


def scan_relation(
    scan: Scanned,
    tasks: Sequence[FileScanTask],
    prefix: str,
    needed: frozenset[int] | None = None,
    *,
    may_read_files: bool = True,
) -> ScanRelation:
    """The rows of a scan's tasks as a relation, with the columns of its projection by name, null where not `needed`.

    DuckDB reads files itself where it may. The names of all relations begin with the prefix. A column whose name is an
    earlier one's but for case gets a number at its end, as in a registered Arrow table. Raises ValidationError where a
    partition spec is missing.
    """
    return _Relation(scan, prefix, needed, may_read_files).relation(tasks)


def column_names(schema: Schema) -> list[str]:
    """The names of a schema's columns as DuckDB has them: those that differ in case alone get a number.

    No name with a number is that of another column.
    """
    found: dict[str, str] = {}
    own = {ascii_lower(f.name) for f in schema.fields}
    for f in schema.fields:
        name, number = f.name, 0
        while ascii_lower(name) in found or (number and ascii_lower(name) in own):
            number += 1
            name = f"{f.name}_{number}"
        found[ascii_lower(name)] = name
    return list(found.values())


@define
class _Relation:
    scan: Scanned
    prefix: str
    needed: frozenset[int] | None
    may_read_files: bool
    relations: dict[str, Any] = field(factory=dict)
    files: list[str] = field(factory=list)
    deletes: DeleteCache = field(factory=DeleteCache)

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns of the relation, in order."""
        return self.scan.projection.fields

    def relation(self, tasks: Sequence[FileScanTask]) -> ScanRelation:
        counted, left = self.counted(tasks)
        groups, others = self.grouped(left)
        parts = [self.native(g) for g in groups]
        if counted:
            nulls = ", ".join(f"{self.null(i)} AS c{i}" for i in range(len(self.fields)))
            parts.append(query(SQL, "counted_rows", columns=nulls, count=str(counted)))
        if not (parts and all(duckdb_type(f.field_type) for f in self.fields)):
            # Rows of no file, which have the type of each column.
            parts.insert(0, self.given(self.register("types", no_rows(self.typed([]))), set()))
        if others:
            stream = RowStream(self.typed(self.missing()), partial(self.batches, others))
            parts.append(self.given(self.register("rows", stream), self.missing()))
        names = [f"c{i} AS {quote(name)}" for i, name in enumerate(column_names(self.scan.projection))]
        limit = "" if self.scan.limit is None else f"LIMIT {self.scan.limit}"
        sql = query(SQL, "renamed", columns=", ".join(names), rows=duck.union_all(parts), limit=limit)
        # A stream reads deletes anew each time; the ones read here would only stay in memory.
        self.deletes = DeleteCache()
        held = sum(r.nbytes for r in self.relations.values() if isinstance(r, pa.Table)) + _BYTES_OF_TASK * len(tasks)
        return ScanRelation(sql, self.relations, tuple(self.files), held)

    def counted(self, tasks: Sequence[FileScanTask]) -> tuple[int, list[FileScanTask]]:
        """The number of rows in files that need no reading, as no column is needed, and the tasks of other files."""
        if self.needed is None or DELETED in self.fields or any(f.field_id in self.needed for f in self.fields):
            return 0, list(tasks)
        return self.deletes.counted_rows(self.scan.storage, tasks)

    def missing(self) -> set[int]:
        """The places of columns that nobody needs; `_deleted` is read all the same, as deleted rows come with it."""
        if self.needed is None:
            return set()
        found = {i for i, f in enumerate(self.fields) if f.field_id not in self.needed and f != DELETED}
        # One column is still read, to know the number of rows.
        return found if len(found) < len(self.fields) else found - {0}

    def typed(self, without: Iterable[int]) -> pa.Schema:
        """The Arrow schema of the columns, named by their places, without some of them."""
        made = [field_to_arrow(f, with_ids=False).with_name(f"c{i}") for i, f in enumerate(self.fields)]
        return pa.schema([f.with_nullable(True) for i, f in enumerate(made) if i not in set(without)])

    def register(self, what: str, relation: Any) -> str:
        name = f"{self.prefix}_{what}"
        self.relations[name] = relation
        return quote(name)

    def given(self, rows: str, missing: set[int]) -> str:
        columns = [f"{self.null(i)} AS c{i}" if i in missing else f"c{i}" for i in range(len(self.fields))]
        return query(SQL, "given_rows", columns=", ".join(columns), rows=rows)

    def null(self, place: int) -> str:
        """A null in SQL, of the column's type where DuckDB has a name for it."""
        named = duckdb_type(self.fields[place].field_type)
        return "NULL" if named is None else f"CAST(NULL AS {named})"

    # Which files are read by whom

    def grouped(self, tasks: Sequence[FileScanTask]) -> tuple[list[_Group], list[FileScanTask]]:
        """The files that DuckDB reads, in groups of like files, and the tasks of the other files."""
        paths = [self.readable_path(t) for t in tasks]
        missing = self.missing()
        with_lineage = any(f in LINEAGE and i not in missing for i, f in enumerate(self.fields))
        columns = FileFooters(self.scan.metadata, with_lineage).of([t.file for t in tasks], paths)
        groups: dict[Any, _Group] = {}
        others = []
        for task, path, found in zip(tasks, paths, columns, strict=True):
            key, made = (None, ()) if found is None or path is None else self.native_columns(task, found)
            if key is None or path is None or (key not in groups and len(groups) >= MOST_GROUPS):
                others.append(task)
            else:
                groups.setdefault(key, _Group(made)).files.append((task, path))
        return list(groups.values()), others

    def readable_path(self, task: FileScanTask) -> str | None:
        """The local path of a file that DuckDB can read, None where it can't."""
        file = task.file
        equality = any(d.content is DataFileContent.EQUALITY_DELETES for d in task.delete_files)
        if not self.may_read_files or equality:
            return None
        if file.file_format is not FileFormat.PARQUET or file.key_metadata is not None:
            return None
        path: str | None = self.scan.storage.local_path(file.file_path)
        return path if path is not None and _GLOB.isdisjoint(path) and task.residual == TRUE else None

    def native_columns(self, task: FileScanTask, found: FileColumns) -> tuple[Any, tuple[NativeColumn, ...]]:
        """The key of the group that a file is read in, and its columns; None and `()` if DuckDB can't read it."""
        hides_places = any(ascii_lower(c.name) in _PLACES for c in found.values())
        if task.delete_files and hides_places:
            return None, ()
        identity = identity_values(task.file, self.scan.metadata.specs)
        missing = self.missing()
        made = []
        for i, f in enumerate(self.fields):
            column = Given(None) if i in missing else native_column(f, found, identity)
            if column is None or (hides_places and isinstance(column, OfFile | RowPosition)):
                return None, ()
            made.append(column)
        given = tuple(repr(c.value) for c in made if isinstance(c, Given))
        return (id(found), bool(task.delete_files), given), tuple(made)

    # The rows of each

    def native(self, group: _Group) -> str:
        number = len(self.files)
        paths = [path for _, path in group.files]
        self.files += paths
        tasks = [task for task, _ in group.files]
        constants = {
            f"k{i}": array for i, c in enumerate(group.columns) if (array := self.constant(i, c, tasks)) is not None
        }
        columns = [f"{self.value(i, c)} AS c{i}" for i, c in enumerate(group.columns)]
        parts = {
            "columns": ", ".join(columns),
            "files": f"[{', '.join(map(duck.literal, paths))}]",
            "constants": f", {self.register(f'constants_{number}', pa.table(constants))} AS k" if constants else "",
        }
        deleted = self.deleted(tasks)
        if deleted is None:
            return query(SQL, "whole_files", **parts)
        return query(SQL, "files_with_deletes", **parts, deleted=self.register(f"deleted_{number}", deleted))

    def constant(self, place: int, column: NativeColumn, tasks: Sequence[FileScanTask]) -> pa.Array | None:
        """A column's constants: one value for all files, or a list with one for each file; None where it needs none."""
        field = self.fields[place]
        match column:
            case Given(value=value) if value is not None:
                return constant_array(field.field_type, value, 1, with_ids=False)
            case OfFile():
                values = to_array(field.field_type, [self.of_file(field.field_id, t) for t in tasks], with_ids=False)
                return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
            case _:
                return None

    def of_file(self, field_id: int, task: FileScanTask) -> Any:
        """The value of a metadata column of a file, as its reader has it."""
        file = task.file
        if field_id == PARTITION_ID:
            return partition_struct(self.scan.metadata.specs[file.spec_id], file.partition)
        has_row_ids = file.first_row_id is not None
        return {
            FILE.field_id: file.file_path,
            SPEC_ID.field_id: file.spec_id,
            ROW_ID.field_id: file.first_row_id,
            LAST_UPDATED_SEQUENCE_NUMBER.field_id: task.data_sequence_number if has_row_ids else None,
        }[field_id]

    def deleted(self, tasks: Sequence[FileScanTask]) -> pa.Table | None:
        """The deleted positions of each file, by its place among the tasks; None if no file has deletes.

        They are read now, into a table: DuckDB knows its number of rows, and so joins it the right way round.
        """
        found = [
            (place, self.deletes.deleted_positions(self.scan.storage, t.file.file_path, t.delete_files))
            for place, t in enumerate(tasks)
            if t.delete_files
        ]
        if not found:
            return None
        places = np.repeat(np.array([p for p, _ in found], np.uint64), [len(positions) for _, positions in found])
        return pa.table({"file": places, "pos": np.concatenate([positions for _, positions in found])})

    def batches(self, tasks: Sequence[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """The rows that this engine reads."""
        missing = self.missing()
        wanted = Schema(tuple(f for i, f in enumerate(self.fields) if i not in missing), self.scan.schema.schema_id)
        arrow = schema_to_arrow(wanted, with_ids=False)
        schema = self.typed(missing)
        for batch in self.scan.read_tasks(tasks, wanted):
            columns = narrow(batch, arrow).columns
            if len(columns):
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def value(self, place: int, column: NativeColumn) -> str:
        """The value of a column of a file that DuckDB reads."""
        match column:
            case Read(name=name, cast_to=None):
                return f"f.{quote(name)}"
            case Read(name=name, cast_to=other):
                return f"CAST(f.{quote(name)} AS {other})"
            case Given(value=value):
                return self.null(place) if value is None else f"k.k{place}"
            case RowPosition():
                return "f.file_row_number"
            case OfFile(stored=stored, by_position=by_position):
                value = f"k.k{place}[CAST(f.file_index AS BIGINT) + 1]" + (
                    " + f.file_row_number" if by_position else ""
                )
                # A file without a first row id has no row ids, whatever it stores.
                return value if stored is None else f"if({value} IS NULL, NULL, coalesce(f.{quote(stored)}, {value}))"
            case other:
                assert_never(other)
