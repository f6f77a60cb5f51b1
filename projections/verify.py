"""Checks that a warehouse is what its log says: the chain, the read models, the checkpoints, the files on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TypeAlias

from attrs import frozen

from icecore.engine.errors import IcecoreError, MissingArchiveError
from icecore.engine.events import CATALOG_STREAM, is_view_stream
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.read_models import dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.namespaces import fold_namespaces
from icecore.engine.repository import Repository
from icecore.engine.state import TableState, fold
from icecore.engine.table_states import decode_checkpoint
from icecore.engine.view_state import ViewState, fold_view
from icecore.engine.view_states import decode_view_checkpoint
from icecore.projections.event_files import FOREIGN_METADATA
from icecore.projections.verify_files import version_problems
from icecore.projections.verify_models import database_problems, model_problems

ATTEMPTS = 3
State: TypeAlias = "TableState | ViewState"


@frozen
class Verification:
    """What `verify` found. `problems` has one sentence for each, and is empty where everything agrees."""

    events: int
    tables: int
    files: int
    head: str
    problems: tuple[str, ...]
    views: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        views = f"{self.views} views, " if self.views else ""
        what = f"{self.events} events, {self.tables} tables, {views}{self.files} files, head {self.head[:12]}"
        if self.ok:
            return f"ok: {what}"
        return f"{len(self.problems)} problems in {what}:\n" + "\n".join(f"- {p}" for p in self.problems)


def verify(store: EventStore, repository: Repository) -> Verification:
    """Reads the whole log and every file made from it, and changes nothing. Raises StorageError.

    All that is in the database is read as of one moment. Where something is wrong and others commit meanwhile, it is
    looked at again, because their files move on.
    """
    for _ in range(ATTEMPTS - 1):
        with store.reading():
            found = _verify(store, repository)
        if found.ok or store.head()[1] == found.head:
            return found
    with store.reading():
        return _verify(store, repository)


def _verify(store: EventStore, repository: Repository) -> Verification:
    broken = list(chain_problems(store))
    problems = [*database_problems(store), *broken]
    position, head, _ = store.head()
    streams = sorted(_streams(store) - {CATALOG_STREAM})
    states: dict[str, State] = {}
    for stream in streams:
        try:
            state = _replayed(store, stream)
        except (IcecoreError, KeyError, TypeError, ValueError) as e:
            problems.append(f"{stream}: its events can't be replayed: {e}")
            continue
        if state is not None:
            states[stream] = state
    problems += _head_problems(store, states, position)
    problems += _name_problems(store, repository, states)
    problems += _namespace_problems(store, repository)
    problems += _checkpoint_problems(store)
    if not broken:
        problems += model_problems(store)
    files = 0
    for stream, state in states.items():
        needed: set[str] | None = None
        for row in store.rows(MODELS, "files_of", stream=stream):
            files += 1
            if row["kind"] == FOREIGN_METADATA and isinstance(state, TableState):
                if row["location"] not in _named(state) and not repository.storage_of(state).exists(row["location"]):
                    continue
            elif isinstance(state, TableState) and _is_gone(repository, state, row["kind"], row["location"]):
                needed = _needed(repository, state) if needed is None else needed
                if row["location"] not in needed:
                    continue
            problems += _file_problems(repository, state, row["location"], row["length"], row["sha256"])
        if isinstance(state, TableState):
            problems += version_problems(repository, state)
    views = sum(is_view_stream(stream) for stream in states)
    return Verification(position, len(states) - views, files, head, tuple(problems), views)


def _replayed(store: EventStore, stream: str, up_to: int | None = None) -> State | None:
    try:
        events = list(store.stream_events(stream, 0, up_to))
    except MissingArchiveError:
        # That the archive is missing is a problem already; what comes after it is checked from the state at its end.
        return _replayed_from_archive(store, stream, up_to)
    return fold_view(None, events) if is_view_stream(stream) else fold(None, events)


def _replayed_from_archive(store: EventStore, stream: str, up_to: int | None) -> State | None:
    limit = 2**62 if up_to is None else up_to
    row = store.archives.kept_row("state_by_position", stream=stream, up_to=limit)
    if row is None:
        raise MissingArchiveError("the archive of its first events is missing")
    if is_view_stream(stream):
        view = decode_view_checkpoint(row["state"], stream)
        return fold_view(view, store.stream_events(stream, view.stream_version, up_to))
    table = decode_checkpoint(row["state"], stream)
    return fold(table, store.stream_events(stream, table.stream_version, up_to))


def _streams(store: EventStore) -> set[str]:
    """All streams of the log, those that lie in archives as a whole too."""
    archived = {row["stream"] for row in store.archives.kept("streams_up_to", up_to=2**62)}
    return archived | {e.stream for e in store.events(store.archives.last_position)}


def _head_problems(store: EventStore, states: dict[str, State], position: int) -> Iterator[str]:
    known = {r["stream"]: r for r in store.rows(MODELS, "all_heads")}
    for stream, row in known.items():
        state = states.get(stream)
        if state is None:
            yield f"{stream}: the read models know it up to position {row['position']}, the log has nothing of it"
        elif row["stream_version"] > state.stream_version:
            yield (
                f"{stream}: the read models are at version {row['stream_version']}, the log ends at "
                f"{state.stream_version} (position {position}): events were cut off"
            )
        elif row["stream_version"] < state.stream_version:
            yield f"{stream}: the read models are at version {row['stream_version']} of {state.stream_version}; rebuild"
        elif not state.pending and row["materialized_version"] < state.stream_version:
            done = row["materialized_version"]
            yield f"{stream}: its files are written up to version {done} of {state.stream_version}"
    for stream in states.keys() - known.keys():
        yield f"{stream}: the read models don't know it; rebuild"


def _name_problems(store: EventStore, repository: Repository, states: dict[str, State]) -> Iterator[str]:
    named = {stream: identifier for identifier, _, stream in repository.models.all_names()}
    for stream, state in states.items():
        expected = None if state.dropped else state.identifier
        found = named.get(stream)
        if found != expected:
            was, now = dotted(expected or ("nothing",)), dotted(found or ("nothing",))
            yield f"{stream}: the log calls it {was}, the read models {now}; rebuild"
        if expected is None or state.pending or state.metadata_location is None:
            continue
        shared = store.row(
            MODELS,
            "get_iceberg_table",
            catalog=repository.models.catalog_name,
            namespace=dotted(expected[:-1]),
            name=expected[-1],
        )
        location = None if shared is None else shared["metadata_location"]
        if location != state.metadata_location:
            yield f"{dotted(expected)}: iceberg_tables points at {location}, the log at {state.metadata_location}"


def _namespace_problems(store: EventStore, repository: Repository) -> Iterator[str]:
    expected: dict[tuple[str, ...], dict[str, str]] = {}
    for event in store.stream_events(CATALOG_STREAM):
        try:
            fold_namespaces(expected, event.kind, event.payload)
        except (IcecoreError, LookupError, TypeError, ValueError) as e:
            yield f"position {event.position}: the {event.kind} event can't be replayed: {e}"
    found = {n: repository.models.namespace_properties(n) for n in repository.models.namespaces()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            was, now = expected.get(name, "nothing"), found.get(name, "nothing")
            yield f"namespace {dotted(name)}: the log says {was}, the read models {now}; rebuild"


def _checkpoint_problems(store: EventStore) -> Iterator[str]:
    for row in (*store.rows(MODELS, "all_checkpoints"), *store.archives.kept("all_states")):
        at = f"checkpoint of {row['stream']} at version {row['stream_version']}"
        try:
            stream = row["stream"]
            decode = decode_view_checkpoint if is_view_stream(stream) else decode_checkpoint
            kept: State = decode(row["state"], stream)
            replayed = _replayed(store, stream, row["position"])
        except IcecoreError as e:
            yield f"{at}: {e}"
            continue
        if kept != replayed:
            yield f"{at}: it differs from a replay of the log; rebuild"


def _named(state: TableState) -> set[str | None]:
    """The metadata files that the table still names; older ones of other engines may be deleted (MD2)."""
    return {state.metadata_location, *(e.metadata_file for e in state.metadata.metadata_log)}


def _is_gone(repository: Repository, state: TableState, kind: str, location: str) -> bool:
    """Whether a file of snapshots is not there."""
    return kind in ("manifest", "manifest-list") and not repository.storage_of(state).exists(location)


def _needed(repository: Repository, state: TableState) -> set[str]:
    """The manifests and lists that snapshots need; those of expired snapshots may be gone (R2)."""
    out = set()
    for snapshot in state.metadata.snapshots:
        out.add(snapshot.manifest_list or "")
        listed = repository.models.list_manifests(state.stream, snapshot.snapshot_id) or ()
        out |= {m.manifest.manifest_path for m in listed}
    return out


def _file_problems(repository: Repository, state: State, location: str, length: int, sha256: str) -> Iterator[str]:
    try:
        storage = repository.storage_of(state) if isinstance(state, TableState) else repository.storage
        data = storage.read_bytes(location)
    except IcecoreError as e:
        yield str(e)
        return
    if len(data) != length:
        yield f"{location}: it has {len(data)} bytes, the log wrote {length}"
    elif hashlib.sha256(data).hexdigest() != sha256:
        yield f"{location}: its bytes were changed after it was written"
