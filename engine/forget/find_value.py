"""The search for a value in all that a warehouse keeps: rows of every snapshot, the log with its archives, all files.

Files are searched whole, rows that delete files hide included, whether a snapshot needs them or not. What the answer
relies on is part of it, so that it can be kept as evidence.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from attrs import asdict, define, field, frozen

from icecore.engine.common.ids import now_ms
from icecore.engine.common.location import to_uri
from icecore.engine.common.text import short_repr
from icecore.engine.common.version import ENGINE_VERSION
from icecore.engine.errors import CorruptFileError, IcecoreError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import PAYLOAD, Event, file_name_of_stream
from icecore.engine.events.event_updates import schemas_and_specs
from icecore.engine.forget.file_matches import FileMatches
from icecore.engine.forget.forgettable_text import holds_text
from icecore.engine.forget.value_bounds import WantedBounds
from icecore.engine.forget.value_matches import Wanted
from icecore.engine.formats.event_content import files_part
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.deletion_content import deleted_files
from icecore.engine.metadata.fold import TableState, folders_of
from icecore.engine.metadata.past_schemas import PastSchemas
from icecore.engine.repository.assembly import CACHE_FOLDER
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import list_files
from icecore.projections.entries.decode_entries import decode_unlisted
from icecore.projections.files.materialize import CLAIMS_FOLDER
from icecore.projections.stored_plans.plan_store import PLANS_FOLDER


@frozen
class Place:
    """A place that holds the value.

    `kind` is `event`, `bounds`, `file`, `name` (of a file or folder) or `log file`; `where` a position or a location.
    `what` are the parts: of an event `message`, `payload` and so on, of a file its columns. `count` is how many values
    there are. `table` is a name of the table that needs it, `snapshots` are those that do, none of a file that nothing
    needs, and `refs` lead to it.
    """

    kind: str
    where: str
    what: tuple[str, ...] = ()
    count: int = 1
    table: str | None = None
    snapshots: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()


@frozen
class FoundValue:
    """The answer to where a value is: `places`, and what it relies on, but not the value itself.

    `unread` are files that could not be searched, with the reason: the answer says nothing about them. `position` and
    `log_hash` are of the last event, `chain_ok` says that each event has the hash that it must have. `searched` counts
    events, tables, dropped ones, snapshots, files and bytes. `made_at_ms` is when the search began.
    """

    value_sha256: str
    table: str | None
    column: str | None
    exact: bool
    made_at_ms: int
    engine: str
    warehouse: str
    position: int
    log_hash: str
    chain_ok: bool
    searched: Mapping[str, int]
    places: tuple[Place, ...]
    unread: Mapping[str, str] = field(factory=dict)

    __repr__ = short_repr

    @property
    def is_nowhere(self) -> bool:
        """Whether everything was searched, and the value is not there."""
        return not self.places and not self.unread and self.chain_ok

    def to_json(self) -> str:
        """The answer as JSON text, with its own SHA-256 in `sha256`."""
        told = {**asdict(self), "is_nowhere": self.is_nowhere}
        digest = hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return orjson.dumps({**told, "sha256": digest}, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()


@define
class ValueSearch:
    """A search: of everything, of one table (`stream`), or of one `column` of it, by its full name.

    Texts in the table's events are searched for a column, too, unless it has numbers or days.
    """

    repository: Repository
    wanted: Wanted
    stream: str | None = None
    column: str | None = None
    _users: dict[str, set[tuple[str, int]]] = field(factory=dict, init=False)
    _unread: dict[str, str] = field(factory=dict, init=False)
    _counts: dict[str, int] = field(factory=dict, init=False)
    _storages: dict[str, Storage] = field(factory=dict, init=False)
    _bounds_of: dict[str, WantedBounds] = field(factory=dict, init=False)
    _named: set[str] = field(factory=set, init=False)
    _folders: dict[str, list[str]] = field(factory=dict, init=False)

    def run(self) -> FoundValue:
        """Searches everything. Raises MissingArchiveError, CorruptLogError, ValidationError for an unknown column."""
        store, began = self.repository.store, now_ms()
        position, log_hash, _ = store.head()
        self._counts = dict.fromkeys(("events", "tables", "dropped_tables", "snapshots", "files", "bytes"), 0)
        states = [s for s in self._states() if self.stream in (None, s.stream)]
        only = None if self.column is None else self._bounds(states[0].stream)
        places = list(self._in_log(position))
        for state in states:
            self._note_files(state)
        names = {s.stream: name_text(s.identifier) for s in states}
        refs = {s.stream: s.metadata for s in states}
        for location in sorted(self._locations()):
            for what, count in self._in_file(location, only).items():
                users = self._users.get(location, set())
                ids = {snapshot_id for _, snapshot_id in users}
                led = {n for s, _ in users for n, r in refs[s].refs.items() if self._leads(refs[s], r.snapshot_id, ids)}
                table = next((names[s] for s, _ in sorted(users)), None)
                places.append(Place("file", location, (what,), count, table, tuple(sorted(ids)), tuple(sorted(led))))
        if only is None or not only.is_number:
            places += [Place("name", location) for location in sorted(self._named)]
        if self.stream is None and not any(p.kind == "event" for p in places):
            places += self._in_log_files()
        with store.reading():
            is_whole = not list(chain_problems(store))
        return FoundValue(
            hashlib.sha256(self.wanted.encoded).hexdigest(),
            names.get(self.stream) if self.stream is not None else None,
            self.column,
            self.wanted.exact,
            began,
            ENGINE_VERSION,
            str(store.path.absolute().parent),
            position,
            log_hash,
            is_whole,
            self._counts,
            tuple(places),
            self._unread,
        )

    def _states(self) -> Iterator[TableState]:
        """The latest state of each table, dropped ones too, but for those that were purged; all folders are noted."""
        views = ViewRepository(self.repository)
        for stream in dict.fromkeys(e.stream for e in self.repository.store.naming_events()):
            if stream == ev.CATALOG_STREAM:
                continue
            if ev.is_view_stream(stream):
                self._folders[stream] = [views.state(stream).metadata.location]
                continue
            state = self.repository.state(stream)
            self._folders[stream] = folders_of(state)
            if self.stream in (None, stream):
                self._counts["dropped_tables" if state.dropped else "tables"] += 1
            if state.purged_at is None:
                yield state

    def _bounds(self, stream: str) -> WantedBounds:
        """The value as bounds and partition values of a table, by every schema and spec that it had."""
        if stream not in self._bounds_of:
            past = PastSchemas.of(self.repository.state(stream), self.repository.store.stream_events(stream))
            self._bounds_of[stream] = WantedBounds.of(self.wanted, past, self.column)
        return self._bounds_of[stream]

    @staticmethod
    def _leads(metadata: Any, head: int, ids: set[int]) -> bool:
        return any(s.snapshot_id in ids for s in metadata.ancestors(head))

    # The log

    def _in_log(self, up_to: int) -> Iterator[Place]:
        is_number = self.stream is not None and self._bounds(self.stream).is_number
        for event in self.repository.store.events(0, up_to):
            if self.stream not in (None, event.stream):
                continue
            self._counts["events"] += 1
            what = () if is_number else self._parts(event)
            if PAYLOAD not in what and self._is_default(event):
                what = (*what, "default")
            if what:
                yield Place("event", str(event.position), what)
            if count := self._in_content(event, is_number=is_number):
                yield Place("bounds", str(event.position), count=count)

    def _in_log_files(self) -> Iterator[Place]:
        """The files of the log that have the text though no event has it: freed pages keep it until they are reused."""
        for path in sorted(self.repository.store.path.parent.glob(f"{self.repository.store.path.name}*")):
            if count := self.wanted.in_bytes(path.read_bytes()):
                yield Place("log file", to_uri(path), count=count)

    def _parts(self, event: Event) -> tuple[str, ...]:
        """The parts of an event that have the text."""
        text, p = self.wanted.text, event.provenance
        texts = {n: t for n, t in event.texts.items() if n != PAYLOAD} | {
            "engine": None if (p.engine or "").startswith("icecore ") else p.engine,
            "correlation id": p.correlation_id,
            "causation id": p.causation_id,
            "idempotency key": p.idempotency_key,
        }
        found = [name for name, t in texts.items() if t is not None and text in t]
        if holds_text(orjson.loads(event.payload_text), text):
            found.append(PAYLOAD)
        return tuple(found)

    def _is_default(self, event: Event) -> bool:
        """Whether the value is the default of a column by a schema that an event brought."""
        if event.stream == ev.CATALOG_STREAM or ev.is_view_stream(event.stream):
            return False
        schemas, _ = schemas_and_specs(event)
        return bool(schemas) and self._bounds(event.stream).is_default(schemas)

    def _in_content(self, event: Event, *, is_number: bool) -> int:
        """The number of bounds, partition values and paths beside an event that hold the value."""
        store = self.repository.store
        if store.content_row(event.position) is None:
            return 0
        if event.kind in ev.DELETIONS:
            # Digits in names of files say nothing of a number.
            is_in = self.wanted.in_partition if is_number else self.wanted.in_path
            return sum(is_in(f.location) for f in deleted_files(store, event))
        entries = store.entries(event.position)
        if entries is None:
            return 0
        return self._bounds(event.stream).count(entries) + self._in_kept(event)

    def _in_kept(self, event: Event) -> int:
        """The number of places in manifests of others that an event keeps whole."""
        data = self.repository.store.content(event.position)
        count = 0
        for location, kept in files_part(data or b"", event.position).items():
            if kept is not None:
                with contextlib.suppress(CorruptFileError):
                    count += self._bounds(event.stream).count(decode_unlisted(kept, location))
        return count

    # Files

    def _note_files(self, state: TableState) -> None:
        """Notes which snapshots need which files."""
        storage = self.repository.storage_of(state)
        by_manifest: dict[str, list[str]] = {}
        for snapshot in state.metadata.snapshots:
            self._counts["snapshots"] += 1
            for listed in self.repository.list_manifests(state, snapshot):
                path = listed.manifest.manifest_path
                if path not in by_manifest:
                    entries = self.repository.lists.live_entries(state, listed)
                    # What a manifest of ours says is searched in the log, also before its file is written.
                    is_there = listed.is_foreign or storage.exists(path)
                    by_manifest[path] = [*([path] if is_there else []), *entries["file_path"].to_pylist()]
                for location in by_manifest[path]:
                    there = storage.resolve(location)
                    self._storages.setdefault(there, storage)
                    self._users.setdefault(there, set()).add((state.stream, snapshot.snapshot_id))

    def _locations(self) -> set[str]:
        """The files of the warehouse and of tables and views elsewhere, or of the one table, and those that it needs.

        The log and its caches are left out, but not claims and named plans. Names of files and folders that have the
        value are noted on the way.
        """
        root = self.repository.store.path.absolute().parent
        cache, found = root / CACHE_FOLDER, set(self._users)
        if self.stream is None:
            tops = [root, root / CLAIMS_FOLDER, cache / PLANS_FOLDER]
            elsewhere = [f for folders in self._folders.values() for f in folders]
        else:
            tops, elsewhere = [cache / PLANS_FOLDER / file_name_of_stream(self.stream)], self._folders[self.stream]
        paths = [Path(p) for f in dict.fromkeys(elsewhere) if (p := self.repository.storage.local_path(f)) is not None]
        tops += [p for p in paths if self.stream is not None or not p.is_relative_to(root)]
        for top in tops:
            for parent, inner, names in _folders(top):
                inner[:] = [i for i in inner if Path(parent, i) != cache]
                if Path(parent) == root:
                    names = [n for n in names if not n.startswith(self.repository.store.path.name)]
                self._named.update(to_uri(Path(parent, n)) for n in (*inner, *names) if self.wanted.in_path(n))
                found.update(to_uri(Path(parent, name)) for name in names)
        remote = [f for f in dict.fromkeys(elsewhere) if self.repository.storage.local_path(f) is None]
        return found.union(*map(self._remote_files, remote))

    def _remote_files(self, folder: str) -> set[str]:
        """The files of a folder in an object store; where it can't be listed, it was not read."""
        try:
            found = {f.location for f in list_files(self.repository.storage, folder, lambda _: False)}
        except (IcecoreError, OSError) as e:
            self._unread[folder] = str(e)
            return set()
        self._named.update(location for location in found if self.wanted.in_path(location.removeprefix(folder)))
        return found

    def _in_file(self, location: str, only: WantedBounds | None) -> dict[str, int]:
        """The matches in each column of a file, or in its bytes."""
        storage = self._storages.get(location, self.repository.storage)
        try:
            data = storage.read_bytes(location)
            self._counts["files"] += 1
            self._counts["bytes"] += len(data)
            known = next((self._bounds(stream) for stream, _ in sorted(self._users.get(location, ()))), None)
            return FileMatches(self.wanted, only, known).of(data, location)
        except (IcecoreError, OSError, ValueError, EOFError, zlib.error, pa.ArrowException) as e:
            self._unread[location] = str(e)
            return {}


def _folders(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """The folders in one with the names of what is in them, behind symbolic links too, each once."""
    seen = set[str]()
    for parent, inner, names in os.walk(top, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        yield parent, inner, names
