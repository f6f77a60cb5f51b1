"""The archiving of a warehouse's events, with the states and content that its tables and views still need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from icecore.engine.archive.write_archive import Archived, archive_events
from icecore.engine.errors import CorruptFileError, StorageError
from icecore.engine.events.event import CATALOG_STREAM, is_view_stream
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.spec.snapshot import Snapshot


def archive_log(repository: Repository, views: ViewRepository, last: int, path: Path | None) -> Archived | None:
    """Archives the events up to a position; see `archive_events`."""
    repository.check_writable()

    def needed(position: int) -> set[int]:
        # To settle a claim its event is looked up, which must be in the log still.
        repository.materializer.settle_all_claims()
        return _needed_content(repository, position)

    return archive_events(
        repository.store,
        last,
        path,
        lambda position: _states_at(repository, views, position),
        needed,
    )


def _states_at(repository: Repository, views: ViewRepository, position: int) -> dict[str, bytes]:
    """The states as of a position of all tables and views that have events up to there."""
    out = {}
    for row in repository.store.rows(MODELS, "all_heads"):
        stream = row["stream"]
        if stream == CATALOG_STREAM:
            continue
        states = views.states if is_view_stream(stream) else repository.states
        if (kept := states.checkpoint_at(stream, position)) is not None:
            out[stream] = kept
    return out


def _needed_content(repository: Repository, up_to: int) -> set[int]:
    """The positions whose content the snapshots of any table are put together from, dropped tables included.

    Positions of unfinished deletions, which need their list of files, are among them.
    """
    out: set[int] = {row["position"] for row in repository.store.rows(MODELS, "deletions_due")}
    for row in repository.store.rows(MODELS, "all_heads"):
        stream = row["stream"]
        if is_view_stream(stream):
            continue
        seen: set[str] = set()
        states: list[TableState | None] = [repository.states.state_at(stream)]
        if states[0] is not None and states[0].purged_at is not None:
            continue
        if 0 < row["materialized_version"] < row["stream_version"]:
            states.append(repository.states.state_at_version(stream, row["materialized_version"]))
        for state in filter(None, states):
            for snapshot in state.metadata.snapshots:
                _add_kept(repository, stream, snapshot.manifest_list or "", out)
                _add_positions(repository, stream, _listed(repository, state, snapshot), out, seen)
    return {position for position in out if position <= up_to}


def _listed(repository: Repository, state: TableState, snapshot: Snapshot) -> Sequence[ListedManifest]:
    """The manifests of a snapshot; none where another engine's list is lost, which no content brings back."""
    try:
        return repository.list_manifests(state, snapshot)
    except (StorageError, CorruptFileError):
        return ()


def _add_kept(repository: Repository, stream: str, location: str, out: set[int]) -> None:
    """The position of the event that keeps a file of others."""
    row = repository.models.kept_file(stream, location)
    if row is not None:
        out.add(row["position"])


def _add_positions(
    repository: Repository, stream: str, manifests: Iterable[ListedManifest], out: set[int], seen: set[str]
) -> None:
    """The positions of manifests, and of those that they carry entries over from."""
    waiting = list(manifests)
    while waiting:
        listed = waiting.pop()
        path = listed.manifest.manifest_path
        if path in seen:
            continue
        seen.add(path)
        if listed.is_foreign:
            _add_kept(repository, stream, path, out)
            continue
        if listed.row_count:
            out.add(listed.position)
        if listed.sources:
            waiting += repository.entries.sources(stream, listed)
