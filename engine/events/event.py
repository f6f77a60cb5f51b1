"""Events: their kinds and payloads, their hashes, and the upcasting of old ones.

Kinds and payloads (all JSON objects):

    namespace.created             namespace, properties
    namespace.properties-updated  namespace, updates, removals
    namespace.dropped             namespace
    table.created                 identifier, updates, requirements
    table.registered              identifier, metadata-location, metadata, metadata-sha256, location-mapping
    table.committed               updates, requirements, snapshots
    table.renamed                 from, to
    table.dropped                 identifier, unregistered (true where it left for another catalog)
    table.undropped               identifier
    table.materialized            (nothing: metadata is written out as of here)
    table.adopted                 a commit of another engine: metadata-location, metadata-file (its bytes),
                                  metadata-sha256, updates (what it changed, in words of ours), skipped, set-aside
    table.restored                metadata: the log's state goes on over what another engine committed
    table.files-deleted           operation, count, bytes; the files are its content: see `formats/deleted_files.py`
    table.purged                  the same of a dropped table, all of whose files go
    table.relocated               after a move or clone: manifest-lists, lists and manifests that only files had or that
                                  name files whose paths changed, see `relocated_manifests.py`
    view.created                  identifier, updates, requirements
    view.registered               identifier, metadata-location, metadata, metadata-sha256
    view.adopted                  a commit of another engine, as table.adopted has it, and metadata
    view.committed                updates, requirements
    view.renamed                  from, to
    view.dropped                  identifier
    view.undropped                identifier
    log.forgotten                 identifier, columns, redactions: what was taken out of earlier events, see
                                  `log/redactions.py`
    view.relocated                (nothing: metadata of another engine is written anew with its new location)
    warehouse.moved               from, to: folders; events before it are read with `to` in place of `from`
    warehouse.cloned              from, to, warehouse-uuid, cloned-from (the uuid), shares-data, shared (locations
                                  that it only reads), folders-outside (with their new places)

`kept-files` of a `table.created`, `table.registered`, `table.committed` or `table.adopted` event names the manifests
and lists that somebody else wrote, see `files_of_others.py`; their bytes are in the content. `deleted-metadata` of a
`table.committed`, `table.materialized` or `table.restored` event names the metadata files that go after it. `updates`
are in the vocabulary of the Iceberg REST catalog, with every value the engine assigned.
`snapshots` says for each snapshot id which manifests its list has beyond those of its parent: see
`manifest_changes.py`.

An event's hash is over an envelope that has the hashes of those parts that can be forgotten (actor, message, payload,
content) in their place, so that it can still be computed when one of them is gone. Events of schema version 1 are
hashed with these texts themselves; their payloads are as those of version 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from attrs import evolve, field, frozen

from icecore.engine.errors import CorruptLogError, ValidationError

if TYPE_CHECKING:
    from icecore.engine.events.relocation import Relocations

SCHEMA_VERSION = 2
# From this schema version on the hash of an event is over the hashes of its parts.
HASHED_BY_PARTS = 2
GENESIS_HASH = "0" * 64

NAMESPACE_CREATED = "namespace.created"
NAMESPACE_PROPERTIES_UPDATED = "namespace.properties-updated"
NAMESPACE_DROPPED = "namespace.dropped"
TABLE_CREATED = "table.created"
TABLE_REGISTERED = "table.registered"
TABLE_COMMITTED = "table.committed"
TABLE_RENAMED = "table.renamed"
TABLE_DROPPED = "table.dropped"
TABLE_UNDROPPED = "table.undropped"
TABLE_MATERIALIZED = "table.materialized"
TABLE_ADOPTED = "table.adopted"
TABLE_RESTORED = "table.restored"
TABLE_FILES_DELETED = "table.files-deleted"
TABLE_PURGED = "table.purged"
VIEW_CREATED = "view.created"
VIEW_ADOPTED = "view.adopted"
VIEW_REGISTERED = "view.registered"
VIEW_COMMITTED = "view.committed"
VIEW_RENAMED = "view.renamed"
VIEW_DROPPED = "view.dropped"
VIEW_UNDROPPED = "view.undropped"
LOG_FORGOTTEN = "log.forgotten"

ACTOR, MESSAGE, PAYLOAD, CONTENT = "actor", "message", "payload", "content"

WAREHOUSE_MOVED = "warehouse.moved"
WAREHOUSE_CLONED = "warehouse.cloned"
TABLE_RELOCATED = "table.relocated"
VIEW_RELOCATED = "view.relocated"
RELOCATING = frozenset({WAREHOUSE_MOVED, WAREHOUSE_CLONED})

CATALOG_STREAM = "catalog"

DELETIONS = (TABLE_FILES_DELETED, TABLE_PURGED)
# Kinds of events that change nothing about a table but its files.
ABOUT_FILES = (TABLE_MATERIALIZED, TABLE_FILES_DELETED)


def table_stream(table_uuid: str) -> str:
    """The stream of a table."""
    return f"table:{table_uuid}"


def view_stream(view_uuid: str) -> str:
    """The stream of a view."""
    return f"view:{view_uuid}"


def uuid_of_stream(stream: str) -> str:
    """The UUID of the table or view of a stream."""
    return stream.partition(":")[2].partition("#")[0]


def file_name_of_stream(stream: str) -> str:
    """A stream as the name of a file or folder."""
    return stream.replace(":", "-").replace("#", "-")


def is_view_stream(stream: str) -> bool:
    """Whether a stream is a view's."""
    return stream.startswith("view:")


