"""The locations of new data and delete files: by partition in the data folder, or spread by a hash for object storage.

The names in object storage are those of Java and PyIceberg: twenty bits of a murmur3 hash of the file's name as folders
(`1001/1001/1001/10011001`), then the partition's path where `write.object-storage.partitioned-paths` is set, and the
name; without partitioned paths the last bits and the name make one name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import mmh3
from attrs import frozen

from icecore.engine.errors import ValidationError
from icecore.engine.properties.table_properties import (
    DATA_PATH,
    FOLDER_STORAGE_PATH,
    LOCATION_PROVIDERS,
    OBJECT_STORAGE,
    OBJECT_STORAGE_PATH,
    PARTITIONED_PATHS,
)

_HASH_BITS = 20
_FOLDER_BITS = 4
_FOLDERS = 3
_MOST_OF_A_NAME = 255
"""The bytes that file systems allow the name of a folder to have."""
_CUT_ESCAPE = re.compile("%.?$")


@frozen
class DataLocations:
    """The names of new files under a folder, which has no slash at its end.

    `is_hashed` says that they are spread by hash bits; then `context`, the last two parts of the table's location, goes
    before the name where the folder is outside of that location, and `has_partitions` says whether paths of partitions
    do.
    """

    folder: str
    is_hashed: bool = False
    has_partitions: bool = True
    context: str | None = None

    @classmethod
    def of(cls, location: str, properties: Mapping[str, str]) -> DataLocations:
        """The locations of a table. Raises ValidationError where its properties name another location provider."""
        for name in (p.name for p in LOCATION_PROVIDERS):
            if name in properties:
                raise ValidationError(
                    f"{name} is {properties[name]!r}: no files can be written where only that class knows their place; "
                    f"remove the property, or write with an engine that has the class"
                )
        location = location.rstrip("/")
        folder = data_folder(location, properties)
        if not OBJECT_STORAGE.of(properties):
            return cls(folder)
        inside = folder.startswith(location)
        context = None if inside else "/".join(p for p in location.split("://")[-1].split("/")[-2:] if p)
        return cls(folder, True, PARTITIONED_PATHS.of(properties), context)

    @classmethod
    def at(cls, place: str | DataLocations) -> DataLocations:
        """The locations given, or those of a plain folder."""
        return cls(place.rstrip("/")) if isinstance(place, str) else place

    def new(self, name: str, partition_path: str = "") -> str:
        """The location of a new file; the path of a partition is empty where there is none."""
        partition_path = "/".join(map(_short_enough, partition_path.split("/")))
        if not self.is_hashed:
            return "/".join(p for p in (self.folder, partition_path, name) if p)
        if self.has_partitions and partition_path:
            name = f"{partition_path}/{name}"
        bits = _hash_folders(name)
        if self.context is not None:
            return f"{self.folder}/{bits}/{self.context}/{name}"
        return f"{self.folder}/{bits}/{name}" if self.has_partitions else f"{self.folder}/{bits}-{name}"


def data_folder(location: str, properties: Mapping[str, str]) -> str:
    """The folder of data files: `write.data.path` or an older name of it, absolute or relative to the location."""
    paths = [DATA_PATH, FOLDER_STORAGE_PATH]
    if OBJECT_STORAGE.of(properties):
        paths.insert(1, OBJECT_STORAGE_PATH)
    path = next((path for p in paths if (path := p.find(properties))), None)
    return folder_at(location, path, "data")


def folder_at(location: str, path: str | None, name: str) -> str:
    """A folder by its path, absolute or relative to a location; without a path the one of that name there."""
    if not path:
        return f"{location}/{name}"
    return path.rstrip("/") if "://" in path or path.startswith(("/", "file:")) else f"{location}/{path.strip('/')}"


def _short_enough(name: str) -> str:
    """The name of a partition's folder, which says no more than where its files lie: a long one ends in its hash."""
    if len(name.encode()) <= _MOST_OF_A_NAME:
        return name
    begin = name.encode()[: _MOST_OF_A_NAME - 9].decode(errors="ignore")
    return f"{_CUT_ESCAPE.sub('', begin)}-{mmh3.hash(name, signed=False):08x}"


def _hash_folders(name: str) -> str:
    bits = f"{mmh3.hash(name, signed=False):032b}"[-_HASH_BITS:]
    cuts = range(0, _FOLDERS * _FOLDER_BITS, _FOLDER_BITS)
    return "/".join([*(bits[i : i + _FOLDER_BITS] for i in cuts), bits[_FOLDERS * _FOLDER_BITS :]])
