"""The folder of a table of another engine: its newest metadata file, and where files lie that were moved with it.

Spec: File System Tables (MD7: version-hint.text).
"""

from __future__ import annotations

import contextlib
import os

from icecore.engine.common.location import LocationMapping, local_path, location_key
from icecore.engine.errors import IcecoreError, MissingFileError
from icecore.engine.foreign.register import metadata_version
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import modified_ms

HINT = "version-hint.text"
METADATA_ENDINGS = (".metadata.json", ".metadata.json.gz")


def newest_metadata(location: str, storage: Storage) -> str:
    """The metadata file of a table's folder, or of its folder `metadata`; any other location itself.

    That is the file of the version that `version-hint.text` names, else the one of the highest version, of several the
    one written last. Raises MissingFileError for a folder without one.
    """
    path = local_path(location)
    if path is None or not os.path.isdir(path):
        return location
    for folder in (f"{location.rstrip('/')}/metadata", location.rstrip("/")):
        names = [n for n in storage.list(folder) if n.endswith(METADATA_ENDINGS)]
        if names:
            hinted = _hinted(folder, names, storage)
            return f"{folder}/{hinted or max(names, key=lambda n: _age(folder, n, storage))}"
    raise MissingFileError(f"no metadata file of a table is in {location} or its folder metadata")


def moved_from(metadata: TableMetadata, metadata_location: str, storage: Storage) -> LocationMapping:
    """The mapping of a table's location to the folder that its metadata file lies in.

    Empty where the files are where the metadata names them, and where they are not in that folder either.
    """
    folder, _, _ = metadata_location.rpartition("/metadata/")
    snapshot = metadata.current_snapshot()
    sample = None if snapshot is None else snapshot.manifest_list
    if not folder or not metadata.location or sample is None or location_key(folder) == location_key(metadata.location):
        return LocationMapping()
    mapping = LocationMapping.of({metadata.location: folder})
    is_here = _exists(mapping.resolve(sample), storage) and mapping.resolve(sample) != sample
    is_there = local_path(sample) is not None and _exists(sample, storage)
    return mapping if is_here and not is_there else LocationMapping()


def _hinted(folder: str, names: list[str], storage: Storage) -> str | None:
    """The file of the version that the hint names; None without a hint, or where it names none of the files."""
    with contextlib.suppress(IcecoreError, UnicodeDecodeError):
        hint = storage.read_bytes(f"{folder}/{HINT}").decode().strip()
        for name in names:
            if name in (hint, *(f"v{hint}{ending}" for ending in (*METADATA_ENDINGS, ".gz.metadata.json"))):
                return name
            if name.startswith(f"{hint}-") or (hint.isdecimal() and metadata_version(name) == int(hint)):
                return name
    return None


def _age(folder: str, name: str, storage: Storage) -> tuple[int, int]:
    return metadata_version(name), modified_ms(storage, f"{folder}/{name}") or 0


def _exists(location: str, storage: Storage) -> bool:
    try:
        return storage.exists(location)
    except IcecoreError:
        return False