@frozen
class Provenance:
    """The provenance of a commit: who made it, with what, and why."""

    actor: str | None = None
    engine: str | None = None
    message: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    idempotency_key: str | None = None

    @property
    def told(self) -> str:
        """The actor and the message, as errors tell them: `ann ('too small to bill')`."""
        return (self.actor or "unknown") + (f" ({self.message!r})" if self.message else "")


# The type of each column of the event table that is never null; a damaged page may hold another.
_REQUIRED: dict[str, type] = {
    **dict.fromkeys(("position", "stream_version", "schema_version", "recorded_at_ms"), int),
    **dict.fromkeys(("event_id", "stream", "kind", "transaction_id", "payload", "prev_hash", "hash"), str),
}


@frozen
class Event:
    """One event as it stands in the log. `recorded_at_ms` is milliseconds since the epoch and never goes back."""

    position: int
    event_id: str
    stream: str
    stream_version: int
    kind: str
    schema_version: int
    transaction_id: str
    recorded_at_ms: int
    provenance: Provenance
    payload_text: str
    content_sha256: str | None
    prev_hash: str
    hash: str
    relocations: Relocations | None = field(default=None, eq=False, repr=False)
    """The moves and clones of the warehouse since the event, by which its locations are read; not stored."""

    @property
    def payload(self) -> dict[str, Any]:
        """The payload in its present form, with locations as they are now.

        Raises CorruptLogError where it is not JSON.
        """
        try:
            value = orjson.loads(self.payload_text)
        except orjson.JSONDecodeError as e:
            raise CorruptLogError(f"the event at position {self.position} has a payload that is not JSON: {e}") from e
        value = upcast(self.kind, self.schema_version, value)
        # A move or clone names its folders as they were.
        if not self.relocations or self.kind in RELOCATING:
            return value
        return relocated_payload(self.kind, value, self.relocations)

    @property
    def texts(self) -> dict[str, str | None]:
        """The parts that can be forgotten and stand in the event itself."""
        return {ACTOR: self.provenance.actor, MESSAGE: self.provenance.message, PAYLOAD: self.payload_text}

    def computed_hash(self, forgotten: Mapping[str, str] | None = None) -> str:
        """The hash that this event must have; `forgotten` has the hashes of parts before they were redacted.

        Raises ValidationError for text that is no Unicode.
        """
        p = self.provenance
        texts = self.texts
        if self.is_hashed_by_parts:
            texts = {name: text_hash(text) for name, text in texts.items()} | dict(forgotten or {})
        envelope = [
            self.position,
            self.event_id,
            self.stream,
            self.stream_version,
            self.kind,
            self.schema_version,
            self.transaction_id,
            self.recorded_at_ms,
            texts[ACTOR],
            p.engine,
            texts[MESSAGE],
            p.correlation_id,
            p.causation_id,
            p.idempotency_key,
            texts[PAYLOAD],
            self.content_sha256,
            self.prev_hash,
        ]
        try:
            return hashlib.sha256(orjson.dumps(envelope)).hexdigest()
        except orjson.JSONEncodeError as e:
            raise ValidationError(f"the envelope of a {self.kind} event can't be written as JSON: {e}") from e

    @property
    def is_hashed_by_parts(self) -> bool:
        """Whether its hash is over the hashes of its parts."""
        return self.schema_version >= HASHED_BY_PARTS

    def sealed(self) -> Event:
        """The event with its hash filled in."""
        return evolve(self, hash=self.computed_hash())

    @classmethod
    def from_row(cls, row: Any) -> Event:
        """An event from a row of the event table. Raises CorruptLogError where a column has a value of a wrong type."""
        for name, kind in _REQUIRED.items():
            if not isinstance(row[name], kind):
                at = f"position {row['position']}: its column {name}"
                raise CorruptLogError(f"{at} must hold {kind.__name__}, found {row[name]!r}")
        return cls(
            row["position"],
            row["event_id"],
            row["stream"],
            row["stream_version"],
            row["kind"],
            row["schema_version"],
            row["transaction_id"],
            row["recorded_at_ms"],
            Provenance(
                row["actor"],
                row["engine"],
                row["message"],
                row["correlation_id"],
                row["causation_id"],
                row["idempotency_key"],
            ),
            row["payload"],
            row["content_sha256"],
            row["prev_hash"],
            row["hash"],
        )

    def to_row(self) -> dict[str, Any]:
        """The columns of the event table."""
        p = self.provenance
        return {
            "position": self.position,
            "event_id": self.event_id,
            "stream": self.stream,
            "stream_version": self.stream_version,
            "kind": self.kind,
            "schema_version": self.schema_version,
            "transaction_id": self.transaction_id,
            "recorded_at_ms": self.recorded_at_ms,
            "actor": p.actor,
            "engine": p.engine,
            "message": p.message,
            "correlation_id": p.correlation_id,
            "causation_id": p.causation_id,
            "idempotency_key": p.idempotency_key,
            "payload": self.payload_text,
            "content_sha256": self.content_sha256,
            "prev_hash": self.prev_hash,
            "hash": self.hash,
        }


