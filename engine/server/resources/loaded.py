"""Tables and views as `LoadTableResult` and `LoadViewResult`: their metadata as the file has it, byte for byte.

Where a client asks for `snapshots=refs` it is written anew, without snapshots that no branch or tag is at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from icecore.engine.common.compressed_json import decompress
from icecore.engine.errors import MissingFileError, UnwritableCommitError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.events.provenance import provenance
from icecore.engine.log.request_keys import StoredAnswer
from icecore.engine.metadata.fold import TableState, is_file_system
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.repository.pending_files import materialize_pending
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.quick_loads import QuickLoad, is_held
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.view import ViewMetadata
from icecore.engine.storage.file_io import Storage
from icecore.engine.table.table import Table
from icecore.engine.view.view import View

ALL, REFS = "all", "refs"


def loaded_table(call: Call, table: Table) -> Answer:
    """A table with the snapshots that the query asks for, or 304 where the client has it already.

    Raises MissingFileError where its metadata file is gone, in Java's words, StorageError and ValidationError.
    """
    mode = call.query.get("snapshots", ALL)
    if mode not in (ALL, REFS):
        raise ValidationError(f"snapshots must be all or refs, found {mode[:60]!r}")
    repository = call.catalog._warehouse.repository
    state = _with_its_file(call, table.state)
    storage = repository.storage_of(state)
    if call.past is None:
        _check_there(call, storage, state, repository.files.materialize)
    tag = _tag(call, state, mode)
    if is_held(tag, call.headers.get("if-none-match", "")):
        return Answer(304, headers={"etag": tag})
    body = _table_body(call, state, storage, mode) if call.past is not None else _kept_body(call, state, storage, mode)
    return Answer(200, body, headers={"etag": tag}, quick=_quick(call, state, storage, tag, body))


def _quick(call: Call, state: TableState, storage: Storage, tag: str, body: bytes) -> QuickLoad | None:
    """The answer for the event loop to keep; None where the log alone can't tell whether it is still true."""
    path = None if state.metadata_location is None else storage.local_path(state.metadata_location)
    if call.past is not None or path is None or state.metadata_location is None or is_file_system(state):
        return None
    name, location = state.identifier, state.metadata_location
    load = QuickLoad(name, state.stream, state.stream_version, location, path, body, {"etag": tag})
    if call.principal is not None:
        load.expires_at_ms = call.principal.expires_at_ms
    return load


def committed_table(call: Call, table: Table) -> Answer:
    """A table after a commit, whole."""
    return state_committed(call, table.state)


def state_committed(call: Call, state: TableState) -> Answer:
    """The state of a table after a commit, whole."""
    state = _with_its_file(call, state)
    return _whole_table(call, state, _kept_body(call, state, call.catalog._warehouse.repository.storage_of(state), ALL))


def table_again(call: Call, stored: StoredAnswer) -> Answer:
    """A table as a commit left it that was carried out before.

    It is the table as it is now where that commit changed nothing, or where its files are written only by hand: they
    are written for the answer.
    """
    if stored.last_position is None:
        return committed_table(call, call.catalog.load_table(call.table))
    warehouse = call.catalog._warehouse
    stream = warehouse.store.event_at(stored.last_position).stream
    state = warehouse.repository.state_at(stream, stored.last_position)
    assert state is not None, "a stream has a state from its first event on"
    state = _with_its_file(call, state)
    return _whole_table(call, state, _table_body(call, state, warehouse.repository.storage_of(state), ALL))


def view_again(call: Call, stored: StoredAnswer) -> Answer:
    """A view as a commit left it that was carried out before; the current view where that commit changed nothing."""
    if stored.last_position is None:
        return committed_view(call, call.catalog.load_view(call.view).state)
    return view_after(call, call.catalog._warehouse.store.event_at(stored.last_position))


def view_after(call: Call, event: Event) -> Answer:
    """A view as a commit left it, whatever later commits changed."""
    warehouse = call.catalog._warehouse
    state = warehouse.views.state_at(event.stream, event.position)
    assert state is not None, "a stream has a state from its first event on"
    return Answer(200, _view_body(state, warehouse.repository.storage))


def _whole_table(call: Call, state: TableState, body: bytes) -> Answer:
    return Answer(200, body, headers={"etag": _tag(call, state, ALL)})


def _tag(call: Call, state: TableState, mode: str) -> str:
    """The ETag of a table, by its last event, the location of its metadata file, and the configuration for clients.

    The location changes when the warehouse is moved, the configuration when the server starts with other options.
    """
    told = orjson.dumps([state.event_hash, state.metadata_location, table_config(call)])
    return f'"{hashlib.sha256(told).hexdigest()[:32]}-{mode}"'


