"""The folder of a table of another engine: its newest metadata file, and where files lie that were moved with it.

Spec: File System Tables (MD7: version-hint.text).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from icecore.engine.common.location import LocationMapping, local_path, location_key
from icecore.engine.common.text import number_in
from icecore.engine.errors import IcecoreError, MissingFileError
from icecore.engine.foreign.register import metadata_version
from icecore.engine.metadata.fold import metadata_folder, version_names
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import modified_ms
from icecore.projections.files.version_files import version_of
from icecore.projections.files.version_hint import MOST_BYTES_OF_HINT

HINT, METADATA = "version-hint.text", "metadata"
METADATA_ENDINGS = (".metadata.json", ".metadata.json.gz")


def newest_metadata(location: str, storage: Storage) -> str:
    """The metadata file of a table's folder, or of its folder `metadata`; any other location itself.

    It is the file that `version-hint.text` names; in a file system table, the last version that follows that one
    without a gap. Where the hint names none, it is the file of the highest version, and of several with it the one
    written last. Raises MissingFileError for a folder without one.
    """
    path = local_path(location)
    if path is None or not os.path.isdir(path):
        return location
    for folder in (f"{location.rstrip('/')}/metadata", location.rstrip("/")):
        names = [n for n in storage.list(folder) if n.endswith(METADATA_ENDINGS)]
        if names:
            hinted = _hinted(folder, names, storage)
            newest = (
                max(names, key=lambda n: _age(folder, n, storage)) if hinted is None else _last_from(hinted, set(names))
            )
            return f"{folder}/{newest}"
    raise MissingFileError(f"no metadata file of a table is in {location} or its folder metadata")


def moved_from(metadata: TableMetadata, metadata_location: str, storage: Storage) -> LocationMapping:
    """The mapping of where a table was to the folder that its metadata file lies in.

    It is found by a file that should lie beside the metadata file: the current snapshot's manifest list or, without a
    snapshot, the metadata file itself. The mapping is empty where that file is still where the metadata has it, or does
    not lie beside the metadata file either.
    """
    sample = _beside(metadata, metadata_location) if metadata.location else None
    if sample is None:
        return LocationMapping()
    (there, _, name), here = sample.rpartition("/"), metadata_location.rpartition("/")[0]
    is_here = _exists(f"{here}/{name}", storage) and location_key(here) != location_key(there)
    is_there = local_path(sample) is not None and _exists(sample, storage)
    if not is_here or is_there:
        return LocationMapping()
    location = metadata.location.rstrip("/")
    inner = there.removeprefix(location) if f"{there}/".startswith(f"{location}/") else None
    if inner is not None and here.endswith(inner):
        return LocationMapping.of({location: here.removesuffix(inner)})
    if {_name(there), _name(here)} == {METADATA}:
        folder = here.rpartition("/")[0]
        return LocationMapping.of({there.rpartition("/")[0]: folder, location: folder})
    return LocationMapping.of({there: here})


def _beside(metadata: TableMetadata, metadata_location: str) -> str | None:
    """The former location of a file that lay beside a metadata file; None where none is known."""
    if (snapshot := metadata.current_snapshot()) is not None:
        return snapshot.manifest_list
    folder = metadata_folder(metadata.location, metadata.properties)
    return f"{folder}/{_name(metadata_location)}" if _name(folder) == METADATA else None


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def _hinted(folder: str, names: list[str], storage: Storage) -> str | None:
    """The file of the version that the hint names; None without a hint, or where it names none of the files."""
    with contextlib.suppress(IcecoreError, UnicodeDecodeError):
        hint = storage.read_bytes(f"{folder}/{HINT}", MOST_BYTES_OF_HINT).decode().strip()
        number = number_in(hint)
        for name in names:
            if name in (hint, *(f"v{hint}{ending}" for ending in (*METADATA_ENDINGS, ".gz.metadata.json"))):
                return name
            if name.startswith(f"{hint}-") or metadata_version(name) == number:
                return name
    return None


def _last_from(name: str, names: Collection[str]) -> str:
    """The last version after a file system table's, without a gap: each is a commit, and the hint may be behind."""
    version = version_of(name)
    while version is not None:
        version += 1
        later = next((n for n in version_names(version) if n in names), None)
        if later is None:
            break
        name = later
    return name


def _age(folder: str, name: str, storage: Storage) -> tuple[int, int]:
    return metadata_version(name), modified_ms(storage, f"{folder}/{name}") or 0


def _exists(location: str, storage: Storage) -> bool:
    try:
        return storage.exists(location)
    except IcecoreError:
        return False
