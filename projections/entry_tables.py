"""The wide entries of tables, in DuckDB: what plans are made from.

A manifest is immutable, so it is expanded once, into a segment on disk, and never again, whatever the schema becomes. A
few new manifests at a time stay in memory until they are worth a file, and small files are merged into larger ones.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from attrs import define, evolve, field

from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.sql_files import query, quote
from icecore.engine.storage import Storage
from icecore.projections import duck
from icecore.projections.entry_scope import Scope
from icecore.projections.entry_typing import EntryTyping, Typed
from icecore.projections.manifest_entries import ManifestEntries
from icecore.projections.segment_files import (
    FILE,
    NOTHING,
    NUMBER_BITS,
    Growing,
    Segment,
    SegmentFolder,
    SegmentInfo,
    file_name,
)
from icecore.projections.segments import inherit_sequence_numbers, widen_all

MEMORY_VARIABLE = "ICECORE_CACHE_MEMORY"
"""How much memory loaded entries may take, as `512MB` or `2GB`: the name of an environment variable."""
DEFAULT_MEMORY = "1GB"
MOST_TABLES = 64
ROWS_PER_INSERT = 65_536
ROWS_OF_A_MANIFEST = 1_000
"""What is assumed where a v1 writer left the counts out."""
MANIFESTS_IN_MEMORY = 16
CELLS_IN_MEMORY = 2_000_000
MERGED_AT_ONCE = 4
MOST_FILES = 8
MOST_IDLE_MERGES = 1
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

# Of the columns above, what the wide entries are not made of.
NOT_NEEDED = frozenset({"column_sizes"})
KEY_PARTS = 4


def manifest_key(listed: ListedManifest) -> str:
    """What tells manifests apart, together with all that entries inherit.

    Ours have no length before they are written out; their paths are unique as they are.
    """
    m = listed.manifest
    length = m.manifest_length if listed.is_foreign else 0
    return f"{m.manifest_path}|{length}|{m.partition_spec_id}|{m.sequence_number}|{m.added_snapshot_id}"


@define
class EntryTable:
    """The entries of one table: its segments, and which manifest is where.

    `columns` maps the names of the columns that any segment has to their DuckDB types; `name` is that of a view over
    what a scan looks into, while there is one. `kept` are manifests that no merge may leave behind now. `version`
    changes whenever segments do. `passed_over` are files, and their manifests, that have nothing that others lack.
    """

    name: str
    stream: str
    typing: EntryTyping
    folder: SegmentFolder | None
    segments: list[Segment] = field(factory=list)
    where: dict[str, int] = field(factory=dict)
    columns: dict[str, str] = field(factory=dict)
    kept: frozenset[str] = frozenset()
    passed_over: dict[str, tuple[str, ...]] = field(factory=dict)
    version: int = 0

    @property
    def schema(self) -> Schema:
        return self.typing.schema

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers of the loaded manifests by path, as `m` has them."""
        return {key.rsplit("|", KEY_PARTS)[0]: number for key, number in self.where.items()}

    def changed(self) -> None:
        """Brings what follows from the segments up to date; a manifest of several is taken from the first."""
        self.version += 1
        self.columns = {}
        self.where = {}
        for segment in self.segments:
            self.columns = {**segment.usable_columns(self.typing), **self.columns}
            for number, key in enumerate(segment.info.manifests):
                self.where.setdefault(key, segment.offset + number)

    def segment(self, number: int) -> Segment:
        return next(s for s in self.segments if s.number == number)

    def in_memory(self) -> Segment | None:
        return next((s for s in self.segments if s.path is None), None)

    def scope(self, manifests: Sequence[ListedManifest]) -> Scope:
        """Where these manifests are; those that are not loaded are not in it."""
        found = [(n, m.manifest.first_row_id) for m in manifests if (n := self.where.get(manifest_key(m))) is not None]
        numbers = np.array([n for n, _ in found], np.int64)
        for segment in self.segments:
            inside = numbers[(numbers >> NUMBER_BITS) == segment.number] - segment.offset
            segment.looked_for.update(inside.tolist())
        return Scope.of(self.segments, self.typing, numbers, [first for _, first in found], len(manifests))


