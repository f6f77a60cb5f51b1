"""Claims on the next version of file system tables, which tell an unfinished commit of ours from another writer's.

The file `v<V+1>.metadata.json` of such a table is made inside of the log's write lock, before COMMIT, because other
writers see only the file. A process that dies in between leaves a version that the log doesn't have. A claim, noted
before the file is made, says whose it is, so that the next writer can take the version back. Spec: MD7.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import orjson
from attrs import astuple, define, evolve, frozen

from icecore.engine.common.location import LocationMapping
from icecore.engine.errors import MissingFileError
from icecore.engine.events.event import Event, Provenance
from icecore.engine.log.store import EventStore
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.version_files import version_after


@frozen
class Claim:
    """The event that is about to make `target`, the resolved location of a version, and the checksum of its bytes.

    `made_by` has the fields of the event's provenance; an earlier release noted none.
    """

    event_id: str
    stream: str
    version: int
    target: str
    sha256: str
    made_by: tuple[str | None, ...] = ()

    @property
    def provenance(self) -> Provenance:
        """The provenance of the event."""
        return Provenance(*self.made_by)

    def is_of(self, version: int, data: bytes) -> bool:
        """Whether a version with these bytes is the claimed one."""
        return version == self.version and hashlib.sha256(data).hexdigest() == self.sha256

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
            event_id, stream, version, target, sha256, *rest = orjson.loads(body)
            return cls(event_id, stream, version, target, sha256, *map(tuple, rest))
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
        # Of the events of a transaction the first alone has its key.
        first = event if event.transaction_id == event.event_id else self._store.event_by_id(event.transaction_id)
        key = None if first is None else first.provenance.idempotency_key
        made_by = astuple(evolve(event.provenance, idempotency_key=key))
        claim = Claim(event.event_id, event.stream, version, target, hashlib.sha256(data).hexdigest(), made_by)
        self._storage.write_atomic(self._path(event.stream), claim.to_bytes())

    def settle(self, stream: str) -> None:
        """Ends the table's claim: a version whose event never got into the log is deleted.

        It stays where its bytes are not ours. Where another engine has built the version after it already the claim
        stays too: it tells whose version that is which is taken in then.
        """
        self._settle(self._path(stream))

    def settle_all(self) -> None:
        """Ends the claims of all tables."""
        for path in self._noted():
            self._settle(path)

    def of(self, stream: str) -> Claim | None:
        """The table's claim; None where there is none."""
        try:
            return Claim.from_bytes(self._storage.read_bytes(self._path(stream)))
        except MissingFileError:
            return None

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
        if claim is not None and self._store.event_by_id(claim.event_id) is None and self._is_ours(claim):
            folder, _ = claim.target.rsplit("/", 1)
            if version_after(folder, claim.version, self._storage) is not None:
                return
            self._storage.delete(claim.target)
        self._storage.delete(path)

    def _is_ours(self, claim: Claim) -> bool:
        with contextlib.suppress(MissingFileError):
            return claim.is_of(claim.version, self._storage.read_bytes(claim.target))
        return False

    def _path(self, stream: str) -> str:
        return str(self._folder / f"{stream.replace(':', '-').replace('#', '-')}.json")
