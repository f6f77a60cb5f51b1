"""The look for files: their presence and size. The only I/O here is `Looker`'s."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs
from attrs import define, field, frozen

from icecore.engine.common.location import local_path, to_uri
from icecore.engine.errors import IcecoreError
from icecore.engine.storage.file_io import Storage, translated
from icecore.projections.verify.findings import Cause
from icecore.projections.verify.verify_tally import Tally

GONE, UNREADABLE, UNREACHABLE, UNKNOWN = -1, -2, -3, -4
"""The marks in place of a size: no such file, an unreadable one, no answer from the store, a size that is not told."""
REMOTE_AT_ONCE = 1_000
Sizes = npt.NDArray[np.int64]


@frozen(eq=False)
class Looked:
    """The sizes of files in bytes, or one of the marks above, and the reasons for marks by their place."""

    sizes: Sizes
    reasons: dict[int, str]

    def at(self, places: Sequence[int] | Sizes) -> Looked:
        """The same of the files at some places."""
        known = {i: self.reasons[at] for i, at in enumerate(map(int, places)) if at in self.reasons}
        return Looked(self.sizes[places], known)


@define(eq=False)
class Looker:
    """The look-up of files in one storage, of remote ones many at once.

    `stores` are those asked before: None for one that answered, the reason for one that did not, which is asked once
    only. Local files are asked for one by one: a listing of a folder tells no sizes, so it saves nothing.
    """

    storage: Storage
    stores: dict[str, str | None] = field(factory=dict)

    def look(self, locations: Sequence[str]) -> Looked:
        """The size of each file."""
        sizes = np.full(len(locations), GONE, np.int64)
        reasons: dict[int, str] = {}
        remote: dict[str, list[int]] = {}
        for i, location in enumerate(locations):
            target = self.storage.resolve(location)
            path = local_path(target)
            if path is None:
                remote.setdefault(_store_of(target), []).append(i)
            else:
                sizes[i], reason = _local_size(path)
                if reason:
                    reasons[i] = reason
        for store, places in remote.items():
            for at in range(0, len(places), REMOTE_AT_ONCE):
                self._look_remote(store, places[at : at + REMOTE_AT_ONCE], locations, sizes, reasons)
        return Looked(sizes, reasons)

    def _look_remote(
        self, store: str, places: Sequence[int], locations: Sequence[str], sizes: Sizes, reasons: dict[int, str]
    ) -> None:
        infos = self._ask(store, [self.storage.resolve(locations[i]) for i in places])
        if isinstance(infos, str):
            sizes[list(places)] = UNREACHABLE
            reasons.update(dict.fromkeys(places, infos))
            return
        for i, info in zip(places, infos, strict=True):
            if info.type == pyarrow.fs.FileType.File:
                sizes[i] = UNKNOWN if info.size is None else info.size
            elif info.type != pyarrow.fs.FileType.NotFound:
                sizes[i], reasons[i] = UNREADABLE, "it is not a file"

    def unreachable(self, location: str) -> str | None:
        """The reason why the store of a location can't be reached; None where it can, or is local."""
        target = self.storage.resolve(location)
        if local_path(target) is not None:
            return None
        store = _store_of(target)
        if store not in self.stores:
            self._ask(store, [target])
        return self.stores[store]

    def _ask(self, store: str, targets: Sequence[str]) -> Sequence[pyarrow.fs.FileInfo] | str:
        """The store's answer about files, or the reason why there is none."""
        known = self.stores.get(store)
        if known is not None:
            return known
        try:
            with translated(store, "reach"):
                found = [self.storage.file_system(t) for t in targets]
                infos: Sequence[pyarrow.fs.FileInfo] = found[0][0].get_file_info([inner for _, inner in found])
        except (IcecoreError, NotImplementedError) as e:
            self.stores[store] = str(e)
            return str(e)
        self.stores[store] = None
        return infos

    def missing_folder(self, folder: str) -> str | None:
        """The outermost missing folder on the path of a local folder, or that itself; None where all are there."""
        path = local_path(self.storage.resolve(folder))
        if path is None:
            return None
        missing, at = None, os.path.abspath(path)
        while not os.path.lexists(at):
            missing, at = at, os.path.dirname(at)
        return None if missing is None else to_uri(missing)


def _store_of(target: str) -> str:
    scheme, _, rest = target.partition("://")
    return f"{scheme}://{rest.split('/', 1)[0]}"


def _local_size(path: str) -> tuple[int, str | None]:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return GONE, None
    except (OSError, ValueError) as e:
        # A ValueError where the path is none, as with a NUL inside.
        return UNREADABLE, getattr(e, "strerror", None) or str(e)
    return (found.st_size, None) if stat.S_ISREG(found.st_mode) else (UNREADABLE, "it is not a file")


def judge(
    tally: Tally, kind: str, locations: pa.Array, expected: Sizes, looked: Looked, encrypted: npt.NDArray[np.bool_]
) -> None:
    """Notes the faults of files of one kind in the tally.

    `expected` is 0 where no size is to be noted, below 0 where one should be and is not. Some writers note the size of
    what is inside of an encrypted file, so there a difference shows nothing.
    """
    sizes, reasons = looked.sizes, looked.reasons

    def add(cause: Cause, wrong: npt.NDArray[np.bool_], text: str) -> None:
        if not wrong.any():
            return
        places = np.flatnonzero(wrong)
        found = locations.filter(pa.array(wrong))

        def detail(i: int) -> str:
            at = int(places[i])
            values = {"size": int(sizes[at]), "expected": int(expected[at]), "reason": reasons.get(at, "")}
            return f"{found[i].as_py()} {text.format(**values)}"

        tally.add_many(cause, kind, found, detail)

    add(Cause.GONE, sizes == GONE, "is gone")
    add(Cause.UNREADABLE, sizes == UNREADABLE, "can't be read: {reason}")
    add(Cause.UNREACHABLE, sizes == UNREACHABLE, "can't be looked at: {reason}")
    is_there = sizes >= 0
    differs = is_there & (expected > 0) & (sizes != expected)
    add(Cause.SIZE, differs & ~encrypted, "has {size:,} bytes, expected {expected:,}")
    add(Cause.ENCRYPTED, differs & encrypted, "is encrypted: its size shows nothing")
    add(Cause.UNKNOWN_SIZE, (sizes == UNKNOWN) | is_there & (expected < 0), "is there, but its size is not known")