@define
class EntryTables:
    """Loads entries, through segment files where there is a folder for them."""

    _entries: ManifestEntries
    _cache: Path | None
    _memory: str | None = None
    lock: threading.RLock = field(factory=threading.RLock, repr=False)
    _connection: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)
    _tables: OrderedDict[str, EntryTable] = field(factory=OrderedDict, repr=False)
    _typings: dict[str, tuple[TableMetadata, TableMetadata]] = field(factory=dict, repr=False)
    _made: int = 0

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB in which all entries are, made when it is first needed."""
        if self._connection is None:
            self._connection = _connect(self._memory or os.environ.get(MEMORY_VARIABLE) or DEFAULT_MEMORY)
        return self._connection

    def table(self, stream: str, metadata: TableMetadata, latest: TableMetadata) -> EntryTable:
        """The table's entries, typed by all schemas and specs up to now; nothing is loaded yet."""
        known = self._tables.get(stream)
        of = self._typings.get(stream)
        if known is not None and of is not None and of[0] is metadata and of[1] is latest:
            self._tables.move_to_end(stream)
            return known
        typing = EntryTyping.of(metadata, latest)
        if known is None:
            folder = None if self._cache is None else self._cache / stream.replace(":", "-").replace("#", "-")
            known = EntryTable(
                quote(f"entries_{self._next()}"), stream, typing, None if folder is None else SegmentFolder(folder)
            )
            self._tables[stream] = known
            self._forget_oldest()
        elif typing != known.typing:
            known.typing = typing
            self._retype(known)
        self._typings[stream] = (metadata, latest)
        self._tables.move_to_end(stream)
        return known

    def load(
        self,
        table: EntryTable,
        manifests: Sequence[ListedManifest],
        storage: Storage,
        looked_for: Iterable[ListedManifest] = (),
    ) -> None:
        """Makes sure that the manifests are loaded; those in `looked_for` are not loaded, but kept where they are."""
        missing = _missing(table, manifests)
        if missing and table.folder is not None:
            self._attach_new(table, table.folder)
            missing = _missing(table, manifests)
        if missing:
            self._expand(table, missing, storage)
            table.kept = frozenset(manifest_key(m) for m in (*manifests, *looked_for))
            self._merge_if_many(table)
            table.kept = frozenset()
            if _missing(table, manifests):
                raise StorageError(f"manifests of {table.stream} got lost among its segments")

    # Segments

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _attach_new(self, table: EntryTable, folder: SegmentFolder) -> None:
        """Takes up the files that are there, of earlier processes or others, and have what is not known yet.

        A file is removed where larger ones have all that it has. Which ones these are is the same for every process.
        """
        held = {s.path.name: s for s in table.segments if s.path is not None}
        covered: set[str] = set()
        for name in folder.names():
            keys = table.passed_over.get(name)
            if name in held:
                keys = held[name].info.manifests
            if keys is None:
                number = self._next()
                info = folder.attach(self.connection, name, _alias(number))
                if info is None:
                    continue
                keys = info.manifests
                if not covered.issuperset(keys) and not table.where.keys() >= set(keys):
                    self._take_up(table, folder, name, number, info)
                else:
                    folder.detach(self.connection, _alias(number))
                    table.passed_over[name] = keys
            if name not in held and covered.issuperset(keys):
                folder.remove([name])
            covered.update(keys)

    def _take_up(
        self, table: EntryTable, folder: SegmentFolder, name: str, number: int, info: SegmentInfo | None = None
    ) -> Segment | None:
        """Makes a file part of the table; None where it is gone, or where its types do not fit: then it goes."""
        info = info or folder.attach(self.connection, name, _alias(number))
        if info is None:
            return None
        conversions = info.typed.conversions(table.typing)
        if conversions is None:
            folder.detach(self.connection, _alias(number))
            folder.remove([name])
            return None
        segment = Segment(number, f"{_alias(number)}.entries", info, conversions, folder.path / name)
        table.segments.append(segment)
        table.changed()
        return segment

    def _retype(self, table: EntryTable) -> None:
        """After a change of schema or specs: what does not fit any more is let go, and expanded again when needed."""
        table.passed_over.clear()
        for segment in list(table.segments):
            conversions = segment.info.typed.conversions(table.typing)
            if conversions is None:
                self._drop(table, segment)
            elif segment.path is None:
                growing = Growing(self.connection, segment.entries, segment.info)
                growing.retype(table.typing, conversions)
                segment.info = growing.info
            else:
                segment.conversions = conversions
        table.changed()

    def _drop(self, table: EntryTable, segment: Segment, *, from_disk: bool = True) -> None:
        table.segments.remove(segment)
        if segment.path is None:
            duck.rows(self.connection, query(FILE, "drop_entries").format(entries=segment.entries))
            return
        SegmentFolder.detach(self.connection, _alias(segment.number))
        if from_disk and table.folder is not None:
            table.folder.remove([segment.path.name])

    # Expansion

    def _expand(self, table: EntryTable, missing: Sequence[ListedManifest], storage: Storage) -> None:
        rows = sum(_rows(m) for m in missing)
        many = len(missing) >= MANIFESTS_IN_MEMORY or rows * (25 + 5 * _width(table)) >= CELLS_IN_MEMORY
        if table.folder is not None and many and self._write(table, table.folder, missing, storage):
            return
        missing = _missing(table, missing)
        segment = table.in_memory()
        if segment is None:
            number = self._next()
            segment = Segment(number, f"memory.main.{quote(f'segment_{number}')}", NOTHING, {})
            table.segments.insert(0, segment)
        growing = Growing(self.connection, segment.entries, segment.info)
        try:
            self._fill(growing, table, missing, storage)
        finally:
            segment.info = growing.info
            table.changed()

    def _write(
        self, table: EntryTable, folder: SegmentFolder, missing: Sequence[ListedManifest], storage: Storage
    ) -> bool:
        """Expands manifests into a new file. False where it can't be written, or somebody else removed it at once."""
        try:
            with folder.writing(self.connection, _alias(self._next())) as growing:
                self._fill(growing, table, missing, storage)
        except (OSError, duckdb.Error):
            # A cache that can't be written is no reason to fail a plan. What can't be read is found out once more.
            table.folder = None
            return False
        return self._take_up(table, folder, file_name(growing.info), self._next()) is not None

    def _fill(self, growing: Growing, table: EntryTable, missing: Sequence[ListedManifest], storage: Storage) -> None:
        batch: list[pa.Table] = []
        manifests: list[ListedManifest] = []
        rows = 0
        ordered = sorted(missing, key=lambda m: m.manifest.partition_spec_id)
        found = self._entries.canonical_all(table.stream, ordered, storage, NOT_NEEDED)
        for listed, entries in zip(ordered, found, strict=True):
            same_spec = manifests and manifests[-1].manifest.partition_spec_id == listed.manifest.partition_spec_id
            if manifests and (rows >= ROWS_PER_INSERT or not same_spec):
                _add(growing, table, batch, manifests)
                batch, manifests, rows = [], [], 0
            batch.append(entries)
            manifests.append(listed)
            rows += entries.num_rows
        _add(growing, table, batch, manifests)

    # Merging

    def _merge_if_many(self, table: EntryTable) -> None:
        """Keeps files few: what is in memory moves to disk when it is much, files of like size become one."""
        if table.folder is None:
            return
        memory = table.in_memory()
        if memory is not None and (
            len(memory.info.manifests) >= MANIFESTS_IN_MEMORY
            or memory.info.rows * len(memory.info.columns) >= CELLS_IN_MEMORY
        ):
            self._merge(table, table.folder, [memory])
        files = sorted((s for s in table.segments if s.path is not None), key=lambda s: s.info.rows)
        like = _alike(files)
        if len(like) >= MERGED_AT_ONCE:
            self._merge(table, table.folder, like)
        elif len(files) > MOST_FILES:
            self._merge(table, table.folder, files[: len(files) - MOST_FILES + MERGED_AT_ONCE])

    def _merge(self, table: EntryTable, folder: SegmentFolder, segments: Sequence[Segment]) -> None:
        """Puts segments into one new file, without the manifests that nobody has looked for in a while."""
        try:
            folder.sweep()
            with folder.writing(self.connection, _alias(self._next())) as growing:
                taken: set[str] = set()
                for segment in segments:
                    self._copy(growing, table, segment, taken)
        except (OSError, duckdb.Error):
            # Many small files are slower, nothing else.
            table.folder = None
            return
        if self._take_up(table, folder, file_name(growing.info), self._next()) is None:
            return
        for segment in segments:
            self._drop(table, segment)
        table.changed()

    def _copy(self, growing: Growing, table: EntryTable, segment: Segment, taken: set[str]) -> None:
        keys, idles, olds = [], [], []
        for number, (key, idle) in enumerate(zip(segment.info.manifests, segment.info.idle, strict=True)):
            idle = 0 if number in segment.looked_for or key in table.kept else idle + 1
            if key not in taken and idle <= MOST_IDLE_MERGES:
                keys.append(key)
                idles.append(idle)
                olds.append(number)
        taken.update(keys)
        if not keys:
            return
        first = len(growing.info.manifests)
        numbers = np.arange(first, first + len(keys), dtype=np.int32)
        renumbering = pa.table({"old": pa.array(olds, pa.int32()), "new": pa.array(numbers)})
        columns = [n for n in segment.usable_columns(table.typing) if n != "m"]
        self.connection.register("renumbering", renumbering)
        try:
            source = query(FILE, "renumbered").format(
                entries=segment.entries, columns=", ".join(segment.column(n, table.typing) for n in columns)
            )
            types = {n: t for n in columns if n in segment.info.typed.types and (t := table.typing.type_of(n))}
            had = segment.info.typed
            typed = evolve(had, types=types, unreadable=had.unreadable & types.keys())
            growing.add_query(source, typed, keys, idles)
        finally:
            self.connection.unregister("renumbering")

    # Letting go

    def _forget_oldest(self) -> None:
        while len(self._tables) > MOST_TABLES:
            stream = next(iter(self._tables))
            self._forget(self._tables.pop(stream))

    def _forget(self, table: EntryTable) -> None:
        self._typings.pop(table.stream, None)
        for segment in list(table.segments):
            self._drop(table, segment, from_disk=False)

    def clear(self) -> None:
        """Drops everything loaded; segments on disk stay."""
        with self.lock:
            for table in self._tables.values():
                self._forget(table)
            self._tables.clear()

    def distrust(self, stream: str) -> None:
        """After DuckDB failed on what is loaded: drops everything, and the files of one table from disk as well."""
        with self.lock:
            table = self._tables.get(stream)
            if table is not None and table.folder is not None:
                table.folder.remove(table.folder.names())
            self.close()

    def close(self) -> None:
        with self.lock:
            self._tables.clear()
            self._typings.clear()
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _connect(memory: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "temp_directory": os.path.join(tempfile.gettempdir(), f"icecore-{os.getpid()}"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    try:
        duck.rows(connection, f"SET memory_limit = {duck.literal(memory)}")
    except duckdb.Error as e:
        connection.close()
        raise ValidationError(f"{MEMORY_VARIABLE} must be a size such as 512MB or 2GB, found {memory!r}") from e
    return connection


def _alias(number: int) -> str:
    return f"segment_{number}"


def _missing(table: EntryTable, manifests: Iterable[ListedManifest]) -> list[ListedManifest]:
    found = {key: m for m in manifests if (key := manifest_key(m)) not in table.where}
    return list(found.values())


def _rows(listed: ListedManifest) -> int:
    m = listed.manifest
    counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count)
    return ROWS_OF_A_MANIFEST if None in counts else sum(c or 0 for c in counts)


def _width(table: EntryTable) -> int:
    """About how many fields have metrics: writers keep them for the first hundred by default."""
    return min(len(table.schema.fields), 100)


def _alike(files: Sequence[Segment]) -> list[Segment]:
    """The longest run of files, by their rows, in which the largest is not much larger than the smallest."""
    best: list[Segment] = []
    for i, smallest in enumerate(files):
        run = [s for s in files[i:] if s.info.rows <= MERGED_AT_ONCE * max(smallest.info.rows, 1)]
        best = max(best, run, key=len)
    return best


def _add(growing: Growing, table: EntryTable, batch: Sequence[pa.Table], manifests: Sequence[ListedManifest]) -> None:
    """Appends the entries of manifests of one spec."""
    if not manifests:
        return
    counts = [b.num_rows for b in batch]
    typing = table.typing
    records = [m.manifest for m in manifests]
    entries = inherit_sequence_numbers(pa.concat_tables(batch), records, counts)
    wide = widen_all(entries, counts, schema=typing.schema, specs=typing.specs)
    first = len(growing.info.manifests)
    numbers = np.repeat(np.arange(first, first + len(counts), dtype=np.int32), counts)
    left_out = NOT_LOADED | typing.ambiguous
    columns = [c for c in wide.table.column_names if c not in left_out]
    rows = wide.table.select(columns).append_column("m", pa.array(numbers))
    spec_ids = {m.partition_spec_id for m in records}
    typed = Typed(
        {n: t for n, t in wide.types.items() if n not in left_out},
        wide.unreadable - left_out,
        wide.unknown,
        {i: text for i in spec_ids if (text := typing.fields_of(i)) is not None},
    )
    growing.add(rows, typed, [manifest_key(m) for m in manifests])
