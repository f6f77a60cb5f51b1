"""The manifest lists of snapshots in the log: a part of the read models."""

from __future__ import annotations

import array
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from attrs import evolve

from icecore.engine.common.ids import signed
from icecore.engine.common.stored_json import stored_json
from icecore.engine.errors import CorruptLogError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.events.event_facts import parents_of_added
from icecore.engine.events.files_of_others import GivenFile, Keeping, kept_files
from icecore.engine.events.manifest_changes import ListedManifest, ManifestChanges
from icecore.engine.events.relocated_manifests import RelocatedManifests
from icecore.engine.log.store import MODELS, EventStore


class ManifestModels:
    """The read models of manifest lists: the manifests of each snapshot."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def list_manifests(self, stream: str, snapshot_id: int) -> tuple[ListedManifest, ...] | None:
        """The manifests of a snapshot in list order; None where this log did not make the snapshot."""
        rows = self._manifest_rows(stream, snapshot_id)
        return None if rows is None else tuple(listed for _, listed in rows)

    def lists_of(self, stream: str, snapshot_ids: Iterable[int]) -> Iterator[tuple[ListedManifest, ...] | None]:
        """The manifests of each snapshot, as by `list_manifests`; one that many snapshots list is read once."""
        lists = [self._manifest_ids(stream, snapshot_id) for snapshot_id in snapshot_ids]
        by_id = self._manifests(sorted({i for ids in lists if ids is not None for i in ids}))
        for ids in lists:
            yield None if ids is None else tuple(by_id[i] for i in ids)

    def manifests_of(self, stream: str, snapshot_ids: Iterable[int]) -> tuple[list[ListedManifest], set[int]]:
        """The manifests that any of the snapshots lists, each once, and the snapshots that this log made."""
        known, ids = set[int](), set[int]()
        for snapshot_id in snapshot_ids:
            listed = self._manifest_ids(stream, snapshot_id)
            if listed is not None:
                known.add(snapshot_id)
                ids.update(listed)
        return list(self._manifests(sorted(ids)).values()), known

    def _manifest_ids(self, stream: str, snapshot_id: int) -> array.array[int] | None:
        found = self._store.row(MODELS, "get_snapshot_manifests", stream=stream, snapshot_id=signed(snapshot_id))
        if found is None:
            return None
        ids = array.array("q")
        try:
            ids.frombytes(found["manifest_ids"])
        except ValueError as e:
            raise CorruptLogError(
                f"the manifest list of snapshot {snapshot_id} is cut off; rebuild the warehouse"
            ) from e
        return ids

    def _manifest_rows(self, stream: str, snapshot_id: int) -> list[tuple[int, ListedManifest]] | None:
        ids = self._manifest_ids(stream, snapshot_id)
        if ids is None:
            return None
        by_id = self._manifests(ids.tolist())
        return [(i, by_id[i]) for i in ids]

    def _manifests(self, ids: list[int]) -> dict[int, ListedManifest]:
        text = orjson.dumps(ids).decode()
        rows = self._store.rows(MODELS, "manifests_by_id", ids=text)
        return {r["manifest_id"]: _listed(r["record"], r["position"]) for r in rows}

    def has_list(self, stream: str, snapshot_id: int) -> bool:
        """Whether this log knows the manifest list of a snapshot."""
        return (
            self._store.row(MODELS, "get_snapshot_manifests", stream=stream, snapshot_id=signed(snapshot_id))
            is not None
        )

    def manifest(self, stream: str, manifest_path: str) -> ListedManifest | None:
        """The newest record of a manifest by its path."""
        found = self._store.row(MODELS, "manifests_by_path", stream=stream, manifest_path=manifest_path)
        return None if found is None else _listed(found["record"], found["position"])

    def kept_file(self, stream: str, location: str) -> sqlite3.Row | None:
        """The position, kind and SHA-256 of another's file that an event keeps; None where none does."""
        if not self._store.has_read_model("kept_file"):
            return None
        return self._store.row(MODELS, "get_kept_file", stream=stream, location=location)

    def streams_of_files(self, locations: Iterable[str]) -> list[str]:
        """The streams whose events wrote one of the files, or keep one that another writer made."""
        asked = {"locations": orjson.dumps(list(locations)).decode()}
        names = ("streams_that_wrote", *(("streams_that_keep",) if self._store.has_read_model("kept_file") else ()))
        return sorted({row["stream"] for name in names for row in self._store.rows(MODELS, name, **asked)})

    def keeping(self, stream: str, given: Iterable[GivenFile]) -> Keeping:
        """The given files that no event of the stream keeps yet, as an event keeps them."""
        keeping = Keeping.of(given)
        new = []
        for f in keeping.files:
            found = self.kept_file(stream, f.location)
            if found is None or found["sha256"] != f.sha256:
                new.append(f)
        return evolve(
            keeping, files=tuple(new), data={f.location: keeping.data[f.location] for f in new if f.has_bytes}
        )

    # Following the log

    def _follow_kept(self, event: Event, payload: Mapping[str, Any]) -> None:
        """Notes the files that an event keeps whole."""
        for f in kept_files(payload):
            if f.has_bytes:
                self._run(
                    "put_kept_file",
                    stream=event.stream,
                    location=f.location,
                    position=event.position,
                    kind=f.kind,
                    sha256=f.sha256,
                )

    def _follow_lists(self, event: Event, payload: Mapping[str, Any], changes: Mapping[int, ManifestChanges]) -> None:
        """Stores the lists of the snapshots that a commit makes, from its `changes_of`."""
        for snapshot_id, change in changes.items():
            if change.base is not None:
                parent = [(self._put_manifest(event, m), m) for m in change.base]
            else:
                parent = self._parent_rows(event, payload, snapshot_id)
            added = [self._put_manifest(event, m) for m in change.added]
            kept = [i for i, m in parent if m.manifest.manifest_path not in change.removed]
            self._put_list(event, snapshot_id, [*added, *kept])

    def _parent_rows(
        self, event: Event, payload: Mapping[str, Any], snapshot_id: int
    ) -> list[tuple[int, ListedManifest]]:
        """The parent's list with the ids of its rows."""
        parent_id = parents_of_added(payload)[snapshot_id]
        if parent_id is None:
            return []
        rows = self._manifest_rows(event.stream, parent_id)
        if rows is None:
            raise CorruptLogError(
                f"position {event.position}: the manifest list of snapshot {parent_id}, on which snapshot "
                f"{snapshot_id} builds, is not in the log"
            )
        return rows

    def _put_manifest(self, event: Event, listed: ListedManifest) -> int:
        cursor = self._store.execute(
            MODELS,
            "put_manifest",
            stream=event.stream,
            position=listed.position,
            manifest_path=listed.manifest.manifest_path,
            record=orjson.dumps(listed.to_dict()).decode(),
        )
        assert cursor.lastrowid is not None, "an INSERT gives a row id"
        return cursor.lastrowid

    def _replace_manifests(self, event: Event, relocated: RelocatedManifests) -> None:
        """Stores the lists of snapshots anew, with the manifests that a relocation wrote."""
        new = [self._put_manifest(event, m) for m in relocated.manifests]
        places, placed = relocated.places, set[int]()
        for snapshot_id in relocated.lists:
            if snapshot_id in relocated.whole:
                ids = [new[i] for i in relocated.whole[snapshot_id]]
            else:
                rows = self._manifest_rows(event.stream, snapshot_id) or []
                ids = [new[places[m.listing]] if m.listing in places else i for i, m in rows]
            placed.update(ids)
            self._put_list(event, snapshot_id, ids)
        if not placed.issuperset(new):
            raise CorruptLogError(f"position {event.position}: manifests that it writes anew are in no list")

    def _put_list(self, event: Event, snapshot_id: int, ids: Sequence[int]) -> None:
        packed = array.array("q", ids).tobytes()
        self._run("put_snapshot_manifests", stream=event.stream, snapshot_id=signed(snapshot_id), manifest_ids=packed)

    def _run(self, query_name: str, /, **parameters: Any) -> None:
        self._store.execute(MODELS, query_name, **parameters)


@lru_cache(maxsize=20_000)
def _listed(record: str, position: int) -> ListedManifest:
    """The manifest of a row. Cached by the row's content, not by its id: a rolled back id is given out again."""
    what = f"a row of the manifests of position {position}"
    try:
        return ListedManifest.from_dict(stored_json(record, dict, what), position)
    except ValidationError as e:
        raise CorruptLogError(f"{what} can't be read: {e}; rebuild the warehouse") from e
