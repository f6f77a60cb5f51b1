"""The versions in the folder of a file system table, which any writer may add to. Spec: File System Tables (MD7)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

import orjson

from icecore.engine.common.compressed_json import MOST_BYTES_OF_METADATA, decompress
from icecore.engine.errors import CorruptFileError, MissingFileError, ValidationError
from icecore.engine.metadata.fold import version_names
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.version_hint import hinted_version

_VERSIONED = re.compile(r"v(\d{1,18})(?:\.gz)?\.metadata\.json(?:\.gz)?")


def version_after(folder: str, version: int, storage: Storage) -> str | None:
    """The file of the lowest version above one; None where there is none.

    The next version may be deleted already, as some writers delete old ones. Then all files are looked through, unless
    the hint tells of no later version.
    """
    for name in version_names(version + 1):
        if storage.exists(f"{folder}/{name}"):
            return f"{folder}/{name}"
    hinted = hinted_version(folder, storage)
    if hinted is not None and hinted <= version:
        return None
    found = ((version_of(name), name) for name in storage.list(folder))
    above = min(((n, name) for n, name in found if n is not None and n > version), default=None)
    return None if above is None else f"{folder}/{above[1]}"


def version_of(location: str) -> int | None:
    """The version whose file a location is; None for a file of another name."""
    found = _VERSIONED.fullmatch(location.rsplit("/", 1)[-1])
    return None if found is None else int(found[1])


def version_of_another(metadata: TableMetadata, location: str, storage: Storage) -> str | None:
    """A version of another table in a folder where this one has versions, the last at `location`; None without any.

    A version's name does not tell which table made it: it is the next one of whatever lies there.
    """
    named = (location, *(e.metadata_file for e in metadata.metadata_log))
    for folder in sorted({n.rpartition("/")[0] for n in named if version_of(n) is not None}):
        for found in _versions(folder, storage):
            if _is_of_another(found, metadata, storage):
                return found
    return None


def _versions(folder: str, storage: Storage) -> Iterable[str]:
    return (f"{folder}/{name}" for name in sorted(storage.list(folder)) if version_of(name) is not None)


def _is_of_another(location: str, metadata: TableMetadata, storage: Storage) -> bool:
    """Whether a metadata file has another UUID than a table and none of its times, as a damaged file of its own has."""
    with contextlib.suppress(MissingFileError, CorruptFileError, ValidationError, ValueError, TypeError, LookupError):
        found = orjson.loads(decompress(storage.read_bytes(location, MOST_BYTES_OF_METADATA)))
        uuid, ours = found["table-uuid"], metadata.table_uuid
        times = {metadata.last_updated_ms, *(e.timestamp_ms for e in metadata.metadata_log)}
        is_other = None not in (uuid, ours) and str(uuid).lower() != str(ours).lower()
        return is_other and found["last-updated-ms"] not in times
    return False
