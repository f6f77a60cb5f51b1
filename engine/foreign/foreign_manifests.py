"""The manifests and manifest lists that others wrote, as events of theirs keep them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

from icecore.engine.common.ids import new_salt
from icecore.engine.errors import CorruptFileError, ForbiddenLocationError, StorageError
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.files_of_others import MANIFEST, MANIFEST_LIST, GivenFile
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import WriteTransaction
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage

MOST_BYTES_OF_REGISTERED = 16 * 2**20
"""The most bytes of files that are kept of a registered table; files of further snapshots are in no event."""


def append_keeping(
    transaction: WriteTransaction,
    models: ReadModels,
    stream: str,
    kind: str,
    payload: Mapping[str, Any],
    provenance: Provenance,
    given: Sequence[GivenFile] = (),
    event_id: str | None = None,
) -> Event:
    """Appends an event that keeps the given files, except those that an event of the stream has already."""
    if not given:
        return transaction.append(stream, kind, payload, provenance=provenance, event_id=event_id)
    from icecore.engine.formats.event_content import encode_parts

    keeping = models.keeping(stream, given)
    content = encode_parts(None, keeping.data, new_salt())
    kept = {**payload, **keeping.to_payload()}
    return transaction.append(stream, kind, kept, provenance=provenance, content=content, event_id=event_id)


def files_between(
    models: ReadModels, stream: str, before: TableMetadata, after: TableMetadata, storage: Storage
) -> tuple[GivenFile, ...]:
    """The lists of the snapshots that another engine made, and the manifests that came with them.

    What can't be read is left out: the commit is made already.
    """
    new = [s for s in after.snapshots if s.snapshot_id not in before.snapshots_by_id]
    reading = _Reading(models, stream, storage)
    for snapshot in new:
        parent = snapshot.parent_snapshot_id
        own = None if parent is None else after.snapshot_by_id(parent) or before.snapshot_by_id(parent)
        reading.read(snapshot, own)
    return tuple(reading.files.values())


def files_of_registered(metadata: TableMetadata, storage: Storage) -> tuple[GivenFile, ...]:
    """The lists and manifests of a registered table: of the current snapshot, then of the newest ones, while they fit.

    They fit in `MOST_BYTES_OF_REGISTERED`. Left out are files in an object store, what is no file or can't be read, and
    manifests that have another length than their list says.
    """
    files = dict[str, GivenFile]()
    newest = sorted(metadata.snapshots, key=lambda s: (s.snapshot_id == metadata.current_snapshot_id, s.timestamp_ms))
    with contextlib.suppress(_DoesNotFit):
        for snapshot in reversed(newest):
            left = MOST_BYTES_OF_REGISTERED - sum(len(f.data) for f in files.values())
            files |= _files_of(snapshot, files, storage, left)
    return tuple(files.values())


class _DoesNotFit(Exception):
    """Files that have more bytes than may be kept."""


def _files_of(snapshot: Snapshot, known: Collection[str], storage: Storage, most: int) -> dict[str, GivenFile]:
    """The files of a snapshot that are not known. Raises _DoesNotFit where they have more bytes than `most`."""
    from icecore.engine.formats.manifest_list_avro import read_manifest_list

    files, left = dict[str, GivenFile](), most

    def add(location: str, kind: str, length: int = 0) -> bytes | None:
        nonlocal left
        with contextlib.suppress(StorageError, ForbiddenLocationError):
            path = storage.local_path(location)
            if location in known or path is None or not os.path.isfile(path):
                return None
            size = storage.size(location)
            if 0 < length != size:
                return None
            if (left := left - size) < 0:
                raise _DoesNotFit
            files[location] = GivenFile(location, kind, storage.read_bytes(location))
            return files[location].data
        return None

    manifests = dict.fromkeys(snapshot.manifests or (), 0)
    if snapshot.manifest_list is not None and (data := add(snapshot.manifest_list, MANIFEST_LIST)) is not None:
        with contextlib.suppress(CorruptFileError):
            manifests = {m.manifest_path: m.manifest_length for m in read_manifest_list(data, snapshot.manifest_list)}
    if sum(length for path, length in manifests.items() if path not in known) > left:
        raise _DoesNotFit
    for path, length in manifests.items():
        add(path, MANIFEST, length)
    return files


@define
class _Reading:
    models: ReadModels
    stream: str
    storage: Storage
    files: dict[str, GivenFile] = field(factory=dict)

    def read(self, snapshot: Snapshot, parent: Snapshot | None) -> None:
        """Reads the list of a snapshot, and the manifests that neither its parent nor the log has."""
        known = self._known(parent)
        for path in self._listed(snapshot):
            if path not in known and path not in self.files and self.models.manifest(self.stream, path) is None:
                self._add(path, MANIFEST)

    def _listed(self, snapshot: Snapshot) -> Iterator[str]:
        from icecore.engine.formats.manifest_list_avro import read_manifest_list

        location = snapshot.manifest_list
        if location is None:
            yield from snapshot.manifests or ()
        elif (data := self._add(location, MANIFEST_LIST)) is not None:
            with contextlib.suppress(CorruptFileError):
                yield from (m.manifest_path for m in read_manifest_list(data, location))

    def _known(self, parent: Snapshot | None) -> Collection[str]:
        """The manifests of a parent snapshot; none where they are unknown, so that they are read and kept again."""
        from icecore.engine.formats.manifest_list_avro import read_manifest_list

        if parent is None:
            return ()
        listed = self.models.list_manifests(self.stream, parent.snapshot_id)
        if listed is not None:
            return {m.manifest.manifest_path for m in listed}
        location = parent.manifest_list
        if location is None:
            return parent.manifests or ()
        with contextlib.suppress(StorageError, CorruptFileError):
            given = self.files.get(location)
            data = self.storage.read_bytes(location) if given is None else given.data
            return {m.manifest_path for m in read_manifest_list(data, location)}
        return ()

    def _add(self, location: str, kind: str) -> bytes | None:
        with contextlib.suppress(StorageError):
            data = self.storage.read_bytes(location)
            self.files[location] = GivenFile(location, kind, data)
            return data
        return None
