"""Takes in what other engines did, inside of the write lock: each thing that differs becomes an event, in order."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from icecore.engine import events as ev
from icecore.engine.errors import IcecoreError
from icecore.engine.events import Event, Provenance
from icecore.engine.foreign_metadata import (
    UNKNOWN_ENGINE,
    ForeignFile,
    adopted_by,
    adoption_payload,
    chain_from,
    is_same_file,
    read_foreign,
    read_foreign_view,
    version_names,
    view_adoption_payload,
)
from icecore.engine.identifiers import Identifier, identifier_tuple, namespace_tuple
from icecore.engine.ids import new_event_id
from icecore.engine.log.foreign import Difference, NamespaceDifference
from icecore.engine.log.read_models import MINIMAL_PROPERTIES, dotted
from icecore.engine.log.store import MODELS, WriteTransaction
from icecore.engine.namespaces import fold_namespaces
from icecore.engine.register import registration_payload, view_registration_payload
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.state import TableState, fold, metadata_folder
from icecore.engine.storage import Storage
from icecore.engine.view_replay import replayed_view
from icecore.projections.materialize_view import move_view_pointers, write_view

RESOLVE = "resolve() with keep='log' or keep='foreign' says which of the two goes on"
_FIRST = (ev.TABLE_REGISTERED,)

if TYPE_CHECKING:
    from icecore.engine.adopt import Adopter


@frozen
class Problem:
    """What could not be taken in, and why; `stream` is None for what the log doesn't know."""

    identifier: Identifier
    stream: str | None
    text: str
    is_damage: bool = False
    """Whether the read models differ from the log itself, so that nothing says what another engine did; rebuild."""


