"""The wide entries of tables, in an in-memory DuckDB: what plans are made from.

A manifest is immutable, so what it expands to is kept for ever as a segment on disk, and loaded at most once into a
process. Segments are files of their own without locks: any number of processes reads and writes them at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
from attrs import define, field

from icecore.engine.errors import IcecoreError
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.types import LongType, NestedField, StringType
from icecore.engine.sql_files import quote
from icecore.engine.storage import Storage
from icecore.projections import duck
from icecore.projections.manifest_entries import ManifestEntries
from icecore.projections.segments import (
    inherit_sequence_numbers,
    read_segment,
    segment_name,
    typing_key,
    widen,
    write_segment,
)

ROWS_PER_INSERT = 200_000
NOT_LOADED = frozenset(
    {
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
    }
)


PATH_FIELD_ID = 2147483546
POSITION_DELETE_FIELDS = (
    NestedField(PATH_FIELD_ID, "delete_file_path", StringType(), required=True),
    NestedField(2147483545, "delete_pos", LongType(), required=True),
)


def planning_schema(metadata: TableMetadata, latest: TableMetadata) -> Schema:
    """All primitive fields that have metrics: the table's, past and present, and those of position delete files."""
    fields = {f.field_id: f for m in (metadata, latest) for f in m.all_fields.fields}
    return Schema((*fields.values(), *POSITION_DELETE_FIELDS))


def ambiguous_columns(schema: Schema, specs: Mapping[int, PartitionSpec]) -> frozenset[str]:
    """The partition columns whose field id has another type in another spec."""
    types: dict[int, set[str]] = {}
    for spec in specs.values():
        for f in spec.fields:
            if not isinstance(f.transform, VoidTransform):
                types.setdefault(f.field_id, set()).add(str(f.result_type(schema)))
    return frozenset(f"part_{field_id}" for field_id, found in types.items() if len(found) > 1)


@define
class EntryTable:
    """The entries of one table that are loaded. `columns` maps their names to DuckDB types.

    `ambiguous` are partition columns that specs give different types, as v1 tables may (PT1): they are left out.
    """

    name: str
    stream: str
    schema: Schema
    specs: dict[int, PartitionSpec]
    typings: dict[int, str]
    ambiguous: frozenset[str]
    columns: dict[str, str] = field(factory=dict)
    numbers: dict[str, int] = field(factory=dict)


