"""The check of the log and of the database: chain, read models, names, heads, checkpoints, hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from attrs import frozen

from icecore.engine.errors import IcecoreError, MissingArchiveError, name_text
from icecore.engine.events.event import CATALOG_STREAM
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.namespaces import fold_namespaces
from icecore.engine.log.read_models import dotted
from icecore.engine.log.store import CHECKPOINTS, MODELS, EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.replay.kinds import kind_of
from icecore.engine.repository.repository import Repository
from icecore.projections.verify.verify_files import hint_problems
from icecore.projections.verify.verify_models import database_problems, model_problems

State: TypeAlias = "TableState | ViewState"


@frozen
class CheckedLog:
    """The log as of one moment: its last position and hash, the states of tables and views, and its faults."""

    position: int
    head: str
    states: tuple[State, ...]
    problems: tuple[str, ...]


def check_log(store: EventStore, repository: Repository, streams: frozenset[str] | None) -> CheckedLog:
    """Checks the whole log, and replays the streams, or all of them. Raises StorageError."""
    broken = list(chain_problems(store))
    problems = [*database_problems(store), *broken]
    position, head, _ = store.head()
    states: dict[str, State] = {}
    for stream in sorted(_streams(store) - {CATALOG_STREAM} if streams is None else streams):
        try:
            state = _replayed(store, stream)
        except (IcecoreError, KeyError, TypeError, ValueError) as e:
            problems.append(f"{stream}: its events can't be replayed: {e}")
            continue
        if state is not None:
            states[stream] = state
    problems += _head_problems(store, states, position, streams)
    problems += _name_problems(store, repository, states)
    problems += _namespace_problems(store, repository)
    problems += _checkpoint_problems(store, streams)
    if not broken:
        problems += model_problems(store)
    for state in states.values():
        if isinstance(state, TableState):
            problems += hint_problems(repository, state)
    return CheckedLog(position, head, tuple(states.values()), tuple(problems))


def _replayed(store: EventStore, stream: str, up_to: int | None = None) -> State | None:
    try:
        events = list(store.stream_events(stream, 0, up_to))
    except MissingArchiveError:
        # The missing archive is a problem already; events after it are checked from the state at its end.
        return _replayed_from_archive(store, stream, up_to)
    state: State | None = kind_of(stream).fold(None, events)
    return state


def _replayed_from_archive(store: EventStore, stream: str, up_to: int | None) -> State | None:
    limit = 2**62 if up_to is None else up_to
    row = store.archives.kept_row("state_by_position", stream=stream, up_to=limit)
    if row is None:
        raise MissingArchiveError("the archive of its first events is missing")
    kind = kind_of(stream)
    base = kind.decode(row["state"], stream)
    state: State | None = kind.fold(base, store.stream_events(stream, base.stream_version, up_to))
    return state


def _streams(store: EventStore) -> set[str]:
    """All streams of the log, those that lie in archives as a whole too."""
    archived = {row["stream"] for row in store.archives.kept("streams_up_to", up_to=2**62)}
    return archived | {e.stream for e in store.events(store.archives.last_position)}


def _head_problems(
    store: EventStore, states: dict[str, State], position: int, streams: frozenset[str] | None
) -> Iterator[str]:
    rows = store.rows(MODELS, "all_heads")
    known = {r["stream"]: r for r in rows if streams is None or r["stream"] in streams}
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
        elif row["materialized_version"] > state.stream_version:
            done = row["materialized_version"]
            yield f"{stream}: its files are noted up to version {done}, the log ends at {state.stream_version}; rebuild"
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
            was, now = name_text(expected or ("nothing",)), name_text(found or ("nothing",))
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
            yield f"{name_text(expected)}: iceberg_tables points at {location}, the log at {state.metadata_location}"


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
            yield f"namespace {name_text(name)}: the log says {was}, the read models {now}; rebuild"


def _checkpoint_problems(store: EventStore, streams: frozenset[str] | None) -> Iterator[str]:
    for row in (*store.rows(CHECKPOINTS, "all_checkpoints"), *store.archives.kept("all_states")):
        if streams is not None and row["stream"] not in streams:
            continue
        at = f"checkpoint of {row['stream']} at version {row['stream_version']}"
        try:
            stream = row["stream"]
            kept = kind_of(stream).decode(row["state"], stream)
            replayed = _replayed(store, stream, row["position"])
        except IcecoreError as e:
            yield f"{at}: {e}"
            continue
        if kept != replayed:
            yield f"{at}: it differs from a replay of the log; rebuild"
