"""Files by URI: local paths directly, all else through pyarrow's file systems."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define, evolve, field

from icecore.engine.common.location import EQUAL_SCHEMES, LocationMapping, is_inside, local_path, location_key, path_key
from icecore.engine.errors import (
    FileExistsInStorageError,
    IcecoreError,
    MissingFileError,
    MovedWarehouseError,
    ReadOnlyError,
    StorageError,
    ValidationError,
)
from icecore.engine.storage.atomic_write import put_file
from icecore.engine.storage.late_files import LateFiles, sync_path
from icecore.engine.storage.whole_file import check_size, read_local

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs


@contextlib.contextmanager
def translated(location: str, doing: str, target: str | None = None) -> Iterator[None]:
    """A context in which errors of the operating system and of file systems become an IcecoreError naming the location.

    `target` is the location that it is mapped to, which the error for a missing file names too. Raises
    MissingFileError, FileExistsInStorageError, ReadOnlyError, StorageError, and ValidationError for a location that is
    none.
    """
    try:
        yield
    except IcecoreError:
        raise
    except FileNotFoundError as e:
        at = "" if target in (None, location) else f" at {target}"
        raise MissingFileError.of(location, f"can't {doing} {location}: there is no such file{at}") from e
    except FileExistsError as e:
        raise FileExistsInStorageError(f"can't {doing} {location}: it exists already") from e
    except OSError as e:
        if e.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise ReadOnlyError(f"can't {doing} {location}: {e.strerror}") from e
        raise StorageError(f"can't {doing} {location}: {e.strerror or e}") from e
    except _arrow_error() as e:
        raise StorageError(f"can't {doing} {location}: {e}") from e
    except ValueError as e:
        # Text that no file system takes as a path, as with a NUL or a lone surrogate inside.
        raise ValidationError(f"can't {doing} {location!r}: it is no location: {e}") from e


T = TypeVar("T")
FOLDER_TRIES, FOLDERS_KNOWN = 20, 10_000
GCS_PATIENCE_S = 20
"""The seconds for which Google's client tries to reach its service, else 15 minutes; Amazon's gives up after some."""


def _arrow_error() -> type[Exception]:
    """The class of Arrow's errors, asked for where none of the system was raised, so that Arrow is loaded no sooner."""
    import pyarrow as pa

    error: type[Exception] = pa.ArrowException
    return error