def staged_table(call: Call, metadata: TableMetadata) -> Answer:
    """A table that a client is about to create: it has no metadata file yet."""
    body = {"metadata": metadata.to_dict(), "config": table_config(call)}
    return Answer(200, orjson.dumps(body))


def loaded_view(call: Call, view: View) -> Answer:
    """A view. Raises MissingFileError, StorageError."""
    state, warehouse = view.state, call.catalog._warehouse
    if call.past is not None:
        return Answer(200, _view_body(state, warehouse.repository.storage))
    _check_there(call, warehouse.repository.storage, state, warehouse.views.materialize)
    return committed_view(call, state)


def committed_view(call: Call, state: ViewState) -> Answer:
    """The state of a view after a commit, which stands even where its file could not be written."""
    storage = call.catalog._warehouse.repository.storage
    key = (state.stream, state.event_hash, ALL)
    return Answer(200, call.serving.kept.get(key, lambda: _view_body(state, storage)))


def table_config(call: Call) -> dict[str, str]:
    """The configuration that a client gets with each table."""
    return {"scan-planning-mode": "server"} if call.serving.settings.plans_scans else {}


def _with_its_file(call: Call, state: TableState) -> TableState:
    """The state with its files, which are written now where `icecore.materialize` is manual: clients read them.

    The table is found by its stream, as another may have its name by now; a dropped one is left as it is. For a state
    of the past the files of its snapshots are written, as far as the table still has these.
    """
    repository = call.catalog._warehouse.repository
    if not state.pending or repository.state(state.stream).dropped:
        return state
    if call.past is None or repository.store.is_writable:
        materialize_pending(repository, state.stream, provenance(call.catalog.actor))
    return state if call.past is not None else repository.state(state.stream)


def _check_there(call: Call, storage: Storage, state: TableState | ViewState, write: Callable[[str], object]) -> None:
    """Raises MissingFileError unless the metadata file is there, and StorageError where it can't be written yet.

    A commit stands even where its files could not be written, as on a full disk. The next commit would write them, but
    clients load a table before they commit, so the load has to.
    """
    if (location := state.metadata_location) is None or storage.exists(location):
        return
    missing = f"Failed to open input stream for file: {location}"
    if call.catalog._warehouse.store.is_writable:
        try:
            write(state.stream)
        except UnwritableCommitError as e:
            raise MissingFileError(f"{missing}: {e}") from e
    if not storage.exists(location):
        raise MissingFileError(missing)


def _kept_body(call: Call, state: TableState, storage: Storage, mode: str) -> bytes:
    """The body of a table as it is now. Bodies of the past are not kept, as they may hold what is forgotten later."""
    key = (state.stream, state.event_hash, mode)
    return call.serving.kept.get(key, lambda: _table_body(call, state, storage, mode))


def _table_body(call: Call, state: TableState, storage: Storage, mode: str) -> bytes:
    # A pending state has no file yet: its location is that of an earlier state.
    file = None if state.pending else _file_of(storage, state.metadata_location)
    metadata = file or state.metadata.to_json()
    if mode == REFS:
        metadata = orjson.dumps(with_snapshots_of_refs(orjson.loads(metadata)))
    return _spliced(state.metadata_location, metadata, table_config(call))


def _view_body(state: ViewState, storage: Storage) -> bytes:
    metadata = _file_of(storage, state.metadata_location) or ViewMetadata.to_json(state.metadata)
    return _spliced(state.metadata_location, metadata, {})


def _file_of(storage: Storage, location: str | None) -> bytes | None:
    if location is None:
        return None
    try:
        text = decompress(storage.read_bytes(location), location)
    except MissingFileError:
        return None
    return text.encode() if isinstance(text, str) else text


def _spliced(location: str | None, metadata: bytes, config: dict[str, str]) -> bytes:
    head = b"" if location is None else b'"metadata-location":' + orjson.dumps(location) + b","
    return b"".join((b"{", head, b'"metadata":', metadata, b',"config":', orjson.dumps(config), b"}"))


def with_snapshots_of_refs(metadata: dict[str, Any]) -> dict[str, Any]:
    """Table metadata with no other snapshots than those that branches and tags are at (`snapshots=refs`)."""
    named = {ref["snapshot-id"] for ref in (metadata.get("refs") or {}).values()}
    named.add(metadata.get("current-snapshot-id"))
    return {**metadata, "snapshots": [s for s in metadata.get("snapshots") or [] if s["snapshot-id"] in named]}
