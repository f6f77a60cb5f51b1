"""Metadata files that another engine committed: read, ordered, and made into payloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from icecore.engine.common.compressed_json import MOST_BYTES_OF_METADATA
from icecore.engine.common.location import is_same_file, to_uri
from icecore.engine.errors import CorruptFileError, StorageError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.events.files_of_others import kept_file
from icecore.engine.events.provenance import engine_named
from icecore.engine.foreign.register import metadata_version, parse_metadata_file
from icecore.engine.metadata.fold import TableState, is_file_system
from icecore.engine.metadata.metadata_difference import metadata_difference
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.view import ViewMetadata
from icecore.engine.storage.file_io import Storage

UNKNOWN_ENGINE = "another engine"
_VERSIONS = ("iceberg-version", "pyiceberg-version")


@frozen
class ForeignFile:
    """A metadata file of another engine."""

    location: str
    data: bytes
    metadata: TableMetadata


@frozen
class Chain:
    """The files that lead from the log's last published one to the newest, in order; `skipped` are lost ones."""

    files: tuple[ForeignFile, ...]
    skipped: tuple[str, ...] = ()


def read_foreign(location: str, storage: Storage) -> ForeignFile:
    """A table's metadata file.

    Raises MissingFileError, StorageError, CorruptFileError naming the file, UnsupportedFormatVersionError.
    """
    data = storage.read_bytes(location, MOST_BYTES_OF_METADATA)
    return ForeignFile(location, data, parse_metadata_file(data, location))


def chain_from(published: str, newest: ForeignFile, previous: str | None, storage: Storage) -> Chain | None:
    """The metadata files after `published` up to the newest, by their metadata logs (MD2).

    `previous` is what `iceberg_tables` says the newest one replaced. None where `published` is not among those that
    led to the newest, so that the newest does not follow it.
    """
    files, skipped, seen = [newest], list[str](), {to_uri(newest.location)}
    while True:
        oldest = files[0]
        named = [e.metadata_file for e in oldest.metadata.metadata_log]
        if len(files) == 1 and not any(is_same_file(published, n) for n in named) and is_same_file(published, previous):
            return Chain(tuple(files))
        after, found = _after(published, named)
        new = [n for n in after if to_uri(n) not in seen]
        seen |= {to_uri(n) for n in new}
        earlier, lost = _readable(new, storage)
        files, skipped = [*earlier, *files], [*lost, *skipped]
        if found:
            return Chain(tuple(files), tuple(skipped))
        if not earlier:
            return None


def _after(published: str, named: Sequence[str]) -> tuple[Sequence[str], bool]:
    for index in reversed(range(len(named))):
        if is_same_file(published, named[index]):
            return named[index + 1 :], True
    return named, False


def _readable(locations: Sequence[str], storage: Storage) -> tuple[list[ForeignFile], list[str]]:
    found, lost = [], []
    for location in locations:
        try:
            found.append(read_foreign(location, storage))
        except (StorageError, CorruptFileError):
            lost.append(location)
    return found, lost


def adoption_payload(
    state: TableState,
    published: TableMetadata,
    file: ForeignFile,
    *,
    skipped: Sequence[str] = (),
    set_aside: Sequence[int] = (),
) -> dict[str, Any]:
    """The payload of a `table.adopted` event: the file whole, and its changes against `published`.

    `skipped` are files between that are lost; `set_aside` snapshots of the log that the table has no more.
    """
    payload: dict[str, Any] = {
        "metadata-location": file.location,
        "metadata-version": next_version(state, file.location),
        "location": file.metadata.location,
        **kept_file(file.data),
        "previous-metadata-location": state.metadata_location,
        "updates": [u.to_dict() for u in metadata_difference(published, file.metadata)],
    }
    if skipped:
        payload["skipped"] = list(skipped)
    if set_aside:
        payload["set-aside"] = list(set_aside)
    return payload


def view_adoption_payload(state: ViewState, location: str, data: bytes, metadata: ViewMetadata) -> dict[str, Any]:
    """The payload of a `view.adopted` event."""
    found = metadata_version(location)
    return {
        "metadata-location": location,
        "metadata-version": found if found > state.metadata_version else state.metadata_version + 1,
        "metadata": metadata.to_dict(),
        **kept_file(data),
        "previous-metadata-location": state.metadata_location,
    }


def read_foreign_view(location: str, storage: Storage) -> tuple[bytes, ViewMetadata]:
    """A view's metadata file: its bytes and metadata.

    Raises MissingFileError, StorageError, CorruptFileError naming the file, UnsupportedFormatVersionError.
    """
    data = storage.read_bytes(location, MOST_BYTES_OF_METADATA)
    try:
        return data, ViewMetadata.from_json(data)
    except UnsupportedFormatVersionError as e:
        raise UnsupportedFormatVersionError(f"{location}: {e}") from e
    except ValidationError as e:
        raise CorruptFileError(f"{location}: {e}") from e


def next_version(state: TableState, location: str) -> int:
    """The number of an adopted file: that of its name if greater than ours, so that ours never repeats one."""
    found = metadata_version(location)
    if is_file_system(state):
        # A name without a number (`<uuid>` from a metastore) leaves the next number free for us.
        is_numbered = location.rsplit("/", 1)[-1].startswith("v")
        return found if is_numbered and found > state.metadata_version else state.metadata_version
    return found if found > state.metadata_version else state.metadata_version + 1


def engine_of(before: TableMetadata, after: TableMetadata) -> str:
    """The engine that the summaries of the new snapshots name."""
    earlier = {s.snapshot_id for s in before.snapshots}
    for snapshot in reversed(after.snapshots):
        if snapshot.snapshot_id in earlier:
            continue
        summary = snapshot.summary or {}
        if (engine := engine_named(summary)) is not None:
            return engine
        for name in _VERSIONS:
            if name in summary:
                return f"{name.removesuffix('-version')} {summary[name]}"
    return UNKNOWN_ENGINE


def adopted_by(
    before: TableMetadata, after: TableMetadata, actor: str | None = None, message: str | None = None
) -> Provenance:
    """The provenance of an adopted commit: the engine that its snapshots name, and no actor unless one decided."""
    return Provenance(actor, engine_of(before, after), message)
