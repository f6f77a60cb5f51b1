"""The files that snapshots need, and those that only expired snapshots needed. Spec: Snapshot Retention Policy (R2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from icecore.engine.errors import IcecoreError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats import arrays
from icecore.engine.formats.deleted_files import DeletedFile
from icecore.engine.formats.entry_arrow import METRICS
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot

LEFT_OUT = frozenset({*METRICS, "split_offsets", "equality_ids", "sort_order_id", "first_row_id"})


def files_of_expired(repository: Repository, state: TableState, before: TableMetadata) -> list[DeletedFile]:
    """The files of the snapshots that `before` has and the state has not, which no snapshot of the state needs.

    Content files first, then manifests, lists and statistics; with their sizes as far as metadata tells them. Raises
    IcecoreError where what the state's own snapshots need can't be found out; an expired snapshot that can't be read is
    passed over.
    """
    metadata, key = state.metadata, repository.storage_of(state).key
    kept = {s.snapshot_id for s in metadata.snapshots}
    expired = [s for s in before.snapshots if s.snapshot_id not in kept]
    if not expired:
        return []

    needed = _manifests(repository, state, metadata.snapshots)
    needed_paths = {key(path) for path in needed} | {key(p) for p in _sources(repository, state, needed.values())}
    gone: dict[str, ListedManifest] = {}
    for snapshot in expired:
        with contextlib.suppress(IcecoreError):
            gone |= _manifests(repository, state, [snapshot])
    gone = {path: m for path, m in gone.items() if key(path) not in needed_paths}
    contents: dict[str, DeletedFile] = {}
    for listed in gone.values():
        with contextlib.suppress(IcecoreError):
            contents |= {key(path): DeletedFile(path, size) for path, size in _content_files(repository, state, listed)}
    if contents:
        for paths in _content_paths(repository, state, needed.values()):
            for path in paths:
                contents.pop(key(path), None)
    others = {key(location): DeletedFile(location, size) for location, size in _own_files(before, expired)}
    for location, _ in _own_files(metadata, metadata.snapshots):
        others.pop(key(location), None)
    manifests = (DeletedFile(path, m.manifest.manifest_length or None) for path, m in gone.items())
    return [*contents.values(), *(_sized(repository, f) for f in (*manifests, *others.values()))]


def _sized(repository: Repository, file: DeletedFile) -> DeletedFile:
    """A manifest or a list of ours with its size, which was noted when it was written."""
    row = repository.store.row(MODELS, "get_file", location=file.location)
    return file if row is None else evolve(file, size_in_bytes=row["length"])


def needed_files(repository: Repository, state: TableState, seen: set[tuple[str, str]]) -> Iterator[str]:
    """All files that a state names or leads to: metadata, statistics, lists, manifests, and the files in these.

    Manifests of `seen`, by stream and path, are not opened again; those that are opened join it. Raises IcecoreError
    where what the state needs can't be found out.
    """
    yield from files_beside_snapshots(state)
    yield from files_of_snapshots(repository, state, state.metadata.snapshots, seen)


def files_beside_snapshots(state: TableState) -> Iterator[str]:
    """The files that a state names beside its snapshots: metadata and statistics."""
    metadata = state.metadata
    if state.metadata_location is not None:
        yield state.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (f.statistics_path for f in metadata.statistics)
    yield from (f.statistics_path for f in metadata.partition_statistics)


def files_of_snapshots(
    repository: Repository, state: TableState, snapshots: Sequence[Snapshot], seen: set[tuple[str, str]]
) -> Iterator[str]:
    """The lists, the manifests and the files in these of some snapshots of a state. `seen` and errors as above."""
    yield from (s.manifest_list for s in snapshots if s.manifest_list is not None)
    manifests = _manifests(repository, state, snapshots)
    yield from manifests
    yield from _sources(repository, state, manifests.values())
    unseen = {path: listed for path, listed in manifests.items() if (state.stream, path) not in seen}
    for path, paths in zip(unseen, _content_paths(repository, state, unseen.values()), strict=True):
        yield from paths
        seen.add((state.stream, path))


def shares_location(repository: Repository, state: TableState) -> bool:
    """Whether another table of the warehouse was created or registered at the table's location."""
    location, stream = state.metadata.location, state.stream
    return repository.store.row(MODELS, "other_head_at", location=location, stream=stream) is not None


def _manifests(repository: Repository, state: TableState, snapshots: Iterable[Snapshot]) -> dict[str, ListedManifest]:
    return {m.manifest.manifest_path: m for s in snapshots for m in repository.list_manifests(state, s)}


def foreign_sources(
    repository: Repository, state: TableState, manifests: Iterable[ListedManifest]
) -> Iterator[ListedManifest]:
    """The manifests from outside that ours carry entries over from: the log needs their files for the entries.

    Raises CorruptLogError where the log does not know one.
    """
    seen: set[str] = set()
    waiting = [m for m in manifests if m.sources]
    while waiting:
        for source in repository.entries.sources(state.stream, waiting.pop()):
            path = source.manifest.manifest_path
            if path not in seen:
                seen.add(path)
                waiting.append(source)
                if source.is_foreign:
                    yield source


def _sources(repository: Repository, state: TableState, manifests: Iterable[ListedManifest]) -> Iterator[str]:
    return (m.manifest.manifest_path for m in foreign_sources(repository, state, manifests))


def _content_paths(
    repository: Repository, state: TableState, manifests: Iterable[ListedManifest]
) -> Iterator[list[str]]:
    """The paths of the live files of each manifest."""
    storage = repository.storage_of(state)
    for entries in repository.entries.canonical_all(state.stream, manifests, storage, LEFT_OUT):
        live, paths = arrays.to_numbers(entries["status"]) != int(ManifestEntryStatus.DELETED), entries["file_path"]
        found = paths if live.all() else paths.filter(arrays.booleans(live))
        yield list(dict.fromkeys(found.to_pylist()))


def _content_files(repository: Repository, state: TableState, listed: ListedManifest) -> Iterator[tuple[str, int]]:
    entries = repository.lists.live_entries(state, listed)
    yield from zip(entries["file_path"].to_pylist(), entries["file_size_in_bytes"].to_pylist(), strict=True)


def _own_files(metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> Iterator[tuple[str, int | None]]:
    """Manifest lists and statistics files of snapshots, with their sizes where metadata tells them."""
    ids = set()
    for snapshot in snapshots:
        ids.add(snapshot.snapshot_id)
        if snapshot.manifest_list is not None:
            yield snapshot.manifest_list, None
    yield from ((f.statistics_path, f.file_size_in_bytes) for f in metadata.statistics if f.snapshot_id in ids)
    yield from (
        (f.statistics_path, f.file_size_in_bytes) for f in metadata.partition_statistics if f.snapshot_id in ids
    )
