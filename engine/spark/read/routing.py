"""The choice of a reader for each file: Spark's own where it gives the right rows, else Python.

Spec: Column Projection (P1, P2), Default Values (T9).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import chain

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.file.file_field import FileField, has_ids
from icecore.engine.data.file_columns import FileColumns
from icecore.engine.data.read.column_resolution import DELETED_ID
from icecore.engine.data.read.known_columns import KnownColumns
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.properties.data_locations import data_folder
from icecore.engine.spark.read.frame_columns import ReadColumn, columns_by_name, native_default
from icecore.engine.spark.read.frame_names import UNSAFE_TO_PUSH, is_taken
from icecore.engine.spark.read.native_scan import NativeGroup
from icecore.engine.spark.read.scan_context import ScanContext
from icecore.engine.spark.read.whole_files import FileTask
from icecore.engine.spark.spark_paths import spark_can_open, spark_path
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.types import (
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
    VariantType,
    children,
    walk,
)
from icecore.engine.storage.file_io import Storage

_KNOWN_FILES = 65_536
_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Java's writers and PyIceberg begin with the partition and the task, Trino with the query; DuckDB has a UUID alone.
NAMED_BY_ICEBERG = re.compile(
    rf"/(\d{{5,}}-\d+-[^/]*{_UUID}[^/]*|(\d{{8}}_\d{{6}}_\d{{5}}_\w{{5}}-)?{_UUID}\.parquet)$"
)
_THREADS = 16
_VECTORIZED = "spark.sql.parquet.enableVectorizedReader"
_NESTED_VECTORIZED = "spark.sql.parquet.enableNestedColumnVectorizedReader"
_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_POSITIONS = "_tmp_metadata_row_index"
_with_ids: set[str] = set()


@frozen
class Routes:
    """The groups that Spark reads, and the tasks for Python with the columns that they need."""

    native: tuple[NativeGroup, ...]
    python: tuple[FileScanTask, ...]


def routes(context: ScanContext, tasks: Sequence[FileTask]) -> Routes:
    """The routes of all tasks. Raises MissingFileError or CorruptFileError where a footer must be read and can't be."""
    router = Router(context)
    router.look_into(tasks)
    groups: dict[object, list[tuple[FileScanTask, tuple[ReadColumn, ...], frozenset[int], bool]]] = {}
    python = []
    for t in tasks:
        route = router.route(t)
        if route is None:
            python.append(t.of_rows())
        else:
            columns, lacking, by_id = route
            deletes = {d.content for d in t.task.delete_files}
            names = context.written.of(t.task.file.file_path) is not None if by_id else _names(columns)
            key = (by_id, names, lacking, frozenset(deletes))
            groups.setdefault(key, []).append((t.task, columns, lacking, by_id))
    native = []
    for members in groups.values():
        group_tasks = tuple(m[0] for m in members)
        _, columns, lacking, by_id = members[0]
        if by_id:
            found = (context.written.of(t.file.file_path) for t in group_tasks)
            written = {id(s): s for s in found if s is not None}
            columns = context.read_columns(context.read_fields(key_ids(group_tasks)), written.values())
        files = FileColumns.of_tasks(group_tasks)
        paths = pa.array([spark_path(context.storage, t.file.file_path) for t in group_tasks], pa.string())
        native.append(NativeGroup(files, paths, columns, lacking, by_id))
    return Routes(tuple(native), tuple(python))


def key_ids(tasks: Iterable[FileScanTask]) -> frozenset[int]:
    """The key columns of all equality deletes of the tasks."""
    deletes = (d for t in tasks for d in t.delete_files if d.content is DataFileContent.EQUALITY_DELETES)
    return frozenset(i for d in deletes for i in d.equality_ids or ())


