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

from icecore.engine.common.location import LocationMapping, is_inside
from icecore.engine.errors import MissingFileError
from icecore.engine.events.event import ACTOR, MESSAGE, Event, Provenance, file_name_of_stream
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.version_files import version_after, version_of


@frozen
class Claim:
    """The event that is about to make `target`, the resolved location of a version, and the checksum of its bytes.

    `made_by` has the fields of the event's provenance, `written_ms` is when the version was last updated, and
    `snapshot_id` the snapshot that it adds; an earlier release noted none of these.
    """

    event_id: str
    stream: str
    version: int
    target: str
    sha256: str
    made_by: tuple[str | None, ...] = ()
    written_ms: int | None = None
    snapshot_id: int | None = None

    @property
    def provenance(self) -> Provenance:
        """The provenance of the event."""
        return Provenance(*self.made_by)

    def is_of(self, version: int, data: bytes) -> bool:
        """Whether a version with these bytes is the claimed one."""
        return version == self.version and hashlib.sha256(data).hexdigest() == self.sha256

    def led_to(self, later: TableMetadata) -> bool:
        """Whether metadata of a later version was built on the claimed one, whose file may be gone."""
        if self.snapshot_id is not None and later.snapshot_by_id(self.snapshot_id) is not None:
            return True
        name = self.target.rsplit("/", 1)[1]
        named = (e for e in later.metadata_log if e.metadata_file.rsplit("/", 1)[-1] == name)
        return any(e.timestamp_ms == self.written_ms for e in named)

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
            made_by, *facts = rest or ((),)
            return cls(event_id, stream, version, target, sha256, tuple(made_by), *facts)
        except (ValueError, LookupError, TypeError, AttributeError):
            return None


def relocate_claims(folder: Path, mapping: LocationMapping, only_under: str | None = None) -> None:
    """Points the claims of a copied or moved warehouse at the files in its new folder.

    Those of files that are not `only_under` a folder, where one is named, are deleted.
    """
    storage = Storage()
    for name in storage.list(str(folder)):
        if name.endswith(".json"):
            path = str(folder / name)
            claim = Claim.from_bytes(storage.read_bytes(path))
            if claim is None:
                continue
            moved = evolve(claim, target=mapping.resolve(claim.target))
            if only_under is None or is_inside(moved.target, only_under):
                storage.write_atomic(path, moved.to_bytes())
            else:
                storage.delete(path)


@define
class VersionClaims:
    """At most one claim for each table, the last, as a file in `folder`. Used inside of the log's write lock only."""

    _store: EventStore
    _folder: Path
    _storage: Storage

    def take(self, event: Event, before: TableState | None, state: TableState, target: str, data: bytes) -> None:
        """Notes that `event` is about to make `target`, the resolved location of the state's version, with `data`."""
        # Who settles it must find the event in the log for good.
        self._store.groups.close()
        # Only the first event of a transaction has its idempotency key.
        first = event if event.transaction_id == event.event_id else self._store.event_by_id(event.transaction_id)
        key = None if first is None else first.provenance.idempotency_key
        made_by = astuple(evolve(event.provenance, idempotency_key=key))
        known = {} if before is None else before.metadata.snapshots_by_id
        claim = Claim(
            event.event_id,
            event.stream,
            state.metadata_version,
            target,
            hashlib.sha256(data).hexdigest(),
            made_by,
            state.metadata.last_updated_ms,
            next((i for i in state.metadata.snapshots_by_id if i not in known), None),
        )
        self._storage.write_atomic(self._path(event.stream), claim.to_bytes())

    def settle(self, stream: str) -> None:
        """Ends the table's claim: a version whose event never got into the log is deleted.

        It stays where its bytes are not ours. Where another engine has built on it already, and may have deleted it,
        the claim stays too until that is taken in: it tells whose version it was.
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

    def forget(self, text: str, left: str) -> None:
        """Replaces a text by `left` in the actors and messages of claims."""
        for path in self._noted():
            claim = Claim.from_bytes(self._storage.read_bytes(path))
            if claim is not None and claim.made_by:
                who = claim.provenance
                named = {n: t.replace(text, left) for n in (ACTOR, MESSAGE) if (t := getattr(who, n)) and text in t}
                if named:
                    self._storage.write_atomic(path, evolve(claim, made_by=astuple(evolve(who, **named))).to_bytes())

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
        if claim is not None and self._store.event_by_id(claim.event_id) is None:
            data = self._read(claim.target)
            is_ours = data is not None and claim.is_of(claim.version, data)
            if (is_ours or data is None) and self._may_be_built_on(claim):
                return
            if is_ours and self._later(claim) is None:
                self._storage.delete(claim.target)
        self._storage.delete(path)

    def _may_be_built_on(self, claim: Claim) -> bool:
        """Whether there are versions after the claimed one, and the log, which knows the table, has none of them."""
        head = self._store.row(MODELS, "get_head", stream=claim.stream)
        location = None if head is None else head["metadata_location"]
        version = None if location is None else version_of(location)
        return version is not None and version < claim.version and self._later(claim) is not None

    def _later(self, claim: Claim) -> str | None:
        return version_after(claim.target.rsplit("/", 1)[0], claim.version, self._storage)

    def _read(self, target: str) -> bytes | None:
        with contextlib.suppress(MissingFileError):
            return self._storage.read_bytes(target)
        return None

    def _path(self, stream: str) -> str:
        return str(self._folder / f"{file_name_of_stream(stream)}.json")
