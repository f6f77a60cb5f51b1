"""Listings of folders, and the places that a location may mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from attrs import field, frozen

from icecore.engine.common.location import EQUAL_SCHEMES, folded, local_path, to_uri
from icecore.engine.storage.file_io import Storage, translated

if TYPE_CHECKING:
    import pyarrow.fs

FILE = "file"


@frozen
class FoundFile:
    """A file found in a folder. `modified_ms` is None where the store does not say when it was written."""

    location: str
    size: int
    modified_ms: int | None


@frozen
class Place:
    """A store and the path in it, the same for all spellings of a location."""

    scheme: str
    authority: str
    path: str


@frozen
class LocationIndex:
    """The places of locations; schemes and authorities that stand for each other are made one.

    Wider than `location_key`, which says which file a location names: these are all files that it may name on some file
    system, so that none of them is deleted.
    """

    storage: Storage
    schemes: Mapping[str, str] = EQUAL_SCHEMES
    authorities: Mapping[str, str] = field(factory=dict)
    _real_folders: dict[str, str] = field(factory=dict, init=False, repr=False)

    def of(self, location: str) -> set[Place]:
        """All places that a location may mean: as it is written, percent-decoded, and behind symbolic links."""
        target = self.storage.resolve(location)
        # Decoded, a partition's `%00` is a NUL, which no file name can hold.
        texts = {text for text in (target, unquote(target)) if "\0" not in text}
        return {place for text in texts for place in self._spellings(text)}

    def _spellings(self, target: str) -> Iterator[Place]:
        path = local_path(target)
        if path is not None:
            path = os.path.abspath(path)
            yield Place(FILE, "", folded(path))
            if (real := self._real(path)) != path:
                yield Place(FILE, "", folded(real))
            return
        scheme, _, rest = target.partition("://")
        authority, _, inner = rest.partition("/")
        scheme = scheme.lower()
        yield Place(
            self.schemes.get(scheme, scheme),
            self.authorities.get(authority, authority),
            folded("/" + inner.strip("/")),
        )

    def _real(self, path: str) -> str:
        folder, name = os.path.split(path)
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder)
        return os.path.join(self._real_folders[folder], name)


class Lister(Protocol):
    """The files in folders and those below them, as `list_files` finds them in each."""

    def __call__(
        self, storage: Storage, folders: Sequence[str], skipped: Callable[[str], bool], /
    ) -> Iterable[FoundFile]: ...


def list_folders(storage: Storage, folders: Sequence[str], skipped: Callable[[str], bool], /) -> Iterator[FoundFile]:
    """The files in folders and those below them, one folder after another. Raises StorageError."""
    for folder in folders:
        yield from list_files(storage, folder, skipped)


def list_files(storage: Storage, folder: str, skipped: Callable[[str], bool]) -> Iterator[FoundFile]:
    """The files in a folder and those below it; none where there is no folder. Raises StorageError.

    `skipped` says of the name of a file or folder whether it is passed over. Symbolic links are neither followed nor
    listed.
    """
    with translated(folder, "list"):
        yield from _files(storage, storage.resolve(folder), skipped)


def list_resolved(storage: Storage, target: str, skipped: Callable[[str], bool]) -> Iterator[FoundFile]:
    """As `list_files`, of a folder whose location is that of its bytes. Raises StorageError."""
    with translated(target, "list"):
        yield from _files(storage, target, skipped)


def list_level(storage: Storage, target: str, skipped: Callable[[str], bool]) -> tuple[list[str], list[FoundFile]]:
    """The folders directly in a folder, and the files there; locations are those of the bytes. Raises StorageError."""
    with translated(target, "list"):
        path = local_path(target)
        if path is None:
            return _remote_level(storage, target, skipped)
        entries = list(_local_entries(path, skipped))
        return [e for e in entries if isinstance(e, str)], [e for e in entries if not isinstance(e, str)]


def _files(storage: Storage, target: str, skipped: Callable[[str], bool]) -> Iterator[FoundFile]:
    path = local_path(target)
    return _remote_files(storage, target, skipped) if path is None else _local_files(path, skipped)


def _local_files(folder: str, skipped: Callable[[str], bool]) -> Iterator[FoundFile]:
    for entry in _local_entries(folder, skipped):
        if isinstance(entry, str):
            yield from _local_files(entry, skipped)
        else:
            yield entry


def _local_entries(folder: str, skipped: Callable[[str], bool]) -> Iterator[str | FoundFile]:
    """The files directly in a folder, and the paths of folders there."""
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if skipped(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield entry.path
        elif entry.is_file(follow_symlinks=False):
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield FoundFile(to_uri(entry.path), found.st_size, found.st_mtime_ns // 1_000_000)


def _remote_files(storage: Storage, target: str, skipped: Callable[[str], bool]) -> Iterator[FoundFile]:
    import pyarrow.fs

    filesystem, inner = storage.file_system(target)
    scheme = target.partition("://")[0]
    selector = pyarrow.fs.FileSelector(inner.rstrip("/"), recursive=True, allow_not_found=True)
    for info in filesystem.get_file_info(selector):
        below = info.path[len(inner.rstrip("/")) :].strip("/")
        if info.is_file and not any(map(skipped, below.split("/"))):
            yield _found(scheme, info)


def _remote_level(storage: Storage, target: str, skipped: Callable[[str], bool]) -> tuple[list[str], list[FoundFile]]:
    import pyarrow.fs

    filesystem, inner = storage.file_system(target)
    scheme = target.partition("://")[0]
    selector = pyarrow.fs.FileSelector(inner.rstrip("/"), allow_not_found=True)
    infos = [i for i in filesystem.get_file_info(selector) if not skipped(i.base_name)]
    folders = [f"{scheme}://{i.path}" for i in infos if not i.is_file]
    return folders, [_found(scheme, i) for i in infos if i.is_file]


def _found(scheme: str, info: pyarrow.fs.FileInfo) -> FoundFile:
    written = info.mtime_ns
    return FoundFile(f"{scheme}://{info.path}", info.size or 0, None if written is None else written // 1_000_000)


def modified_ms(storage: Storage, location: str) -> int | None:
    """The time of a file's last write in milliseconds; None where it is gone, or the store does not say.

    Raises StorageError.
    """
    target = storage.resolve(location)
    with translated(location, "look at"):
        path = local_path(target)
        if path is not None:
            try:
                return os.lstat(path).st_mtime_ns // 1_000_000
            except FileNotFoundError:
                return None
        filesystem, inner = storage.file_system(target)
        written = filesystem.get_file_info(inner).mtime_ns
        return None if written is None else written // 1_000_000