class Router:
    """The choice for the files of one read."""

    def __init__(self, context: ScanContext) -> None:
        self.context = context
        self.is_planned = context.planned_frames is not None
        self.is_vectorized = self.is_planned or _setting(context, _VECTORIZED) == "true"
        self.is_nested_vectorized = self.is_planned or _setting(context, _NESTED_VECTORIZED) == "true"
        # The source of version 2 does not tell a row's position in its file.
        self.is_native = self.is_planned or "parquet" in _setting(context, _V1_SOURCES).lower().split(",")
        if any(map(_is_position, (f for schema in context.metadata.schemas for f in schema.fields))):
            self.is_native = False
        # This column asks for deleted rows too, which Spark's anti joins leave out.
        self.marks_deleted = any(f.field_id == DELETED_ID for f in context.reserved)
        self.known = KnownColumns()
        self.opened: dict[str, tuple[FileField, ...]] = {}
        self.by_keys: dict[frozenset[int], tuple[tuple[NestedField, ...], tuple[ReadColumn, ...], bool]] = {}

    def route(self, t: FileTask) -> tuple[tuple[ReadColumn, ...], frozenset[int], bool] | None:
        """The columns to read, those that may come from the partition, and whether to read by id; None for Python."""
        task, file = t.task, t.task.file
        if not self.is_native or not t.is_whole or file.file_format is not FileFormat.PARQUET:
            return None
        path = spark_path(self.context.storage, file.file_path)
        if not spark_can_open(path, hidden=self.is_planned):
            return None
        if task.delete_files and self.marks_deleted:
            return None
        keys = key_ids([task]) if task.delete_files else frozenset()
        if any(self.context.key_reader(i) is None for i in keys):
            return None
        fields, columns, defaults = self.columns(keys)
        if not defaults:
            return None
        given = self.context.identity_values(file)
        found = self.opened.get(file.file_path)
        if found is None or has_ids(found):
            lacking = frozenset(i for i in given if not self.has_column(file, i))
            by_id = True
        else:
            columns = columns_by_name(fields, self.context.identification.identified(found, file))
            unread = (c.field.field_id for c in _all_columns(columns) if not c.is_read)
            lacking = frozenset(unread).intersection(given)
            by_id = False
            if self.context.takes_names_for_patterns or not _names_are_readable(columns):
                return None
            if any(map(_is_position, found)):
                return None
        if not lacking:
            return columns, lacking, by_id
        roots = frozenset(f.field_id for f in fields)
        if lacking & {f.field_id for f in walk(fields)} - roots:
            return None
        return columns, lacking & roots, by_id

    def look_into(self, tasks: Iterable[FileTask]) -> None:
        """Opens the files that may lack field ids, all at once; files that the engine wrote for the table have them.

        In a table without a name mapping, files that are named as by writers of Iceberg are taken to have ids too, as
        no others were meant to be added to it. Spark raises an error for one that lacks them all the same.
        """
        if not self.is_native:
            return
        has_mapping = self.context.identification.name_mapping is not None
        files = [t.task.file for t in tasks if t.is_whole and t.task.file.file_format is FileFormat.PARQUET]
        own, written = self.own_folders, self.context.written
        unknown = [
            f
            for f in files
            if (has_mapping or not NAMED_BY_ICEBERG.search(f.file_path))
            and (not f.file_path.startswith(own) or written.of(f.file_path) is None)
        ]
        self.opened.update(self.physical([f.file_path for f in unknown]))

    def have_ids(self, locations: Sequence[str]) -> bool:
        """Whether each of some files has field ids, by locations that the storage resolves to themselves.

        A file that is known to have some is not opened again. Raises MissingFileError, CorruptFileError.
        """
        unknown = [p for p in locations if p not in _with_ids]
        # Where the first has none, most others of the table have none either, and `look_into` opens them all.
        if unknown and not (
            has_ids(self._columns_of(unknown[0])) and all(map(has_ids, self.physical(unknown).values()))
        ):
            return False
        if len(_with_ids) + len(unknown) > _KNOWN_FILES:
            _with_ids.clear()
        _with_ids.update(unknown)
        return True

    @cached_property
    def own_folders(self) -> tuple[str, ...]:
        """The folders that the table's writers use: elsewhere a file with such a name may be another table's copy."""
        metadata = self.context.metadata
        folders = (metadata.location, data_folder(metadata.location, metadata.properties))
        return tuple(f"{p.rstrip('/')}/" for p in folders)

    def has_column(self, file: ContentFile, field_id: int) -> bool:
        """Whether a file is known to have a column: by its metrics, or by the schema that it was written with."""
        if field_id in (file.value_counts or {}):
            return True
        written = self.context.written.of(file.file_path)
        return written is not None and written.get_field(field_id) is not None

    def columns(self, keys: frozenset[int]) -> tuple[tuple[NestedField, ...], tuple[ReadColumn, ...], bool]:
        """The fields to read, as columns by id, and whether Spark's reader can give their defaults."""
        if keys not in self.by_keys:
            fields = self.context.read_fields(keys)
            columns = self.context.read_columns(fields)
            native = all(map(native_default, fields)) and (self.reads_columns(fields) or _any_reader_has(fields))
            self.by_keys[keys] = fields, columns, native
        return self.by_keys[keys]

    def reads_columns(self, fields: Iterable[NestedField]) -> bool:
        """Whether Spark reads the fields by columns, not row by row."""
        return self.is_vectorized and (self.is_nested_vectorized or not any(map(_is_nested, fields)))

    def physical(self, locations: Sequence[str]) -> dict[str, tuple[FileField, ...]]:
        """The columns of files, by location, opened at once. Raises MissingFileError, CorruptFileError."""
        if not locations:
            return {}
        with ThreadPoolExecutor(_THREADS) as pool:
            parts = [locations[i::_THREADS] for i in range(_THREADS)]
            opened = pool.map(lambda part: [(p, self._columns_of(p)) for p in part], parts)
            return dict(chain.from_iterable(opened))

    def _columns_of(self, location: str) -> tuple[FileField, ...]:
        return _file_columns(_Opened(self.context.storage, location, self.known))