@define
class Storage:
    """Reads and writes whole files and opens data files. Every error is an IcecoreError naming the location.

    `scratch` is a local folder for files that are not whole yet; without one they lie beside their place. `refusal`
    says why nothing may be written or deleted; trying to is a MovedWarehouseError then.
    """

    mapping: LocationMapping = LocationMapping()
    durable: bool = True
    scratch: str | None = None
    refusal: str | None = None
    only_under: str | None = None
    """The folder of a clone, outside of which it deletes nothing."""
    shared: tuple[str, ...] = ()
    """Locations that a clone only reads."""
    check_read: Callable[[str], None] | None = None
    """A check of a resolved location before a whole file is read from it; raises where that is forbidden."""
    _filesystems: dict[str, Any] = field(factory=dict, repr=False)
    _made: OrderedDict[str, None] = field(factory=OrderedDict, repr=False)
    """The last local folders that it made."""

    def resolve(self, location: str) -> str:
        """The location of the bytes, after the location mapping."""
        return self.mapping.resolve(location)

    def key(self, location: str) -> str:
        """A text that is the same for all spellings of a file's location, resolved: see `location_key`."""
        return location_key(self.resolve(location))

    def path_key(self, location: str) -> str:
        """A text by which delete files name data files, resolved: see `location.path_key`."""
        return path_key(self.mapping.resolve(location, as_spelled=True))

    def behind(self, mapping: LocationMapping) -> Storage:
        """The storage of locations that another mapping resolves first."""
        return evolve(self, mapping=mapping.then(self.mapping)) if mapping.prefixes else self

    def check_writable(self, *locations: str) -> None:
        """Raises MovedWarehouseError for locations of which the warehouse must not write to one."""
        if self.refusal is not None:
            raise MovedWarehouseError(self.refusal)
        if (shared := next(filter(self.is_shared, locations), None)) is not None:
            raise MovedWarehouseError(
                f"{shared} belongs to the warehouse that this one was cloned from: here it is only read"
            )

    def is_shared(self, location: str) -> bool:
        """Whether a location is another warehouse's, which this one only reads; what is in its own folder is not."""
        own = self.only_under
        is_own = own is not None and is_inside(location, own)
        return not is_own and any(is_inside(location, folder) for folder in self.shared)

    def may_delete(self, location: str) -> bool:
        """Whether the warehouse may delete a file: a clone only those in its own folder."""
        return self.only_under is None or is_inside(location, self.only_under)

    def check_deletable(self, location: str) -> None:
        """Raises MovedWarehouseError for a file that the warehouse must not delete."""
        self.check_writable(location)
        if not self.may_delete(location):
            raise MovedWarehouseError(
                f"{location} lies outside of {self.only_under}: a clone deletes its own files only"
            )

    def local_path(self, location: str) -> str | None:
        """The local path behind a location after mapping, or None where it is remote."""
        return local_path(self.resolve(location))

    def file_system(self, location: str) -> tuple[pyarrow.fs.FileSystem, str]:
        """The file system of a remote location that is resolved already, and the path in it."""
        return self._remote(location)

    def _remote(self, location: str) -> tuple[pyarrow.fs.FileSystem, str]:
        scheme = location.split("://", 1)[0] + "://" + location.split("://", 1)[1].split("/", 1)[0]
        if scheme not in self._filesystems:
            import pyarrow.fs

            name, _, rest = location.partition("://")
            limit = f"?retry_limit_seconds={GCS_PATIENCE_S}" if name in ("gs", "gcs") and "?" not in rest else ""
            filesystem, _ = pyarrow.fs.FileSystem.from_uri(f"{EQUAL_SCHEMES.get(name, name)}://{rest}{limit}")
            self._filesystems[scheme] = filesystem
        return self._filesystems[scheme], location.split("://", 1)[1]

    def read_bytes(self, location: str, most: int | None = None) -> bytes:
        """The whole content of a file; one on disk must be no pipe or device, as reading those may never end.

        Raises MissingFileError, StorageError, and CorruptFileError for one of more than `most` bytes.
        """
        target = self.resolve(location)
        if self.check_read is not None:
            self.check_read(target)
        with translated(location, "read", target):
            path = local_path(target)
            if path is not None:
                return read_local(location, path, most)
            filesystem, inner = self._remote(target)
            if most is None:
                with filesystem.open_input_stream(inner) as stream:
                    return bytes(stream.read())
            with filesystem.open_input_file(inner) as file:
                # The size came with the opening; to ask for it before would be another request.
                check_size(location, file.size(), most)
                return bytes(file.read())

    def open_input(self, location: str) -> pa.NativeFile:
        """A random access file for reading."""
        target = self.resolve(location)
        with translated(location, "open", target):
            path = local_path(target)
            if path is not None:
                import pyarrow as pa

                return pa.memory_map(path) if os.path.getsize(path) else pa.OSFile(path)
            filesystem, inner = self._remote(target)
            return filesystem.open_input_file(inner)

    def open_output(self, location: str) -> pa.NativeFile:
        """A stream that writes a new data file (names are unique); folders on the way are made."""
        self.check_writable(location)
        target = self.resolve(location)
        with translated(location, "write"):
            path = local_path(target)
            if path is not None:
                import pyarrow as pa

                return self._in_folder(path, lambda: pa.OSFile(path, "wb"))
            filesystem, inner = self._remote(target)
            return filesystem.open_output_stream(inner)

    def write_atomic(self, location: str, data: bytes, late: LateFiles | None = None, *, durable: bool = True) -> None:
        """Puts a whole file in place: a reader sees the old content or the new one, never a part.

        It is durable then, or once the `late` files are; with `durable=False` it may be lost in a crash.
        """
        self._write(location, data, replace=True, late=late, durable=durable)

    def create(self, location: str, data: bytes) -> None:
        """Puts a whole new file in place. Raises FileExistsInStorageError where one is there already."""
        self._write(location, data, replace=False)

    def _write(
        self, location: str, data: bytes, *, replace: bool, late: LateFiles | None = None, durable: bool = True
    ) -> None:
        self.check_writable(location)
        target = self.resolve(location)
        with translated(location, "write"):
            path = local_path(target)
            if path is None:
                filesystem, inner = self._remote(target)
                if not replace and not _is_missing(filesystem.get_file_info(inner)):
                    raise FileExistsError(inner)
                with filesystem.open_output_stream(inner) as stream:
                    stream.write(data)
                return
            durable = self.durable and durable
            self._in_folder(
                path, lambda: put_file(path, data, scratch=self.scratch, replace=replace, durable=durable, late=late)
            )

    def make_folder(self, location: str) -> None:
        """Makes a local folder and those above it; a store of objects has none. Raises StorageError, ReadOnlyError."""
        self.check_writable(location)
        path = self.local_path(location)
        if path is not None:
            with translated(location, "make"):
                self._make_folder(path)
            while self._made.pop(path, path) is None:
                # Folders that were asked for stay when a file in them is unwritten.
                path = os.path.dirname(path)

    def sync(self, location: str) -> None:
        """Makes a local file that was written through `open_output` durable, its name in its folder too."""
        path = self.local_path(location)
        if path is not None and self.durable:
            with translated(location, "sync"):
                sync_path(path)
                sync_path(os.path.dirname(path))

    def sync_folder(self, location: str, late: LateFiles | None = None) -> None:
        """Makes the names of the files that were put into a local folder durable, now or when the `late` files are."""
        path = self.local_path(location)
        if path is not None and self.durable:
            if late is not None and late.takes_more:
                late.add_folder(path)
                return
            with translated(location, "sync"):
                sync_path(path)

    def _in_folder(self, path: str, write: Callable[[], T]) -> T:
        """Makes a file's folder and writes the file, again where somebody just removed the folder or one above it."""
        folder = os.path.dirname(path)
        for _ in range(FOLDER_TRIES):
            with contextlib.suppress(FileNotFoundError):
                self._make_folder(folder)
                return write()
        self._make_folder(folder)
        return write()

    def _make_folder(self, path: str) -> None:
        """Makes a folder and those above it; a new folder's name is made durable in the one that holds it."""
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        if parent and parent != path:
            self._make_folder(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            self._made[path] = None
            if len(self._made) > FOLDERS_KNOWN:
                self._made.popitem(last=False)
        if self.durable and parent:
            sync_path(parent)

    def size(self, location: str) -> int:
        """The size of a file in bytes. Raises MissingFileError, StorageError."""
        target = self.resolve(location)
        with translated(location, "look at", target):
            path = local_path(target)
            if path is not None:
                return os.path.getsize(path)
            filesystem, inner = self._remote(target)
            info = filesystem.get_file_info(inner)
            if _is_missing(info):
                raise FileNotFoundError(inner)
            return int(info.size)

    def exists(self, location: str) -> bool:
        """Whether there is a file. Raises StorageError."""
        try:
            self.size(location)
        except MissingFileError:
            return False
        return True

    def delete(self, location: str) -> None:
        """Deletes a file, with the checksum that Hadoop keeps beside a local one; a missing file is no error."""
        self.check_deletable(location)
        target = self.resolve(location)
        with translated(location, "delete"):
            path = local_path(target)
            if path is not None:
                self.drop_checksum(location)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                return
            filesystem, inner = self._remote(target)
            with contextlib.suppress(FileNotFoundError):
                filesystem.delete_file(inner)

    def unwrite(self, location: str) -> None:
        """Deletes a file that was written for nothing, and the folders that were made for it and hold nothing else.

        Raises StorageError.
        """
        self.delete(location)
        path = self.local_path(location)
        while path is not None and (path := os.path.dirname(path)) in self._made:
            try:
                os.rmdir(path)
            except OSError:
                return
            self._made.pop(path, None)

    def drop_checksum(self, location: str) -> None:
        """Deletes the checksum that Hadoop keeps beside a local file: by it a new file would look damaged to Hadoop."""
        path = self.local_path(location)
        if path is not None:
            folder, name = os.path.split(path)
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, f".{name}.crc"))

    def remove_empty_folders(self, folder: str) -> None:
        """Removes a local folder and those in it as far as they are empty; a store of objects has no folders."""
        path = self.local_path(folder)
        if path is None or not os.path.isdir(path):
            return
        with translated(folder, "remove empty folders in"):
            for inner, _, _ in os.walk(path, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(inner)

    def remove_emptied(self, folder: str, top: str) -> None:
        """Removes a local folder if it is empty, and those above it likewise up to `top`, which it has to be in."""
        path, end = self.local_path(folder), self.local_path(top)
        while path is not None and end is not None and path.startswith(f"{end.rstrip('/')}/"):
            try:
                os.rmdir(path)
            except OSError:
                return
            path = os.path.dirname(path)

    def list(self, folder: str) -> list[str]:
        """The names of the files directly in a folder, sorted; empty where there is none."""
        target = self.resolve(folder)
        with translated(folder, "list"):
            path = local_path(target)
            if path is not None:
                try:
                    return sorted(p.name for p in Path(path).iterdir() if p.is_file())
                except FileNotFoundError:
                    return []
            filesystem, inner = self._remote(target)
            import pyarrow.fs

            selector = pyarrow.fs.FileSelector(inner, allow_not_found=True)
            return sorted(i.base_name for i in filesystem.get_file_info(selector) if i.is_file)


def _is_missing(info: pyarrow.fs.FileInfo) -> bool:
    import pyarrow.fs

    return bool(info.type == pyarrow.fs.FileType.NotFound)