@define
class EntryTables:
    """Loads entries into DuckDB, through segments on disk where there is a folder for them."""

    _entries: ManifestEntries
    _cache: Path | None
    _storage: Storage = field(factory=Storage)
    _connection: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)
    lock: threading.RLock = field(factory=threading.RLock, repr=False)
    _tables: dict[str, EntryTable] = field(factory=dict, repr=False)
    _made: int = 0

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Made for the first plan: starting DuckDB takes longer than opening a warehouse, and commits need none."""
        with self.lock:
            if self._connection is None:
                self._connection = duckdb.connect(":memory:")
            return self._connection

    def table(self, stream: str, metadata: TableMetadata, latest: TableMetadata) -> EntryTable:
        """The table's entries as they are typed under all schemas and specs up to now; nothing is loaded yet.

        `metadata` may be of an earlier time: typing by the latest serves both without loading anything twice.
        """
        specs = {**metadata.specs, **latest.specs}
        schema = planning_schema(metadata, latest)
        typings = {i: typing_key(schema, s) for i, s in specs.items()}
        known = self._tables.get(stream)
        if known is not None and all(known.typings.get(i) == t for i, t in typings.items()):
            return known
        if known is not None:
            duck.rows(self.connection, f"DROP TABLE IF EXISTS {known.name}")
        self._made += 1
        made = EntryTable(
            quote(f"entries_{self._made}"), stream, schema, specs, typings, ambiguous_columns(schema, specs)
        )
        self._tables[stream] = made
        return made

    def load(self, table: EntryTable, manifests: Iterable[ListedManifest], storage: Storage) -> list[int]:
        """Makes sure that the manifests are loaded; returns their numbers, in order."""
        manifests = list(manifests)
        missing = [m for m in manifests if m.manifest.manifest_path not in table.numbers]
        batch: list[pa.Table] = []
        paths: list[str] = []
        for listed in missing:
            path = listed.manifest.manifest_path
            number = len(table.numbers) + len(paths)
            wide = self._segment(table, listed, storage)
            batch.append(wide.append_column("m", pa.repeat(pa.scalar(number, pa.int32()), wide.num_rows)))
            paths.append(path)
            if sum(b.num_rows for b in batch) >= ROWS_PER_INSERT:
                self._insert(table, batch, paths)
                batch, paths = [], []
        if batch:
            self._insert(table, batch, paths)
        return [table.numbers[m.manifest.manifest_path] for m in manifests]

    def _insert(self, table: EntryTable, batch: Sequence[pa.Table], paths: Sequence[str]) -> None:
        rows = pa.concat_tables(batch, promote_options="permissive")
        self.connection.register("incoming", rows)
        try:
            described = duck.rows(self.connection, "DESCRIBE incoming")
            if not table.columns:
                duck.rows(self.connection, f"CREATE TABLE {table.name} AS SELECT * FROM incoming")
            else:
                for name, kind, *_ in described:
                    if name not in table.columns:
                        duck.rows(self.connection, f"ALTER TABLE {table.name} ADD COLUMN {quote(name)} {kind}")
                duck.rows(self.connection, f"INSERT INTO {table.name} BY NAME SELECT * FROM incoming")
            table.columns |= {name: kind for name, kind, *_ in described if name not in table.columns}
        finally:
            self.connection.unregister("incoming")
        for path in paths:
            table.numbers[path] = len(table.numbers)

    def _segment(self, table: EntryTable, listed: ListedManifest, storage: Storage) -> pa.Table:
        """The wide entries of a manifest, from its segment, which is made where it is not there yet."""
        path = self._segment_path(table, listed)
        if path is not None:
            try:
                return self._wanted(table, listed, read_segment(path))
            except IcecoreError:
                # Not made yet, torn by a crash of the machine, or out of reach: a segment can always be made again.
                pass
        entries = self._entries.canonical(table.stream, listed, storage)
        wide = inherit_sequence_numbers(widen(entries, schema=table.schema, specs=table.specs), listed.manifest)
        if path is not None:
            # A cache that can't be written is no reason to fail a plan.
            try:
                write_segment(path, wide, self._storage)
            except (IcecoreError, OSError):
                self._cache = None
        return self._wanted(table, listed, wide)

    def _wanted(self, table: EntryTable, listed: ListedManifest, wide: pa.Table) -> pa.Table:
        """What plans need. A void field is always null, whatever type its source gives it."""
        fields = table.specs[listed.manifest.partition_spec_id].fields
        void = {f"part_{f.field_id}" for f in fields if isinstance(f.transform, VoidTransform)}
        left_out = NOT_LOADED | table.ambiguous | void
        return wide.select([c for c in wide.column_names if c not in left_out])

    def _segment_path(self, table: EntryTable, listed: ListedManifest) -> str | None:
        if self._cache is None:
            return None
        manifest = listed.manifest
        typing = table.typings[manifest.partition_spec_id]
        # Ours have no length before they are written out; their paths are unique as they are.
        length = manifest.manifest_length if listed.is_foreign else 0
        folder = self._cache / table.stream.replace(":", "-").replace("#", "-")
        return os.fspath(folder / segment_name(manifest.manifest_path, length, typing))

    def clear(self) -> None:
        """Drops everything loaded; segments on disk stay."""
        with self.lock:
            for table in self._tables.values():
                duck.rows(self.connection, f"DROP TABLE IF EXISTS {table.name}")
            self._tables.clear()

    def close(self) -> None:
        with self.lock:
            self._tables.clear()
            if self._connection is not None:
                self._connection.close()