@frozen(eq=False)
class _Opened:
    """A file to look into, equal by its location: data files never change."""

    storage: Storage
    location: str
    known: KnownColumns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Opened) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> str:
        return self.storage.resolve(self.location)


@lru_cache(_KNOWN_FILES)
def _file_columns(opened: _Opened) -> tuple[FileField, ...]:
    return opened.known.of(opened.storage, opened.location)


def _setting(context: ScanContext, key: str) -> str:
    return str(context.session.conf.get(key))


def _is_nested(field: NestedField) -> bool:
    return not field.field_type.is_primitive or isinstance(field.field_type, VariantType)


def _any_reader_has(fields: tuple[NestedField, ...]) -> bool:
    """Whether Spark's row by row reader gives the fields rightly, too.

    It loses the default of the first column, and fails for some types inside of others.
    """
    inner = [f for outer in fields for f in walk(children(outer.field_type))]
    return all(f.initial_default is None for f in (*fields, *inner)) and not any(
        isinstance(f.field_type, (UUIDType, TimestampNanoType, TimestamptzNanoType)) for f in inner
    )


def _is_position(field: NestedField | FileField) -> bool:
    """Whether a column of a file has the name by which Spark's reader gives the positions of rows."""
    return field.name.lower() == _POSITIONS


def _all_columns(columns: Iterable[ReadColumn]) -> Iterable[ReadColumn]:
    for c in columns:
        yield c
        yield from _all_columns(c.parts)


def _names(columns: Iterable[ReadColumn]) -> tuple[object, ...]:
    return tuple((c.field.field_id, c.name, _names(c.parts)) for c in columns)


def _names_are_readable(columns: tuple[ReadColumn, ...]) -> bool:
    """Whether Spark can tell the columns of a file apart by name, finds something in every struct, and pushes no filter
    on a part of a struct that would lose rows.
    """
    if not _distinct(columns) or any(c.name is not None and is_taken(c.name) for c in columns):
        return False
    structs = [c for c in _all_columns(columns) if c.is_read and isinstance(c.field.field_type, StructType)]
    return all(
        any(p.is_read for p in c.parts)
        and _distinct(c.parts)
        and not any(isinstance(p.field.field_type, UNSAFE_TO_PUSH) for p in c.parts)
        for c in structs
    )


def _distinct(columns: tuple[ReadColumn, ...]) -> bool:
    names = [c.name.lower() for c in columns if c.name is not None]
    return len(set(names)) == len(names)
