"""The wide entries of tables, in DuckDB, from which plans are made.

A manifest is immutable, so it is expanded once, into a segment on disk, and never again, whatever the schema becomes. A
few new manifests at a time stay in memory until they are worth a file, and small files are merged into larger ones.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
from attrs import define, evolve, field

from icecore.engine.common import fork_safety
from icecore.engine.common.fork_safety import Lock
from icecore.engine.errors import IcecoreError, StorageError, ValidationError
from icecore.engine.events.event import file_name_of_stream
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import Instance, KeptInstances
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.manifest_entries import ManifestEntries
from icecore.projections.segments.entry_expansion import NOT_NEEDED, expand, expected_cells
from icecore.projections.segments.entry_table import EntryTable, Loaded, manifest_key
from icecore.projections.segments.entry_typing import EntryTyping
from icecore.projections.segments.segment_files import (
    FILE,
    NOTHING,
    Growing,
    Segment,
    SegmentFolder,
    SegmentInfo,
    file_name,
)
from icecore.projections.segments.segment_merging import copy_all, files_to_merge, outgrown, worth_a_file

MEMORY_VARIABLE = "ICECORE_CACHE_MEMORY"
"""The environment variable that says how much memory loaded entries may take, as `512MB` or `2GB`."""
DEFAULT_MEMORY = "1GB"
MOST_TABLES = 64
AFTER = ".after-"
_INSTANCES = KeptInstances()


@define(eq=False)
class EntryTables:
    """The loaded entries of all tables, through segment files where there is a folder. A forked process has its own.

    `forgotten` says at which position bounds of a table's files were forgotten last, empty if never: entries loaded or
    written before that still hold them, here and in every other process, and are not used or merged any more.
    """

    _entries: ManifestEntries
    _cache: Path | None
    _memory: str | None = None
    _forgotten: Callable[[str], str] = lambda _: ""
    lock: Lock = field(factory=Lock, repr=False)
    _instance: Instance | None = field(default=None, repr=False)
    _tables: OrderedDict[str, EntryTable] = field(factory=OrderedDict, repr=False)
    _typings: dict[str, tuple[TableMetadata, TableMetadata]] = field(factory=dict, repr=False)
    _made: int = 0

    def __attrs_post_init__(self) -> None:
        fork_safety.watch(self)

    def forget_parent(self) -> None:
        """Leaves the connection to the parent process."""
        if self._instance is not None:
            self._instance.abandon()
            self._instance = None
        self._tables.clear()
        self._typings.clear()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB in which all entries are, made when it is first needed."""
        if self._instance is None:
            self._instance = _take(self._memory or os.environ.get(MEMORY_VARIABLE) or DEFAULT_MEMORY)
        return self._instance.connection

    @property
    def is_open(self) -> bool:
        """Whether there is a DuckDB at this moment."""
        return self._instance is not None

    def table(self, stream: str, metadata: TableMetadata, latest: TableMetadata) -> EntryTable:
        """The table's entries, typed by all schemas and specs up to now; nothing is loaded yet."""
        forgotten = self._forgotten(stream)
        known = self._tables.get(stream)
        if known is not None and known.forgotten != forgotten:
            self._forget(self._tables.pop(stream))
            known = None
        of = self._typings.get(stream)
        if known is not None and of is not None and of[0] is metadata and of[1] is latest:
            self._tables.move_to_end(stream)
            return known
        typing = EntryTyping.of(metadata, latest)
        if known is None:
            folder = (
                None if self._cache is None else SegmentFolder(self._cache / segment_folder_name(stream, forgotten))
            )
            name = quote(f"entries_{self._next()}")
            known = EntryTable(name, stream, folder, Loaded.of(typing, ()), forgotten=forgotten)
            self._tables[stream] = known
            self._forget_oldest()
        elif typing != known.typing:
            self._retype(known, typing)
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
        """Loads the manifests that are missing; a merge keeps those in `looked_for` too. Raises StorageError."""
        missing = table.missing(manifests)
        if missing and table.folder is not None:
            self._attach_new(table, table.folder)
            missing = table.missing(manifests)
        if missing:
            self._expand(table, missing, storage)
            table.kept = frozenset(manifest_key(m) for m in (*manifests, *looked_for))
            self._merge_if_many(table)
            table.kept = frozenset()
            if table.missing(manifests):
                raise StorageError(f"manifests of {table.stream} got lost among its segments")

    # Segments

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _attach_new(self, table: EntryTable, folder: SegmentFolder) -> None:
        """Attaches the files of earlier processes, or others, that have manifests not loaded yet.

        A file is removed where larger ones have all its manifests. Every process decides that alike.
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
                if not covered.issuperset(keys) and not table.loaded.where.keys() >= set(keys):
                    self._take_up(table, folder, name, number, info)
                else:
                    folder.detach(self.connection, _alias(number))
                    table.passed_over[name] = keys
            if name not in held and covered.issuperset(keys):
                folder.remove([name])
            covered.update(keys)

    def _take_up(
        self,
        table: EntryTable,
        folder: SegmentFolder,
        name: str,
        number: int,
        info: SegmentInfo | None = None,
        instead_of: Sequence[Segment] = (),
    ) -> bool:
        """Makes a file part of the table; False where it is gone, or is removed since its types do not fit."""
        info = info or folder.attach(self.connection, name, _alias(number))
        if info is None:
            return False
        conversions = info.typed.conversions(table.typing)
        if conversions is None:
            folder.detach(self.connection, _alias(number))
            folder.remove([name])
            return False
        segment = Segment(number, f"{_alias(number)}.entries", info, conversions, folder.path / name)
        table.loaded = table.loaded.changed(gone=instead_of, last=[segment])
        return True

    def _retype(self, table: EntryTable, typing: EntryTyping) -> None:
        """Adapts the table to a change of schema or specs: entries that don't fit are dropped, to be expanded again."""
        table.passed_over.clear()
        kept, gone = [], []
        for segment in table.segments:
            conversions = segment.info.typed.conversions(typing)
            if conversions is None:
                gone.append(segment)
            elif segment.path is None:
                kept.append(self._retyped(table, segment, typing, conversions))
            else:
                kept.append(evolve(segment, conversions=conversions))
        table.loaded = Loaded.of(typing, kept)
        for segment in gone:
            self._release(table, segment)

    def _retyped(
        self, table: EntryTable, segment: Segment, typing: EntryTyping, conversions: Mapping[str, str]
    ) -> Segment:
        """The segment in memory, in other types."""
        growing = Growing(self.connection, segment.entries, segment.info)
        with self._whole_or_gone(table, segment):
            growing.retype(typing, conversions)
        return evolve(segment, info=growing.info)

    @contextlib.contextmanager
    def _whole_or_gone(self, table: EntryTable, segment: Segment) -> Iterator[None]:
        """A context that drops the segment in memory where its change is broken off, by a signal too.

        Otherwise rows of a manifest that was not noted might be left, and the next manifest would get their number.
        """
        try:
            yield
        except IcecoreError:
            # A manifest that can't be read fails before any of its rows is added.
            raise
        except BaseException:
            table.loaded = table.loaded.changed(gone=[segment])
            with contextlib.suppress(duckdb.Error):
                self._release(table, segment)
            raise

    def _release(self, table: EntryTable, segment: Segment, *, from_disk: bool = True) -> None:
        """Drops a segment that the table no longer has, with its file if `from_disk`."""
        if segment.path is None:
            duck.rows(self.connection, query(FILE, "drop_entries", entries=segment.entries))
            return
        SegmentFolder.detach(self.connection, _alias(segment.number))
        if from_disk and table.folder is not None:
            table.folder.remove([segment.path.name])

    # Expansion

    def _expand(self, table: EntryTable, missing: Sequence[ListedManifest], storage: Storage) -> None:
        many = worth_a_file(len(missing), expected_cells(table.typing, missing))
        if table.folder is not None and many and self._write(table, table.folder, missing, storage):
            return
        missing = table.missing(missing)
        segment = table.in_memory()
        if segment is None:
            number = self._next()
            segment = Segment(number, f"memory.main.{quote(f'segment_{number}')}", NOTHING, {})
        growing = Growing(self.connection, segment.entries, segment.info)
        try:
            with self._whole_or_gone(table, segment):
                self._fill(growing, table, missing, storage)
        except IcecoreError:
            table.grown(segment, growing.info)
            raise
        table.grown(segment, growing.info)

    def _write(
        self, table: EntryTable, folder: SegmentFolder, missing: Sequence[ListedManifest], storage: Storage
    ) -> bool:
        """Expands manifests into a new file. False where it can't be written, or somebody else removed it at once."""
        try:
            with (
                duck.one_thread(self.connection),
                folder.writing(self.connection, _alias(self._next())) as growing,
            ):
                self._fill(growing, table, missing, storage)
        except (OSError, duckdb.Error):
            # A cache that can't be written fails no plan. A manifest that can't be read fails again, read into memory.
            table.folder = None
            return False
        return self._take_up(table, folder, file_name(growing.info), self._next())

    def _fill(self, growing: Growing, table: EntryTable, missing: Sequence[ListedManifest], storage: Storage) -> None:
        ordered = sorted(missing, key=lambda m: m.manifest.partition_spec_id)
        found = self._entries.canonical_all(table.stream, ordered, storage, NOT_NEEDED)
        expand(growing, table.typing, zip(ordered, found, strict=True))

    # Merging

    def _merge_if_many(self, table: EntryTable) -> None:
        """Keeps files few: what is in memory moves to disk when it is much, files of like size become one."""
        if table.folder is not None and (memory := outgrown(table)) is not None:
            self._merge(table, table.folder, [memory])
        if table.folder is not None and (files := files_to_merge(table)):
            self._merge(table, table.folder, files)

    def _merge(self, table: EntryTable, folder: SegmentFolder, segments: Sequence[Segment]) -> None:
        """Merges segments into one new file, which replaces them."""
        try:
            with folder.writing(self.connection, _alias(self._next())) as growing:
                copy_all(growing, table, segments)
        except (OSError, duckdb.Error):
            # Many small files are slower, nothing else.
            table.folder = None
            return
        if not self._take_up(table, folder, file_name(growing.info), self._next(), instead_of=segments):
            return
        for segment in segments:
            self._release(table, segment)

    # Letting go

    def _forget_oldest(self) -> None:
        while len(self._tables) > MOST_TABLES:
            stream = next(iter(self._tables))
            self._forget(self._tables.pop(stream))

    def _forget(self, table: EntryTable) -> None:
        self._typings.pop(table.stream, None)
        for segment in table.segments:
            self._release(table, segment, from_disk=False)

    def clear(self) -> None:
        """Drops everything loaded; segments on disk stay."""
        with self.lock:
            for table in self._tables.values():
                self._forget(table)
            self._tables.clear()

    def remove_stale(self, stream: str) -> None:
        """Removes the segments of a table that were written before bounds of its files were forgotten."""
        self._remove(stream, but=segment_folder_name(stream, self._forgotten(stream)))

    def remove(self, stream: str) -> None:
        """Removes the segments of a table from disk."""
        self._remove(stream, but=None)

    def _remove(self, stream: str, but: str | None) -> None:
        if self._cache is None:
            return
        for path in self._cache.glob(f"{segment_folder_name(stream, '')}*"):
            rest = path.name.removeprefix(segment_folder_name(stream, ""))
            if path.name != but and (not rest or rest.startswith(AFTER)):
                shutil.rmtree(path, ignore_errors=True)

    def distrust(self, stream: str) -> None:
        """Drops everything, and one table's files from disk too, after DuckDB failed on the loaded entries."""
        with self.lock:
            table = self._tables.get(stream)
            if table is not None and table.folder is not None:
                table.folder.remove(table.folder.names())
            if self._instance is not None:
                self._instance.close()
                self._instance = None
            self.close()

    def close(self) -> None:
        """Drops everything loaded, and gives DuckDB back."""
        with self.lock:
            self._tables.clear()
            self._typings.clear()
            if self._instance is not None:
                _INSTANCES.give_back(self._instance)
                self._instance = None


def segment_folder_name(stream: str, forgotten: str) -> str:
    """The folder of a table's segments, by the position at which some of their bounds were forgotten last."""
    name = file_name_of_stream(stream)
    return f"{name}{AFTER}{forgotten}" if forgotten else name


def _take(memory: str) -> Instance:
    instance = _INSTANCES.take()
    try:
        duck.rows(instance.connection, query(duck.SETTINGS, "memory_limit", size=duck.literal(memory)))
    except duckdb.Error as e:
        instance.close()
        raise ValidationError(f"{MEMORY_VARIABLE} must be a size such as 512MB or 2GB, found {memory!r}") from e
    return instance


def _alias(number: int) -> str:
    return f"segment_{number}"
