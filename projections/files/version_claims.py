"""Claims on the next version of file system tables, which tell an unfinished commit of ours from another writer's.

The file `v<V+1>.metadata.json` of such a table is made inside of the log's write lock, before COMMIT, because other
writers see only the file. A process that dies in between leaves a version that the log doesn't have. A claim, noted
before the file is made, says whose it is, so that the next writer can take the version back. Spec: MD7.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson
from attrs import astuple, define, evolve, frozen

from icecore.engine.common.location import LocationMapping
from icecore.engine.errors import MissingFileError
from icecore.engine.events.event import Event
from icecore.engine.log.store import EventStore
from icecore.engine.metadata.fold import version_names
from icecore.engine.storage.file_io import Storage


@frozen
class Claim:
    """The event that is about to make `target`, the resolved location of a version, and the checksum of its bytes."""

    event_id: str
    stream: str
    version: int
    target: str
    sha256: str

    def to_bytes(self) -> bytes:
        """The claim's file."""
        body = orjson.dumps(astuple(self))
        return orjson.dumps({"claim": body.decode(), "sha256": hashlib.sha256(body).hexdigest()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Claim | None:
        """The claim of a file; None where the bytes are damaged: a version must not be deleted for such a note."""
        try:
            note = orjson.loads(data)
            body = note["claim"].encode()
            if hashlib.sha256(body).hexdigest() != note["sha256"]:
                return None
            return cls(*orjson.loads(body))
        except (ValueError, LookupError, TypeError, AttributeError):
            return None


def relocate_claims(folder: Path, mapping: LocationMapping) -> None:
    """Points the claims of a copied or moved warehouse at the files in its new folder."""
    storage = Storage()
    for name in storage.list(str(folder)):
        if name.endswith(".json"):
            path = str(folder / name)
            claim = Claim.from_bytes(storage.read_bytes(path))
            if claim is not None:
                moved = evolve(claim, target=mapping.resolve(claim.target))
                storage.write_atomic(path, moved.to_bytes())


@define
class VersionClaims:
    """At most one claim for each table, as a file in `folder`. Used inside of the log's write lock only."""

    _store: EventStore
    _folder: Path
    _storage: Storage

    def take(self, event: Event, version: int, target: str, data: bytes) -> None:
        """Notes that `event` is about to make `target`, the resolved location of that version, with these bytes."""
        # Who settles it must find the event in the log for good.
        self._store.groups.close()
        claim = Claim(event.event_id, event.stream, version, target, hashlib.sha256(data).hexdigest())
        self._storage.write_atomic(self._path(event.stream), claim.to_bytes())

    def settle(self, stream: str) -> None:
        """Ends the table's claim: a version whose event never got into the log is deleted.

        It stays where its bytes are not ours, or where another engine has built the version after it already.
        """
        self._settle(self._path(stream))

    def settle_all(self) -> None:
        """Ends the claims of all tables."""
        for path in self._noted():
            self._settle(path)

    def has(self, stream: str) -> bool:
        """Whether a table has a claim. May be asked outside of the lock."""
        return self._storage.exists(self._path(stream))

    @property
    def any(self) -> bool:
        """Whether there is a claim. May be asked outside of the lock."""
        return bool(self._noted())

    def _noted(self) -> list[str]:
        return [str(self._folder / n) for n in self._storage.list(str(self._folder)) if n.endswith(".json")]

    def _settle(self, path: str) -> None:
        try:
            claim = Claim.from_bytes(self._storage.read_bytes(path))
        except MissingFileError:
            return
        if claim is not None and self._store.event_by_id(claim.event_id) is None and self._is_untouched(claim):
            self._storage.delete(claim.target)
        self._storage.delete(path)

    def _is_untouched(self, claim: Claim) -> bool:
        folder, _ = claim.target.rsplit("/", 1)
        if any(self._storage.exists(f"{folder}/{name}") for name in version_names(claim.version + 1)):
            return False
        try:
            data = self._storage.read_bytes(claim.target)
        except MissingFileError:
            return False
        return hashlib.sha256(data).hexdigest() == claim.sha256

    def _path(self, stream: str) -> str:
        return str(self._folder / f"{stream.replace(':', '-').replace('#', '-')}.json")