@define
class Adoption:
    """One run. `suspects` are streams of file system tables whose folder may hold a new version.

    `current` is what was being taken in when an error was raised.
    """

    adopter: Adopter
    suspects: Sequence[str]
    left_out: frozenset[Identifier] = frozenset()
    problems: list[Problem] = field(factory=list)
    current: Identifier | None = None
    current_stream: str | None = None
    _after: dict[str, TableState] = field(factory=dict)
    _transaction: WriteTransaction = field(init=False)

    def run(self, transaction: WriteTransaction) -> None:
        """Appends the events and moves what follows from them. Raises what stands in the way of `current`."""
        self.begin(transaction)
        namespaces = self._true_namespaces(self.adopter.rows.namespaces())
        for namespace in namespaces:
            self._namespace_made(namespace)
        found = [d for d in self.adopter.rows.differences() if d.identifier not in self.left_out]
        self._names(self._true(found))
        for namespace in namespaces:
            self._namespace_gone(namespace)
        for stream in self.suspects:
            self._versions(stream)
        for stream, state in self._after.items():
            self._at(state.identifier, stream)
            self.adopter.files.advance(state)

    def begin(self, transaction: WriteTransaction) -> None:
        """To be called first where `run` is not: `append` and `adopt` go into this transaction."""
        self._transaction = transaction

    def finish(self) -> None:
        """Lets the files follow; after the transaction."""
        for state in self._after.values():
            self.adopter.states.put(state)
            self.adopter.files.follow(state)

    def _at(self, identifier: Identifier, stream: str | None) -> None:
        self.current, self.current_stream = identifier, stream

    def _problem(self, identifier: Identifier, stream: str | None, text: str) -> None:
        self.problems.append(Problem(identifier, stream, f"{dotted(identifier)}: {text}"))

    def _damaged(self, identifier: Identifier, stream: str | None) -> None:
        text = f"{dotted(identifier)}: the read models don't follow the log; rebuild"
        self.problems.append(Problem(identifier, stream, text, is_damage=True))

    def append(
        self, stream: str, kind: str, payload: Mapping[str, Any], provenance: Provenance
    ) -> tuple[Event, TableState | None]:
        """Appends an event; the state of its table after it is noted, and the files are let follow at the end."""
        transaction = self._transaction
        # Before the append: what is not committed yet must not be cached.
        has_state = not (kind in _FIRST or stream == ev.CATALOG_STREAM or ev.is_view_stream(stream))
        before = self._latest(stream) if has_state else None
        event = transaction.append(
            stream,
            kind,
            payload,
            event_id=new_event_id(),
            recorded_at_ms=transaction.next_recorded_at_ms(),
            provenance=provenance,
        )
        self.adopter.models.apply(event)
        if before is not None or kind in _FIRST:
            after = fold(before, [event])
            assert after is not None, "a fold of an event has a state"
            self._after[stream] = after
        return event, self._after.get(stream)

    def _latest(self, stream: str) -> TableState:
        return self._after.get(stream) or self.adopter.states.state(stream)

    def _true(self, found: Sequence[Difference]) -> list[Difference]:
        out = []
        for d in found:
            self._at(d.identifier, d.stream)
            if self._is_true(d):
                out.append(d)
        return out

    def _is_true(self, d: Difference) -> bool:
        """Whether the read models say of a name what the log says: else they were damaged, and nobody did anything."""
        if d.stream is None:
            others = (s for s in self.adopter.rows.streams_at(d.shared) if not self._has_name(s))
            if (lost := next(others, None)) is not None:
                self._damaged(d.identifier, lost)
            return lost is None
        if self._name_in_log(d.stream) == d.identifier:
            return True
        self._damaged(d.identifier, d.stream)
        return False

    def _has_name(self, stream: str) -> bool:
        """Whether the read models know the name that a stream has in the log."""
        return self._name_in_log(stream) == self.adopter.models.identifier_of(stream)

    def _name_in_log(self, stream: str) -> Identifier | None:
        if ev.is_view_stream(stream):
            view = replayed_view(self.adopter.store, stream)
            return None if view is None or view.dropped else view.identifier
        state = self._latest(stream)
        return None if state.dropped else state.identifier

    # Namespaces

    def _true_namespaces(self, found: Sequence[NamespaceDifference]) -> list[NamespaceDifference]:
        """Those whose read model is what the log says."""
        if not found:
            return []
        logged: dict[Identifier, dict[str, str]] = {}
        for event in self.adopter.store.stream_events(ev.CATALOG_STREAM):
            fold_namespaces(logged, event.kind, event.payload)
        out = []
        for each in found:
            if logged.get(each.namespace) == each.known:
                out.append(each)
            else:
                self._damaged(each.namespace, None)
        return out

    def _namespace_made(self, found: NamespaceDifference) -> None:
        if found.shared is None:
            return
        try:
            namespace_tuple(found.namespace)
        except IcecoreError as e:
            self._problem(found.namespace, None, f"another engine made a namespace that can't be: {e}")
            return
        shared = dict(found.shared)
        if found.known is None or "exists" not in found.known:
            shared = {k: v for k, v in shared.items() if (k, v) not in MINIMAL_PROPERTIES.items()}
        who = Provenance(None, UNKNOWN_ENGINE, f"namespace {dotted(found.namespace)} in iceberg_namespace_properties")
        payload: dict[str, Any] = {"namespace": list(found.namespace)}
        if found.known is None:
            self.append(ev.CATALOG_STREAM, ev.NAMESPACE_CREATED, {**payload, "properties": shared}, who)
            return
        payload["updates"] = {k: v for k, v in shared.items() if found.known.get(k) != v}
        payload["removals"] = sorted(found.known.keys() - shared.keys())
        self.append(ev.CATALOG_STREAM, ev.NAMESPACE_PROPERTIES_UPDATED, payload, who)

    def _namespace_gone(self, found: NamespaceDifference) -> None:
        if found.shared is not None or found.known is None:
            return
        models, name = self.adopter.models, found.namespace
        inner = [n for n in models.namespaces() if n[: len(name)] == name and n != name]
        who = Provenance(None, UNKNOWN_ENGINE, f"namespace {dotted(name)} gone from iceberg_namespace_properties")
        if models.names_in(name) or inner:
            # For other engines a namespace that holds tables is there all the same: its row comes back.
            payload = {"namespace": list(name), "updates": {}, "removals": sorted(found.known)}
            self.append(ev.CATALOG_STREAM, ev.NAMESPACE_PROPERTIES_UPDATED, payload, who)
        else:
            self.append(ev.CATALOG_STREAM, ev.NAMESPACE_DROPPED, {"namespace": list(name)}, who)

    # Names

    def _names(self, differences: Sequence[Difference]) -> None:
        gone = [d for d in differences if d.shared is None and d.stream is not None]
        new = [d for d in differences if d.stream is None and d.shared is not None]
        moved: list[Difference] = []
        for d in differences:
            if d.stream is None or d.shared is None:
                continue
            self._at(d.identifier, d.stream)
            if d.known is not None and self._is_another(d):
                gone.append(evolve(d, shared=None))
                new.append(evolve(d, stream=None, known=None))
            else:
                moved.append(d)
        for old, now in self._renames(gone, new):
            gone.remove(old)
            new.remove(now)
            if now.shared != old.known:
                moved.append(evolve(now, stream=old.stream, known=old.known))
        for d in gone:
            self._dropped(d)
        for d in new:
            self._made(d)
        for d in moved:
            self._at(d.identifier, d.stream)
            self._moved(d)

    def _is_another(self, d: Difference) -> bool:
        """Whether a name holds another table than it did: dropped and made again, or two that changed names."""
        assert d.stream is not None and d.shared is not None, "the caller checked"
        if ev.is_view_stream(d.stream):
            return not self._is_same_view(d.stream, d.shared)
        state = self._latest(d.stream)
        file = read_foreign(d.shared, self.adopter.storage_of(state))
        if is_same_table(state.metadata, file.metadata):
            return False
        named = {e.metadata_file for e in file.metadata.metadata_log}
        return not any(is_same_file(d.known, n) for n in named)

    def _renames(self, gone: Sequence[Difference], new: Sequence[Difference]) -> list[tuple[Difference, Difference]]:
        """Tables that left one name and stand under another; their events are appended, taken names last."""
        pairs: list[tuple[Difference, Difference]] = []
        for now in new:
            for old in gone:
                if not any(old is p[0] for p in pairs) and self._is_renamed(old, now):
                    pairs.append((old, now))
                    break
        done: list[tuple[Difference, Difference]] = []
        while ready := [p for p in pairs if p not in done and self.adopter.models.find(p[1].identifier) is None]:
            for old, now in ready:
                self._renamed(old, now)
                done.append((old, now))
        return done

    def _is_renamed(self, old: Difference, now: Difference) -> bool:
        """Whether what left one name is what stands under the other."""
        assert old.stream is not None and now.shared is not None, "the caller checked"
        self._at(now.identifier, None)
        if ev.is_view_stream(old.stream) or now.is_view:
            return ev.is_view_stream(old.stream) and now.is_view and self._is_same_view(old.stream, now.shared)
        state = self._latest(old.stream)
        return is_same_table(state.metadata, read_foreign(now.shared, self.adopter.storage_of(state)).metadata)

    def _is_same_view(self, stream: str, location: str) -> bool:
        state = replayed_view(self.adopter.store, stream)
        _, metadata = read_foreign_view(location, self.adopter.storage)
        return state is not None and metadata.view_uuid.lower() == state.metadata.view_uuid.lower()

    def _renamed(self, old: Difference, now: Difference) -> None:
        assert old.stream is not None, "the caller checked"
        self._at(now.identifier, old.stream)
        identifier_tuple(now.identifier)
        self._need_namespace(now.identifier)
        payload = {"from": list(old.identifier), "to": list(now.identifier)}
        who = Provenance(None, UNKNOWN_ENGINE, f"renamed in iceberg_tables from {dotted(old.identifier)}")
        kind = ev.VIEW_RENAMED if ev.is_view_stream(old.stream) else ev.TABLE_RENAMED
        self.append(old.stream, kind, payload, who)

    def _dropped(self, d: Difference) -> None:
        assert d.stream is not None, "the caller checked"
        self._at(d.identifier, d.stream)
        kind = ev.VIEW_DROPPED if ev.is_view_stream(d.stream) else ev.TABLE_DROPPED
        who = Provenance(None, UNKNOWN_ENGINE, f"dropped from iceberg_tables, where it was {d.known}")
        self.append(d.stream, kind, {"identifier": list(d.identifier)}, who)

    def _made(self, d: Difference) -> None:
        """A row under a name that is free in the log: the table is registered as it is."""
        assert d.shared is not None, "the caller checked"
        self._at(d.identifier, None)
        if d.is_view:
            self._view_made(d.identifier, d.shared)
            return
        identifier_tuple(d.identifier)
        payload, table_uuid = registration_payload(d.identifier, d.shared, None, self.adopter.storage)
        payload["metadata-location"] = d.shared
        self._need_namespace(d.identifier)
        stream = ev.table_stream(table_uuid)
        if self.adopter.store.row(MODELS, "get_head", stream=stream) is not None:
            stream = ev.table_stream(f"{table_uuid}#{uuid.uuid4()}")
        who = Provenance(None, UNKNOWN_ENGINE, f"made in iceberg_tables: {d.shared}")
        self.append(stream, ev.TABLE_REGISTERED, payload, who)

    def _need_namespace(self, identifier: Identifier) -> None:
        """A table's namespace is there for other engines even where nobody made it."""
        name = identifier[:-1]
        if name not in self.adopter.models.namespaces():
            who = Provenance(None, UNKNOWN_ENGINE, f"namespace of {dotted(identifier)}")
            self.append(ev.CATALOG_STREAM, ev.NAMESPACE_CREATED, {"namespace": list(name), "properties": {}}, who)

    # Commits

    def _moved(self, d: Difference) -> None:
        assert d.stream is not None and d.shared is not None, "the caller checked"
        if ev.is_view_stream(d.stream):
            self._view_moved(d)
            return
        state = self._latest(d.stream)
        if state.metadata_location == d.shared and not state.pending:
            self._after.setdefault(d.stream, state)
            return
        storage = self.adopter.storage_of(state)
        file = read_foreign(d.shared, storage)
        if (why := self._why_not(state, d.known, file)) is not None:
            self._problem(d.identifier, d.stream, why)
            return
        assert d.known is not None, "what was never published is a reason not to"
        chain = chain_from(d.known, file, d.previous, storage)
        if chain is None:
            text = (
                f"another engine committed {d.shared} through iceberg_tables, which does not follow {d.known}, where "
                f"the log ends; {RESOLVE}"
            )
            self._problem(d.identifier, d.stream, text)
            return
        for index, each in enumerate(chain.files):
            if each is not file and (why := self._why_not(state, state.metadata_location, each)) is not None:
                self._problem(d.identifier, d.stream, why)
                return
            state = self.adopt(state, each, chain.skipped if index == 0 else ())

    def _view_made(self, identifier: Identifier, location: str) -> None:
        identifier_tuple(identifier)
        payload, view_uuid = view_registration_payload(identifier, location, self.adopter.storage)
        payload["metadata-location"] = location
        self._need_namespace(identifier)
        stream = ev.view_stream(view_uuid)
        if self.adopter.store.row(MODELS, "get_head", stream=stream) is not None:
            stream = ev.view_stream(f"{view_uuid}#{uuid.uuid4()}")
        self._view(stream, ev.VIEW_REGISTERED, payload)

    def _view_moved(self, d: Difference) -> None:
        """Views have no metadata log: the same view, made from the version that the log ends at, follows it (V1)."""
        assert d.stream is not None and d.shared is not None, "the caller checked"
        state = replayed_view(self.adopter.store, d.stream)
        assert state is not None, "a view with a name has events"
        data, metadata = read_foreign_view(d.shared, self.adopter.storage)
        follows = is_same_file(d.known, d.previous) and state.metadata_location == d.known
        if metadata.view_uuid.lower() != state.metadata.view_uuid.lower() or not follows:
            text = f"another engine committed {d.shared} to a view, which does not follow {d.known}, where the log ends"
            self._problem(d.identifier, d.stream, text)
            return
        self._view(d.stream, ev.VIEW_ADOPTED, view_adoption_payload(state, d.shared, data, metadata))

    def _view(self, stream: str, kind: str, payload: Mapping[str, Any]) -> None:
        self.append(stream, kind, payload, Provenance(None, UNKNOWN_ENGINE))
        store = self.adopter.store
        head = store.row(MODELS, "get_head", stream=stream)
        done = 0 if head is None else head["materialized_version"]
        base = replayed_view(store, stream, done)
        state, written = write_view(store, self.adopter.storage, stream, base)
        assert state is not None, "an adopted view has a state"
        move_view_pointers(store, self.adopter.models, state, written)

    def adopt(
        self,
        state: TableState,
        file: ForeignFile,
        skipped: Sequence[str] = (),
        published: TableMetadata | None = None,
        set_aside: Sequence[int] = (),
        actor: str | None = None,
        message: str | None = None,
    ) -> TableState:
        """Appends the event that takes one metadata file in; `actor` is who decided that, where somebody had to."""
        base = published or state.metadata
        payload = adoption_payload(state, base, file, skipped=skipped, set_aside=set_aside)
        self.append(state.stream, ev.TABLE_ADOPTED, payload, adopted_by(base, file.metadata, actor, message))
        return self._after[state.stream]

    def _why_not(self, state: TableState, known: str | None, file: ForeignFile) -> str | None:
        """Why a metadata file can't be the table's next, as far as it alone tells."""
        said = f"another engine committed {file.location}"
        if not is_same_table(state.metadata, file.metadata):
            named = [e.metadata_file for e in file.metadata.metadata_log]
            if state.metadata.format_version > 1 or not any(is_same_file(known, n) for n in named):
                return (
                    f"{said}, which is another table ({file.metadata.table_uuid}, not {state.metadata.table_uuid}); "
                    f"rename or drop the one of the log, and it is taken in"
                )
        if file.metadata.format_version < state.metadata.format_version:
            return (
                f"{said}, whose format version {file.metadata.format_version} is below "
                f"{state.metadata.format_version}; {RESOLVE}"
            )
        if state.pending or state.metadata_location != known:
            return (
                f"{said} after {known}, and the log ends at position {state.position} with commits that it has not "
                f"published; {RESOLVE}"
            )
        return None

    def _versions(self, stream: str) -> None:
        """Versions that another writer made in the folder of a file system table, one after another."""
        state = self._latest(stream)
        if state.dropped or state.identifier in self.left_out:
            return
        self._at(state.identifier, stream)
        self.adopter.files.materializer.settle_claim(stream)
        storage = self.adopter.storage_of(state)
        while (location := next_version_file(state, storage)) is not None:
            file = read_foreign(location, storage)
            known = state.metadata_location
            why = self._why_not(state, known, file)
            named = [e.metadata_file for e in file.metadata.metadata_log]
            if why is None and named and not any(is_same_file(known, n) for n in named):
                why = f"another writer made {location}, which does not follow {known}, where the log ends; {RESOLVE}"
            if why is not None:
                self._problem(state.identifier, stream, why)
                return
            state = self.adopt(state, file)


def is_same_table(ours: TableMetadata, theirs: TableMetadata) -> bool:
    """Whether two metadata are of one table (G1); v1 files may lack the UUID."""
    if theirs.table_uuid is None:
        return theirs.location == ours.location
    return (ours.table_uuid or "").lower() == theirs.table_uuid.lower()


def next_version_file(state: TableState, storage: Storage) -> str | None:
    """The file of the version after the state's in a file system table's folder, where there is one (MD7)."""
    folder = metadata_folder(state.metadata.location, state.metadata.properties)
    found = (f"{folder}/{n}" for n in version_names(state.metadata_version + 1))
    return next((f for f in found if storage.exists(f)), None)