Read = TypeVar("Read")


def read_by_kind(event: Event, readers: Mapping[str, Callable[[dict[str, Any]], Read]]) -> Read:
    """An event as a value; `readers` has how the payload of each kind is read. Raises CorruptLogError for others."""
    reader = readers.get(event.kind)
    if reader is None:
        raise CorruptLogError(f"position {event.position}: unknown kind of event {event.kind!r}")
    return reader(event.payload)


def text_hash(text: str | None) -> str | None:
    """The hash of a part of an event; None of one that it does not have. Raises ValidationError for no Unicode."""
    try:
        return None if text is None else hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as e:
        raise ValidationError(f"an event's text must be valid Unicode, found {text!r:.60}") from e


def canonical(payload: Mapping[str, Any]) -> str:
    """The one text of a payload that is stored and hashed. Raises ValidationError for what JSON can't hold."""
    try:
        return orjson.dumps(payload, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as e:
        raise ValidationError(f"the event can't be written as JSON: {e}") from e


# (kind, version) -> the function that lifts a payload of that version to the next one.
UPCASTERS: dict[tuple[str, int], Any] = {}


def upcast(kind: str, version: int, payload: dict[str, Any]) -> dict[str, Any]:
    """A payload lifted to SCHEMA_VERSION. Raises CorruptLogError for a version of the future."""
    if version > SCHEMA_VERSION:
        raise CorruptLogError(
            f"an event of kind {kind} has schema version {version}; this release knows {SCHEMA_VERSION}"
        )
    while version < SCHEMA_VERSION:
        lift = UPCASTERS.get((kind, version))
        if lift is None and version + 1 != HASHED_BY_PARTS:
            raise CorruptLogError(f"nothing lifts an event of kind {kind} from schema version {version}")
        payload = payload if lift is None else lift(payload)
        version += 1
    return payload


def relocated_payload(kind: str, payload: dict[str, Any], relocations: Relocations) -> dict[str, Any]:
    """A payload whose locations in former folders of the warehouse are those of now, in adopted metadata files too."""
    from icecore.engine.events.files_of_others import adopted_dict

    if kind == TABLE_ADOPTED and "metadata" not in payload:
        payload = {**payload, "metadata": adopted_dict(payload)}
    relocated: dict[str, Any] = relocations.value(payload)
    return relocated
